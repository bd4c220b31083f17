// The reference interpreter against trainings that can be followed by hand, and on a small transformer.
#include <doctest/doctest.h>

#include <cmath>

#include <partita/ops/ops.hpp>

#include "../support/finite_difference.hpp"
#include "../support/reference.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct size : pt::axis<"size", 5> {};
struct batch : pt::axis<"batch"> {};
struct position : pt::axis<"position", 6> {};
struct vocab : pt::axis<"vocab", 11> {};
struct hidden : pt::axis<"hidden", 12> {};
struct head : pt::axis<"head", 3> {};
struct width : pt::axis<"width", 4> {};
struct ffn : pt::axis<"ffn", 20> {};
const std::vector<pt::binding> bound{pt::bind<batch>(3)};

// loss = sum of weights(i) p(i): the gradient is constant
struct plain {
  constexpr auto operator()(auto& g) const { return weighted_sum(pt::param<pt::f32, size>(g, "p", pt::uniform{-1, 1})); }
};
struct two_losses {
  constexpr auto operator()(auto& g) const {
    auto p = pt::param<pt::f32, size>(g, "p", pt::ones);
    auto x = pt::input<pt::f32, size>(g, "x");
    return pt::outputs(pt::loss("first", weighted_sum(p), 0.5), pt::loss("second", weighted_sum(p + x), 2),
                       pt::output("sum", p + x));
  }
};
struct transformer {
  constexpr auto operator()(auto& g) const {
    auto tokens = pt::input<pt::i32, batch, position>(g, "tokens");
    auto targets = pt::input<pt::i32, batch, position>(g, "targets");
    auto table = pt::param<pt::f32, vocab, hidden>(g, "table", pt::normal{0.5});
    auto x = pt::embedding(tokens, table);
    for (int l = 0; l < 2; ++l) {
      auto s = pt::scope(g, "block", l);
      auto y = pt::layer_norm(x, pt::param<pt::f32, hidden>(g, "norm1.weight", pt::ones),
                              pt::param<pt::f32, hidden>(g, "norm1.bias", pt::zeros));
      auto q = pt::linear(y, pt::param<pt::f32, hidden, head, width>(g, "q.weight", pt::normal{0.3}));
      auto k = pt::linear(y, pt::param<pt::f32, hidden, head, width>(g, "k.weight", pt::normal{0.3}));
      auto v = pt::linear(y, pt::param<pt::f32, hidden, head, width>(g, "v.weight", pt::normal{0.3}));
      auto a =
          pt::linear(pt::causal_attention(q, k, v), pt::param<pt::f32, head, width, hidden>(g, "out.weight", pt::normal{0.3}));
      x = x + a;
      auto z = pt::layer_norm(x, pt::param<pt::f32, hidden>(g, "norm2.weight", pt::ones),
                              pt::param<pt::f32, hidden>(g, "norm2.bias", pt::zeros));
      auto up = pt::gelu(pt::linear(z, pt::param<pt::f32, hidden, ffn>(g, "up.weight", pt::normal{0.3}),
                                    pt::param<pt::f32, ffn>(g, "up.bias", pt::zeros)));
      x = x + pt::linear(up, pt::param<pt::f32, ffn, hidden>(g, "down.weight", pt::normal{0.3}));
    }
    return pt::cross_entropy(pt::linear(x, table), targets);
  }
};
named_values tokens() {
  std::vector<int> in, out;
  for (int i = 0; i < 18; ++i) in.push_back(i * 7 % 11), out.push_back((i + 1) * 7 % 11);
  return {{"tokens", in}, {"targets", out}};
}
}  // namespace

TEST_CASE("plain, decaying and momentum SGD by hand") {
  using sgd = pt::training<plain, pt::sgd>;
  for (double decay : {0.0, 0.25})
    for (double momentum : {0.0, 0.5}) {
      sgd training;
      training.optimizer.weight_decay = decay;
      training.optimizer.momentum = momentum;
      reference<sgd> r(training);
      std::vector<double> p = r.parameter("p"), v(5, 0);
      for (int step = 0; step < 3; ++step) {
        double loss = 0;
        for (std::size_t i = 0; i < 5; ++i) loss += weight_of(i) * p[i];
        CHECK(r.step({}, 0.1) == doctest::Approx(loss).epsilon(1e-6));
        for (std::size_t i = 0; i < 5; ++i) {
          v[i] = momentum * v[i] + weight_of(i) + decay * p[i];
          p[i] -= 0.1 * v[i];
          CHECK(r.gradient("p")[i] == doctest::Approx(weight_of(i)));
          CHECK(r.parameter("p")[i] == doctest::Approx(p[i]).epsilon(1e-6));
        }
      }
    }
}

TEST_CASE("AdamW by hand, with clipping") {
  using adamw = pt::training<plain, pt::adamw, pt::clip_norm>;
  adamw training;
  training.clip.max = 0.5;
  reference<adamw> r(training);
  std::vector<double> p = r.parameter("p"), m(5, 0), v(5, 0);
  double norm = 0;
  for (std::size_t i = 0; i < 5; ++i) norm += weight_of(i) * weight_of(i);
  norm = std::sqrt(norm);
  for (int step = 1; step <= 3; ++step) {
    r.step({}, 0.1);
    CHECK(r.output("gradient_norm")[0] == doctest::Approx(norm));
    for (std::size_t i = 0; i < 5; ++i) {
      const double g = weight_of(i) * 0.5 / norm;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      p[i] -= 0.1 * (0.01 * p[i] + m[i] / (1 - std::pow(0.9, step)) / (std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-8));
      CHECK(r.parameter("p")[i] == doctest::Approx(p[i]).epsilon(1e-5));
    }
  }
}

TEST_CASE("losses have weights, other results do not") {
  using training = pt::training<two_losses>;
  reference<training> r;
  const std::vector<double> x{1, 2, 3, 4, 5};
  const double loss = r.step({{"x", x}}, 0.1);
  double first = 0, second = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    first += weight_of(i);
    second += weight_of(i) * (1 + x[i]);
    CHECK(r.output("sum")[i] == doctest::Approx(1 + x[i]));
    CHECK(r.gradient("p")[i] == doctest::Approx(2.5 * weight_of(i)));
  }
  CHECK(r.output("first")[0] == doctest::Approx(first));
  CHECK(r.output("second")[0] == doctest::Approx(second));
  CHECK(loss == doctest::Approx(0.5 * first + 2 * second));
}

TEST_CASE("missing and misshapen inputs are errors") {
  reference<pt::training<two_losses>> r;
  CHECK_THROWS_WITH_AS(r.step({}), "reference: input x is missing", pt::error);
  CHECK_THROWS_WITH_AS(r.step({{"x", std::vector<double>{1, 2}}}), "reference: input x has 2 elements, not 5", pt::error);
}

TEST_CASE("gradients of a transformer against differences") { check_gradients<transformer>(tokens(), bound, {}, 5e-6); }

TEST_CASE("a transformer learns, alike in float and double, on one worker and three") {
  using single = pt::training<transformer, pt::adamw>;
  using twice = pt::training<pt::in_precision<transformer, pt::f64>, pt::adamw>;
  reference<single> a({}, 3, bound), b({}, 3, bound, 3);
  reference<twice> c({}, 3, bound);
  double first = 0, last = 0;
  for (int step = 0; step < 40; ++step) {
    const double loss = a.step(tokens(), 0.01), other = b.step(tokens(), 0.01), exact = c.step(tokens(), 0.01);
    if (step == 0) first = loss;
    if (step < 3) {
      CHECK(loss == doctest::Approx(exact).epsilon(1e-5));
      CHECK(other == doctest::Approx(exact).epsilon(1e-5));
    }
    last = loss;
  }
  CHECK(first > 2);
  CHECK(last < 0.1);
  CHECK(a.evaluate(tokens()) == doctest::Approx(last).epsilon(0.2));
  CHECK(a.steps() == 40);
}
