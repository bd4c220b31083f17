// ZeRO (Rajbhandari et al. 2020): replicas of data parallelism share what they would all hold.
//   stage 1  each updates its part of every parameter and holds that part of the optimizer's state
//   stage 2  and receives that part of the gradient alone: a reduce-scatter in place of an all-reduce, for every micro-batch,
//            so that no gradient is whole any longer than it takes to send it
//   stage 3  and stores that part of the parameter alone; it is gathered shortly before its forward readers, and again
//            before its backward ones, for every micro-batch
// A gradient that is made in another type than it is summed in (bf16) is sent between replicas as it is made, and each
// converts the part that it receives: half the bytes. Only where it is summed over micro-batches first, in f32, the sum is
// sent. Compose it after all other policies: it cuts what they have left.
#pragma once
#include <partita/plan/resolve.hpp>
#include <partita/policy/letters.hpp>

namespace partita::policy {

namespace detail {
// Is a tensor made in pieces in time along an axis, or what is added up or converted to be it?
constexpr bool made_in_turns_along(plan_base const& plan, int tensor, int axis) {
  graph_data const& g = plan.graph();
  if (tensor < 0) return false;
  const int op = g.tensors[tensor].op;
  op_entry const& e = g.ops[op];
  if (e.when == pass::backward && (e.info->kind == "add" || e.info->kind == "cast")) {
    bool any = false;
    for (int i = 0; i < e.input_count; ++i) any = any || made_in_turns_along(plan, g.input(e, i), axis);
    return any;
  }
  const op_plan p = partita::detail::inherited(g, plan, op);
  const int letter = e.info->outputs[g.tensors[tensor].output].dims[axis];
  for (int c = 0; c < p.cut_count; ++c)
    if (p.cuts[c].dim == letter && p.cuts[c].pieces > 1 && !p.in_space(p.cuts[c].mode)) return true;
  return false;
}
// The axis of a parameter to cut that no plan has cut yet and that has enough elements: the first one, if its pieces come
// out about equal, since they are runs of memory then; else the longest. -1: there is none, or the devices of dimension
// `over` hold no replicas of the parameter but parts, as of an expert's. `whole`: one along which its gradient is not made in
// pieces in time, whose sums could not be kept in others.
constexpr int uncut_axis(plan_base const& plan, int op, int pieces, mode_name const& over, bool whole) {
  graph_data const& g = plan.graph();
  op_info const& f = *g.ops[op].info;
  if (is_cut_by(plan, op, over.view())) return -1;
  int best = -1;
  std::size_t most = 0;
  for (int d = 0; d < f.dim_count; ++d) {
    bool cut = false;
    for (int c = 0; c < plan.of(op).cut_count; ++c) cut = cut || plan.of(op).cuts[c].dim == d;
    const std::size_t extent = g.extent(f.dims[d].axis);
    for (int other = 0; other < f.dim_count; ++other)  // an axis that stands twice has no letter to name in the update
      cut = cut || (other != d && f.dims[other].axis->id == f.dims[d].axis->id);
    cut = cut || (whole && made_in_turns_along(plan, g.tensors[g.ops[op].first_output].gradient, d));
    if (cut || (extent != unbound && extent < static_cast<std::size_t>(pieces)) || (best >= 0 && extent <= most)) continue;
    best = d;
    most = extent;
    const std::size_t n = static_cast<std::size_t>(pieces);
    if (d == 0 && extent != unbound && (extent % n == 0 || extent >= 8 * n)) return d;
  }
  return best;
}
constexpr int uncut_axis(plan_base const& plan, int op, int pieces, mode_name const& over) {
  const int whole = uncut_axis(plan, op, pieces, over, true);
  return whole >= 0 ? whole : uncut_axis(plan, op, pieces, over, false);
}
// Is what the op makes a sum over pieces in time?
constexpr bool sums_in_turns(plan_base const& plan, int op) {
  graph_data const& g = plan.graph();
  const op_plan p = partita::detail::inherited(g, plan, op);
  for (int c = 0; c < p.cut_count; ++c)
    if (p.cuts[c].dim >= 0 && p.cuts[c].pieces > 1 && !p.in_space(p.cuts[c].mode) &&
        g.ops[op].info->outputs[0].find(p.cuts[c].dim) < 0)
      return true;
  return false;
}
// The parameter that an op converts to another type, or whose gradient it converts back; -1: none.
constexpr int parameter_converted_by(graph_data const& g, int op) {
  op_entry const &e = g.ops[op], &forward = g.ops[e.origin];
  if (e.info->kind != "cast" || forward.info->kind != "cast") return -1;
  const int of = g.tensors[g.input(forward, 0)].op;
  return g.ops[of].info->source == source_kind::parameter ? of : -1;
}
// Per parameter op: is its gradient made in another type than it is summed in, and sent in that one? Not, where it is to be
// `whole` of a sum over pieces in time.
constexpr growing<bool> gradients_sent_as_made(plan_base const& plan, bool whole, bool converted_first) {
  graph_data const& g = plan.graph();
  growing<bool> any, not_so;
  any.resize(g.ops.size);
  not_so.resize(g.ops.size);
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    const int of = e.when == pass::backward ? parameter_converted_by(g, op) : -1;
    if (of < 0) continue;
    any[of] = true;
    not_so[of] = not_so[of] || converted_first || (whole && sums_in_turns(plan, g.tensors[g.input(e, 0)].op));
  }
  for (int op = 0; op < g.ops.size; ++op) any[op] = any[op] && !not_so[op];
  return any;
}
}  // namespace detail

// `over`: the dimension whose devices are replicas of one another.
struct zero_of {
  int stage = 1, pieces = 1;
  mode_name over{"data"};
  bool whole_sums = false;       // stages 2, 3: gradients are summed over micro-batches first, and scattered once
  bool converted_first = false;  // gradients are sent in the type in which they are summed: twice the bytes, one rounding less
  constexpr void operator()(auto& plan) const {
    if (pieces == 1) return;
    graph_data const& g = plan.graph();
    growing<int> axis;  // per parameter op: the letter to cut
    for (int op = 0; op < g.ops.size; ++op)
      axis.push(g.ops[op].info->source == source_kind::parameter ? detail::uncut_axis(plan, op, pieces, over) : -1);
    auto add = [&](int op, int d) {
      dim const& x = g.ops[op].info->dims[d];
      plan.op_trans(op_ref{&g, op}, cut_axis{x.axis, pieces, over});
    };
    for (int op = 0; op < g.ops.size && stage >= 2 && !whole_sums; ++op)
      if (axis[op] >= 0) {
        node_selection sums = plan.accumulates(op_ref{&g, op});
        sums.named = false;  // without micro-batches there are none
        plan.op_trans(sums, cut_axis{g.ops[op].info->dims[axis[op]].axis, pieces, over});
      }
    // A parameter that is used in another type than it is stored in: stage 3 converts pieces and gathers those. Terms of its
    // gradient are converted in pieces too, and added in them.
    const growing<bool> in_pieces = detail::gradients_sent_as_made(plan, stage == 1 || whole_sums, converted_first);
    for (int op = 0; op < g.ops.size; ++op) {
      op_entry const& e = g.ops[op];
      const bool sum =
          e.when == pass::backward && e.info->kind == "add" && g.ops[e.origin].info->source == source_kind::parameter;
      const int of = sum ? e.origin : detail::parameter_converted_by(g, op);
      if (of < 0 || axis[of] < 0 || (e.when == pass::forward ? stage < 3 : !in_pieces[of])) continue;
      if (e.when == pass::backward) inherit(plan, op);
      for (int d = 0; d < e.info->dim_count && (stage < 3 || e.when == pass::forward); ++d)
        if (e.info->dims[d].axis->id == g.ops[of].info->dims[axis[of]].axis->id) add(op, d);
    }
    for (int op = 0; op < g.ops.size; ++op) {
      op_entry const& e = g.ops[op];
      if (stage >= 3) {
        if (axis[op] >= 0) {
          add(op, axis[op]);  // the update inherits
          plan.op_trans(op_ref{&g, op}, replicate{2, "fetch"});
        }
        continue;
      }
      if (e.when != pass::update || e.origin == op || axis[e.origin] < 0) continue;
      if (stage == 1 && e.info->kind == "square_sum" && !in_pieces[e.origin]) continue;
      for (int d = 0; d < e.info->dim_count; ++d)
        if (e.origin_dims[d] == axis[e.origin]) {
          inherit(plan, op);
          add(op, d);
          break;
        }
    }
  }
};
template <int Stage, int Pieces> struct zero {
  static_assert(Stage >= 1 && Stage <= 3);
  constexpr void operator()(auto& plan) const { zero_of{Stage, Pieces}(plan); }
};

}  // namespace partita::policy
