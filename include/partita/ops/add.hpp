// Sum of two tensors of the same axes: y = a + b.
#pragma once
#include <partita/model/apply.hpp>

namespace partita {

struct add_op {
  static constexpr std::string_view name = "add", annotation = "..., ... -> ...";
  static constexpr bool passes_partial = true;
  static constexpr auto gradient(auto dy, auto, auto, auto) { return gradients{dy, dy}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* a = call.template input<0>();
    auto const* b = call.template input<1>();
    auto* y = call.template output<0>();
    using element = std::remove_pointer_t<decltype(y)>;
    call.each(call.size(), [=](std::size_t i) { y[i] = static_cast<element>(a[i] + b[i]); });
  }
};
namespace ops {
template <handle A, handle B> constexpr auto add(A a, B b) { return apply<add_op>(a, b); }
}  // namespace ops
using namespace ops;
template <handle A, handle B> constexpr auto operator+(A a, B b) { return apply<add_op>(a, b); }

}  // namespace partita
