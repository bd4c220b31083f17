// y = max(x, 0). A NaN stays one. The gradient at 0 is 0, and is read off y, so that x need not be kept.
#pragma once
#include <partita/ops/pointwise.hpp>

namespace partita {

struct relu_gradient_op {
  static constexpr std::string_view name = "relu.grad", annotation = "..., ... -> ...";
  template <class V> PARTITA_HOST_DEVICE static V point(V dy, V y) { return y > V(0) ? dy : V(0); }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<relu_gradient_op>(call); }
};
struct relu_op {
  static constexpr std::string_view name = "relu", annotation = "... -> ...";
  template <class V> PARTITA_HOST_DEVICE static V point(V x) { return x < V(0) ? V(0) : x; }
  static constexpr auto gradient(auto dy, auto y, auto) { return gradients{apply<relu_gradient_op>(dy, y)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<relu_op>(call); }
};
namespace ops {
template <handle X> constexpr auto relu(X x) { return apply<relu_op>(x); }
}  // namespace ops
using namespace ops;

}  // namespace partita
