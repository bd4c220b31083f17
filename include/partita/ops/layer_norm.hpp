// Layer normalisation (Ba, Kiros and Hinton 2016) over the last axis, which is the scale's:
//     y = (x - mean) / sqrt(variance + epsilon) scale + bias,   variance = average((x - mean)^2)
// x: ... h; scale, bias: h. The mean and the inverse deviation of each row are outputs too, for the gradient.
#pragma once
#include <partita/ops/first_output.hpp>
#include <partita/ops/normalize_rows_gradient.hpp>

namespace partita {

template <bool Bias> struct layer_norm_gradient_op {  // dy, x, scale, mean, inverse deviation -> dx, dscale[, dbias]
  static constexpr std::string_view name = "layer_norm.grad",
                                    annotation = Bias ? "...+ h^, ...+ h^, h^, ...+, ...+ -> ... h^, h^, h^"
                                                      : "...+ h^, ...+ h^, h^, ...+, ...+ -> ... h^, h^",
                                    dtypes = Bias ? "T, T, T, A, A -> T, T, T" : "T, T, T, A, A -> T, T";
  static constexpr double flops_per_point = 16;
  template <class Shape> static std::size_t workspace(Shape const& s) { return detail::normalize_rows_workspace(s); }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto* dx = call.template output<0>();
    decltype(dx) dbias = nullptr;
    if constexpr (Bias) dbias = call.template output<2>();
    detail::normalize_rows_gradient<true>(call, call.template input<0>(), call.template input<1>(), call.template input<2>(),
                                          call.template input<3>(), call.template input<4>(), dx, call.template output<1>(),
                                          dbias);
  }
};

template <bool Bias> struct layer_norm_op {  // x, scale[, bias] -> y, mean, inverse deviation; attribute 0: epsilon
  static constexpr std::string_view name = "layer_norm",
                                    annotation = Bias ? "... h^, h^, h^ -> ... h^, ..., ..." : "... h^, h^ -> ... h^, ..., ...",
                                    dtypes = Bias ? "T, T, T -> T, A, A" : "T, T -> T, A, A";
  static constexpr double flops_per_point = 8;
  static constexpr auto gradient(auto dy, auto y, auto x, auto scale) requires(!Bias) {
    return apply<layer_norm_gradient_op<false>>(std::get<0>(dy), x, scale, std::get<1>(y), std::get<2>(y));
  }
  static constexpr auto gradient(auto dy, auto y, auto x, auto scale, auto) requires Bias {
    return apply<layer_norm_gradient_op<true>>(std::get<0>(dy), x, scale, std::get<1>(y), std::get<2>(y));
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto const* scale = call.template input<1>();
    decltype(scale) bias = nullptr;
    if constexpr (Bias) bias = call.template input<2>();
    auto* y = call.template output<0>();
    auto* means = call.template output<1>();
    auto* inverses = call.template output<2>();
    using A = std::remove_pointer_t<decltype(means)>;
    const std::size_t h = call.extent('h');
    const A epsilon = static_cast<A>(call.attribute(0));
    call.rows(call.rest(), [=](std::size_t row, auto const& team) {
      auto const* const in = x + row * h;
      auto* const out = y + row * h;
      const A mean = sum_of(
                         team, h, [](auto v) { return A(v); }, in) /
                     static_cast<A>(h);
      const A variance = sum_of(
                             team, h, [=](auto v) { return (A(v) - mean) * (A(v) - mean); }, in) /
                         static_cast<A>(h);
      const A inverse = A(1) / math::sqrt(variance + epsilon);
      if constexpr (Bias)
        each_of(
            team, h, [=](auto v, auto s, auto b) { return (A(v) - mean) * inverse * A(s) + A(b); }, out, in, scale, bias);
      else
        each_of(
            team, h, [=](auto v, auto s) { return (A(v) - mean) * inverse * A(s); }, out, in, scale);
      if (team.first()) {
        means[row] = mean;
        inverses[row] = inverse;
      }
    });
  }
};

namespace ops {
template <handle X, handle Scale> constexpr auto layer_norm(X x, Scale scale, double epsilon = 1e-5) {
  return detail::first_of(apply<layer_norm_op<false>>(attributes{{epsilon}}, x, scale));
}
template <handle X, handle Scale, handle Bias> constexpr auto layer_norm(X x, Scale scale, Bias bias, double epsilon = 1e-5) {
  return detail::first_of(apply<layer_norm_op<true>>(attributes{{epsilon}}, x, scale, bias));
}
}  // namespace ops
using namespace ops;

}  // namespace partita
