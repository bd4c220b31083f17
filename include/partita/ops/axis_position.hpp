// For ops over one axis that the caller names: where it stands, counted from the last.
#pragma once
#include <cstddef>
#include <string_view>
#include <type_traits>

#include <partita/core/host_device.hpp>
#include <partita/core/mistake.hpp>
#include <partita/core/packs.hpp>
#include <partita/model/tensor.hpp>

namespace partita {

namespace mistake {
template <class...> struct tensor_has_no_such_axis;
}

namespace detail {
// How many axes follow `Axis` in a tensor of this type; -1 when it is not there.
template <class Axis, class Tensor> constexpr int axes_after() {
  for (int i = 0; i < Tensor::rank; ++i)
    if (Tensor::infos[i]->id == axis_of<Axis>::info.id) return Tensor::rank - 1 - i;
  return -1;
}
// The same, or one compile error that names the op and the axis; then the result is a poisoned handle.
template <class Op, class Axis, class Tensor> constexpr bool has_axis() {
  if constexpr (axes_after<Axis, Tensor>() < 0) {
    (void)reject<mistake::tensor_has_no_such_axis<Op, on_axis<&axis_of<Axis>::info>, typename Tensor::like_type>>::value;
    return false;
  } else return true;
}
template <class Tensor> constexpr auto poisoned(Tensor x) {
  x.graph->poisoned = true;
  return poison<typename Tensor::graph_type>{x.graph};
}

// The product of the local extents of the letters after the axis `letter`, and of those before it.
struct outer_inner {
  std::size_t outer = 1, inner = 1;
};
template <class Call> PARTITA_HOST_DEVICE outer_inner around(Call const& call, char letter) {
  outer_inner n;
  bool after = false;
  op_info const& info = call.info();
  operand const& x = info.input(0);
  for (int a = 0; a < x.rank; ++a) {
    const dim d = info.dims[x.dims[a]];
    if (d.letter == letter) after = true;
    else (after ? n.inner : n.outer) *= call.arguments().extents[x.dims[a]];
  }
  return n;
}

// Calls f(team, begin, stride) for each line along the axis 'v' that `After` axes follow: element i of the line is
// begin + i * stride. The stride of the last axis is a constant, so that loops over it become vector code.
template <int After, class Call, class F> PARTITA_HOST_DEVICE void each_line(Call const& call, F f) {
  const std::size_t v = call.extent('v');
  if constexpr (After == 0)
    call.rows(call.rest(),
              [=](std::size_t row, auto const& team) { f(team, row * v, std::integral_constant<std::size_t, 1>{}); });
  else {
    const outer_inner n = around(call, 'v');
    call.rows(n.outer * n.inner,
              [=](std::size_t row, auto const& team) { f(team, row / n.inner * v * n.inner + row % n.inner, n.inner); });
  }
}

// The kernel of ops that name the axes of the same bytes anew.
struct copy_whole_op {
  static constexpr std::string_view name = "copy", annotation = "... -> ...";
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    each_of(
        call, call.size(), [](auto element) { return element; }, y, x);
  }
};

// As sum_of, max_of and each_of, over lines whose elements lie `stride` apart.
template <class Stride> inline constexpr bool is_dense = std::is_same_v<Stride, std::integral_constant<std::size_t, 1>>;
template <class Team, class Stride, class F, class... In>
PARTITA_HOST_DEVICE auto sum_along(Team const& team, std::size_t n, Stride stride, F f, In const*... in) {
  if constexpr (is_dense<Stride>) return sum_of(team, n, f, in...);
  else return team.sum(n, [=](std::size_t i) { return f(in[i * stride]...); });
}
template <class Team, class Stride, class F, class... In>
PARTITA_HOST_DEVICE auto max_along(Team const& team, std::size_t n, Stride stride, F f, In const*... in) {
  if constexpr (is_dense<Stride>) return max_of(team, n, f, in...);
  else return team.max(n, [=](std::size_t i) { return f(in[i * stride]...); });
}
template <class Team, class Stride, class F, class Out, class... In>
PARTITA_HOST_DEVICE void each_along(Team const& team, std::size_t n, Stride stride, F f, Out* out, In const*... in) {
  if constexpr (is_dense<Stride>) each_of(team, n, f, out, in...);
  else team.each(n, [=](std::size_t i) { out[i * stride] = static_cast<Out>(f(in[i * stride]...)); });
}

}  // namespace detail
}  // namespace partita
