// ZeRO (Rajbhandari et al. 2020): replicas of data parallelism share what they would all hold.
//   stage 1  each updates its part of every parameter and holds that part of the optimizer's state; of a gradient that is
//            made in another type it receives, and converts, that part of the sum
//   stage 2  and receives that part of the gradient alone: a reduce-scatter in place of an all-reduce, for every micro-batch,
//            so that no gradient is whole any longer than it takes to send it
//   stage 3  and stores that part of the parameter alone; it is gathered shortly before its forward readers, and again
//            before its backward ones, for every micro-batch
// Compose it after all other policies: it cuts what they have left.
#pragma once
#include <partita/plan/resolve.hpp>
#include <partita/policy/letters.hpp>

namespace partita::policy {

namespace detail {
// The axis of a parameter to cut that no plan has cut yet and that has enough elements: the first one, if its pieces come
// out about equal, since they are runs of memory then; else the longest. -1: there is none, or the devices of dimension
// `over` hold no replicas of the parameter but parts, as of an expert's.
constexpr int uncut_axis(plan_base const& plan, int op, int pieces, mode_name const& over) {
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
    if (cut || (extent != unbound && extent < static_cast<std::size_t>(pieces)) || (best >= 0 && extent <= most)) continue;
    best = d;
    most = extent;
    const std::size_t n = static_cast<std::size_t>(pieces);
    if (d == 0 && extent != unbound && (extent % n == 0 || extent >= 8 * n)) return d;
  }
  return best;
}
}  // namespace detail

// `over`: the dimension whose devices are replicas of one another.
struct zero_of {
  int stage = 1, pieces = 1;
  mode_name over{"data"};
  bool whole_sums = false;  // stages 2, 3: gradients are summed over micro-batches first, and scattered once
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
    // A parameter that is used in another type than it is stored in: stage 3 converts pieces and gathers those; the gradient's
    // sum is received in pieces before it is converted.
    growing<bool> converted;  // per parameter op: its gradient is, in pieces
    converted.resize(axis.size);
    for (int op = 0; op < g.ops.size; ++op) {
      op_entry const& e = g.ops[op];
      if (e.info->kind != "cast" || e.when != (stage >= 3 ? pass::forward : pass::backward)) continue;
      int of = stage >= 3 ? g.tensors[g.input(e, 0)].op : 0;
      for (; stage <= 2 && of < axis.size; ++of)
        if (axis[of] >= 0 && g.tensors[g.ops[of].first_output].gradient == e.first_output) break;
      if (of >= axis.size || axis[of] < 0) continue;
      if (stage <= 2) inherit(plan, op);
      for (int d = 0; d < e.info->dim_count; ++d)
        if (e.info->dims[d].axis->id == g.ops[of].info->dims[axis[of]].axis->id) add(op, d);
      converted[of] = true;
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
      if (stage == 1 && e.info->kind == "square_sum" && !converted[e.origin]) continue;
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
