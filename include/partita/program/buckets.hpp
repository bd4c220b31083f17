// Which moves may be made as one: the same collective of the same group and type, of gradients or of what is read at once.
#pragma once
#include <cstdint>

#include <partita/core/list.hpp>
#include <partita/layout/route.hpp>
#include <partita/plan/completed.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {
inline constexpr double usual_bucket_bytes = 25 * 1024 * 1024.0;
}

namespace partita::detail {

// Moves that wait for a lane at the same time are joined: a bucket costs one latency. So nothing waits for a bucket to be
// full, but up to one latency for gradients that are about to be there; a longer wait costs more than it saves (Shi, Chu,
// Li, MG-WFBP, INFOCOM 2019). What the update alone reads is joined up to `most` bytes. What an op reads is joined only by
// moves that take less than a latency beside their own, and where the op waits for nothing else by no more than one latency
// of them together.
struct bucketing {
  list<int> kind;      // per node: moves of one kind may be joined; negative: alone
  list<bool> patient;  // per node: only the update reads it
  list<double> bytes;  // per node: of a device's piece
  double most = 0;
  std::int64_t latency = 0;  // ticks

  bool joins(int node) const { return !kind.empty() && kind[static_cast<std::size_t>(node)] >= 0; }
};

// The one collective of a route that may be joined with others, and nothing but slices after it; else null.
inline transition_step const* collective_of(route const& way) {
  for (int s = 1; s < way.steps.size; ++s)
    if (way.steps[s].kind != transition_kind::slice) return nullptr;
  if (way.steps.size == 0 || way.steps[0].kind > transition_kind::all_gather) return nullptr;
  return &way.steps[0];
}
inline reduction reduction_of(layout const& l, unsigned levels) {
  for (int p = 0; p < l.count; ++p)
    if (part const& x = l.parts[p]; x.partial() && x.level >= 0 && levels >> x.level & 1) return x.reduce;
  return reduction::sum;
}

// Per node: does no op but those of the update read what it makes?
inline list<bool> read_by_no_other_than_updates(graph_data const& g, completed const& c) {
  list<bool> so(static_cast<std::size_t>(c.nodes.size), true);
  for (int id = c.nodes.size - 1; id >= 0; --id) {
    node const& n = c.nodes[id];
    const bool op = n.kind == node_kind::compute && g.ops[n.op].when != pass::update;
    if (!op && so[static_cast<std::size_t>(id)]) continue;
    for (int k = 0; k < n.input_count; ++k) so[static_cast<std::size_t>(c.values[c.input(n, k)].node)] = false;
  }
  return so;
}

// Numbers the kinds of collectives: where, over which dimensions, what, of which type.
class bucket_kinds {
 public:
  int of(placement const& where, transition_step const& step, reduction how, dtype type, bool patient) {
    int k = 0;
    for (entry const& e : known_) {
      if (e.levels == step.levels && e.kind == step.kind && e.how == how && e.type == type && e.patient == patient &&
          e.where == where)
        return k;
      ++k;
    }
    known_.push_back({where, step.levels, step.kind, how, type, patient});
    return k;
  }

 private:
  struct entry {
    placement where;
    unsigned levels;
    transition_kind kind;
    reduction how;
    dtype type;
    bool patient;
  };
  list<entry> known_;
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
