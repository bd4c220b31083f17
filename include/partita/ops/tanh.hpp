// y = tanh(x). The gradient needs y alone: dy (1 - y^2).
#pragma once
#include <partita/ops/pointwise.hpp>

namespace partita {

struct tanh_gradient_op {
  static constexpr std::string_view name = "tanh.grad", annotation = "..., ... -> ...";
  static constexpr double flops_per_point = 3;
  template <class V> PARTITA_HOST_DEVICE static V point(V dy, V y) { return dy * (V(1) - y * y); }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<tanh_gradient_op>(call); }
};
struct tanh_op {
  static constexpr std::string_view name = "tanh", annotation = "... -> ...";
  static constexpr double flops_per_point = 6;
  template <class V> PARTITA_HOST_DEVICE static V point(V x) { return math::tanh(x); }
  static constexpr auto gradient(auto dy, auto y, auto) { return gradients{apply<tanh_gradient_op>(dy, y)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<tanh_op>(call); }
};
namespace ops {
template <handle X> constexpr auto tanh(X x) { return apply<tanh_op>(x); }
}  // namespace ops
using namespace ops;

}  // namespace partita
