// Root mean square normalisation (Zhang and Sennrich 2019) over the last axis, which is the scale's:
//     y = x / sqrt(average(x^2) + epsilon) scale
// x: ... h; scale: h. The inverse root of each row is an output too, for the gradient.
#pragma once
#include <partita/ops/first_output.hpp>
#include <partita/ops/normalize_rows_gradient.hpp>

namespace partita {

struct rms_norm_gradient_op {  // dy, x, scale, inverse root -> dx, dscale
  static constexpr std::string_view name = "rms_norm.grad", annotation = "...+ h^, ...+ h^, h^, ...+ -> ... h^, h^",
                                    dtypes = "T, T, T, A -> T, T";
  static constexpr double flops_per_point = 12;
  template <class Shape> static std::size_t workspace(Shape const& s) { return detail::normalize_rows_workspace(s); }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto* dx = call.template output<0>();
    auto const* inverses = call.template input<3>();
    const decltype(inverses) no_means = nullptr;
    const decltype(dx) no_bias = nullptr;
    detail::normalize_rows_gradient<false>(call, call.template input<0>(), call.template input<1>(), call.template input<2>(),
                                           no_means, inverses, dx, call.template output<1>(), no_bias);
  }
};

struct rms_norm_op {  // x, scale -> y, inverse root; attribute 0: epsilon
  static constexpr std::string_view name = "rms_norm", annotation = "... h^, h^ -> ... h^, ...", dtypes = "T, T -> T, A";
  static constexpr double flops_per_point = 4;
  static constexpr auto gradient(auto dy, auto y, auto x, auto scale) {
    return apply<rms_norm_gradient_op>(std::get<0>(dy), x, scale, std::get<1>(y));
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto const* scale = call.template input<1>();
    auto* y = call.template output<0>();
    auto* inverses = call.template output<1>();
    using A = std::remove_pointer_t<decltype(inverses)>;
    const std::size_t h = call.extent('h');
    const A epsilon = static_cast<A>(call.attribute(0));
    call.rows(call.rest(), [=](std::size_t row, auto const& team) {
      auto const* const in = x + row * h;
      auto* const out = y + row * h;
      const A square = sum_of(
                           team, h, [](auto v) { return A(v) * A(v); }, in) /
                       static_cast<A>(h);
      const A inverse = A(1) / math::sqrt(square + epsilon);
      each_of(
          team, h, [=](auto v, auto s) { return A(v) * inverse * A(s); }, out, in, scale);
      if (team.first()) inverses[row] = inverse;
    });
  }
};
namespace ops {
template <handle X, handle Scale> constexpr auto rms_norm(X x, Scale scale, double epsilon = 1e-5) {
  return detail::first_of(apply<rms_norm_op>(attributes{{epsilon}}, x, scale));
}
}  // namespace ops
using namespace ops;

}  // namespace partita
