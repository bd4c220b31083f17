// The element-wise ops: values against the standard library in double, gradients, pieces.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <partita/ops/gelu.hpp>
#include <partita/ops/multiply.hpp>
#include <partita/ops/relu.hpp>
#include <partita/ops/scale.hpp>
#include <partita/ops/sigmoid.hpp>
#include <partita/ops/silu.hpp>
#include <partita/ops/subtract.hpp>
#include <partita/ops/tanh.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct rows : pt::axis<"rows", 7> {};
struct columns : pt::axis<"columns", 129> {};
struct single : pt::axis<"single", 1> {};
using in_float = pt::like<pt::f32, rows, columns>;
using in_double = pt::like<pt::f64, rows, columns>;

double wide(int input, std::size_t i) { return 12 * number(input, i); }

// y = f(a, b, ...) for all elements, and the op on pieces.
template <class Op, class... In, class F> void check(F f, pt::attributes const& given = {}, double tolerance = 2e-6) {
  lone_op const op = lone_op::make<Op, In...>(given, {}, wide);
  buffer const y = op.run_whole()[0];
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double exact = f(op.inputs[0].get(i), op.inputs.back().get(i));
    worst = std::max(worst, std::abs(y.get(i) - exact) / std::max(1., std::abs(exact)));
  }
  INFO(op.info.kind);
  CHECK(worst <= tolerance);
  check_cuts(op);
}
template <class Op, class F> void check_one(F f, pt::attributes const& given = {}) {
  check<Op, in_float>([&](double x, double) { return f(x); }, given);
  check<Op, in_double>([&](double x, double) { return f(x); }, given, 1e-14);
  check<Op, pt::like<pt::f32, single>>([&](double x, double) { return f(x); }, given);
  check<Op, pt::like<pt::f32>>([&](double x, double) { return f(x); }, given);
}
template <class Op, class F> void check_two(F f) {
  check<Op, in_float, in_float>(f);
  check<Op, in_double, in_double>(f, {}, 1e-14);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_exact(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.))); }
}  // namespace

TEST_CASE("element-wise ops compute what their names say") {
  check_one<pt::relu_op>([](double x) { return std::max(x, 0.); });
  check_one<pt::sigmoid_op>(sigmoid);
  check_one<pt::tanh_op>([](double x) { return std::tanh(x); });
  check_one<pt::silu_op>([](double x) { return x * sigmoid(x); });
  check_one<pt::gelu_op>(gelu);
  check_one<pt::gelu_exact_op>(gelu_exact);
  check_one<pt::scale_op>([](double x) { return -1.25 * x; }, {{-1.25}});
  check_two<pt::multiply_op>([](double a, double b) { return a * b; });
  check_two<pt::subtract_op>([](double a, double b) { return a - b; });
}

TEST_CASE("gelu keeps its relative accuracy where tanh is near -1") {
  auto op = lone_op::make<pt::gelu_op, pt::like<pt::f32, rows>>({}, {}, [](int, std::size_t i) { return -1. - i; });
  buffer const y = op.run_whole()[0];
  for (std::size_t i = 0; i < 5; ++i) {
    const double x = -1. - static_cast<double>(i), u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    CHECK(y.get(i) == doctest::Approx(x * sigmoid(2 * u)).epsilon(1e-5));
  }
}

TEST_CASE("relu keeps a NaN") {
  auto op = lone_op::make<pt::relu_op, pt::like<pt::f32, rows>>(
      {}, {}, [](int, std::size_t) { return std::numeric_limits<double>::quiet_NaN(); });
  CHECK(std::isnan(op.run_whole()[0].get(3)));
}

namespace {
struct every_op {
  constexpr auto operator()(auto& g) const {
    auto x = pt::param<pt::f32, rows, columns>(g, "x", pt::uniform{-3, 3});
    auto y = pt::param<pt::f32, rows, columns>(g, "y", pt::uniform{-3, 3});
    auto gated = pt::silu(x) * y;
    auto rest = pt::gelu(x) - pt::gelu_exact(y) + pt::tanh(x) * pt::sigmoid(y) - pt::relu(x);
    return weighted_sum(0.5 * gated + -rest * 0.75 + x * x);
  }
};
}  // namespace

TEST_CASE("gradients of element-wise ops") { check_gradients<every_op>({}, {}, {}, 2e-6); }

TEST_CASE("gradients of element-wise ops on pieces") {
  check_pieces<pt::relu_gradient_op, in_float, in_float>();
  check_pieces<pt::gelu_gradient_op, in_float, in_float>({}, {}, wide);
  check_pieces<pt::gelu_exact_gradient_op, in_float, in_float>({}, {}, wide);
  check_pieces<pt::silu_gradient_op, in_float, in_float>({}, {}, wide);
  check_pieces<pt::tanh_gradient_op, in_float, in_float>();
  check_pieces<pt::sigmoid_gradient_op, in_float, in_float>();
}
