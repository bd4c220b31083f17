// Context parallelism by head exchange (DeepSpeed-Ulysses, Jacobs et al. 2023): every op is cut along the sequence; those
// that read the sequence twice, as attention does, along the heads instead, with all-to-alls before and after.
#pragma once
#include <partita/policy/sequence_parallel.hpp>

namespace partita::policy {

struct context_parallel_of {
  int pieces = 1;
  axis_info const* sequence = nullptr;
  axis_info const* head = nullptr;
  constexpr void operator()(auto& plan) const {
    axis_info const* along = sequence != nullptr ? sequence : detail::sequence_axis(plan.graph());
    for (auto op : plan.ops()) {
      op_info const& f = *op.entry().info;
      if (along != nullptr && detail::only_letter(f, along) >= 0)
        plan.op_trans(op, cut_axis{along, pieces, mode_name("context")});
      else if (head != nullptr && f.source == source_kind::none && op.has(along) && detail::only_letter(f, head) >= 0)
        plan.op_trans(op, cut_axis{head, pieces, mode_name("context")});
    }
    plan.op_assign(plan.ops(), grid{{"context", pieces}});
  }
};
template <int Pieces, class Sequence, class Head> struct context_parallel {
  constexpr void operator()(auto& plan) const {
    context_parallel_of{Pieces, &axis_of<Sequence>::info, &axis_of<Head>::info}(plan);
  }
};

}  // namespace partita::policy
