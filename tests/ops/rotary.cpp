#include <doctest/doctest.h>

#include <cmath>

#include <partita/ops/einsum.hpp>
#include <partita/ops/rotary.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 2> {};
struct position : pt::axis<"position", 7> {};
struct head : pt::axis<"head", 3> {};
struct share : pt::axis<"share", 2> {};
struct width : pt::axis<"width"> {};
struct pair : pt::axis<"pair", 2> {};
const std::vector<pt::binding> bound{pt::bind<width>(6)};

template <class... Axes> struct turned {
  constexpr auto operator()(auto& g) const {
    return weighted_sum(pt::rotary<position>(pt::param<pt::f32, Axes...>(g, "x", pt::uniform{-1, 1}), 50));
  }
};
}  // namespace

TEST_CASE("pairs are turned by the angle of their position") {
  const auto op = lone_op::make<pt::rotary_op<1>, pt::like<pt::f64, batch, position, head, width>>({{10000, 1}}, bound, number);
  const std::vector<buffer> y = op.run_whole();
  for (std::size_t row = 0; row < 2 * 7 * 3; ++row)
    for (std::size_t i = 0; i < 3; ++i) {
      const double p = static_cast<double>(row / 3 % 7), angle = p / std::pow(10000, static_cast<double>(i) / 3);
      const double a = op.inputs[0].get(row * 6 + 2 * i), b = op.inputs[0].get(row * 6 + 2 * i + 1);
      CHECK(y[0].get(row * 6 + 2 * i) == doctest::Approx(a * std::cos(angle) - b * std::sin(angle)).epsilon(1e-12));
      CHECK(y[0].get(row * 6 + 2 * i + 1) == doctest::Approx(a * std::sin(angle) + b * std::cos(angle)).epsilon(1e-12));
    }
}

TEST_CASE("far positions keep single precision") {
  auto op = lone_op::make<pt::rotary_op<0>, pt::like<pt::f32, position, pair>>(
      {{10000, 1}}, {}, [](int, std::size_t i) { return i % 2 == 0 ? 1 : 0; });
  std::vector<buffer> y = op.make_outputs(op.wholes);
  const std::size_t from[pt::max_dims]{1000000};
  op.wholes[0] = 1000007;
  op.inputs[0] = buffer(pt::f32, std::vector<double>(2 * 1000007, 1));
  const std::size_t piece[pt::max_dims]{7, 2};
  op.run(from, piece, y);
  for (std::size_t s = 0; s < 7; ++s) {
    const double angle = 1000000.0 + static_cast<double>(s);
    CHECK(y[0].get(2 * s) == doctest::Approx(std::cos(angle) - std::sin(angle)).epsilon(1e-5));
  }
}

TEST_CASE("a product of a query and a key depends on their distance alone") {
  auto same_everywhere = [](int input, std::size_t i) { return number(input, i % 6); };
  auto turn = [&](int input) {
    return lone_op::make<pt::rotary_op<0>, pt::like<pt::f64, position, width>>(
               {{10000, 1}}, bound, [&](int, std::size_t i) { return same_everywhere(input, i); })
        .run_whole()[0];
  };
  const buffer q = turn(0), k = turn(1);
  auto product = [&](std::size_t s, std::size_t t) {
    double sum = 0;
    for (std::size_t i = 0; i < 6; ++i) sum += q.get(s * 6 + i) * k.get(t * 6 + i);
    return sum;
  };
  for (std::size_t s = 0; s < 5; ++s) CHECK(product(s + 2, s) == doctest::Approx(product(2, 0)).epsilon(1e-12));
}

TEST_CASE("pieces know their position") {
  check_pieces<pt::rotary_op<1>, pt::like<pt::f32, batch, position, head, width>>({{10000, 1}}, bound);
  check_pieces<pt::rotary_op<2>, pt::like<pt::f64, position, head, share, width>>({{100, -1}}, bound);
  check_pieces<pt::rotary_op<0>, pt::like<pt::f32, batch, position, pair>>({{10000, 1}}, {});
}

TEST_CASE("gradients of rotary positions against differences") {
  check_gradients<turned<batch, position, head, width>>({}, bound);
  check_gradients<turned<position, width>>({}, bound);
}

TEST_CASE("an odd width bound at run time is an error") {
  auto op = lone_op::make<pt::rotary_op<0>, pt::like<pt::f32, position, width>>({{10000, 1}}, {pt::bind<width>(5)}, number);
  CHECK_THROWS_WITH_AS(op.run_whole(), "rotary: the last axis has 5 elements; pairs of them are turned, so that it must be even",
                       pt::error);
}
