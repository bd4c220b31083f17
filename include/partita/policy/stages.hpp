// Which stage of a pipeline an op stands on: consecutive ops of about equal work; models of several passes.
#pragma once
#include <partita/plan/plan.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::policy {

namespace detail {
// The last position of every stage but the last, for work up to and including a position and bytes across its end.
constexpr growing<int> smallest_largest(growing<double> const& work, growing<double> const& crossing, int length, int stages) {
  const double share = work[length - 1] / stages;
  double usual = 0;  // half of the mean: what crosses between blocks, where most boundaries are inside of one
  int counted = 0;
  for (int i = 0; i + 1 < length; ++i)
    if (crossing[i] > 0) {
      usual += crossing[i];
      ++counted;
    }
  usual = counted > 0 ? usual / counted / 2 : 0;
  growing<double> sending;
  sending.reserve(length);
  for (int i = 0; i < length; ++i) sending.push(i + 1 < length && usual > 0 ? share / 48 * crossing[i] / usual : 0);
  auto before = [&](int from) { return from > 0 ? work[from - 1] : 0; };
  auto farthest = [&](int from, double bound) {  // the last place where a stage that begins here may end, or -1
    int best = -1;
    const double done = before(from), *const so_far = work.at, *const sent = sending.at;
    for (int i = from; i < length && so_far[i] - done <= bound; ++i)
      if (so_far[i] - done + sent[i] <= bound) best = i;
    return best;
  };
  auto fits = [&](double bound) {
    int from = 0;
    for (int s = 0; s < stages; ++s) {
      const int end = farthest(from, bound);
      if (end < 0) return false;
      if (end == length - 1) return true;
      from = end + 1;
    }
    return false;
  };
  double low = 0, high = 2 * work[length - 1];
  for (int k = 0; k < 40; ++k) (fits((low + high) / 2) ? high : low) = (low + high) / 2;
  const double bound = high;
  growing<int> earliest;  // from the back: where stage s may begin for the rest to fit
  earliest.resize(stages + 1);
  earliest[stages] = length;
  for (int s = stages - 1; s >= 0; --s) {
    const int end = earliest[s + 1] - 1;
    int from = end + 1;
    while (from > 0 && end >= 0 && work[end] - before(from - 1) + sending[end] <= bound) --from;
    earliest[s] = from;
  }
  growing<int> ends;
  int from = 0;
  for (int s = 0; s + 1 < stages; ++s) {
    int best = -1;
    double least = 0;
    const double goal = before(from) + (work[length - 1] - before(from)) / (stages - s);
    for (int i = from; i < length && work[i] - before(from) <= bound; ++i) {
      if (i + 1 < earliest[s + 1] || work[i] - before(from) + sending[i] > bound) continue;
      const double away = (work[i] > goal ? work[i] - goal : goal - work[i]) + sending[i];
      if (best < 0 || away < least) {
        best = i;
        least = away;
      }
    }
    if (best < 0) best = from < length ? farthest(from, bound) : length - 1;  // more stages than ops: the rest is empty
    if (best < 0) best = from;
    ends.push(best);
    from = best + 1;
  }
  return ends;
}
// The stage of every forward op: the largest stage is as small as consecutive ops allow, and among such partitions each
// boundary stands nearest to an equal share of what is left. `counted`, where it is given, says which ops count; the others
// are on stage 0. A boundary counts as work, a 48th of a share for every time
// that it sends what a usual one does, so that stages end between blocks, inside which two to five times as much crosses.
constexpr growing<int> balanced_stages(graph_data const& g, int stages, growing<bool> const& counted = {}) {
  growing<int> position, stage;  // read through `at`: a call costs constant evaluation more than the access
  position.append(g.ops.size, -1);
  stage.append(g.ops.size, 0);
  growing<double> work;  // forward FLOPs up to and including a position
  int length = 0;
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops.at[op];
    if (e.when == pass::forward && e.info->source == source_kind::none && (counted.size == 0 || counted[op])) {
      double flops = e.info->flops_per_point;
      for (int d = 0; d < e.info->dim_count; ++d)
        if (const std::size_t n = g.extent(e.info->dims[d].axis); n != unbound) flops *= static_cast<double>(n);
      work.push((length > 0 ? work[length - 1] : 0) + flops);
      position.at[op] = length++;
    }
  }
  if (length == 0) return stage;
  const double total = work[length - 1];
  if (!(total > 0))
    for (int i = 0; i < length; ++i) work[i] = i + 1;

  // Bytes alive across the boundary after each position.
  growing<double> crossing;
  crossing.append(length + 1, 0);
  growing<int> last;
  last.append(g.tensors.size, -1);
  for (int op = 0; op < g.ops.size; ++op)
    if (const int here = position.at[op]; here >= 0) {
      op_entry const& e = g.ops.at[op];
      for (int i = 0; i < e.input_count; ++i) {
        int& use = last.at[g.edges.at[e.first_input + i]];
        if (here > use) use = here;
      }
    }
  for (int t = 0; t < g.tensors.size; ++t) {
    const int made = position.at[g.tensors.at[t].op];
    if (made < 0 || last.at[t] <= made) continue;
    operand const& x = g.operand_of(t);
    double bytes = static_cast<double>(size_of(x.type));
    for (int a = 0; a < x.rank; ++a)
      if (const std::size_t n = g.extent(x.axes[a]); n != unbound) bytes *= static_cast<double>(n);
    crossing[made] += bytes;
    crossing[last.at[t]] -= bytes;
  }
  for (int i = 1; i < length; ++i) crossing[i] += crossing[i - 1];

  const growing<int> ends = smallest_largest(work, crossing, length, stages);
  for (int op = 0; op < g.ops.size; ++op)
    if (const int here = position.at[op]; here >= 0)
      while (stage.at[op] < stages - 1 && here > ends.at[stage.at[op]]) ++stage.at[op];
  // A source stands where it is first read.
  growing<bool> known;
  known.resize(g.ops.size);
  for (int op = 0; op < g.ops.size; ++op) {
    if (position.at[op] < 0) continue;
    op_entry const& e = g.ops.at[op];
    for (int i = 0; i < e.input_count; ++i) {
      const int source = g.tensors.at[g.edges.at[e.first_input + i]].op;
      if (known.at[source] || g.ops.at[source].info->source == source_kind::none) continue;
      stage.at[source] = stage.at[op];
      known.at[source] = true;
    }
  }
  return stage;
}

// The pass of every forward op: how many times on the way to it the gradient was stopped (ops/detach.hpp), but no more than
// on the way to anything that has a gradient.
constexpr growing<int> passes(graph_data const& g) {
  growing<int> pass_of;
  int last = 0;
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    int p = 0;
    if (e.when == pass::forward)
      for (int i = 0; i < e.input_count; ++i) {
        const int maker = g.tensors[g.input(e, i)].op, after = pass_of[maker] + g.ops[maker].info->stops_gradient;
        p = after > p ? after : p;
      }
    else if (e.when == pass::backward && pass_of[e.origin] > last) last = pass_of[e.origin];
    pass_of.push(p);
  }
  for (int& p : pass_of) p = p < last ? p : last;
  return pass_of;
}
// Stages of a model of several passes: the ops of the last pass and all that have a gradient are dealt out as if they were
// the model; an op of a pass without gradient stands where its parameters do, or else where what it reads was made, and
// never before that.
constexpr growing<int> stages_of_passes(graph_data const& g, int stages, growing<int> const& pass_of) {
  int last = 0;
  growing<bool> counted, of_parameters;
  for (int op = 0; op < g.ops.size; ++op) {
    last = pass_of[op] > last ? pass_of[op] : last;
    counted.push(false);
    if (g.ops[op].when == pass::backward) counted[g.ops[op].origin] = true;
  }
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    counted[op] = counted[op] || pass_of[op] == last;
    bool all = e.info->source == source_kind::parameter || (e.info->source == source_kind::none && e.input_count > 0);
    for (int i = 0; i < e.input_count; ++i) all = all && of_parameters[g.tensors[g.input(e, i)].op];
    of_parameters.push(all);
  }
  growing<int> stage = balanced_stages(g, stages, counted);
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    if (e.when != pass::forward || e.info->source != source_kind::none || counted[op]) continue;
    for (int i = 0; i < e.input_count; ++i) {
      const int maker = g.tensors[g.input(e, i)].op;
      const bool here = of_parameters[maker] || (g.ops[maker].info->source == source_kind::none && pass_of[maker] == pass_of[op]);
      if (here && stage[maker] > stage[op]) stage[op] = stage[maker];
    }
  }
  return stage;
}
}  // namespace detail

}  // namespace partita::policy

#include <partita/core/end_planning_code.hpp>
