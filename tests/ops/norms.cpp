// layer_norm and rms_norm.
#include <doctest/doctest.h>

#include <cmath>

#include <partita/ops/layer_norm.hpp>
#include <partita/ops/multiply.hpp>
#include <partita/ops/rms_norm.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 3> {};
struct position : pt::axis<"position", 5> {};
struct hidden : pt::axis<"hidden", 67> {};
struct single : pt::axis<"single", 1> {};
struct many : pt::axis<"many", 3001> {};
template <pt::dtype T> using activation = pt::like<T, batch, position, hidden>;
template <pt::dtype T> using gain = pt::like<T, hidden>;
template <pt::dtype T> using per_row = pt::like<T, batch, position>;

double shifted(int input, std::size_t i) { return number(input, i) + (input == 0 ? 5 : 0.2); }

void check_layer_norm(lone_op const& op, std::size_t h, bool bias, double tolerance) {
  const std::vector<buffer> y = op.run_whole();
  double worst = 0;
  for (std::size_t row = 0; row < op.inputs[0].size() / h; ++row) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < h; ++i) mean += op.inputs[0].get(row * h + i) / static_cast<double>(h);
    for (std::size_t i = 0; i < h; ++i) variance += std::pow(op.inputs[0].get(row * h + i) - mean, 2) / static_cast<double>(h);
    const double inverse = 1 / std::sqrt(variance + op.given.values[0]);
    worst = std::max(worst, std::abs(y[1].get(row) - mean));
    worst = std::max(worst, std::abs(y[2].get(row) / inverse - 1));
    for (std::size_t i = 0; i < h; ++i) {
      const double exact =
          (op.inputs[0].get(row * h + i) - mean) * inverse * op.inputs[1].get(i) + (bias ? op.inputs[2].get(i) : 0);
      worst = std::max(worst, std::abs(y[0].get(row * h + i) - exact));
    }
  }
  CHECK(worst <= tolerance);
  check_cuts(op);
}
}  // namespace

TEST_CASE("layer_norm") {
  check_layer_norm(
      lone_op::make<pt::layer_norm_op<true>, activation<pt::f32>, gain<pt::f32>, gain<pt::f32>>({{1e-5}}, {}, shifted), 67, true,
      1e-5);
  check_layer_norm(lone_op::make<pt::layer_norm_op<false>, activation<pt::f64>, gain<pt::f64>>({{1e-5}}, {}, shifted), 67, false,
                   1e-13);
  check_layer_norm(lone_op::make<pt::layer_norm_op<true>, pt::like<pt::f32, batch, single>, pt::like<pt::f32, single>,
                                 pt::like<pt::f32, single>>({{1e-5}}, {}, shifted),
                   1, true, 1e-5);
}

TEST_CASE("rms_norm") {
  auto op = lone_op::make<pt::rms_norm_op, activation<pt::f32>, gain<pt::f32>>({{1e-6}}, {}, shifted);
  const std::vector<buffer> y = op.run_whole();
  const std::size_t h = hidden::extent;
  for (std::size_t row = 0; row < 15; ++row) {
    double square = 0;
    for (std::size_t i = 0; i < h; ++i) square += std::pow(op.inputs[0].get(row * h + i), 2) / static_cast<double>(h);
    const double inverse = 1 / std::sqrt(square + 1e-6);
    CHECK(y[1].get(row) == doctest::Approx(inverse).epsilon(1e-5));
    for (std::size_t i = 0; i < h; ++i)
      CHECK(y[0].get(row * h + i) ==
            doctest::Approx(op.inputs[0].get(row * h + i) * inverse * op.inputs[1].get(i)).epsilon(1e-5));
  }
  check_cuts(op);
}

namespace {
struct norms {
  constexpr auto operator()(auto& g) const {
    auto x = pt::param<pt::f32, batch, position, hidden>(g, "x", pt::uniform{-2, 3});
    auto scale = pt::param<pt::f32, hidden>(g, "scale", pt::uniform{0.5, 1.5});
    auto bias = pt::param<pt::f32, hidden>(g, "bias", pt::uniform{-1, 1});
    auto second = pt::param<pt::f32, hidden>(g, "second", pt::uniform{0.5, 1.5});
    auto third = pt::param<pt::f32, hidden>(g, "third", pt::uniform{0.5, 1.5});
    auto y = pt::layer_norm(x, scale, bias);
    return weighted_sum(pt::rms_norm(y * y, second) + pt::layer_norm(y * y * y, third, 1e-3));
  }
};
struct plain_norm {  // one parameter alone is trained: the rule's other results are dropped
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, hidden>(g, "x");
    return weighted_sum(pt::layer_norm(x, pt::param<pt::f32, hidden>(g, "scale"), pt::param<pt::f32, hidden>(g, "bias")));
  }
};
}  // namespace

TEST_CASE("gradients of norms") {
  check_gradients<norms>();
  std::vector<double> x;
  for (std::size_t i = 0; i < 3 * 67; ++i) x.push_back(number(0, i));
  check_gradients<plain_norm>({{"x", x}});
}

TEST_CASE("gradients of norms on pieces") {
  check_pieces<pt::layer_norm_gradient_op<true>, activation<pt::f32>, activation<pt::f32>, gain<pt::f32>, per_row<pt::f32>,
               per_row<pt::f32>>();
  check_pieces<pt::layer_norm_gradient_op<false>, activation<pt::f64>, activation<pt::f64>, gain<pt::f64>, per_row<pt::f64>,
               per_row<pt::f64>>();
  check_pieces<pt::rms_norm_gradient_op, activation<pt::f32>, activation<pt::f32>, gain<pt::f32>, per_row<pt::f32>>();
}

TEST_CASE("sums over many rows are the same bits on any number of workers") {
  auto op = lone_op::make<pt::layer_norm_gradient_op<true>, pt::like<pt::f32, many, hidden>, pt::like<pt::f32, many, hidden>,
                          gain<pt::f32>, pt::like<pt::f32, many>, pt::like<pt::f32, many>>({}, {}, number);
  const std::vector<buffer> alone = op.run_whole();
  double sum = 0;
  for (std::size_t row = 0; row < many::extent; ++row) sum += op.inputs[0].get(row * hidden::extent + 3);
  CHECK(alone[2].get(3) == doctest::Approx(sum).epsilon(1e-4));
  for (int count : {2, 3, 5}) {
    pt::on_cpu::workers workers(count);
    op.workers = &workers;
    check_same(alone, op.run_whole(), 0, "layer_norm.grad");
  }
}
