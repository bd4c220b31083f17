#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "../support/agreement.hpp"
#include "../support/small_net.hpp"

namespace pt = partita;
using namespace partita::testing;
using doctest::Contains;

namespace {
using adamw_training = pt::training<small_net, pt::adamw, pt::clip_norm>;

auto make(small_plan const& plan = {}, adamw_training const& training = {}, pt::trainer_options const& options = {}) {
  return small_trainer<adamw_training>(plan, training, options);
}
using bits = std::vector<std::vector<std::byte>>;
bits parameters(auto const& trainer) {
  bits all;
  for (std::string const& name : trainer.parameter_names()) all.push_back(trainer.parameter(name).bytes);
  return all;
}
}  // namespace

TEST_CASE("every input is given once, whole, in its type") {
  auto t = make({.data = 2});
  const small_batch<float> b;
  const small_batch<double> wide;
  CHECK_THROWS_WITH_AS(t.step({{"x", b.x}}), "input y was not given", pt::error);
  CHECK_THROWS_WITH_AS(t.step({{"x", b.x}, {"y", b.y}, {"x", b.x}}), "input x was given twice", pt::error);
  CHECK_THROWS_WITH_AS(t.step({{"x", b.x}, {"y", b.y}, {"z", b.y}}), "the model has no input named z (there are: x, y)",
                       pt::error);
  CHECK_THROWS_WITH_AS(t.step({{"x", std::vector<float>(10)}, {"y", b.y}}),
                       "input x holds 72 elements (sample 12 x in 6), was given 10", pt::error);
  CHECK_THROWS_WITH_AS(t.step({{"x", wide.x}, {"y", b.y}}), "input x is of type f32, was given f64", pt::error);
  CHECK_THROWS_WITH_AS(t.evaluate({{"y", b.y}}), "input x was not given", pt::error);
  CHECK(t.steps() == 0);
  CHECK(std::isfinite(t.step(b.feeds())));  // none of that did harm
  CHECK(t.steps() == 1);
}

TEST_CASE("extents, devices and plans that do not fit") {
  CHECK_THROWS_WITH_AS((pt::trainer<adamw_training>{adamw_training{}, small_plan{}, pt::cpu{}}),
                       Contains("axis sample has no extent"), pt::error);
  CHECK_THROWS_WITH_AS(
      (pt::trainer<adamw_training>{adamw_training{}, small_plan{}, pt::cpu{}, pt::bind<small::sample>(std::size_t{1} << 61)}),
      Contains("more than 2^60 points together, with 2305843009213693952 along sample"), pt::error);
  CHECK_THROWS_WITH_AS((pt::trainer<adamw_training>{adamw_training{}, small_plan{.data = 2, .tensor = 2}, pt::cpu{.devices = 3},
                                                    pt::bind<small::sample>(12)}),
                       Contains("the plan is for 4 devices, there are 3"), pt::error);
  // devices that the plan does not use hold nothing
  const pt::trainer<adamw_training> spare{adamw_training{}, small_plan{.data = 2}, pt::cpu{.devices = 3},
                                          pt::bind<small::sample>(12)};
  CHECK(spare.devices() == 2);
  const auto more_replicas_than_samples = [&] { return make({.data = 13}); };
  CHECK_THROWS_WITH_AS(more_replicas_than_samples(), Contains("sample"), pt::error);
  auto nowhere = [](auto& plan) { plan.op_trans(plan.ops("fc3"), pt::split<small::feature>{2, "tensor"}); };
  CHECK_THROWS_WITH_AS((pt::trainer<adamw_training>{adamw_training{}, nowhere, pt::cpu{}, pt::bind<small::sample>(12)}),
                       Contains("fc3"), pt::error);
  auto mistyped = [](auto& plan) {
    plan.op_trans(plan.ops(), pt::split<small::sample>{2, "data"});
    plan.op_assign(plan.ops(), pt::grid{{"dta", 2}});
  };
  CHECK_THROWS_WITH_AS(
      (pt::trainer<adamw_training>{adamw_training{}, mistyped, pt::cpu{.devices = 2}, pt::bind<small::sample>(12)}),
      Contains("dimension \"dta\", so that its 2 devices do the same; the mode \"data\" is on no dimension"), pt::error);
}

TEST_CASE("a pattern of names that no parameter has") {
  adamw_training training;
  training.optimizer.no_decay = "fc*.weight *.bais";
  CHECK_THROWS_WITH_AS(make({}, training), "no parameter matches \"*.bais\" of frozen or no_decay; the nearest is fc1.bias",
                       pt::error);
  training.optimizer.no_decay = {};
  training.frozen = "fc3.*";
  CHECK_THROWS_WITH_AS(make({}, training), Contains("no parameter matches \"fc3.*\""), pt::error);
}

TEST_CASE("numbers that no training can be made with are refused by name") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  auto refuses = [](auto change, char const* words) {
    adamw_training t;
    pt::trainer_options options;
    pt::cpu devices;
    change(t, options, devices);
    CHECK_THROWS_WITH_AS((pt::trainer<adamw_training>{t, small_plan{}, devices, pt::bind<small::sample>(12), options}),
                         Contains(words), pt::error);
  };
  for (double beta : {1.0, 1.5, -0.1, nan}) {
    refuses([=](auto& t, auto&, auto&) { t.optimizer.beta1 = beta; }, "pt::adamw: beta1 is ");
    refuses([=](auto& t, auto&, auto&) { t.optimizer.beta2 = beta; }, "pt::adamw: beta2 is ");
  }
  refuses([](auto& t, auto&, auto&) { t.optimizer.beta1 = 1; }, "pt::adamw: beta1 is 1; give a number from 0 to below 1");
  for (double bad : {-1e-8, nan, infinity}) {
    refuses([=](auto& t, auto&, auto&) { t.optimizer.epsilon = bad; }, "pt::adamw: epsilon is ");
    refuses([=](auto& t, auto&, auto&) { t.optimizer.weight_decay = bad; }, "pt::adamw: weight_decay is ");
    refuses([=](auto&, auto& o, auto&) { o.learning_rate = bad < 0 ? nan : bad; }, "the learning rate is ");
  }
  refuses([](auto& t, auto&, auto&) { t.optimizer.epsilon = 0; }, "give a finite number above 0");
  for (double bad : {0.0, -1.0, nan}) refuses([=](auto& t, auto&, auto&) { t.clip.max = bad; }, "pt::clip_norm: max is ");
  refuses([=](auto&, auto& o, auto&) { o.bucket_bytes = nan; }, "bucket_bytes is nan; give a number of bytes");
  refuses([](auto&, auto& o, auto&) { o.bucket_bytes = -1; }, "bucket_bytes is -1");
  refuses([](auto&, auto&, auto& d) { d.threads = -1; }, "pt::cpu{.threads = -1}: give the threads");
  refuses([](auto&, auto&, auto& d) { d.lanes = -1; }, "pt::cpu{.lanes = -1}: give 1 or 2");
  refuses([](auto&, auto&, auto& d) { d.lanes = 3; }, "pt::cpu{.lanes = 3}");
  refuses([](auto&, auto&, auto& d) { d.devices = -1; }, "the plan is for 1 devices, there are -1");
  adamw_training most;  // what is unusual and makes sense
  most.optimizer = {.beta1 = 0, .beta2 = 0, .weight_decay = 0};
  most.clip.max = infinity;
  CHECK(std::isfinite(make({}, most, {.bucket_bytes = infinity}).step(small_batch<float>().feeds())));
}

TEST_CASE("an evaluation has the loss that a step returns, and changes nothing") {
  auto t = make({.data = 2, .stages = 2, .micro_batches = 2});
  const small_batch<float> b;
  t.step(b.feeds());
  const bits before = parameters(t);
  const float loss = t.evaluate(b.feeds());
  CHECK(t.evaluate(b.feeds()) == loss);
  CHECK(parameters(t) == before);
  CHECK(t.steps() == 1);
  CHECK(t.step(b.feeds()) == loss);
  CHECK(parameters(t) != before);
  CHECK(t.evaluate(b.feeds()) < loss);
}

TEST_CASE("outputs are whole, of the last step or evaluation") {
  for (const small_plan plan : {small_plan{}, small_plan{.data = 2, .tensor = 2}, small_plan{.stages = 2, .micro_batches = 3}}) {
    auto t = make(plan);
    const small_batch<float> b(1), other(2);
    const float loss = t.step(b.feeds());
    CHECK(t.output("loss")[0] == loss);
    const pt::host_tensor logits = t.output("logits");
    CHECK(logits.extents == std::vector<std::size_t>{small_samples, small::kind::extent});
    CHECK(logits.type == pt::f32);
    double total = 0;  // the loss is that of the logits
    for (std::size_t i = 0; i < small_samples; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < small::kind::extent; ++k) sum += std::exp(logits[i * small::kind::extent + k]);
      total += std::log(sum) - logits[i * small::kind::extent + static_cast<std::size_t>(b.y[i])];
    }
    CHECK(total / small_samples == doctest::Approx(loss).epsilon(1e-5));

    double squares = 0;
    for (std::string const& name : t.parameter_names(true))
      for (double g : numbers(t.gradient(name))) squares += g * g;
    CHECK(t.output("gradient_norm")[0] == doctest::Approx(std::sqrt(squares)).epsilon(1e-5));

    t.evaluate(other.feeds());
    CHECK(t.output("logits").bytes != logits.bytes);
    CHECK_THROWS_WITH_AS(t.output("gradient_norm"), Contains("after an evaluation"), pt::error);
    CHECK_THROWS_WITH_AS(t.output("nothing"), "the model has no output nothing (there are: loss, logits, gradient_norm)",
                         pt::error);
  }
}

TEST_CASE("parameters are read, written and counted whole") {
  auto t = make({.tensor = 2});
  CHECK(t.parameter_names() == std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"});
  CHECK(t.parameter_count() == 6 * 8 + 8 + 8 * 5 + 5);
  CHECK(t.parameter("fc1.weight").extents == std::vector<std::size_t>{6, 8});
  CHECK(numbers(t.parameter("fc1.bias")) == std::vector<double>(8, 1));
  std::vector<float> w(6 * 8);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i) / 100;
  const small_batch<float> b;
  const float before = t.evaluate(b.feeds());
  t.set_parameter("fc1.weight", w);
  CHECK(numbers(t.parameter("fc1.weight")) == std::vector<double>(w.begin(), w.end()));
  CHECK(t.evaluate(b.feeds()) != before);
  auto one = make();
  one.set_parameter("fc1.weight", w);
  CHECK(one.evaluate(b.feeds()) == doctest::Approx(t.evaluate(b.feeds())).epsilon(1e-5));

  CHECK_THROWS_WITH_AS(t.set_parameter("fc1.weight", std::vector<float>(3)),
                       "fc1.weight holds 48 elements (in 6 x feature 8), was given 3", pt::error);
  CHECK_THROWS_WITH_AS(t.set_parameter("fc1.weight", std::vector<double>(48)), Contains("is of type f32"), pt::error);
  CHECK_THROWS_WITH_AS(t.parameter("fc1"),
                       "the model has no parameter named fc1 (there are: fc1.weight, fc1.bias, fc2.weight, fc2.bias)", pt::error);
  CHECK_THROWS_WITH_AS(t.gradient("x"), Contains("no parameter named x"), pt::error);
  CHECK(t.state("fc1.weight.m").extents == std::vector<std::size_t>{6, 8});
}

TEST_CASE("gradients that are not kept") {
  auto t = make({}, {}, {.keep_gradients = false});
  t.step(small_batch<float>().feeds());
  CHECK_THROWS_WITH_AS(t.gradient("fc1.weight"), Contains("keep_gradients = true"), pt::error);
  CHECK(t.output("gradient_norm")[0] > 0);
}

TEST_CASE("initial values and the seed") {
  const bits one = parameters(make());
  CHECK(parameters(make({.data = 2, .tensor = 3})) == one);
  CHECK(parameters(make({.stages = 2, .micro_batches = 2})) == one);
  CHECK(parameters(make({}, {}, {.seed = 2})) != one);
}

TEST_CASE("the same plan gives the same bits") {
  for (const small_plan plan : {small_plan{}, small_plan{.data = 2, .tensor = 2, .stages = 2, .micro_batches = 3}}) {
    auto train = [&] {
      auto t = make(plan);
      std::vector<float> losses;
      for (unsigned step = 0; step < 5; ++step) losses.push_back(t.step(small_batch<float>(step).feeds()));
      return std::pair{losses, parameters(t)};
    };
    CHECK(train() == train());
  }
}

TEST_CASE("plans agree with one device") {
  constexpr double rate = 1e-2;
  for (const small_plan plan :
       {small_plan{.data = 2}, small_plan{.tensor = 2}, small_plan{.stages = 2, .micro_batches = 2},
        small_plan{.micro_batches = 3}, small_plan{.data = 5}, small_plan{.tensor = 3}, small_plan{.data = 2, .tensor = 2},
        small_plan{.data = 2, .tensor = 2, .stages = 2, .micro_batches = 2}}) {
    auto one = make({}, {}, {.learning_rate = rate});
    auto other = make(plan, {}, {.learning_rate = rate});
    agreement rule(pt::f32);
    for (unsigned step = 0; step < 4; ++step) {
      const small_batch<float> b(step);
      rule.loss(one.evaluate(b.feeds()), other.evaluate(b.feeds()));
      rule.loss(one.step(b.feeds()), other.step(b.feeds()));
      rule.tensor("logits", numbers(one.output("logits")), numbers(other.output("logits")),
                  rule.allowed(numbers(one.output("logits")), 0));
      double most = 0;
      for (std::string const& name : one.parameter_names()) most = std::max(most, largest(numbers(one.gradient(name))));
      for (std::string const& name : one.parameter_names()) {
        const std::vector<double> gradient = numbers(one.gradient(name));
        const double allowed = rule.allowed(gradient, most);
        rule.tensor("gradient of " + name, gradient, numbers(other.gradient(name)), allowed);
        rule.adamw(name, numbers(one.parameter(name)), numbers(other.parameter(name)), gradient, allowed, rate);
        const pt::host_tensor w = one.parameter(name);  // every step from equal weights
        other.set_parameter(name, std::vector<float>(w.as<float>(), w.as<float>() + w.size()));
      }
    }
    INFO(plan.data, " x ", plan.tensor, " x ", plan.stages, ", ", plan.micro_batches, " micro-batches: ", rule.where(),
         " differs by ", rule.worst(), " of what is allowed");
    CHECK(rule.holds());
  }
}

TEST_CASE("a number that is not finite is an error that names its op, and changes nothing") {
  for (const small_plan plan : {small_plan{}, small_plan{.data = 2, .tensor = 2}, small_plan{.stages = 2, .micro_batches = 2}}) {
    auto t = make(plan);
    small_batch<float> b;
    t.step(b.feeds());
    const bits before = parameters(t);
    const bits moments{t.state("fc1.weight.m").bytes, t.state("fc2.weight.v").bytes};
    small_batch<float> bad;
    bad.x[7] = std::numeric_limits<float>::quiet_NaN();
    CHECK_THROWS_WITH_AS(t.step(bad.feeds()), Contains("step 1: the loss is"), pt::error);
    bad.x[7] = 1e38f;  // finite, and no product is
    CHECK_THROWS_WITH_AS(t.step(bad.feeds()), Contains("op fc"), pt::error);
    CHECK(t.steps() == 1);
    CHECK(parameters(t) == before);
    CHECK(moments == bits{t.state("fc1.weight.m").bytes, t.state("fc2.weight.v").bytes});
    CHECK(std::isfinite(t.step(b.feeds())));
    CHECK(parameters(t) != before);
  }
}

TEST_CASE("a learning rate that is not finite is refused, and the one before stays") {
  auto t = make({.data = 2}, {}, {.learning_rate = 0.5});
  for (const double rate : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300}) {
    CHECK_THROWS_WITH_AS(t.set_learning_rate(rate), Contains("the learning rate is"), pt::error);
    CHECK_THROWS_WITH_AS(make({}, {}, {.learning_rate = rate}), Contains("finite as a float"), pt::error);
  }
  CHECK(t.learning_rate() == 0.5);
}

TEST_CASE("frozen parameters stay, whatever the plan") {
  adamw_training training;
  training.frozen = "fc1.*";
  for (const small_plan plan : {small_plan{}, small_plan{.data = 2, .tensor = 2}}) {
    auto t = make(plan, training);
    const auto weight = t.parameter("fc1.weight").bytes, head = t.parameter("fc2.weight").bytes;
    t.step(small_batch<float>().feeds());
    CHECK(t.parameter("fc1.weight").bytes == weight);
    CHECK(t.parameter("fc2.weight").bytes != head);
    CHECK(t.parameter_names(true) == std::vector<std::string>{"fc2.weight", "fc2.bias"});
    CHECK(t.parameter_names().size() == 4);
    CHECK_THROWS_WITH_AS(t.gradient("fc1.weight"), Contains("fc1.weight"), pt::error);
    CHECK_THROWS_WITH_AS(t.state("fc1.weight.m"), Contains("no state named fc1.weight.m"), pt::error);
  }
}

TEST_CASE("weight decay leaves out whom it is told to") {
  constexpr double rate = 0.1, decay = 0.5;
  adamw_training with, without;
  without.optimizer.weight_decay = 0;
  with.optimizer.weight_decay = decay;
  with.optimizer.no_decay = "*.bias fc2.*";
  auto decayed = make({.tensor = 2}, with, {.learning_rate = rate});
  auto plain = make({.tensor = 2}, without, {.learning_rate = rate});
  const std::vector<double> before = numbers(plain.parameter("fc1.weight"));
  const small_batch<float> b;
  decayed.step(b.feeds());
  plain.step(b.feeds());
  for (const char* name : {"fc1.bias", "fc2.weight", "fc2.bias"})
    CHECK(decayed.parameter(name).bytes == plain.parameter(name).bytes);
  const std::vector<double> a = numbers(decayed.parameter("fc1.weight")), c = numbers(plain.parameter("fc1.weight"));
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(c[i] - rate * decay * before[i]).epsilon(1e-4));
}

TEST_CASE("memory is as planned, and traffic is that of one step") {
  for (const small_plan plan : {small_plan{}, small_plan{.data = 2}, small_plan{.tensor = 2, .stages = 2, .micro_batches = 2}}) {
    auto t = make(plan);
    const small_batch<float> b;
    CHECK(t.communication().bytes == 0);
    t.step(b.feeds());
    const pt::communication_use first = t.communication();
    t.evaluate(b.feeds());
    CHECK(t.communication().bytes == first.bytes);
    t.step(b.feeds());
    CHECK(t.communication().bytes == first.bytes);
    CHECK(t.communication().calls == first.calls);
    CHECK((first.bytes > 0) == (plan.devices() > 1));
    // gradients, once to and once from: 2 (n - 1) / n of them from each device
    if (plan.data == 2 && plan.devices() == 2) CHECK(first.bytes >= 2 * 4 * t.parameter_count());

    const std::vector<pt::memory_use> memory = t.memory();
    CHECK(static_cast<int>(memory.size()) == plan.devices());
    for (pt::memory_use const& m : memory) {
      CHECK(m.planned == m.state + m.arena);
      CHECK(m.measured <= m.planned);
      CHECK(m.measured > 0);
    }
    CHECK(t.step_flops() > 0);
  }
}
