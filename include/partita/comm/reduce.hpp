// Reduction of one range of elements over the buffers of all members, in member order.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <partita/comm/communicator.hpp>
#include <partita/core/narrow_arrays.hpp>

namespace partita::detail::comm {

struct sum_of {
  template <class T> T operator()(T left, T right) const {
    if constexpr (std::is_integral_v<T>)  // wraps instead of being undefined
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(left) + static_cast<std::make_unsigned_t<T>>(right));
    else return left + right;
  }
};
struct max_of {
  template <class T> T operator()(T left, T right) const {
    if constexpr (std::is_integral_v<T>) return left < right ? right : left;
    else return ((left < right) | (right != right)) ? right : left;  // NaN on either side stays
  }
};

// out[i] = body(i). The inner loop has a constant length because g++ -O2 vectorises no other.
template <class T, class Body> inline void each(T* __restrict out, std::size_t count, Body body) {
  constexpr std::size_t stride = 64;
  std::size_t first = 0;
  for (; first + stride <= count; first += stride)
    for (std::size_t i = 0; i < stride; ++i) out[first + i] = body(first + i);
  for (; first < count; ++first) out[first] = body(first);
}

// out = a with b, or a with b with c, element by element. `out` is none of the others. Compiled once per type and
// operation, whatever calls them.
template <class T, class Combine> [[gnu::noinline]] void combine_two(void* out, void const* const* in, std::size_t count) {
  const T *a = static_cast<T const*>(in[0]), *b = static_cast<T const*>(in[1]);
  each(static_cast<T*>(out), count, [=](std::size_t i) { return Combine{}(a[i], b[i]); });
}
template <class T, class Combine> [[gnu::noinline]] void combine_three(void* out, void const* const* in, std::size_t count) {
  const T *a = static_cast<T const*>(in[0]), *b = static_cast<T const*>(in[1]), *c = static_cast<T const*>(in[2]);
  each(static_cast<T*>(out), count, [=](std::size_t i) { return Combine{}(Combine{}(a[i], b[i]), c[i]); });
}
struct combination {
  using function = void (*)(void* out, void const* const* in, std::size_t count);
  std::size_t size;  // bytes of an element
  function two, three;
};
template <class T> combination combination_of(reduction how) {
  if (how == reduction::sum) return {sizeof(T), combine_two<T, sum_of>, combine_three<T, sum_of>};
  return {sizeof(T), combine_two<T, max_of>, combine_three<T, max_of>};
}

inline combination combination_of(dtype type, reduction how) {
  if (type == dtype::f64) return combination_of<double>(how);
  if (type == dtype::i32) return combination_of<std::int32_t>(how);
  return combination_of<float>(how);
}

// For every element i of [begin, end): combines source(0)[i], source(1)[i], ... source(inputs - 1)[i] and stores the
// result at target(0)[i] ... target(outputs - 1)[i]. A target may be a source; source(m) and target(m) give const void*,
// void*. Narrow types are combined in float, and rounded once. Works strip by strip through buffers that stay in the
// first-level cache, so every input is read from memory once and every output written once.
template <class Source, class Target> void reduce_range(dtype type, reduction how, std::size_t inputs, Source source,
                                                        std::size_t outputs, Target target, std::size_t begin, std::size_t end) {
  const combination c = combination_of(type, how);
  const std::size_t size = size_of(type);
  constexpr std::size_t strip_bytes = 4096;
  alignas(64) std::byte strips[2][strip_bytes], widened[3][strip_bytes];
  const std::size_t strip = strip_bytes / c.size;
  for (std::size_t first = begin; first < end; first += strip) {
    const std::size_t count = std::min(strip, end - first);
    auto input = [&](std::size_t m, int place) -> void const* {
      std::byte const* const from = static_cast<std::byte const*>(source(m)) + first * size;
      if (!is_narrow(type)) return from;
      widen(type, from, 1, reinterpret_cast<float*>(widened[place]), count);
      return widened[place];
    };
    void const* sum = input(0, 0);
    std::size_t next = 1;
    for (int turn = 0; next < inputs; turn = 1 - turn) {
      void const* const in[3]{sum, input(next, 1), next + 1 < inputs ? input(next + 1, 2) : nullptr};
      (next + 1 < inputs ? c.three : c.two)(strips[turn], in, count);
      next += 2;
      sum = strips[turn];
    }
    if (inputs == 1) {  // it may lie where a target does
      std::memcpy(strips[0], sum, count * c.size);
      sum = strips[0];
    }
    for (std::size_t output = 0; output < outputs; ++output) {
      std::byte* const to = static_cast<std::byte*>(target(output)) + first * size;
      if (is_narrow(type)) narrow(type, static_cast<float const*>(sum), to, 1, count);
      else std::memcpy(to, sum, count * size);
    }
  }
}

}  // namespace partita::detail::comm
