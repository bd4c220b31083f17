// Product of two tensors of the same axes, element by element: y = a b. A gated unit (SwiGLU, Shazeer 2020) is
// `silu(a) * b`, a square `x * x`.
#pragma once
#include <partita/ops/pointwise.hpp>

namespace partita {

struct multiply_op {
  static constexpr std::string_view name = "multiply", annotation = "..., ... -> ...";
  template <class V> PARTITA_HOST_DEVICE static V point(V a, V b) { return a * b; }
  static constexpr auto gradient(auto dy, auto, auto a, auto b) {
    return gradients{[=] { return apply<multiply_op>(dy, b); }, [=] { return apply<multiply_op>(dy, a); }};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<multiply_op>(call); }
};
namespace ops {
template <handle A, handle B> constexpr auto multiply(A a, B b) { return apply<multiply_op>(a, b); }
}  // namespace ops
using namespace ops;
template <handle A, handle B> constexpr auto operator*(A a, B b) { return apply<multiply_op>(a, b); }

}  // namespace partita
