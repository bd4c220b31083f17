// Softmax over a named axis, which stays whole: y = exp(x - m) / sum exp(x - m), m the largest along the axis. Fast
// over the last axis; over another one the elements of a line lie apart.
#pragma once
#include <partita/ops/axis_position.hpp>
#include <partita/ops/pointwise.hpp>

namespace partita {

namespace detail {
// By how many axes follow the one that is summed over; with letters of their own they may be cut.
inline constexpr std::string_view softmax_annotations[max_rank]{"... v^ -> ... v^",
                                                                "... v^ a -> ... v^ a",
                                                                "... v^ a b -> ... v^ a b",
                                                                "... v^ a b c -> ... v^ a b c",
                                                                "... v^ a b c d -> ... v^ a b c d",
                                                                "v^ a b c d e -> v^ a b c d e"};
inline constexpr std::string_view softmax_gradient_annotations[max_rank]{"... v^, ... v^ -> ... v^",
                                                                         "... v^ a, ... v^ a -> ... v^ a",
                                                                         "... v^ a b, ... v^ a b -> ... v^ a b",
                                                                         "... v^ a b c, ... v^ a b c -> ... v^ a b c",
                                                                         "... v^ a b c d, ... v^ a b c d -> ... v^ a b c d",
                                                                         "v^ a b c d e, v^ a b c d e -> v^ a b c d e"};
}  // namespace detail

template <int After> struct softmax_gradient_op {  // dx = y (dy - sum dy y)
  static constexpr std::string_view name = "softmax.grad", annotation = detail::softmax_gradient_annotations[After];
  static constexpr double flops_per_point = 4;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* dy = call.template input<0>();
    auto const* y = call.template input<1>();
    auto* dx = call.template output<0>();
    using element = std::remove_pointer_t<decltype(dx)>;
    using value = detail::compute_type<element>;
    const std::size_t v = call.extent('v');
    detail::each_line<After>(call, [=](auto const& team, std::size_t begin, auto stride) {
      const value along = detail::sum_along(
          team, v, stride, [](auto d, auto p) { return value(d) * value(p); }, dy + begin, y + begin);
      detail::each_along(
          team, v, stride, [=](auto d, auto p) { return value(p) * (value(d) - along); }, dx + begin, dy + begin, y + begin);
    });
  }
};

template <int After> struct softmax_op {
  static constexpr std::string_view name = "softmax", annotation = detail::softmax_annotations[After];
  static constexpr double flops_per_point = 5;
  static constexpr auto gradient(auto dy, auto y, auto) { return gradients{apply<softmax_gradient_op<After>>(dy, y)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    using element = std::remove_pointer_t<decltype(y)>;
    using value = detail::compute_type<element>;
    const std::size_t v = call.extent('v');
    detail::each_line<After>(call, [=](auto const& team, std::size_t begin, auto stride) {
      auto const* const in = x + begin;
      element* const out = y + begin;
      const value most = detail::max_along(
          team, v, stride, [](auto e) { return value(e); }, in);
      if constexpr (std::is_same_v<element, value>) {
        detail::each_along(
            team, v, stride, [=](auto e) { return math::exp(e - most); }, out, in);
        const value inverse = value(1) / detail::sum_along(
                                             team, v, stride, [](auto e) { return e; }, out);
        detail::each_along(
            team, v, stride, [=](auto e) { return e * inverse; }, out, out);
      } else {  // from x again: the sum and the results are rounded once
        const value total = detail::sum_along(
            team, v, stride, [=](auto e) { return math::exp(value(e) - most); }, in);
        const value inverse = value(1) / total;
        detail::each_along(
            team, v, stride, [=](auto e) { return math::exp(value(e) - most) * inverse; }, out, in);
      }
    });
  }
};

namespace ops {
// `pt::softmax<key>(scores)`: the axes of x; along `Axis` the elements sum to 1.
template <class Axis, handle X> constexpr auto softmax(X x) {
  if constexpr (is_poison<X>) return x;
  else if constexpr (!detail::has_axis<softmax_op<0>, Axis, X>()) return detail::poisoned(x);
  else return apply<softmax_op<detail::axes_after<Axis, X>()>>(x);
}
}  // namespace ops
using namespace ops;

}  // namespace partita
