// Difference of two tensors of the same axes: y = a - b.
#pragma once
#include <partita/ops/pointwise.hpp>
#include <partita/ops/scale.hpp>

namespace partita {

struct subtract_op {
  static constexpr std::string_view name = "subtract", annotation = "..., ... -> ...";
  static constexpr bool passes_partial = true;
  template <class V> PARTITA_HOST_DEVICE static V point(V a, V b) { return a - b; }
  static constexpr auto gradient(auto dy, auto, auto, auto) {
    return gradients{dy, [=] { return apply<scale_op>(attributes{{-1}}, dy); }};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::each_point<subtract_op>(call); }
};
namespace ops {
template <handle A, handle B> constexpr auto subtract(A a, B b) { return apply<subtract_op>(a, b); }
}  // namespace ops
using namespace ops;
template <handle A, handle B> constexpr auto operator-(A a, B b) { return apply<subtract_op>(a, b); }

}  // namespace partita
