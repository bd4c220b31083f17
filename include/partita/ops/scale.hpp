// A tensor times a number that is the same at every step: y = factor x (attribute 0).
#pragma once
#include <partita/ops/pointwise.hpp>

namespace partita {

struct scale_op {
  static constexpr std::string_view name = "scale", annotation = "... -> ...";
  static constexpr bool passes_partial = true;
  static constexpr int parameter_count = 1;
  template <class V> PARTITA_HOST_DEVICE static V point(V x, V factor) { return x * factor; }
  static constexpr auto gradient(auto dy, auto y, auto) { return gradients{apply<scale_op>(attributes{{y.attribute(0)}}, dy)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<scale_op>(call); }
};
namespace ops {
template <handle X> constexpr auto scale(X x, double factor) { return apply<scale_op>(attributes{{factor}}, x); }
}  // namespace ops
using namespace ops;
// Not of any handle X: clang 14 forms operator*<X> for number * number before it looks at the constraint.
template <class G, dtype T, class... A> constexpr auto operator*(tensor<G, T, A...> x, double f) { return scale(x, f); }
template <class G, dtype T, class... A> constexpr auto operator*(double f, tensor<G, T, A...> x) { return scale(x, f); }
template <class G, dtype T, class... A> constexpr auto operator-(tensor<G, T, A...> x) { return scale(x, -1); }
template <class G> constexpr auto operator*(poison<G> x, double) { return x; }
template <class G> constexpr auto operator*(double, poison<G> x) { return x; }
template <class G> constexpr auto operator-(poison<G> x) { return x; }

}  // namespace partita
