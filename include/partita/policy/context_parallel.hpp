// Context parallelism: every op is cut along the sequence. Those that read the sequence twice, as attention does, are either
// cut along the heads instead, with all-to-alls before and after (head exchange: DeepSpeed-Ulysses, Jacobs et al. 2023), or
// get the keys from the neighbour, one piece a step (ring attention: Liu et al. 2023).
#pragma once
#include <partita/policy/sequence_parallel.hpp>

namespace partita::policy {

enum class ring_form {
  none,
  plain,
  folded  // for causal attention: every device has an early and a late part of the sequence, and as much to do
};

namespace detail {
// The letters of an op under which it reads an axis twice: queries, which it keeps, and keys, which it merges.
struct two_letters {
  int kept = -1, merged = -1;
};
constexpr two_letters kept_and_merged(op_info const& f, axis_info const* axis) {
  two_letters r;
  for (int d = 0; d < f.dim_count; ++d)
    if (f.dims[d].axis->id == axis->id) (f.dims[d].merged ? r.merged : r.kept) = f.dims[d].whole && !f.dims[d].merged ? -1 : d;
  return r;
}
}  // namespace detail

struct context_parallel_of {
  int pieces = 1;
  axis_info const* sequence = nullptr;
  axis_info const* head = nullptr;
  ring_form ring = ring_form::none;
  constexpr void operator()(auto& plan) const {
    axis_info const* along = sequence != nullptr ? sequence : detail::sequence_axis(plan.graph());
    auto cut = [&](axis_info const* axis, std::string_view mode, char letter = 0) {
      cut_axis c{axis, pieces, mode_name(mode), letter};
      c.fold = axis == along && ring == ring_form::folded;
      return c;
    };
    for (auto op : plan.ops()) {
      op_info const& f = *op.entry().info;
      if (along == nullptr) continue;
      if (detail::only_letter(f, along) >= 0) {
        plan.op_trans(op, cut(along, "context"));
        continue;
      }
      const detail::two_letters twice = detail::kept_and_merged(f, along);
      if (ring != ring_form::none && twice.kept >= 0 && twice.merged >= 0) {
        plan.op_trans(op, cut(along, "context", f.dims[twice.kept].letter));
        plan.op_trans(op, skewed(cut(along, "ring", f.dims[twice.merged].letter), "context"));
      } else if (head != nullptr && f.source == source_kind::none && op.has(along) && detail::only_letter(f, head) >= 0)
        plan.op_trans(op, cut(head, "context"));
    }
    plan.op_assign(plan.ops(), grid{{"context", pieces}});
  }
};
template <int Pieces, class Sequence, class Head> struct context_parallel {
  constexpr void operator()(auto& plan) const {
    context_parallel_of{Pieces, &axis_of<Sequence>::info, &axis_of<Head>::info}(plan);
  }
};
template <int Pieces, class Sequence, ring_form Form = ring_form::plain> struct ring_attention {
  constexpr void operator()(auto& plan) const { context_parallel_of{Pieces, &axis_of<Sequence>::info, nullptr, Form}(plan); }
};

}  // namespace partita::policy
