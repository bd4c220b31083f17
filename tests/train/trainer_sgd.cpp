#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "../support/agreement.hpp"
#include "../support/small_net.hpp"

namespace pt = partita;
using namespace partita::testing;

namespace {
struct squares {  // a loss of the model's own type
  constexpr auto operator()(auto& g) const {
    using namespace pt::testing::small;
    auto y = pt::linear(pt::input<pt::f32, sample, in>(g, "x"), pt::param<pt::f32, in, feature>(g, "w", pt::normal{0.5}));
    return pt::sum_over<feature>(pt::mean_over<sample>(pt::multiply(y, y)));
  }
};
using double_training = pt::training<pt::in_precision<small_net, pt::f64>>;
}  // namespace

TEST_CASE("sgd takes the learning rate that is set, from the next step on") {
  auto t = small_trainer<double_training>({.data = 2}, {}, {.learning_rate = 0.5});
  CHECK(t.learning_rate() == 0.5);
  const small_batch<double> b;
  for (const double rate : {0.5, 0.25, 0.0}) {
    t.set_learning_rate(rate);
    CHECK(t.learning_rate() == rate);
    const std::vector<double> before = numbers(t.parameter("fc1.weight"));
    t.step(b.feeds());
    const std::vector<double> after = numbers(t.parameter("fc1.weight")), gradient = numbers(t.gradient("fc1.weight"));
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK(after[i] == doctest::Approx(before[i] - rate * gradient[i]).epsilon(1e-14));
  }
}

TEST_CASE("numbers of sgd that make no sense are refused by name") {
  for (double bad : {1.0, -0.5, std::numeric_limits<double>::quiet_NaN()}) {
    double_training t;
    t.optimizer.momentum = bad;
    CHECK_THROWS_WITH_AS(small_trainer<double_training>({}, t), doctest::Contains("pt::sgd: momentum is "), pt::error);
    t.optimizer = {.weight_decay = bad == 1 ? INFINITY : bad};
    CHECK_THROWS_WITH_AS(small_trainer<double_training>({}, t), doctest::Contains("pt::sgd: weight_decay is "), pt::error);
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

TEST_CASE("a model in bf16 takes floats, keeps its parameters in f32 and learns what it learns in f32") {
  using narrow = pt::training<pt::in_precision<squares, pt::bf16>>;
  auto make = [](int data) {
    return pt::trainer<narrow>{narrow{}, pt::policy::data_parallel_of{data}, pt::cpu{.devices = data, .threads = 1},
                               pt::trainer_options{.learning_rate = 0.01}, pt::bind<small::sample>(small_samples)};
  };
  auto one = make(1), two = make(2);
  auto wide = small_trainer<pt::training<pt::in_precision<squares, pt::f32>>>({}, {}, {.learning_rate = 0.01});
  CHECK(one.parameter("w").type == pt::f32);
  const small_batch<float> b;
  std::vector<pt::bfloat16> rounded;
  for (float x : b.x) rounded.emplace_back(x);
  float first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    last = one.step({{"x", b.x}});
    if (step == 0) first = last;
    CHECK(two.step({{"x", rounded}}) == doctest::Approx(last).epsilon(0.02));
    CHECK(wide.step({{"x", b.x}}) == doctest::Approx(last).epsilon(0.02));
  }
  CHECK(last < 0.7f * first);
  CHECK_THROWS_WITH_AS(one.step({{"x", small_batch<double>().x}}), "input x is of type bf16, was given f64", pt::error);
}

TEST_CASE("plans agree with one device in double, over many steps") {
  constexpr double rate = 0.2;
  for (const small_plan plan : {small_plan{.data = 3}, small_plan{.tensor = 2}, small_plan{.stages = 2, .micro_batches = 4},
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
      for (std::string const& name : one.parameter_names()) most = std::max(most, largest(numbers(one.parameter(name))));
      for (std::string const& name : one.parameter_names()) {
        const std::vector<double> wanted = numbers(one.parameter(name));
        rule.tensor(name, wanted, numbers(other.parameter(name)), rule.allowed(wanted, most));
      }
    }
    INFO(rule.where(), " differs by ", rule.worst(), " of what is allowed");
    CHECK(rule.holds());
  }
}
