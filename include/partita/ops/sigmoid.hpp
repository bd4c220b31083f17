// y = 1 / (1 + e^-x). The gradient needs y alone: dy y (1 - y).
#pragma once
#include <partita/ops/pointwise.hpp>

namespace partita {

struct sigmoid_gradient_op {
  static constexpr std::string_view name = "sigmoid.grad", annotation = "..., ... -> ...";
  static constexpr double flops_per_point = 3;
  template <class V> PARTITA_HOST_DEVICE static V point(V dy, V y) { return dy * (y * (V(1) - y)); }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<sigmoid_gradient_op>(call); }
};
struct sigmoid_op {
  static constexpr std::string_view name = "sigmoid", annotation = "... -> ...";
  static constexpr double flops_per_point = 4;
  template <class V> PARTITA_HOST_DEVICE static V point(V x) { return math::sigmoid(x); }
  static constexpr auto gradient(auto dy, auto y, auto) { return gradients{apply<sigmoid_gradient_op>(dy, y)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<sigmoid_op>(call); }
};
namespace ops {
template <handle X> constexpr auto sigmoid(X x) { return apply<sigmoid_op>(x); }
}  // namespace ops
using namespace ops;

}  // namespace partita
