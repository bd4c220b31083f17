// Expert parallelism (GShard, Lepikhin et al. 2020): the devices of one dimension share the batch, as in data parallelism,
// and each holds a part of the experts. What is between dispatch and combine is cut along the experts, all else along the
// batch, so that tokens go to their experts, and back, by an all-to-all. Compose it after what else cuts the batch (data
// parallelism, micro-batches, pipelines): its pieces of the batch are then parts of theirs.
#pragma once
#include <partita/policy/letters.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::policy {

namespace detail {
// Ops of an expert, each on its own: all their operands have the axis, and one is a weight of an expert, with further axes,
// or what such an op made. (A router makes the axis of its tokens; what reads it, a softmax, keeps the axis whole or has
// no weight.) The weights count, too.
constexpr growing<bool> ops_of_experts(graph_data const& g, axis_info const* expert) {
  growing<bool> of;
  of.resize(g.ops.size);
  for (int op = 0; op < g.ops.size; ++op) of[op] = false;
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    op_info const& f = *e.info;
    if (e.when != pass::forward || f.source != source_kind::none || f.variadic) continue;
    const int letter = only_letter(f, expert);
    if (letter < 0) continue;
    bool all = true, one = false;
    for (int i = 0; i < e.input_count; ++i) {
      const int made_by = g.tensors[g.input(e, i)].op;
      all = all && f.input(i).find(letter) >= 0;
      one = one || of[made_by] || (g.ops[made_by].info->source == source_kind::parameter && f.input(i).rank > 1);
    }
    for (int o = 0; o < f.output_count; ++o) all = all && f.outputs[o].find(letter) >= 0;
    if (!all || !one) continue;
    of[op] = true;
    for (int i = 0; i < e.input_count; ++i)
      if (const int made_by = g.tensors[g.input(e, i)].op; g.ops[made_by].info->source == source_kind::parameter)
        of[made_by] = true;
  }
  return of;
}
}  // namespace detail

struct expert_parallel_of {
  int pieces = 1;
  axis_info const* expert = nullptr;
  constexpr void operator()(auto& plan) const {
    auto const* batch = plan.batch_axis();
    const growing<bool> of_experts = detail::ops_of_experts(plan.graph(), expert);
    for (auto op : plan.ops()) {
      if (of_experts[op.id]) plan.op_trans(op, cut_axis{expert, pieces, mode_name("expert")});
      else if (batch != nullptr && op.has(batch)) plan.op_trans(op, cut_axis{batch, pieces, mode_name("expert")});
    }
    plan.op_assign(plan.ops(), grid{{"expert", pieces}});
  }
};
template <int Pieces, class Expert> struct expert_parallel {
  constexpr void operator()(auto& plan) const { expert_parallel_of{Pieces, &axis_of<Expert>::info}(plan); }
};

}  // namespace partita::policy

#include <partita/core/end_planning_code.hpp>
