#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <partita/ops/softmax.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 3> {};
struct key : pt::axis<"key", 71> {};
struct head : pt::axis<"head", 5> {};
struct single : pt::axis<"single", 1> {};

// Lines of v elements, `inner` apart.
void check_softmax(lone_op const& op, std::size_t v, std::size_t inner, double tolerance) {
  const buffer y = op.run_whole()[0];
  double worst = 0;
  for (std::size_t line = 0; line < y.size() / v; ++line) {
    const std::size_t begin = line / inner * v * inner + line % inner;
    double most = -1e300, total = 0;
    for (std::size_t i = 0; i < v; ++i) most = std::max(most, op.inputs[0].get(begin + i * inner));
    for (std::size_t i = 0; i < v; ++i) total += std::exp(op.inputs[0].get(begin + i * inner) - most);
    for (std::size_t i = 0; i < v; ++i) {
      const double exact = std::exp(op.inputs[0].get(begin + i * inner) - most) / total;
      worst = std::max(worst, std::abs(y.get(begin + i * inner) - exact));
    }
  }
  CHECK(worst <= tolerance);
  check_cuts(op);
}
double wide(int input, std::size_t i) { return 20 * number(input, i); }

struct three_positions {
  constexpr auto operator()(auto& g) const {
    auto x = pt::param<pt::f32, batch, key, head>(g, "x", pt::uniform{-2, 2});
    return weighted_sum(pt::softmax<head>(x) + pt::softmax<key>(x) + pt::softmax<batch>(x));
  }
};
}  // namespace

TEST_CASE("softmax over the last axis, an inner one, the first") {
  check_softmax(lone_op::make<pt::softmax_op<0>, pt::like<pt::f32, batch, key>>({}, {}, wide), 71, 1, 1e-6);
  check_softmax(lone_op::make<pt::softmax_op<1>, pt::like<pt::f32, batch, key, head>>({}, {}, wide), 71, 5, 1e-6);
  check_softmax(lone_op::make<pt::softmax_op<2>, pt::like<pt::f64, batch, key, head>>({}, {}, wide), 3, 355, 1e-14);
  check_softmax(lone_op::make<pt::softmax_op<1>, pt::like<pt::f32, batch, single, head>>({}, {}, wide), 1, 5, 0);
  check_softmax(lone_op::make<pt::softmax_op<0>, pt::like<pt::f32, key>>({}, {}, wide), 71, 1, 1e-6);
}

TEST_CASE("softmax of large numbers and of minus infinity") {
  auto op = lone_op::make<pt::softmax_op<0>, pt::like<pt::f32, batch, head>>({}, {}, [](int, std::size_t i) {
    return i % 5 == 0 ? -std::numeric_limits<double>::infinity() : 1e4 + static_cast<double>(i % 2);
  });
  const buffer y = op.run_whole()[0];
  CHECK(y.get(0) == 0);
  double total = 0;
  for (std::size_t i = 0; i < 5; ++i) total += y.get(i);
  CHECK(total == doctest::Approx(1));
}

TEST_CASE("gradient of softmax") {
  check_gradients<three_positions>();
  check_pieces<pt::softmax_gradient_op<0>, pt::like<pt::f32, batch, key>, pt::like<pt::f32, batch, key>>();
  check_pieces<pt::softmax_gradient_op<2>, pt::like<pt::f32, batch, key, head>, pt::like<pt::f32, batch, key, head>>();
}
