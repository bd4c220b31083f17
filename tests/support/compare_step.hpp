// One step of a training beside one device's: gradients and weights, by the rule (DESIGN D10). Whoever made the step answers
// gradient(name) and parameter(name), and one device also trained().
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agreement.hpp"

namespace partita::testing {

// What a step left, kept: many plans are compared with one computation.
struct step_kept {
  using tensors = std::map<std::string, std::vector<double>, std::less<>>;
  double loss = 0;
  tensors gradients, parameters;

  template <class One> static step_kept of(One const& one, double loss) {
    step_kept all{loss, {}, {}};
    for (std::string const& name : one.trained()) {
      all.gradients[name] = one.gradient(name);
      all.parameters[name] = one.parameter(name);
    }
    return all;
  }
  std::vector<double> const& gradient(std::string_view name) const { return gradients.find(name)->second; }
  std::vector<double> const& parameter(std::string_view name) const { return parameters.find(name)->second; }
  std::vector<std::string> trained() const {
    std::vector<std::string> names;
    for (auto const& each : gradients) names.push_back(each.first);
    return names;
  }
};

// `exact` tells what rounding does to one device's gradients, and is what is wanted where gradients are narrow. Weights have a
// rule of their own: those of a model in bf16 or f16 are in f32.
template <class One, class Exact, class Have> void compare_step(agreement& rule, agreement& of_weights, One const& one,
                                                                Exact const& exact, Have const& have, bool is_adamw,
                                                                double learning_rate) {
  double most_gradient = 0, most_weight = 0;
  for (std::string const& name : one.trained()) {
    most_gradient = std::max(most_gradient, largest(one.gradient(name)));
    most_weight = std::max(most_weight, largest(one.parameter(name)));
  }
  for (std::string const& name : one.trained()) {
    const std::vector<double> gradient = one.gradient(name), weight = one.parameter(name), of_exact = exact.gradient(name),
                              has = have.gradient(name), now = have.parameter(name);
    const double allowed = rule.allowed(gradient, most_gradient, rule.distance(gradient, of_exact));
    rule.tensor("gradient of " + name, rule.of_narrow() ? of_exact : gradient, has, allowed);
    const double apart = rule.of_narrow() ? farthest(gradient, has) : allowed;
    if (is_adamw) of_weights.adamw(name, weight, now, gradient, apart, learning_rate);
    else of_weights.tensor(name, weight, now, of_weights.allowed(weight, most_weight, learning_rate * apart));
  }
}

}  // namespace partita::testing
