// Tensor parallelism: weights are cut by column and by row in turn, the vocabulary too (Megatron-LM, Shoeybi et al. 2019).
#pragma once
#include <partita/plan/plan.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::policy {

namespace detail {
// Axes that one op with a parameter makes, another op sums, and no op keeps whole: the features between two linears,
// the heads between q, k, v and the output projection, the vocabulary; never the hidden axis, which a norm keeps whole,
// and none that an op has under two letters. Of two such axes in one op the one made first is taken: in a chain of
// linears every other one, so that weights are cut by column and by row in turn. `short_one`: is given the first that has
// fewer elements than there are pieces.
constexpr growing<axis_info const*> tensor_parallel_axes(graph_data const& g, int pieces, axis_info const** short_one = nullptr) {
  struct use {
    axis_info const* axis = nullptr;
    bool made = false, summed = false, whole = false, twice = false;
  };
  growing<use> uses;
  growing<int> order;  // as they are made
  auto of = [&](axis_info const* axis) {
    for (int u = 0; u < uses.size; ++u)
      if (uses[u].axis->id == axis->id) return u;
    uses.push({axis});
    return uses.size - 1;
  };
  auto is_parameter = [&](int tensor) {  // or what is read in its place: a cast of it
    while (g.tensors[tensor].stem >= 0 && g.ops[g.tensors[tensor].op].info->source == source_kind::none)
      tensor = g.input(g.ops[g.tensors[tensor].op], 0);
    return g.ops[g.tensors[tensor].op].info->source == source_kind::parameter;
  };
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    op_info const& f = *e.info;
    if (e.when != pass::forward || f.source != source_kind::none) continue;
    if (f.is_view) {  // makes and sums nothing, but two axes made one are cut by the first
      for (int d = 0; d < f.dim_count; ++d)
        if (f.dims[d].whole) uses[of(f.dims[d].axis)].whole = true;
      continue;
    }
    bool in_parameter[max_dims]{}, in_other[max_dims]{}, in_output[max_dims]{}, weighs = false, reads_data = false;
    for (int i = 0; i < e.input_count; ++i) {
      const bool parameter = is_parameter(g.input(e, i));
      weighs = weighs || (parameter && f.input(i).rank > 1);
      reads_data = reads_data || !parameter;
      for (int a = 0; a < f.input(i).rank; ++a) (parameter ? in_parameter : in_other)[f.input(i).dims[a]] = true;
    }
    if (!reads_data) continue;  // a parameter under another type makes nothing
    for (int o = 0; o < f.output_count; ++o)
      for (int a = 0; a < f.outputs[o].rank; ++a) in_output[f.outputs[o].dims[a]] = true;
    for (int d = 0; d < f.dim_count; ++d) {
      use& u = uses[of(f.dims[d].axis)];
      if (f.dims[d].whole) u.whole = true;
      for (int k = 0; k < d; ++k) u.twice = u.twice || f.dims[k].axis->id == u.axis->id;
      if (weighs && in_parameter[d] && !in_other[d] && in_output[d]) {
        if (!u.made) order.push(of(u.axis));
        u.made = true;
      }
      if (f.dims[d].summed && (weighs || !in_parameter[d]) && (in_parameter[d] || !in_output[d])) u.summed = true;
    }
  }
  growing<axis_info const*> found;
  auto shares_an_op = [&](axis_info const* axis) {
    for (op_entry const& e : g.ops) {
      if (e.when != pass::forward) continue;
      bool has = false, has_found = false;
      for (int d = 0; d < e.info->dim_count; ++d) {
        has = has || e.info->dims[d].axis->id == axis->id;
        for (int k = 0; k < found.size; ++k) has_found = has_found || e.info->dims[d].axis->id == found.at[k]->id;
      }
      if (has && has_found) return true;
    }
    return false;
  };
  for (int i : order) {
    use const& u = uses[i];
    const std::size_t extent = g.extent(u.axis);
    const bool fits = extent == unbound || extent >= static_cast<std::size_t>(pieces);
    if (!u.summed || u.whole || u.twice || shares_an_op(u.axis)) continue;
    if (fits) found.push(u.axis);
    else if (short_one != nullptr && *short_one == nullptr) *short_one = u.axis;
  }
  return found;
}
}  // namespace detail

struct tensor_parallel_of {
  int pieces = 1;
  constexpr void operator()(auto& plan) const {
    axis_info const* short_one = nullptr;
    for (axis_info const* axis : detail::tensor_parallel_axes(plan.graph(), pieces, &short_one))
      plan.op_trans(plan.with(axis), cut_axis{axis, pieces, mode_name("tensor")});
    if (short_one != nullptr)
      plan.advise(wrong::too_many_pieces, "tensor", short_one, pieces, static_cast<long>(plan.graph().extent(short_one)));
    plan.op_assign(plan.ops(), grid{{"tensor", pieces}});
  }
};
// An axis of fewer elements than pieces stays whole, on all of them; `plan.advice()` names it.
// `tensor_parallel<2>` finds the axes itself; `tensor_parallel<2, head, ffn>` cuts those named.
template <int Pieces, class... Axes> struct tensor_parallel {
  constexpr void operator()(auto& plan) const {
    if constexpr (sizeof...(Axes) == 0) tensor_parallel_of{Pieces}(plan);
    else {
      (plan.op_trans(plan.ops(named<Axes>()), split<Axes>{Pieces, "tensor"}), ...);
      plan.op_assign(plan.ops(), grid{{"tensor", Pieces}});
    }
  }
  template <class Axis> static constexpr with_axis<Axis> named() { return {}; }
};

}  // namespace partita::policy

#include <partita/core/end_planning_code.hpp>
