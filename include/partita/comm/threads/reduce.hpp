// Reduction of one range of elements over the buffers of all members, in member order.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <partita/comm/communicator.hpp>
#include <partita/core/dtype.hpp>

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

// For every element i of [begin, end): combines source(0)[i], source(1)[i], ... source(inputs - 1)[i] and stores the
// result at target(0)[i] ... target(outputs - 1)[i]. A target may be a source. Works strip by strip through a buffer
// that stays in the first-level cache, so every input is read from memory once and every output written once.
template <class T, class Combine, class Source, class Target>
void reduce_range(std::size_t inputs, Source source, std::size_t outputs, Target target, std::size_t begin,
                  std::size_t end, Combine combine) {
  constexpr std::size_t strip = 4096 / sizeof(T);
  alignas(64) T partial[strip];
  for (std::size_t first = begin; first < end; first += strip) {
    const std::size_t count = std::min(strip, end - first);
    const T* a = source(0) + first;
    std::size_t next = 1;
    if (inputs == 1) {
      std::memcpy(partial, a, count * sizeof(T));
    } else if (inputs == 2) {
      const T* b = source(1) + first;
      each(partial, count, [=](std::size_t i) { return combine(a[i], b[i]); });
      next = 2;
    } else {
      const T *b = source(1) + first, *c = source(2) + first;
      each(partial, count, [=](std::size_t i) { return combine(combine(a[i], b[i]), c[i]); });
      next = 3;
    }
    for (; next + 1 < inputs; next += 2) {
      const T *b = source(next) + first, *c = source(next + 1) + first;
      each(partial, count, [&](std::size_t i) { return combine(combine(partial[i], b[i]), c[i]); });
    }
    if (next < inputs) {
      const T* b = source(next) + first;
      each(partial, count, [&](std::size_t i) { return combine(partial[i], b[i]); });
    }
    for (std::size_t output = 0; output < outputs; ++output)
      std::memcpy(target(output) + first, partial, count * sizeof(T));
  }
}

// The element types that a CPU computes in.
constexpr bool reducible(dtype type) { return type == dtype::f32 || type == dtype::f64 || type == dtype::i32; }

// As reduce_range, over buffers of type `type`, which is reducible; source(m) and target(m) give const void*, void*.
template <class Source, class Target> void reduce_range(dtype type, reduction how, std::size_t inputs, Source source,
                                                        std::size_t outputs, Target target, std::size_t begin,
                                                        std::size_t end) {
  auto in_type = [&]<class T>(std::type_identity<T>) {
    auto from = [&](std::size_t member) { return static_cast<const T*>(source(member)); };
    auto to = [&](std::size_t member) { return static_cast<T*>(target(member)); };
    if (how == reduction::sum) reduce_range<T>(inputs, from, outputs, to, begin, end, sum_of{});
    else reduce_range<T>(inputs, from, outputs, to, begin, end, max_of{});
  };
  switch (type) {
    case dtype::f64: in_type(std::type_identity<double>{}); break;
    case dtype::i32: in_type(std::type_identity<std::int32_t>{}); break;
    default: in_type(std::type_identity<float>{}); break;
  }
}

}  // namespace partita::detail::comm
