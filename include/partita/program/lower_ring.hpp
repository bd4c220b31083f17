// Moves round a ring as one rank's instructions: one neighbour a step.
#pragma once
#include <partita/program/builder.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

class ring_lowering {
 public:
  ring_lowering(lowering const& shared, program_builder& build, int rank) : s_(shared), build_(build), rank_(rank) {}

  // Step t: what the neighbour had at step t - 1; at step 0 one's own. `before`: this rank's piece of the step before.
  held pieces(instance const& of, held const& own, held const& before) {
    const stand at(s_, of, rank_);
    if (!at.here) return {};
    return at.step == 0 ? own : pass_on(at, before);
  }
  // Step t: what the neighbour has summed of a piece, and one's own of it; after the last step the sum has one more way to
  // go, to where the piece lies. `exclusive`: nobody else reads one's own.
  held sums(instance const& of, held const& own, held const& before, bool exclusive) {
    const stand at(s_, of, rank_);
    if (!at.here) return {};
    held sum = own;
    if (at.step > 0) {
      sum = pass_on(at, before);
      build_.copy(own, sum, at.x.type, lane::communication, of, true, reduction::sum);
    } else if (!exclusive) {
      sum = {build_.fresh(own.piece, at.x.type, at.tensor), own.piece};
      build_.copy(own, sum, at.x.type, lane::communication, of);
    }
    return at.step + 1 < at.steps ? sum : pass_on(at, sum, true);
  }

 private:
  struct stand {  // of a rank in a step
    instance const& of;
    node const& n;
    int tensor;
    operand const& x;
    bool here = false;
    position where;
    int step, steps, level = -1;
    stand(lowering const& s, instance const& i, int rank)
        : of(i),
          n(s.plan_completed().nodes[i.node]),
          tensor(s.plan_completed().values[n.first_value].tensor),
          x(s.graph().operand_of(tensor)),
          where(position_at(n.over.where, rank, n.time, i.index, here)) {
      completed const& c = s.plan_completed();
      layout const& turning = n.ring == ring_kind::pieces ? n.over : c.values[c.input(n, 0)].lay;
      const int m = n.time.find(n.ring_mode);
      step = where.index[m];
      steps = n.time.extents[m];
      for (int p = 0; p < turning.count; ++p)
        if (turning.parts[p].in_time() && turning.parts[p].mode == n.ring_mode) level = turning.parts[p].skew;
    }
    int neighbour(int by) const {
      int c[max_levels]{};
      for (int l = 0; l < n.over.where.rank; ++l) c[l] = where.coordinates[l];
      c[level] = skewed(c[level] + by, 0, n.over.where.extents[level]);
      return n.over.where.device(c);
    }
  };
  // Sends a piece to the next device and gets the one of the device before: the piece that this rank has in this step, or,
  // after the last, where the sum lies.
  held pass_on(stand const& at, held const& mine, bool last = false) {
    build_.step = last ? 1 : 0;
    completed const& c = s_.plan_completed();
    layout const& lies = last || at.n.ring == ring_kind::pieces ? at.n.over : c.values[c.input(at.n, 0)].lay;
    held arrived;
    arrived.piece = boxes_at(s_.graph(), at.x, lies, s_.sizes(), at.where);
    arrived.at = build_.fresh(arrived.piece, at.x.type, at.tensor);
    exchange_call call;
    const std::size_t size = size_of(at.x.type), sent = mine.piece.elements() * size, got = arrived.piece.elements() * size;
    const std::uint64_t tag = static_cast<std::uint64_t>(s_.instances().first[at.of.node] + at.of.index) << 24 | (last ? 1u : 0u);
    if (sent > 0) call.sends.push_back({at.neighbour(1), mine.at, sent, tag});
    if (got > 0) call.receives.push_back({at.neighbour(-1), arrived.at, got, tag});
    build_.exchange(std::move(call), at.x.type, at.of);
    return arrived;
  }

  lowering const& s_;
  program_builder& build_;
  int rank_;
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
