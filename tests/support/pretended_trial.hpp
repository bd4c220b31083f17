// A random model on pretended GPUs under a plan, and on one device of the CPU.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "plan_trial.hpp"

namespace partita::testing {

// One case in one type of its floats, compared plan by plan (DESIGN D10). In bf16 what is wanted is the computation in f64 on
// the CPU, and how far one pretended GPU is from it is measured once, over all tensors together: of those that are small the
// distance is a matter of chance.
class pretended_trial {
 public:
  virtual ~pretended_trial() = default;
  // Empty when `steps` steps under the plan, each from the CPU's weights, do what one device does.
  virtual std::string fault(std::function<void(plan_base&)> const& make, int steps = 1) = 0;
};
std::unique_ptr<pretended_trial> make_pretended_trial(random_case const& c, unsigned seed, dtype type);

// The pair of a number, of a model and a plan on 8 devices: in f64 if the number is odd, and then with experts, whose choices
// may turn on rounding; else in f32.
std::string pretended_fault(unsigned seed);

}  // namespace partita::testing
