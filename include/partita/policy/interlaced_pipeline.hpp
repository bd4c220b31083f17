// The interlaced pipeline (Lin et al. 2024, for mBART): a vocabulary so large that its table would fill a stage is spread
// over the devices of all stages. What works on it runs on all of them at once, between the turns of a 1F1B pipeline of all
// the rest.
#pragma once
#include <type_traits>

#include <partita/policy/interlaced_order.hpp>
#include <partita/policy/stages.hpp>
#include <partita/policy/tensor_parallel.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::policy {

namespace detail {
// Of the axes that tensor parallelism may cut, the one that the largest parameter has, its longest; nullptr: there is none. (The
// features of many layers may be more in all, but they are spread over the stages as it is.)
constexpr axis_info const* heaviest_axis(graph_data const& g, int pieces) {
  axis_info const* best = nullptr;
  double most = 0;
  for (axis_info const* axis : tensor_parallel_axes(g, pieces)) {
    double largest = 0;  // elements
    for (int op = 0; op < g.ops.size; ++op) {
      if (g.ops[op].info->source != source_kind::parameter || !op_ref{&g, op}.has(axis)) continue;
      double n = 1;
      for (int d = 0; d < g.ops[op].info->dim_count; ++d)
        if (const std::size_t e = g.extent(g.ops[op].info->dims[d].axis); e != unbound) n *= static_cast<double>(e);
      if (n > largest) largest = n;
    }
    if (best == nullptr || largest > most || (largest == most && g.extent(axis) > g.extent(best))) best = axis;
    most = best == axis ? largest : most;
  }
  return best;
}
// Places of forward ops along the way of a micro-batch through p stages: 2 s + 1 for what stands on stage s, 2 k for what is
// spread over all of them between stages k - 1 and k.
constexpr growing<int> interlaced_places(graph_data const& g, int stages, axis_info const* axis) {
  growing<bool> spread, alone;
  for (int op = 0; op < g.ops.size; ++op) {
    spread.push(g.ops[op].when == pass::forward && op_ref{&g, op}.has(axis));
    alone.push(!spread[op]);
  }
  const growing<int> stage = balanced_stages(g, stages, alone);
  growing<int> place;
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    int earliest = 0;
    if (e.when == pass::forward)
      for (int i = 0; i < e.input_count; ++i)
        if (const int maker = g.tensors[g.input(e, i)].op;
            g.ops[maker].info->source == source_kind::none && place[maker] > earliest)
          earliest = place[maker];
    if (spread[op]) place.push((earliest + 1) / 2 * 2);
    else {  // what follows the last spread ops has no stage left: all devices do it
      const int own = 2 * stage[op] + 1, at = earliest > own ? earliest / 2 * 2 + 1 : own;
      place.push(at < 2 * stages ? at : 2 * stages);
    }
  }
  // A source stands where it is first read.
  growing<bool> read;
  read.resize(g.ops.size);
  for (int op = 0; op < g.ops.size; ++op)
    if (g.ops[op].when == pass::forward && g.ops[op].info->source == source_kind::none)
      for (int i = 0; i < g.ops[op].input_count; ++i)
        if (const int maker = g.tensors[g.input(g.ops[op], i)].op; !read[maker]) {
          read[maker] = true;
          if (g.ops[maker].info->source != source_kind::none && !spread[maker]) place[maker] = place[op];
        }
  return place;
}
}  // namespace detail

// `axis`: of the vocabulary; nullptr: of the axes that tensor parallelism would cut, the one with most parameters. Stages take
// turns as in 1F1B, and stage s of p holds at most p - s micro-batches. `in_step`: all stages run forwards in one slot and
// backwards in the next; stage s holds at most 2 (p - s) - 1, and nobody waits for a slot's end where a backward turn is
// longer than a forward one (recompute): a step takes m + p - 1 of each and what is spread.
struct interlaced_pipeline_of {
  int stages = 1, micro_batches = 1;
  axis_info const* axis = nullptr;
  bool in_step = false;
  constexpr void operator()(auto& plan) const {
    if (stages < 1) return plan.note_words("a pipeline has less than one stage", 0);
    if (micro_batches < 1) return plan.note_words("a pipeline has less than one micro-batch", 0);
    graph_data const& g = plan.graph();
    axis_info const* wide = axis != nullptr ? axis : detail::heaviest_axis(g, stages);
    if (wide == nullptr) return plan.note_words("an interlaced pipeline finds no axis to spread: name it", 0);
    if (auto const* batch = plan.batch_axis()) plan.op_trans(plan.ops(), cut_axis{batch, micro_batches, mode_name("micro")});
    plan.op_trans(plan.with(wide), cut_axis{wide, stages, mode_name("stage")});
    const growing<int> place = detail::interlaced_places(g, stages, wide);
    const selection all = plan.ops();
    selection mine{&g, {}, false};
    for (int at_place = 0; at_place <= 2 * stages; ++at_place) {
      mine.ids.size = 0;
      for (int id : all.ids)
        if (place[id] == at_place) mine.ids.push(id);
      if (at_place % 2 != 0) plan.op_assign(mine, at{"stage", at_place / 2, stages});
      else {
        plan.op_assign(mine, grid{{"stage", stages}});
        plan.op_assign(mine, phase{"spread", at_place / 2});
      }
    }
    if (stages > 1 && micro_batches > 1) detail::order_interlaced(plan, stages, micro_batches, in_step);
  }
};
template <int Stages, int MicroBatches, class Axis = void, bool InStep = false> struct interlaced_pipeline {
  constexpr void operator()(auto& plan) const {
    if constexpr (std::is_void_v<Axis>) interlaced_pipeline_of{Stages, MicroBatches, nullptr, InStep}(plan);
    else interlaced_pipeline_of{Stages, MicroBatches, &axis_of<Axis>::info, InStep}(plan);
  }
};

}  // namespace partita::policy

#include <partita/core/end_planning_code.hpp>
