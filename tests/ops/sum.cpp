#include <doctest/doctest.h>

#include <cmath>

#include <partita/ops/multiply.hpp>
#include <partita/ops/sum.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 3> {};
struct position : pt::axis<"position"> {};
struct hidden : pt::axis<"hidden", 7> {};
struct single : pt::axis<"single", 1> {};
struct wide : pt::axis<"wide", 301> {};
const std::vector<pt::binding> bound{pt::bind<position>(5)};
using activation = pt::like<pt::f32, batch, position, hidden>;

struct totals {
  constexpr auto operator()(auto& g) const {
    auto x = pt::param<pt::f32, batch, position, hidden>(g, "x", pt::uniform{-1, 1});
    auto y = pt::sum_over<position>(x * x);            // batch hidden
    auto z = pt::mean_over<batch, hidden>(x * x * x);  // position
    auto last = pt::mean_over<hidden>(pt::sum_over<batch>(x * x));
    return pt::outputs(pt::loss("a", pt::sum(y * y)), pt::loss("b", pt::mean(x * x), 0.5),
                       pt::loss("c", weighted_sum(z * z * last)));
  }
};
}  // namespace

TEST_CASE("sum and mean over all axes") {
  auto op = lone_op::make<pt::sum_all_op<false>, activation>({}, bound, number);
  double total = 0;
  for (std::size_t i = 0; i < op.inputs[0].size(); ++i) total += op.inputs[0].get(i);
  CHECK(op.run_whole()[0].get(0) == doctest::Approx(total).epsilon(1e-5));
  auto mean = lone_op::make<pt::sum_all_op<true>, activation>({}, bound, number);
  CHECK(mean.run_whole()[0].get(0) == doctest::Approx(total / 105).epsilon(1e-5));
  check_cuts(op, 1e-5);
  check_cuts(mean, 1e-5);
  check_pieces<pt::sum_all_op<true>, pt::like<pt::f64>>();
}

TEST_CASE("sums over one axis") {
  auto op = lone_op::make<pt::sum_axis_op<1, false>, activation>({}, bound, number);
  buffer const y = op.run_whole()[0];
  REQUIRE(y.size() == 21);
  for (std::size_t b = 0; b < 3; ++b)
    for (std::size_t h = 0; h < 7; ++h) {
      double total = 0;
      for (std::size_t p = 0; p < 5; ++p) total += op.inputs[0].get((b * 5 + p) * 7 + h);
      CHECK(y.get(b * 7 + h) == doctest::Approx(total).epsilon(1e-5));
    }
  check_cuts(op);
  check_pieces<pt::sum_axis_op<0, false>, activation>({}, bound);
  check_pieces<pt::sum_axis_op<0, true>, activation>({}, bound);
  check_pieces<pt::sum_axis_op<1, true>, activation>({}, bound);
  check_pieces<pt::sum_axis_op<2, true>, pt::like<pt::f64, batch, position, hidden>>({}, bound);
  check_pieces<pt::sum_axis_op<1, false>, pt::like<pt::f32, position, wide>>({}, bound);
  check_pieces<pt::sum_axis_op<1, true>, pt::like<pt::f32, batch, single, hidden>>();
}

TEST_CASE("gradients of sums and means") {
  check_gradients<totals>({}, bound);
  check_pieces<pt::spread_all_op<true>, activation, pt::like<pt::f32>>({}, bound);
  check_pieces<pt::spread_axis_op<0, true>, activation, pt::like<pt::f32, batch, position>>({}, bound);
  check_pieces<pt::spread_axis_op<1, true>, activation, pt::like<pt::f32, batch, hidden>>({}, bound);
  check_pieces<pt::spread_axis_op<2, false>, activation, pt::like<pt::f32, position, hidden>>({}, bound);
}
