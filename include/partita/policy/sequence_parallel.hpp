// Sequence parallelism (Korthikanti et al. 2022): what tensor parallelism leaves whole (norms, dropout, residuals, the
// loss) is cut along the sequence over the same devices. The sums between become reduce-scatters, and all-gathers bring
// the sequence together where weights are cut. Compose it after tensor_parallel.
#pragma once
#include <type_traits>

#include <partita/policy/letters.hpp>

namespace partita::policy {

namespace detail {
// By convention the second axis of the first input that has two.
constexpr axis_info const* sequence_axis(graph_data const& g) {
  for (int op = 0; op < g.ops.size; ++op)
    if (op_info const& f = *g.ops[op].info; f.source == source_kind::input && f.dim_count > 1) return f.dims[1].axis;
  return nullptr;
}
}  // namespace detail

// `over`: the dimension whose devices share a sequence.
struct sequence_parallel_of {
  int pieces = 1;
  axis_info const* axis = nullptr;
  mode_name over{"tensor"};
  bool gather_again = false;  // for the gradients of weights, as the authors do; else what was gathered is kept
  constexpr void operator()(auto& plan) const {
    axis_info const* sequence = axis != nullptr ? axis : detail::sequence_axis(plan.graph());
    if (sequence == nullptr || pieces == 1) return;
    for (auto op : plan.ops()) {
      op_info const& f = *op.entry().info;
      if (f.source == source_kind::input || detail::only_letter(f, sequence) < 0) continue;
      if (detail::is_cut_by(plan, op.id, over.view())) continue;
      plan.op_trans(op, cut_axis{sequence, pieces, over});
      if (gather_again && f.source == source_kind::none) plan.op_trans(plan.moves(op), replicate{2, "gather"});
    }
  }
};
template <int Pieces, class Axis = void, bool GatherAgain = false> struct sequence_parallel {
  constexpr void operator()(auto& plan) const {
    sequence_parallel_of how{.pieces = Pieces, .gather_again = GatherAgain};
    if constexpr (!std::is_void_v<Axis>) how.axis = &axis_of<Axis>::info;
    how(plan);
  }
};

}  // namespace partita::policy
