// Which values are put together over time by adding, so that the op that makes the pieces may add them itself.
#pragma once

#include <partita/core/list.hpp>
#include <partita/program/lowering.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

class time_sums {
 public:
  explicit time_sums(lowering const& s)
      : s_(s),
        of_(static_cast<std::size_t>(s.plan_completed().values.size), -1),
        ordered_(static_cast<std::size_t>(s.plan_completed().nodes.size), false) {
    completed const& c = s.plan_completed();
    for (int id = 0; id < c.nodes.size; ++id)
      if (node const& a = c.nodes[id]; a.kind == node_kind::assemble && adds(a))
        of_[static_cast<std::size_t>(c.input(a, 0))] = id;
    find_ordered();
  }
  // The node that puts a value's pieces in time together by summing them, or as the op merges them; or -1.
  int of(int value) const { return of_[static_cast<std::size_t>(value)]; }
  // The same for an op's output that nothing else reads: the op then adds to that sum itself. A sum that a policy has ordered
  // is made when the policy says, unless it says no more than that the sum comes before what reads it.
  int made_directly(node const& n) const {
    if (!s_.graph().ops[n.op].info->accumulates || n.value_count != 1 || s_.readers(n.first_value) != 1) return -1;
    const int sum = of(n.first_value);
    return sum >= 0 && is_ordered(sum) ? -1 : sum;
  }

 private:
  bool is_ordered(int id) const { return ordered_[static_cast<std::size_t>(id)]; }
  void find_ordered() {
    graph_data const& g = s_.graph();
    completed const& c = s_.plan_completed();
    // Sums by tensor: a pipeline of many micro-batches has thousands of wishes.
    list<int> last(static_cast<std::size_t>(g.tensors.size), -1), before(static_cast<std::size_t>(c.nodes.size), -1);
    for (int id = 0; id < c.nodes.size; ++id) {
      if (!sums_over_time(c, c.nodes[id])) continue;
      int& of = last[static_cast<std::size_t>(c.values[c.nodes[id].first_value].tensor)];
      before[static_cast<std::size_t>(id)] = of;
      of = id;
    }
    auto mark = [&](moment_entry const& m, int reader) {
      if (m.node.what != between::accumulate) return;
      for (int id = last[static_cast<std::size_t>(m.node.tensor)]; id >= 0; id = before[static_cast<std::size_t>(id)])
        if (is_between(g, s_.plan(), c, id, m) && !(reader >= 0 && is_read_by(c, id, reader)))
          ordered_[static_cast<std::size_t>(id)] = true;
    };
    for (wish const& w : s_.plan().wishes()) {
      mark(w.first, w.second.op);
      mark(w.second, -1);
    }
  }
  bool adds(node const& a) const {
    completed const& c = s_.plan_completed();
    layout const& from = c.values[c.input(a, 0)].lay;
    for (int p = 0; p < from.count; ++p) {
      part const& x = from.parts[p];
      if (!x.in_time()) continue;
      const bool kept = !x.partial() && has(a.over, x);
      if (!kept && !(x.partial() && x.reduce != reduction::max)) return false;
    }
    return true;
  }
  static bool has(layout const& l, part const& x) {
    for (int p = 0; p < l.count; ++p)
      if (same_cut(l.parts[p], x)) return true;
    return false;
  }

  lowering const& s_;
  list<int> of_;        // by value
  list<bool> ordered_;  // by node
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
