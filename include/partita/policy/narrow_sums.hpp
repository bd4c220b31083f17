// Sums of gradients over micro-batches in the type in which gradients are made (bf16), and not in the one in which they are
// stored (f32): as ZeRO's authors count them (Rajbhandari et al. 2020), two bytes each. That takes half the memory, and no
// time to convert terms, but every addition rounds to 8 bits: a plan may be farther from one device than twice what one device is
// from exact arithmetic.
#pragma once
#include <partita/plan/plan.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::policy {

struct narrow_sums {
  constexpr void operator()(auto& plan) const {
    graph_data const& g = plan.graph();
    for (int op = 0; op < g.ops.size; ++op) {
      op_entry const& e = g.ops[op];
      if (e.when != pass::backward || e.info->kind != "cast") continue;
      node_selection sum;  // where there is none, nothing is said
      sum.keys.push({between::accumulate, g.input(e, 0), -1});
      plan.op_order(sum, op_ref{&g, op});
    }
  }
};

}  // namespace partita::policy

#include <partita/core/end_planning_code.hpp>
