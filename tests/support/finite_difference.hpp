// Gradients against central differences, in double.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference.hpp"

namespace partita::testing {

// A loss for ops: the sum of all elements with weights that all differ. Their gradient is the weight.
inline double weight_of(std::size_t i) { return 0.25 + std::cos(0.7 * static_cast<double>(i) + 0.3); }
struct weighted_sum_grad_op {
  static constexpr std::string_view name = "weighted_sum.grad", annotation = ", ... -> ...", dtypes = "A, T -> T";
  template <class Call> static void kernel(Call& call) {
    auto* dx = call.template output<0>();
    using value = std::remove_pointer_t<decltype(dx)>;
    const value dy = static_cast<value>(*call.template input<0>());
    for (std::size_t i = 0; i < call.size(); ++i) dx[i] = dy * static_cast<value>(weight_of(i));
  }
};
struct weighted_sum_op {
  static constexpr std::string_view name = "weighted_sum", annotation = "...+ ->", dtypes = "T -> A";
  static constexpr auto gradient(auto dy, auto, auto x) { return std::tuple{apply<weighted_sum_grad_op>(dy, x)}; }
  template <class Call> static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    double total = 0;
    for (std::size_t i = 0; i < call.size(); ++i) total += weight_of(i) * static_cast<double>(x[i]);
    using value = std::remove_pointer_t<decltype(call.template output<0>())>;
    *call.template output<0>() = static_cast<value>(total);
  }
};
constexpr auto weighted_sum(handle auto x) { return apply<weighted_sum_op>(x); }

// Traces `Model` in double and compares the gradient of every parameter, element by element, with
// (loss(x + h) - loss(x - h)) / 2h, relative to the parameter's largest gradient. What an op's inputs are, the model
// makes as parameters; the tensors that it does not differentiate, as inputs.
template <class Model> void check_gradients(named_values const& inputs = {}, std::vector<binding> const& bindings = {},
                                            Model const& model = {}, double tolerance = 1e-6, double h = 1e-5) {
  using training_type = training<in_precision<Model, f64>, sgd>;
  reference<training_type> r(training_type{{model}, {}, {}, {}}, 7, bindings);
  r.step(inputs, 0);
  const std::vector<std::string> names = r.trained();
  CHECK(!names.empty());
  for (std::string const& name : names) {
    const std::vector<double> gradient = r.gradient(name);
    std::vector<double> x = r.parameter(name);
    double largest = 1e-3, worst = 0;
    for (double g : gradient) largest = std::max(largest, std::abs(g));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double kept = x[i];
      x[i] = kept + h;
      r.set_parameter(name, x);
      const double above = r.evaluate(inputs, true);
      x[i] = kept - h;
      r.set_parameter(name, x);
      const double below = r.evaluate(inputs, true);
      x[i] = kept;
      const double error = std::abs((above - below) / (2 * h) - gradient[i]);
      worst = error > worst || std::isnan(error) ? error : worst;
    }
    r.set_parameter(name, x);
    INFO("gradient of ", name, ", the largest is ", largest);
    CHECK(worst <= tolerance * largest);
  }
}

}  // namespace partita::testing
