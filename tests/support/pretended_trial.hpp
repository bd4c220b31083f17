// A random model on pretended GPUs under a plan, and on one device of the CPU.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "plan_trial.hpp"

namespace partita::testing {

// One case in one type of its floats, compared plan by plan (DESIGN D10) with one device, whose steps are computed once. In
// bf16 what is wanted is the training in f64 on the CPU, and of how far one pretended GPU is from it, in loss, gradients and
// weights, step after step, a plan may be twice as far. A plan that sums gradients in bf16 rounds each addition, which is 2^-9 of
// the sum in the root of the mean square, or less: as much more it may be off, for each addition and each tensor.
class pretended_trial {
 public:
  virtual ~pretended_trial() = default;
  // Empty when the steps under the plan do what one device's do: each from the CPU's weights, in bf16 from their own.
  // `narrow_additions`: those that a sum of gradients makes in bf16.
  virtual std::string fault(std::function<void(plan_base&)> const& make, int narrow_additions = 0) = 0;
  // The same of as many processes as the plan has devices, which are threads here: after the first step all are captured.
  virtual std::string fault_of_captured(std::function<void(plan_base&)> const& make) = 0;
};
std::unique_ptr<pretended_trial> make_pretended_trial(random_case const& c, unsigned seed, dtype type, int steps);

// The pair of a number, of a model and a plan on 8 devices: in f64 if the number is odd, and then with experts, whose choices
// may turn on rounding; else in f32.
std::string pretended_fault(unsigned seed);

}  // namespace partita::testing
