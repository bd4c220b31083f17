// Whether numbers are finite, for finding the op that made the first that is not.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <partita/device/cpu/copy.hpp>

namespace partita::on_cpu {

// Integers always are.
inline bool all_finite(dtype type, void const* data, std::size_t count) {
  auto look = [count](auto const* x) {
    for (std::size_t i = 0; i < count; ++i)
      if (!std::isfinite(x[i])) return false;
    return true;
  };
  if (type == dtype::f32) return look(static_cast<float const*>(data));
  if (type == dtype::f64) return look(static_cast<double const*>(data));
  if (is_narrow(type)) {  // an exponent of ones
    const unsigned ones = type == dtype::bf16 ? 0x7f80u : 0x7c00u;
    std::uint16_t const* const bits = static_cast<std::uint16_t const*>(data);
    return std::all_of(bits, bits + count, [=](std::uint16_t x) { return (x & ones) != ones; });
  }
  return true;
}

// Of the source, or the target, of a box copy.
inline bool box_finite(box_copy const& b, dtype type, void const* data, bool target) {
  const detail::loops l(b);
  if (l.empty) return true;
  const std::size_t step = target ? l.to[l.rank - 1] : l.from[l.rank - 1], width = size_of(type);
  bool finite = true;
  l.each_row(0, l.rows, [&](std::size_t from, std::size_t to) {
    for (std::size_t i = 0; i < l.length(); ++i)
      finite = finite && all_finite(type, static_cast<std::byte const*>(data) + ((target ? to : from) + i * step) * width, 1);
  });
  return finite;
}

}  // namespace partita::on_cpu
