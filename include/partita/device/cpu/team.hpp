// The CPU's team: one thread, whose members are the lanes of its vector registers.
#pragma once
#include <cstddef>
#include <limits>
#include <type_traits>

#include <partita/core/team.hpp>

namespace partita::on_cpu {

// The loops are blocks of a fixed number of elements: what g++ turns into vectors already at -O2, whose cost model
// takes only loops of a known length that a vector divides. The iterations are independent by the rules of a team.
// PARTITA_REDUCTION_LOOP asks g++ -O2 also to keep the accumulators in registers (a sum 0.06 ns an element, so 0.02);
// with 64 in the place of 16 it would unroll before it looks for vectors.
#if defined(__clang__)
#define PARTITA_INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#define PARTITA_REDUCTION_LOOP PARTITA_INDEPENDENT_LOOP
#elif defined(__GNUC__) && !defined(__CUDACC__)  // nvcc, which reads it too, knows no such pragma
#define PARTITA_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#define PARTITA_REDUCTION_LOOP _Pragma("GCC ivdep") _Pragma("GCC unroll 16")
#else
#define PARTITA_INDEPENDENT_LOOP
#define PARTITA_REDUCTION_LOOP
#endif

// A function of its own with everything inside it: g++ -O2 inlines the f of a large kernel into neither of its two
// places otherwise, and the loop stays scalar (a gradient of gelu with erf and log: 20 ns an element, so 2.1).
struct team {
  static constexpr std::size_t block = 64;  // elements in a loop of fixed length; accumulators of a sum

  static constexpr bool first() { return true; }

  template <class F> [[gnu::flatten, gnu::noinline]] void each(std::size_t n, F f) const {
    const std::size_t whole = n - n % block;
    for (std::size_t i = 0; i < whole; i += block) PARTITA_INDEPENDENT_LOOP
    for (std::size_t j = 0; j < block; ++j) f(i + j);
    for (std::size_t j = 0; j < n % block; ++j) f(whole + j);
  }

  // Every accumulator takes `run` elements, then is added to a second one: the error grows with n / (block run).
  template <class F> [[gnu::flatten, gnu::noinline]] auto sum(std::size_t n, F f) const {
    using value = std::decay_t<decltype(f(n))>;
    constexpr std::size_t run = 64;
    const std::size_t whole = n - n % block;
    value totals[block]{};
    for (std::size_t begin = 0; begin < whole; begin += block * run) {
      const std::size_t end = whole - begin < block * run ? whole : begin + block * run;
      value lanes[block]{};
      for (std::size_t i = begin; i < end; i += block) PARTITA_REDUCTION_LOOP
      for (std::size_t j = 0; j < block; ++j) lanes[j] += f(i + j);
      for (std::size_t j = 0; j < block; ++j) totals[j] += lanes[j];
    }
    for (std::size_t j = 0; j < n % block; ++j) totals[j] += f(whole + j);
    for (std::size_t width = block / 2; width > 0; width /= 2)
      for (std::size_t j = 0; j < width; ++j) totals[j] += totals[j + width];
    return totals[0];
  }

  template <class F> [[gnu::flatten, gnu::noinline]] auto max(std::size_t n, F f) const {
    using value = std::decay_t<decltype(f(n))>;
    // the comparison with itself keeps a NaN in its lane
    constexpr auto larger = [](value a, value b) { return a > b || a != a ? a : b; };
    const std::size_t whole = n - n % block;
    value lanes[block];
    for (std::size_t j = 0; j < block; ++j) lanes[j] = -std::numeric_limits<value>::infinity();
    for (std::size_t i = 0; i < whole; i += block) PARTITA_REDUCTION_LOOP
    for (std::size_t j = 0; j < block; ++j) lanes[j] = larger(lanes[j], f(i + j));
    for (std::size_t j = 0; j < n % block; ++j) lanes[j] = larger(lanes[j], f(whole + j));
    for (std::size_t width = block / 2; width > 0; width /= 2)
      for (std::size_t j = 0; j < width; ++j) lanes[j] = larger(lanes[j], lanes[j + width]);
    return lanes[0];
  }
};

static_assert(partita::team<team>);

}  // namespace partita::on_cpu
