// Numbers of a training that no step can be made with, refused before anything runs: what a NaN among them did would show
// many steps later, or never.
#pragma once
#include <limits>
#include <string_view>

#include <partita/core/words.hpp>
#include <partita/grad/optimizer.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

inline void check_number(std::string_view of, std::string_view name, double value, bool good, std::string_view wanted) {
  if (!good) throw_error({of, ": ", name, " is ", value, "; give ", wanted});
}
constexpr bool is_finite_from_0(double x) { return x >= 0 && x <= std::numeric_limits<float>::max(); }  // kernels have floats
constexpr bool is_share(double x) { return x >= 0 && x < 1; }

inline void check_numbers(sgd const& o) {
  check_number("pt::sgd", "momentum", o.momentum, is_share(o.momentum), "a number from 0 to below 1");
  check_number("pt::sgd", "weight_decay", o.weight_decay, is_finite_from_0(o.weight_decay), "a finite number of 0 or more");
}
// With an epsilon of 0 a weight whose gradient was never anything but 0 becomes NaN.
inline void check_numbers(adamw const& o) {
  check_number("pt::adamw", "beta1", o.beta1, is_share(o.beta1), "a number from 0 to below 1");
  check_number("pt::adamw", "beta2", o.beta2, is_share(o.beta2), "a number from 0 to below 1");
  check_number("pt::adamw", "epsilon", o.epsilon, is_finite_from_0(o.epsilon) && o.epsilon > 0, "a finite number above 0");
  check_number("pt::adamw", "weight_decay", o.weight_decay, is_finite_from_0(o.weight_decay), "a finite number of 0 or more");
}
inline void check_numbers(clip_norm const& c) { check_number("pt::clip_norm", "max", c.max, c.max > 0, "a number above 0"); }
template <class Own> void check_numbers(Own const&) {}  // no_clip, and what users write

template <class Training> void check_training(Training const& t) {
  check_numbers(t.optimizer);
  check_numbers(t.clip);
}

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
