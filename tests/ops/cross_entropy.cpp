#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/scale.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 3> {};
struct position : pt::axis<"position"> {};
struct vocabulary : pt::axis<"vocabulary", 131> {};
struct one_class : pt::axis<"one_class", 1> {};
const std::vector<pt::binding> bound{pt::bind<position>(5)};
using logits = pt::like<pt::f32, batch, position, vocabulary>;
template <pt::dtype T> using per_token = pt::like<T, batch, position>;
constexpr std::size_t tokens = 15, classes = 131;

template <int Percent> struct model {  // of smoothing
  constexpr auto operator()(auto& g) const {
    auto x = pt::param<pt::f32, batch, position, vocabulary>(g, "x", pt::uniform{-4, 4});
    return pt::cross_entropy(x, pt::input<pt::i32, batch, position>(g, "y"), Percent / 100.);
  }
};
std::vector<int> some_targets() {
  std::vector<int> y;
  for (std::size_t i = 0; i < tokens; ++i) y.push_back(i % 4 == 2 ? -1 : static_cast<int>(i * 37 % classes));
  y[3] = 0;
  y[5] = static_cast<int>(classes) - 1;
  return y;
}
// The mean over tokens with a target of at least 0 of -sum_v w_v log p_v.
double exact_loss(std::vector<double> const& x, std::vector<int> const& y, double smoothing) {
  double total = 0, count = 0;
  for (std::size_t t = 0; t < tokens; ++t) {
    if (y[t] < 0) continue;
    double sum = 0, all = 0, most = x[t * classes];
    for (std::size_t v = 0; v < classes; ++v) most = std::max(most, x[t * classes + v]);
    for (std::size_t v = 0; v < classes; ++v) {
      sum += std::exp(x[t * classes + v] - most);
      if (smoothing > 0) all += x[t * classes + v] - most;
    }
    total += std::log(sum) - (1 - smoothing) * (x[t * classes + static_cast<std::size_t>(y[t])] - most) -
             smoothing * all / static_cast<double>(classes);
    ++count;
  }
  return count == 0 ? 0 : total / count;
}
template <class Model> auto trained() { return reference<pt::training<Model>>({}, 7, bound); }

double some_target(int input, std::size_t i) {
  return input == 2 ? static_cast<double>(i % 3 == 1 ? -1 : static_cast<int>(i * 37 % classes)) : number(input, i);
}
}  // namespace

TEST_CASE("the loss is the mean over the tokens that count") {
  const std::vector<int> y = some_targets();
  auto r = trained<model<0>>();
  CHECK(r.step({{"y", y}}, 0) == doctest::Approx(exact_loss(r.parameter("x"), y, 0)).epsilon(1e-6));
  auto smoothed = trained<model<10>>();
  CHECK(smoothed.step({{"y", y}}, 0) == doctest::Approx(exact_loss(smoothed.parameter("x"), y, 0.1)).epsilon(1e-6));
}

TEST_CASE("gradient of the loss") {
  check_gradients<model<0>>({{"y", some_targets()}}, bound);
  check_gradients<model<10>>({{"y", some_targets()}}, bound);
}

TEST_CASE("large logits") {
  auto r = trained<model<0>>();
  std::vector<double> x = r.parameter("x");
  for (double& v : x) v *= 1e4;
  r.set_parameter("x", x);
  x = r.parameter("x");
  const std::vector<int> y = some_targets();
  CHECK(r.step({{"y", y}}, 0) == doctest::Approx(exact_loss(x, y, 0)).epsilon(1e-6));
  for (double g : r.gradient("x")) REQUIRE(std::isfinite(g));
}

TEST_CASE("a class ruled out by minus infinity has probability and gradient zero") {
  auto r = trained<model<0>>();
  std::vector<double> x = r.parameter("x");
  for (std::size_t t = 0; t < tokens; ++t) x[t * classes + 7] = -std::numeric_limits<double>::infinity();
  r.set_parameter("x", x);
  std::vector<int> y = some_targets();
  for (int& t : y) t = t == 7 ? 8 : t;
  const double loss = r.step({{"y", y}}, 0);
  CHECK(loss == doctest::Approx(exact_loss(x, y, 0)).epsilon(1e-6));
  const std::vector<double> gradient = r.gradient("x");
  for (std::size_t t = 0; t < tokens; ++t) CHECK(gradient[t * classes + 7] == 0);
}

TEST_CASE("no token counts: loss and gradient are zero") {
  auto r = trained<model<0>>();
  CHECK(r.step({{"y", std::vector<int>(tokens, -1)}}, 0) == 0);
  for (double g : r.gradient("x")) CHECK(g == 0);
}

TEST_CASE("a target that is no class") {
  auto r = trained<model<0>>();
  std::vector<int> y = some_targets();
  y[4] = static_cast<int>(classes);
  CHECK_THROWS_WITH_AS(r.step({{"y", y}}, 0),
                       "cross_entropy: target 131 is not below the last axis's extent 131; a token to be ignored has "
                       "a target below 0",
                       pt::error);
}

TEST_CASE("the ops of the loss on pieces of tokens and vocabulary") {
  check_pieces<pt::row_max_op, logits>({}, bound);
  for (double smoothing : {0., 0.2}) {
    check_pieces<pt::softmax_terms_op, logits, per_token<pt::f32>, per_token<pt::i32>>({{smoothing}}, bound, some_target);
    check_pieces<pt::softmax_terms_gradient_op, logits, per_token<pt::f32>, per_token<pt::f32>, per_token<pt::f32>,
                 per_token<pt::i32>>({{smoothing}}, bound,
                                     [](int input, std::size_t i) { return input == 4 ? some_target(2, i) : number(input, i); });
  }
  check_pieces<pt::token_count_op<pt::f32>, per_token<pt::i32>>({}, bound, [](int, std::size_t i) { return some_target(2, i); });
  auto positive = [](int input, std::size_t i) {
    return input == 2 ? some_target(2, i) : input == 0 ? 1.5 + number(0, i) : input == 3 ? 10. : number(input, i);
  };
  check_pieces<pt::token_loss_op, per_token<pt::f32>, per_token<pt::f32>, per_token<pt::i32>, pt::like<pt::f32>>({}, bound,
                                                                                                                 positive);
  check_pieces<pt::token_loss_gradient_op, pt::like<pt::f32>, per_token<pt::f32>, per_token<pt::i32>, pt::like<pt::f32>>(
      {}, bound, [=](int input, std::size_t i) { return input == 1 ? 1.5 + number(0, i) : positive(input, i); });
}

TEST_CASE("a vocabulary of one") {
  auto op = lone_op::make<pt::softmax_terms_op, pt::like<pt::f32, batch, one_class>, pt::like<pt::f32, batch>,
                          pt::like<pt::i32, batch>>({{0}}, {}, [](int input, std::size_t) { return input == 2 ? 0 : 3; });
  CHECK(op.run_whole()[0].get(0) == 1);
  CHECK(op.run_whole()[1].get(0) == 0);
}

namespace {
struct counted {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, vocabulary>(g, "x");
    return pt::cross_entropy(x, pt::input<pt::i32, batch>(g, "y"));
  }
};
constexpr bool count_is_whole_in_time = [] {
  pt::recorder<pt::planning_only, pt::training<counted>> g;
  pt::trace(g, pt::training<counted>{});
  for (pt::op_entry const& e : g.ops)
    if (e.info->kind == "token_count") return e.info->whole_in_time;
  return false;
}();
}  // namespace
static_assert(count_is_whole_in_time);
