// Pipeline parallelism: consecutive ops on stages of about equal work, the batch cut in time, a schedule.
#pragma once
#include <type_traits>

#include <partita/core/mistake.hpp>
#include <partita/policy/schedule.hpp>
#include <partita/policy/stages.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::mistake {
template <class...> struct schedule_has_no_order_of_a_plan_and_two_numbers;
}

namespace partita::policy {

namespace detail {
// Is some mode along the batch in one op and beside it in another, as where tokens go to their experts? Those that arrive
// there are of all the devices' parts of the batch, and no micro-batch of one part is one of the whole.
constexpr bool exchanges_batch(plan_base const& plan, axis_info const* batch) {
  growing<bool> along, beside;
  along.resize(plan.modes().size);
  beside.resize(plan.modes().size);
  for (int m = 0; m < plan.modes().size; ++m) along[m] = beside[m] = false;
  for (op_ref op : plan.ops()) {
    if (!op.has(batch) || op.entry().info->source != source_kind::none) continue;
    op_plan const& p = plan.of(op.id);
    for (int c = 0; c < p.cut_count; ++c)
      if (p.cuts[c].dim >= 0 && p.cuts[c].pieces > 1)
        (op.entry().info->dims[p.cuts[c].dim].axis->id == batch->id ? along : beside)[p.cuts[c].mode] = true;
  }
  for (int m = 0; m < along.size; ++m)
    if (along[m] && beside[m]) return true;
  return false;
}
}  // namespace detail

// The model is cut into as many parts as there are chunks on all stages.
struct pipeline_of {
  int stages = 1, micro_batches = 1;
  schedule::recipe order = schedule::one_f_one_b{};
  constexpr void operator()(auto& plan) const {
    if (stages < 1) return plan.note_words("a pipeline has less than one stage", 0);
    if (micro_batches < 1) return plan.note_words("a pipeline has less than one micro-batch", 0);
    if (order.chunks < 1) return plan.note_words("a pipeline has less than one chunk on a stage", 0);
    if (auto const* batch = plan.batch_axis();
        batch != nullptr && stages > 1 && micro_batches > 1 && detail::exchanges_batch(plan, batch))
      return plan.note_words("a pipeline splits each device's part of the batch: compose expert_parallel and the like after it",
                             0);
    if (auto const* batch = plan.batch_axis()) plan.op_trans(plan.ops(), cut_axis{batch, micro_batches, mode_name("micro")});
    const int parts = stages * order.chunks;
    graph_data const& g = plan.graph();
    const selection all = plan.ops();
    growing<int> part;
    if (order.by_passes) {
      const growing<int> pass_of = detail::passes(g);
      part = detail::stages_of_passes(g, parts, pass_of);
      for (int id : all.ids) plan.op_assign(op_ref{&g, id}, phase{"pass", pass_of[id]});
    } else part = detail::balanced_stages(g, parts);
    selection mine{&g, {}, false};
    for (int k = 0; k < parts; ++k) {
      mine.ids.size = 0;
      for (int i = 0; i < all.ids.size; ++i)
        if (part[all.ids[i]] == k) mine.ids.push(all.ids[i]);
      plan.op_assign(mine, at{"stage", order.part_on(k, stages), stages});
      if (order.chunks > 1) plan.op_assign(mine, phase{"chunk", k / stages});
    }
    if (stages > 1 && (micro_batches > 1 || order.splits)) order(plan, stages, micro_batches);
  }
};
template <int Stages, class Schedule, int MicroBatches> struct pipeline {
  constexpr void operator()(auto& plan) const {
    if constexpr (!std::is_convertible_v<Schedule, schedule::recipe>) {
      (void)reject<mistake::schedule_has_no_order_of_a_plan_and_two_numbers<Schedule>>::value;
      plan.note(finding{wrong::model_is_rejected});  // one error is enough
    } else pipeline_of{Stages, MicroBatches, Schedule{}}(plan);
  }
};

}  // namespace partita::policy

#include <partita/core/end_planning_code.hpp>
