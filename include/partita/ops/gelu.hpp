// The Gaussian error linear unit (Hendrycks and Gimpel 2016). `gelu` is the form with tanh that GPT-2 is trained
// with,
//     0.5 x (1 + tanh(u)),  u = sqrt(2 / pi) (x + 0.044715 x^3),
// computed as x sigmoid(2 u), which is the same function and keeps its relative accuracy for negative x; `gelu_exact`
// is 0.5 x (1 + erf(x / sqrt(2))).
#pragma once
#include <partita/core/after_product.hpp>
#include <partita/ops/pointwise.hpp>

namespace partita {

namespace detail {
inline constexpr double gelu_slope = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double gelu_cubic = 0.044715;
}  // namespace detail

struct gelu_gradient_op {  // dy (s + x s (1 - s) 2 u'), s = sigmoid(2 u)
  static constexpr after_product after = after_product::gelu_gradient;
  static constexpr std::string_view name = "gelu.grad", annotation = "..., ... -> ...";
  static constexpr double flops_per_point = 17;
  template <class V> PARTITA_HOST_DEVICE static V point(V dy, V x) {
    constexpr V slope = V(2 * detail::gelu_slope), cubic = V(2 * detail::gelu_slope * detail::gelu_cubic);
    const V square = x * x;
    const V s = math::sigmoid(x * (slope + cubic * square));
    return dy * (s + x * (s * (V(1) - s)) * (slope + V(3) * cubic * square));
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<gelu_gradient_op>(call); }
};
struct gelu_op {
  static constexpr after_product after = after_product::gelu;
  static constexpr std::string_view name = "gelu", annotation = "... -> ...";
  static constexpr double flops_per_point = 9;
  template <class V> PARTITA_HOST_DEVICE static V point(V x) {
    constexpr V slope = V(2 * detail::gelu_slope), cubic = V(2 * detail::gelu_slope * detail::gelu_cubic);
    return x * math::sigmoid(x * (slope + cubic * (x * x)));
  }
  static constexpr auto gradient(auto dy, auto, auto x) { return gradients{apply<gelu_gradient_op>(dy, x)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<gelu_op>(call); }
};

struct gelu_exact_gradient_op {  // dy (Phi(x) + x phi(x)), the normal distribution and its density
  static constexpr std::string_view name = "gelu_exact.grad", annotation = "..., ... -> ...";
  static constexpr double flops_per_point = 14;
  template <class V> PARTITA_HOST_DEVICE static V point(V dy, V x) {
    constexpr V root_half = V(0.70710678118654752440), density = V(0.39894228040143267794);  // 1 / sqrt(2 pi)
    return dy * (V(0.5) * (V(1) + math::erf(x * root_half)) + x * (density * math::exp(V(-0.5) * (x * x))));
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<gelu_exact_gradient_op>(call); }
};
struct gelu_exact_op {
  static constexpr std::string_view name = "gelu_exact", annotation = "... -> ...";
  static constexpr double flops_per_point = 9;
  template <class V> PARTITA_HOST_DEVICE static V point(V x) {
    return V(0.5) * x * (V(1) + math::erf(x * V(0.70710678118654752440)));
  }
  static constexpr auto gradient(auto dy, auto, auto x) { return gradients{apply<gelu_exact_gradient_op>(dy, x)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<gelu_exact_op>(call); }
};
namespace ops {
template <handle X> constexpr auto gelu(X x) { return apply<gelu_op>(x); }
template <handle X> constexpr auto gelu_exact(X x) { return apply<gelu_exact_op>(x); }
}  // namespace ops
using namespace ops;

}  // namespace partita
