// Recompute: which ops are run again together for backward readers.
#pragma once
#include <partita/plan/resolve.hpp>

namespace partita::detail {

struct regions {
  growing<int> of_op;  // per op: its region, or -1; empty when nothing is run again
  growing<int> entry;  // per region: the first backward op

  // Ops that one mode replicates, not laid out in space, and that stand on the same devices and in the same phases: what the
  // devices before send is kept, and what chunks before make, so that a stage of a pipeline does not wait for another one, or
  // for a later turn of its own, to run again.
  constexpr void find(graph_data const& g, plan_base const& plan) {
    bool any = false;
    for (int op = 0; op < g.ops.size && !any; ++op)
      for (int c = 0; c < plan.of(op).cut_count; ++c) any = any || plan.of(op).cuts[c].dim < 0;
    if (!any) return;
    struct place_and_mode {
      placement where;
      short mode = -1;
      int op = -1;  // the first
    };
    growing<place_and_mode> all;
    for (int op = 0; op < g.ops.size; ++op) {
      op_plan const& p = plan.of(op);
      short mode = -1;
      if (g.ops[op].when == pass::forward && g.ops[op].info->source == source_kind::none && !is_whole_in_time(g, op))
        for (int c = 0; c < p.cut_count; ++c) {
          if (p.cuts[c].dim < 0 && p.cuts[c].pieces > 1 && !p.in_space(p.cuts[c].mode)) mode = p.cuts[c].mode;
        }
      of_op.push(-1);
      if (mode < 0) continue;
      const placement where = place(plan, p);
      int r = all.size - 1;  // most ops are of the last one
      while (r >= 0 && !(all[r].mode == mode && all[r].where == where && same_phases(p, plan.of(all[r].op)))) --r;
      if (r < 0) {
        r = all.size;
        all.push({where, mode, op});
        entry.push(-1);
      }
      of_op.back() = r;
    }
    keep_what_parameters_make(g, plan);
    for (int op = g.ops.size - 1; op >= 0; --op)
      if (g.ops[op].when == pass::backward && of_op[g.ops[op].origin] >= 0) entry[of_op[g.ops[op].origin]] = op;
  }

 private:
  static constexpr bool same_phases(op_plan const& a, op_plan const& b) {
    if (a.phase_count != b.phase_count) return false;
    for (int i = 0; i < a.phase_count; ++i) {
      bool there = false;
      for (int k = 0; k < b.phase_count; ++k)
        there = there || (a.phases[i].mode == b.phases[k].mode && a.phases[i].index == b.phases[k].index);
      if (!there) return false;
    }
    return true;
  }
  // A cast or view of a parameter that all micro-batches share is not run again: it would wait for the gradients of all.
  constexpr void keep_what_parameters_make(graph_data const& g, plan_base const& plan) {
    growing<bool> in_turns;  // per region: some op is cut in time
    for (int r = 0; r < entry.size; ++r) in_turns.push(false);
    auto turns = [&](int op) {
      op_plan const& p = plan.of(op);
      for (int c = 0; c < p.cut_count; ++c) {
        if (p.cuts[c].dim >= 0 && p.cuts[c].pieces > 1 && !p.in_space(p.cuts[c].mode)) return true;
      }
      return false;
    };
    for (int op = 0; op < of_op.size; ++op)
      if (of_op[op] >= 0 && turns(op)) in_turns[of_op[op]] = true;
    growing<bool> of_parameters;
    for (int op = 0; op < of_op.size; ++op) {
      op_entry const& e = g.ops[op];
      bool all = e.info->source == source_kind::parameter || e.input_count > 0;
      for (int i = 0; i < e.input_count; ++i) all = all && of_parameters[g.tensors[g.input(e, i)].op];
      of_parameters.push(all);
      if (all && of_op[op] >= 0 && in_turns[of_op[op]] && !turns(op)) of_op[op] = -1;
    }
  }
};

}  // namespace partita::detail
