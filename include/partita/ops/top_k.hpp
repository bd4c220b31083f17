// The k largest elements along a named axis; the others become `otherwise`. Of equal elements the first counts as larger.
// After a softmax it keeps the k largest probabilities (Shazeer et al. 2017 for k > 1, Fedus et al. 2021 for k = 1);
// before one, with minus infinity for the others, it makes probabilities of k elements that sum to 1.
#pragma once
#include <partita/ops/softmax.hpp>

namespace partita {

namespace detail {
// Is element i of a line among its k largest? A number that is not one is, so that it is not hidden.
template <class T, class Stride>
PARTITA_HOST_DEVICE bool is_among_largest(T const* line, Stride stride, std::size_t v, std::size_t i, std::size_t k) {
  const T here = line[i * stride];
  std::size_t larger = 0;
  for (std::size_t j = 0; j < i; ++j) larger += line[j * stride] >= here ? 1 : 0;
  for (std::size_t j = i + 1; j < v; ++j) larger += line[j * stride] > here ? 1 : 0;
  return larger < k;
}
}  // namespace detail

template <int After> struct top_k_gradient_op {  // dy, x -> dx. Attribute 0: k.
  static constexpr std::string_view name = "top_k.grad", annotation = detail::softmax_gradient_annotations[After];
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* dy = call.template input<0>();
    auto const* x = call.template input<1>();
    auto* dx = call.template output<0>();
    using element = std::remove_pointer_t<decltype(dx)>;
    const std::size_t v = call.extent('v'), k = static_cast<std::size_t>(call.attribute(0));
    detail::each_line<After>(call, [=](auto const& team, std::size_t begin, auto stride) {
      team.each(v, [=](std::size_t i) {
        const std::size_t at = begin + i * stride;
        dx[at] = detail::is_among_largest(x + begin, stride, v, i, k) ? dy[at] : element(0);
      });
    });
  }
};
template <int After> struct top_k_op {  // x -> y. Attributes: k, the value of the others.
  static constexpr std::string_view name = "top_k", annotation = detail::softmax_annotations[After];
  static constexpr auto gradient(auto dy, auto y, auto x) {
    return gradients{apply<top_k_gradient_op<After>>(attributes{{y.attribute(0)}}, dy, x)};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    using element = std::remove_pointer_t<decltype(y)>;
    const std::size_t v = call.extent('v'), k = static_cast<std::size_t>(call.attribute(0));
    const element otherwise = static_cast<element>(call.attribute(1));
    detail::each_line<After>(call, [=](auto const& team, std::size_t begin, auto stride) {
      team.each(v, [=](std::size_t i) {
        const std::size_t at = begin + i * stride;
        y[at] = detail::is_among_largest(x + begin, stride, v, i, k) ? x[at] : otherwise;
      });
    });
  }
};

namespace ops {
// `pt::top_k<expert>(probabilities, 2)`: the axes of x.
template <class Axis, handle X> constexpr auto top_k(X x, std::size_t k, double otherwise = 0) {
  if constexpr (is_poison<X>) return x;
  else if constexpr (!detail::has_axis<top_k_op<0>, Axis, X>()) return detail::poisoned(x);
  else return apply<top_k_op<detail::axes_after<Axis, X>()>>(attributes{{static_cast<double>(k), otherwise}}, x);
}
}  // namespace ops
using namespace ops;

}  // namespace partita
