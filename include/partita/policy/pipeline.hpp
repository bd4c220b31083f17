// Pipeline parallelism: consecutive ops on stages of about equal work, the batch cut in time, a schedule.
#pragma once
#include <partita/policy/schedule.hpp>

namespace partita::policy {

namespace detail {
// The stage of every forward op. Boundaries stand where the work so far is nearest to an equal share, but a place with
// more bytes to send counts as farther: a 48th of a share for every time that it sends what the best place about there
// does. So stages end between blocks, inside which two to five times as much crosses, and not behind a large vocabulary.
constexpr growing<int> balanced_stages(graph_data const& g, int stages) {
  growing<int> position, stage;
  growing<double> work;  // forward FLOPs up to and including a position
  int length = 0;
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    int at = -1;
    if (e.when == pass::forward && e.info->source == source_kind::none) {
      double flops = e.info->flops_per_point;
      for (int d = 0; d < e.info->dim_count; ++d)
        if (const std::size_t n = g.extent(e.info->dims[d].axis); n != unbound) flops *= static_cast<double>(n);
      work.push((length > 0 ? work[length - 1] : 0) + flops);
      at = length++;
    }
    position.push(at);
    stage.push(0);
  }
  if (length == 0) return stage;
  const double total = work[length - 1];
  if (!(total > 0))
    for (int i = 0; i < length; ++i) work[i] = i + 1;
  const double share = work[length - 1] / stages;

  // Bytes alive across the boundary after each position.
  growing<double> crossing;
  for (int i = 0; i <= length; ++i) crossing.push(0);
  growing<int> last;
  for (int t = 0; t < g.tensors.size; ++t) last.push(-1);
  for (int op = 0; op < g.ops.size; ++op)
    if (position[op] >= 0)
      for (int i = 0; i < g.ops[op].input_count; ++i) {
        int& use = last[g.input(g.ops[op], i)];
        if (position[op] > use) use = position[op];
      }
  for (int t = 0; t < g.tensors.size; ++t) {
    const int made = position[g.tensors[t].op];
    if (made < 0 || last[t] <= made) continue;
    operand const& x = g.operand_of(t);
    double bytes = static_cast<double>(size_of(x.type));
    for (int a = 0; a < x.rank; ++a)
      if (const std::size_t n = g.extent(x.axes[a]); n != unbound) bytes *= static_cast<double>(n);
    crossing[made] += bytes;
    crossing[last[t]] -= bytes;
  }
  for (int i = 1; i < length; ++i) crossing[i] += crossing[i - 1];

  growing<int> ends;  // the last position of every stage but the last
  int from = 0;
  for (int s = 1; s < stages; ++s) {
    const double goal = share * s;
    int best = -1;
    auto away = [&](int i) { return (work[i] > goal ? work[i] - goal : goal - work[i]) / share; };
    double least = 0;
    for (int i = from; i < length - 1; ++i)
      if (away(i) < 0.75 && crossing[i] > 0 && (least == 0 || crossing[i] < least)) least = crossing[i];
    auto distance = [&](int i) { return away(i) + (least > 0 ? crossing[i] / least / 48 : 0); };
    for (int i = from; i < length - 1; ++i)
      if (best < 0 || distance(i) < distance(best)) best = i;
    if (best < 0) best = length - 1;  // more stages than ops: the rest is empty
    ends.push(best);
    from = best + 1;
  }
  for (int op = 0; op < g.ops.size; ++op)
    if (position[op] >= 0)
      while (stage[op] < stages - 1 && position[op] > ends[stage[op]]) ++stage[op];
  // A source stands where it is first read.
  growing<bool> known;
  for (int op = 0; op < g.ops.size; ++op) known.push(position[op] >= 0);
  for (int op = 0; op < g.ops.size; ++op)
    if (position[op] >= 0)
      for (int i = 0; i < g.ops[op].input_count; ++i) {
        const int source = g.tensors[g.input(g.ops[op], i)].op;
        if (!known[source]) {
          stage[source] = stage[op];
          known[source] = true;
        }
      }
  return stage;
}
}  // namespace detail

struct pipeline_of {
  int stages = 1, micro_batches = 1;
  void (*order)(plan_base&, int, int) = &schedule::one_f_one_b::order;
  constexpr void operator()(auto& plan) const {
    if (auto const* batch = plan.batch_axis()) plan.op_trans(plan.ops(), cut_axis{batch, micro_batches, mode_name("micro")});
    const growing<int> stage = detail::balanced_stages(plan.graph(), stages);
    for (auto op : plan.ops()) plan.op_assign(op, at{"stage", stage[op.id], stages});
    if (stages > 1 && micro_batches > 1) order(plan, stages, micro_batches);
  }
};
template <int Stages, class Schedule, int MicroBatches> struct pipeline {
  constexpr void operator()(auto& plan) const { pipeline_of{Stages, MicroBatches, &Schedule::order}(plan); }
};

}  // namespace partita::policy
