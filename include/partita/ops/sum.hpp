// Sums and means. `sum(x)` and `mean(x)` are over all axes; `sum_over<a, b>(x)` and `mean_over<a, b>(x)` over the
// named ones, one op an axis. All may be cut anywhere: a piece of a mean divides by the whole extent.
#pragma once
#include <partita/ops/axis_position.hpp>
#include <partita/ops/pointwise.hpp>
#include <partita/ops/row_blocks.hpp>

namespace partita {

namespace detail {
// x: ..., dy: the axes that are left -> dx: ... x is read by nobody and stands for its shape.
inline constexpr std::string_view spread_annotations[max_rank]{"... v, ... -> ... v",
                                                               "... v a, ... a -> ... v a",
                                                               "... v a b, ... a b -> ... v a b",
                                                               "... v a b c, ... a b c -> ... v a b c",
                                                               "... v a b c d, ... a b c d -> ... v a b c d",
                                                               "v a b c d e, a b c d e -> v a b c d e"};
inline constexpr std::string_view sum_annotations[max_rank]{"... v+ -> ...",
                                                            "... v+ a -> ... a",
                                                            "... v+ a b -> ... a b",
                                                            "... v+ a b c -> ... a b c",
                                                            "... v+ a b c d -> ... a b c d",
                                                            "v+ a b c d e -> a b c d e"};

template <class Call> PARTITA_HOST_DEVICE double whole_elements(Call const& call) {
  double n = 1;
  for (int d = 0; d < call.info().dim_count; ++d) n *= static_cast<double>(call.arguments().wholes[d]);
  return n;
}
}  // namespace detail

template <bool Mean> struct spread_all_op {  // x: ..., dy: scalar -> dx: ..., every element dy, or dy / elements
  static constexpr std::string_view name = Mean ? "mean.grad" : "sum.grad", annotation = "..., -> ...", dtypes = "T, A -> T";
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto* dx = call.template output<0>();
    using element = std::remove_pointer_t<decltype(dx)>;
    auto dy = call.scalar(call.template input<1>());
    if constexpr (Mean) dy /= static_cast<decltype(dy)>(detail::whole_elements(call));
    const element value = static_cast<element>(dy);
    each_of(
        call, call.size(), [=] { return value; }, dx);
  }
};
template <bool Mean> struct sum_all_op {
  static constexpr std::string_view name = Mean ? "mean" : "sum", annotation = "...+ ->", dtypes = "T -> A";
  static constexpr auto gradient(auto dy, auto, auto x) { return gradients{apply<spread_all_op<Mean>>(x, dy)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    using A = std::remove_pointer_t<decltype(y)>;
    A total = sum_of(
        call, call.size(), [](auto e) { return A(e); }, x);
    if constexpr (Mean) total /= static_cast<A>(detail::whole_elements(call));
    call.once([=] { *y = total; });
  }
};

template <int After, bool Mean> struct spread_axis_op {
  static constexpr std::string_view name = Mean ? "mean_over.grad" : "sum_over.grad",
                                    annotation = detail::spread_annotations[After];
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* dy = call.template input<1>();
    auto* dx = call.template output<0>();
    using element = std::remove_pointer_t<decltype(dx)>;
    using value = detail::compute_type<element>;
    const std::size_t v = call.extent('v'), inner = detail::around(call, 'v').inner;
    const value share = Mean ? value(1) / static_cast<value>(call.whole('v')) : value(1);
    call.rows(v == 0 ? 0 : call.size() / (v * inner), [=](std::size_t row, auto const& team) {
      element* const out = dx + row * v * inner;
      if constexpr (After == 0) {
        const element all = static_cast<element>(value(dy[row]) * share);
        each_of(
            team, v, [=] { return all; }, out);
      } else
        for (std::size_t line = 0; line < v; ++line)
          each_of(
              team, inner, [=](auto e) { return value(e) * share; }, out + line * inner, dy + row * inner);
    });
  }
};
template <int After, bool Mean> struct sum_axis_op {
  static constexpr std::string_view name = Mean ? "mean_over" : "sum_over", annotation = detail::sum_annotations[After];
  static constexpr auto gradient(auto dy, auto, auto x) { return gradients{apply<spread_axis_op<After, Mean>>(x, dy)}; }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    using element = std::remove_pointer_t<decltype(y)>;
    using value = detail::compute_type<element>;
    const std::size_t v = call.extent('v');
    const detail::outer_inner n = detail::around(call, 'v');
    const value share = Mean ? value(1) / static_cast<value>(call.whole('v')) : value(1);
    if constexpr (After == 0)
      call.rows(n.outer, [=](std::size_t row, auto const& team) {
        auto const* const in = x + row * v;
        const value total = sum_of(
            team, v, [](auto e) { return value(e); }, in);
        if (team.first()) y[row] = static_cast<element>(total * share);
      });
    else {
      value* const scratch = call.template scratch<value>();
      const detail::row_blocks blocks(v);
      call.rows(n.outer * blocks.count(), [=](std::size_t part, auto const& team) {
        const std::size_t b = part % blocks.count();
        auto const* const in = x + part / blocks.count() * v * n.inner;
        value* const sums = scratch + part * n.inner;
        each_of(
            team, n.inner, [] { return value(0); }, sums);
        for (std::size_t line = b * blocks.block; line < blocks.end(b); ++line)
          each_of(
              team, n.inner, [](value sum, auto e) { return sum + value(e); }, sums, sums, in + line * n.inner);
      });
      call.rows(n.outer, [=](std::size_t row, auto const& team) {
        element* const out = y + row * n.inner;
        if (blocks.count() == 0) {
          each_of(
              team, n.inner, [] { return value(0); }, out);
          return;
        }
        value* const sums = scratch + row * blocks.count() * n.inner;
        for (std::size_t b = 1; b < blocks.count(); ++b)
          each_of(
              team, n.inner, [](value sum, value part) { return sum + part; }, sums, sums, sums + b * n.inner);
        each_of(
            team, n.inner, [=](value sum) { return sum * share; }, out, sums);
      });
    }
  }
  template <class Shape> static std::size_t workspace(Shape const& s) {
    if constexpr (After == 0) return 0;
    const std::size_t v = s.extent('v'), lines = v < 1 ? 1 : v;
    std::size_t all = 1;
    for (int d = 0; d < s.info->dim_count; ++d) all *= s.extents[d];
    return all / lines * detail::row_blocks(v).count() * (s.element_size < sizeof(float) ? sizeof(float) : s.element_size);
  }
};

namespace detail {
template <bool Mean, class Axis, class... More, handle X> constexpr auto sum_over(X x) {
  if constexpr (is_poison<X>) return x;
  else if constexpr (!has_axis<sum_axis_op<0, Mean>, Axis, X>()) return poisoned(x);
  else {
    auto y = apply<sum_axis_op<axes_after<Axis, X>(), Mean>>(x);
    if constexpr (sizeof...(More) == 0) return y;
    else return sum_over<Mean, More...>(y);
  }
}
}  // namespace detail

namespace ops {
template <handle X> constexpr auto sum(X x) { return apply<sum_all_op<false>>(x); }
template <handle X> constexpr auto mean(X x) { return apply<sum_all_op<true>>(x); }
template <class Axis, class... More, handle X> constexpr auto sum_over(X x) { return detail::sum_over<false, Axis, More...>(x); }
template <class Axis, class... More, handle X> constexpr auto mean_over(X x) { return detail::sum_over<true, Axis, More...>(x); }
}  // namespace ops
using namespace ops;

}  // namespace partita
