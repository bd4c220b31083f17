// A team: what works on one row (or one stretch of elements) together. On the CPU it is one thread and its vector
// registers, on a GPU a thread block. A kernel is written once, as an algorithm over a team:
//
//     template <team Team> void softmax(Team const& team, float const* in, float* out, std::size_t n) {
//       const float most = team.max(n, [=](std::size_t i) { return in[i]; });
//       const float total = team.sum(n, [=](std::size_t i) { return math::exp(in[i] - most); });
//       team.each(n, [=](std::size_t i) { out[i] = math::exp(in[i] - most) / total; });
//     }
//
// The rules that let both compile it well:
// - `f(i)` may run in any order and on any member: it writes only what belongs to i. What one call of the team wrote,
//   the next one reads.
// - `sum` and `max` give the same value to every member, and the same bits each time; the order of additions is the
//   team's own, independent of the number of threads. Both are in the type that f returns (float for f32 and
//   narrower, double for f64), which is converted to its accumulation type first. max of nothing is -infinity, sum 0.
//   A NaN makes a sum NaN; max is NaN if and only if one of the elements is.
// - f captures by value (pointers and numbers) and has no branch around a call; functions come from core/math.hpp.
// - Between calls every member computes the same numbers; a result of its own is written under `team.first()`.
#pragma once
#include <concepts>
#include <cstddef>

namespace partita {

namespace detail {
struct example_of_element {
  float operator()(std::size_t) const { return 0.f; }
};
}  // namespace detail

template <class T>
concept team = requires(T const& some, std::size_t n, detail::example_of_element f) {
  some.each(n, f);                            // f(i) for every i < n
  { some.sum(n, f) } -> std::same_as<float>;  // of f(i) over i < n
  { some.max(n, f) } -> std::same_as<float>;  // of f(i) over i < n
  { some.first() } -> std::same_as<bool>;     // true on exactly one member
};

}  // namespace partita
