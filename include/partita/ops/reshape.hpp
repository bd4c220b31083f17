// Two axes as one, and one as two: the same bytes under other axes.
#pragma once
#include <string_view>
#include <type_traits>

#include <partita/model/apply.hpp>
#include <partita/model/runs_kernel_of.hpp>
#include <partita/ops/annotation_text.hpp>
#include <partita/ops/axis_position.hpp>

namespace partita {

namespace mistake {
template <class...> struct merged_axes_are_not_neighbours;
template <class...> struct one_axis_is_not_the_product_of_the_two;
}  // namespace mistake

namespace detail {
inline constexpr std::string_view two_axes = "a b", one_axis_of_two = "(a b)";
template <class First, class Second, class One> constexpr bool is_product() {
  constexpr std::size_t a = First::extent, b = Second::extent, one = One::extent;
  return a == unbound || b == unbound || one == unbound || a * b == one;
}
template <class First, class Second, class One> using wrong_product =
    mistake::one_axis_is_not_the_product_of_the_two<on_axis<&axis_of<One>::info>, on_axis<&axis_of<First>::info>,
                                                    on_axis<&axis_of<Second>::info>>;
}  // namespace detail

template <class First, class Second, int At, int Trailing> struct split_axis_op;

// x [..., First, Second, (Trailing axes)] -> [..., Merged, (...)]; Merged is axis number At. It is cut by the first of
// the two, in units of the second.
template <class Merged, int At, int Trailing> struct merge_op : runs_kernel_of<detail::copy_whole_op> {
  static constexpr std::string_view name = "merge",
                                    annotation =
                                        detail::about_axes<detail::two_axes, detail::one_axis_of_two, Trailing>::text.view();
  static constexpr bool is_view = true, passes_partial = true;
  static constexpr double flops_per_point = 0;
  template <int O, int P> using output_axis = std::conditional_t<P == At, Merged, void>;
  static constexpr auto gradient(auto dy, auto, auto x) {
    using like_type = typename decltype(x)::like_type;
    return gradients{apply<
        split_axis_op<typename like_type::template axis_at<At>, typename like_type::template axis_at<At + 1>, At, Trailing>>(dy)};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::copy_whole_op::kernel(call); }
};
// The inverse: axis number At becomes First and Second.
template <class First, class Second, int At, int Trailing> struct split_axis_op : runs_kernel_of<detail::copy_whole_op> {
  static constexpr std::string_view name = "split_axis",
                                    annotation =
                                        detail::about_axes<detail::one_axis_of_two, detail::two_axes, Trailing>::text.view();
  static constexpr bool is_view = true, passes_partial = true;
  static constexpr double flops_per_point = 0;
  template <int O, int P> using output_axis = std::conditional_t<P == At, First, std::conditional_t<P == At + 1, Second, void>>;
  static constexpr auto gradient(auto dy, auto, auto x) {
    return gradients{apply<merge_op<typename decltype(x)::like_type::template axis_at<At>, At, Trailing>>(dy)};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::copy_whole_op::kernel(call); }
};

namespace ops {
// [.., head, head_dim, ..] -> [.., hidden, ..]: `pt::merge<head, head_dim, hidden>(x)`
template <class First, class Second, class Merged, handle X> constexpr auto merge(X x) {
  if constexpr (is_poison<X>) return x;
  else if constexpr (!detail::has_axis<merge_op<Merged, 0, 0>, First, X>() ||
                     !detail::has_axis<merge_op<Merged, 0, 0>, Second, X>())
    return detail::poisoned(x);
  else {
    constexpr int trailing = detail::axes_after<Second, X>();
    if constexpr (detail::axes_after<First, X>() != trailing + 1)
      return refuse<mistake::merged_axes_are_not_neighbours<on_axis<&axis_of<First>::info>, on_axis<&axis_of<Second>::info>,
                                                            typename X::like_type>>(x);
    else if constexpr (!detail::is_product<First, Second, Merged>())
      return refuse<detail::wrong_product<First, Second, Merged>>(x);
    else return apply<merge_op<Merged, X::rank - 2 - trailing, trailing>>(x);
  }
}
// [.., hidden, ..] -> [.., head, head_dim, ..]: `pt::split_axis<hidden, head, head_dim>(x)`
template <class Axis, class First, class Second, handle X> constexpr auto split_axis(X x) {
  if constexpr (is_poison<X>) return x;
  else if constexpr (!detail::has_axis<split_axis_op<First, Second, 0, 0>, Axis, X>()) return detail::poisoned(x);
  else if constexpr (!detail::is_product<First, Second, Axis>()) return refuse<detail::wrong_product<First, Second, Axis>>(x);
  else {
    constexpr int trailing = detail::axes_after<Axis, X>();
    return apply<split_axis_op<First, Second, X::rank - 1 - trailing, trailing>>(x);
  }
}
}  // namespace ops
using namespace ops;

}  // namespace partita
