#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../support/agreement.hpp"
#include "../support/small_net.hpp"

namespace pt = partita;
using namespace partita::testing;

namespace {
using double_training = pt::training<pt::in_precision<small_net, pt::f64>>;
}

TEST_CASE("sgd takes the learning rate that is set, from the next step on") {
  auto t = small_trainer<double_training>({.data = 2}, {}, {.learning_rate = 0.5});
  CHECK(t.learning_rate() == 0.5);
  const small_batch<double> b;
  for (const double rate : {0.5, 0.25, 0.0}) {
    t.set_learning_rate(rate);
    CHECK(t.learning_rate() == rate);
    const std::vector<double> before = numbers(t.parameter("fc1.weight"));
    t.step(b.feeds());
    const std::vector<double> after = numbers(t.parameter("fc1.weight")),
                              gradient = numbers(t.gradient("fc1.weight"));
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK(after[i] == doctest::Approx(before[i] - rate * gradient[i]).epsilon(1e-14));
  }
}

TEST_CASE("a model in double") {
  auto one = small_trainer<double_training>({});
  CHECK(one.parameter("fc1.weight").type == pt::f64);
  CHECK_THROWS_WITH_AS(one.step({{"x", small_batch<float>().x}, {"y", small_batch<float>().y}}),
                       "input x is of type f64, was given f32", pt::error);
  // gradients are slopes of the loss
  const small_batch<double> b;
  one.set_learning_rate(0);
  one.step(b.feeds());
  std::vector<double> w = numbers(one.parameter("fc1.weight"));
  const std::vector<double> gradient = numbers(one.gradient("fc1.weight"));
  for (std::size_t i = 0; i < w.size(); i += 5) {
    const double kept = w[i], h = 1e-6;
    auto loss_at = [&](double value) {
      w[i] = value;
      one.set_parameter("fc1.weight", w);
      one.evaluate(b.feeds());
      return one.output("loss")[0];  // in double; `evaluate` returns a float
    };
    CHECK((loss_at(kept + h) - loss_at(kept - h)) / (2 * h) == doctest::Approx(gradient[i]).epsilon(1e-6));
    loss_at(kept);
  }
}

TEST_CASE("plans agree with one device in double, over many steps") {
  constexpr double rate = 0.2;
  for (const small_plan plan :
       {small_plan{.data = 3}, small_plan{.tensor = 2}, small_plan{.stages = 2, .micro_batches = 4},
        small_plan{.data = 2, .tensor = 2, .stages = 2, .micro_batches = 3}}) {
    auto one = small_trainer<double_training>({}, {}, {.learning_rate = rate});
    auto other = small_trainer<double_training>(plan, {}, {.learning_rate = rate});
    agreement rule(pt::f64);
    for (unsigned step = 0; step < 10; ++step) {
      const small_batch<double> b(step % 3);
      one.step(b.feeds());
      other.step(b.feeds());
      rule.loss(one.output("loss")[0], other.output("loss")[0]);
      double most = 0;
      for (std::string const& name : one.parameter_names())
        most = std::max(most, largest(numbers(one.parameter(name))));
      for (std::string const& name : one.parameter_names()) {
        const std::vector<double> wanted = numbers(one.parameter(name));
        rule.tensor(name, wanted, numbers(other.parameter(name)), rule.allowed(wanted, most));
      }
    }
    INFO(rule.where(), " differs by ", rule.worst(), " of what is allowed");
    CHECK(rule.holds());
  }
}
