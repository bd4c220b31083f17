// y = x sigmoid(x), also called swish (Elfwing, Uchibe and Doya 2018; Ramachandran, Zoph and Le 2017).
#pragma once
#include <partita/ops/pointwise.hpp>

namespace partita {

struct silu_gradient_op {  // dy (s + x s (1 - s)), s = sigmoid(x)
  static constexpr std::string_view name = "silu.grad", annotation = "..., ... -> ...";
  static constexpr double flops_per_point = 9;
  template <class V> PARTITA_HOST_DEVICE static V point(V dy, V x) {
    const V s = math::sigmoid(x);
    return dy * (s + x * (s * (V(1) - s)));
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<silu_gradient_op>(call); }
};
struct silu_op {
  static constexpr std::string_view name = "silu", annotation = "... -> ...";
  static constexpr double flops_per_point = 5;
  template <class V> PARTITA_HOST_DEVICE static V point(V x) { return x * math::sigmoid(x); }
  static constexpr auto gradient(auto dy, auto, auto x) { return gradients{apply<silu_gradient_op>(dy, x)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<silu_op>(call); }
};
namespace ops {
template <handle X> constexpr auto silu(X x) { return apply<silu_op>(x); }
}  // namespace ops
using namespace ops;

}  // namespace partita
