// Another name for an axis: the same bytes, cut the same way.
#pragma once
#include <string_view>
#include <type_traits>

#include <partita/model/apply.hpp>
#include <partita/model/runs_kernel_of.hpp>
#include <partita/ops/annotation_text.hpp>
#include <partita/ops/axis_position.hpp>

namespace partita {

namespace mistake {
template <class...> struct renamed_axis_has_another_extent;
}

namespace detail {
inline constexpr std::string_view one_axis = "a";
}

template <class To, int At, int Trailing> struct rename_op : runs_kernel_of<detail::copy_whole_op> {
  static constexpr std::string_view name = "rename",
                                    annotation = detail::about_axes<detail::one_axis, detail::one_axis, Trailing>::text.view();
  static constexpr bool is_view = true, passes_partial = true;
  static constexpr double flops_per_point = 0;
  template <int O, int P> using output_axis = std::conditional_t<P == At, To, void>;
  static constexpr auto gradient(auto dy, auto, auto x) {
    return gradients{apply<rename_op<typename decltype(x)::like_type::template axis_at<At>, At, Trailing>>(dy)};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::copy_whole_op::kernel(call); }
};

namespace ops {
// `pt::rename<position, key_position>(x)`
template <class From, class To, handle X> constexpr auto rename(X x) {
  if constexpr (is_poison<X>) return x;
  else if constexpr (!detail::has_axis<rename_op<To, 0, 0>, From, X>()) return detail::poisoned(x);
  else if constexpr (From::extent != To::extent && From::extent != unbound && To::extent != unbound)
    return refuse<mistake::renamed_axis_has_another_extent<on_axis<&axis_of<From>::info>, on_axis<&axis_of<To>::info>>>(x);
  else {
    constexpr int trailing = detail::axes_after<From, X>();
    return apply<rename_op<To, X::rank - 1 - trailing, trailing>>(x);
  }
}
}  // namespace ops
using namespace ops;

}  // namespace partita
