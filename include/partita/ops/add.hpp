// Sum of two tensors of the same axes: y = a + b.
#pragma once
#include <partita/core/after_product.hpp>
#include <partita/core/packs.hpp>
#include <partita/model/apply.hpp>

namespace partita {

struct add_op {
  static constexpr after_product after = after_product::adds;
  static constexpr std::string_view name = "add", annotation = "..., ... -> ...";
  static constexpr bool passes_partial = true;
  template <class V> PARTITA_HOST_DEVICE static V point(V a, V b) { return a + b; }
  static constexpr auto gradient(auto dy, auto, auto, auto) { return gradients{dy, dy}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* a = call.template input<0>();
    auto const* b = call.template input<1>();
    auto* y = call.template output<0>();
    each_of(
        call, call.size(), [](auto x, auto z) { return x + z; }, y, a, b);
  }
};
namespace ops {
template <handle A, handle B> constexpr auto add(A a, B b) { return apply<add_op>(a, b); }
}  // namespace ops
using namespace ops;
template <handle A, handle B> constexpr auto operator+(A a, B b) { return apply<add_op>(a, b); }

}  // namespace partita
