// Conversion between float types: y = To(x).
#pragma once
#include <partita/core/packs.hpp>
#include <partita/model/source.hpp>
#include <partita/ops/pointwise.hpp>

namespace partita {

template <dtype To> struct cast_op {
  static constexpr bool keeps_name = true, converts = true;  // the kernel takes narrow types as they are
  static constexpr bool passes_partial = true, accumulates = true;
  static constexpr std::string_view name = "cast", annotation = "... -> ...",
                                    dtypes = To == f32    ? "T -> f32"
                                             : To == f64  ? "T -> f64"
                                             : To == bf16 ? "T -> bf16"
                                                          : "T -> f16";
  template <class V> PARTITA_HOST_DEVICE static V point(V x) { return x; }
  static constexpr auto gradient(auto dy, auto, auto x) { return gradients{apply<cast_op<decltype(x)::like_type::type>>(dy)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    using value = std::remove_pointer_t<decltype(y)>;
    using sum = detail::compute_type<value>;
    if (call.accumulate()) call.each(call.size(), [=](std::size_t i) { y[i] = static_cast<value>(sum(y[i]) + sum(x[i])); });
    else
      each_of(
          call, call.size(), [](auto from) { return from; }, y, x);
  }
};
namespace ops {
template <dtype To, handle X> constexpr auto cast(X x) {
  if constexpr (is_poison<X>) return x;
  else if constexpr (constexpr dtype to = detail::used<typename X::tracer, To>; X::type == to) return x;
  else return apply<cast_op<to>>(x);
}
}  // namespace ops
using namespace ops;

}  // namespace partita
