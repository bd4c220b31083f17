// What should not run too early, or memory would not be saved: edges between instances that count where they contradict
// nothing that must be. Those that do are left out.
#pragma once
#include <partita/plan/instance_edges.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// Per value: the nodes that read it, in lists.
struct readers_of_values {
  growing<int> last, before, node;  // by value: its last reader; by reader: the one before, and its node
  constexpr explicit readers_of_values(completed const& c) {
    last.resize(c.values.size);
    for (int v = 0; v < c.values.size; ++v) last[v] = -1;
    for (int id = 0; id < c.nodes.size; ++id)
      for (int k = 0; k < c.nodes[id].input_count; ++k) {
        int& of = last[c.input(c.nodes[id], k)];
        before.push(of);
        node.push(id);
        of = node.size - 1;
      }
  }
  template <class F> constexpr void each(int value, F visit) const {
    for (int r = last[value]; r >= 0; r = before[r]) visit(node[r]);
  }
  constexpr bool only_one(int value) const { return last[value] >= 0 && before[last[value]] < 0; }
};

// Calls `visit` with what the given inputs of `entry` wait for when `n` is at instance i: at the indices that both have, and
// else at the first.
template <class Counts, class F> constexpr void each_input_of(completed const& c, instance_graph const& ig, node const& entry,
                                                              node const& n, int i, Counts counts, F visit) {
  int mine[max_time_modes]{}, at[max_time_modes]{};
  n.time.index(i, mine);
  for (int m = 0; m < entry.time.count; ++m)
    if (const int k = n.time.find(entry.time.modes[m]); k >= 0) at[m] = mine[k];
  for (int k = 0; k < entry.input_count; ++k)
    if (const int v = c.input(entry, k); counts(v)) each_producer(c, ig, v, entry.time, at, visit);
}

// Calls `visit` with every instance that reads what `n` makes at instance i.
template <class F> constexpr void each_reader_at(completed const& c, instance_graph const& ig, readers_of_values const& readers,
                                                 node const& n, int i, F visit) {
  int at[max_time_modes]{};
  n.time.index(i, at);
  readers.each(n.first_value, [&](int id) {
    if (c.nodes[id].time.count > 0) each_reader(c.nodes[id], n.time, at, [&](int which) { visit(ig.first[id] + which); });
  });
}
constexpr bool has_copies(completed const& c, node const& n) {
  return n.kind == node_kind::move && part_on(c.values[n.first_value].lay, part::copies, 0) >= 0;
}

// Calls `visit(from, to)` for every edge of this kind.
template <class F> constexpr void each_delay(graph_data const& g, completed const& c, instance_graph const& ig, F visit) {
  bool any = false;
  for (node const& n : c.nodes)
    any = any || n.not_before >= 0 || n.fetched_behind >= 0 || n.ring == ring_kind::pieces || has_copies(c, n);
  if (!any) return;
  const readers_of_values readers(c);
  for (int id = 0; id < c.nodes.size; ++id) {
    node const& n = c.nodes[id];
    const int own = ig.first[id], count = ig.first[id + 1] - own;
    // What is run again for backward readers: when their gradients are there.
    if (n.not_before >= 0 && c.node_of_op[n.not_before] >= 0)
      for (int i = 0; i < count; ++i)
        each_input_of(
            c, ig, c.nodes[c.node_of_op[n.not_before]], n, i,
            [&](int v) { return g.ops[g.tensors[c.values[v].tensor].op].when == pass::backward; },
            [&](int from) { visit(from, own + i); });
    // What is fetched: when the reader before, of what was fetched before, is about to run.
    if (n.fetched_behind >= 0)
      for (int i = 0; i < count; ++i)
        each_input_of(
            c, ig, c.nodes[n.fetched_behind], n, i, [&](int v) { return c.values[v].node != id; },
            [&](int from) { visit(from, own + i); });
    if (n.kind != node_kind::move) continue;
    // A copy for an index in time: when the one before has been read.
    if (has_copies(c, n))
      for (int i = 1; i < count; ++i) each_reader_at(c, ig, readers, n, i - 1, [&](int from) { visit(from, own + i); });
    // A ring of pieces with one reader: no more than a step ahead of it, or it would hold them all.
    if (n.ring == ring_kind::pieces && readers.only_one(n.first_value))
      for (int i = 0; i < count; ++i)
        if (const int before = previous_in_ring(n, i, 2); before >= 0)
          each_reader_at(c, ig, readers, n, before, [&](int from) { visit(from, own + i); });
  }
}

// Of edges that should be, those that can be beside those that must be. `ends`: from, to, of each; the first `fixed` of them
// must be. Leaves out, of every cycle, one that need not be.
class consistent_edges {
 public:
  constexpr consistent_edges(growing<int> const& ends, int fixed, int vertices)
      : ends_(ends), fixed_(fixed), vertices_(vertices) {
    dropped.resize(ends.size / 2);
    for (int e = 0; e < dropped.size; ++e) dropped[e] = false;
    sort_by(0, first_out_, out_);
    waits_.resize(vertices);
    for (int v = 0; v < vertices; ++v) waits_[v] = 0;
    for (int e = 1; e < ends.size; e += 2) ++waits_.at[ends.at[e]];
    done_.reserve(vertices);
    for (int v = 0; v < vertices; ++v)
      if (waits_[v] == 0) done_.push(v);
    settle();
    if (done_.size == vertices) return;
    sort_by(1, first_in_, in_);
    while (done_.size < vertices && drop_one()) settle();
  }
  growing<bool> dropped;  // per edge

 private:
  // Edges sorted by one of their ends.
  constexpr void sort_by(int end, growing<int>& first, growing<int>& sorted) const {
    first.resize(vertices_ + 1);
    for (int v = 0; v <= vertices_; ++v) first[v] = 0;
    for (int e = end; e < ends_.size; e += 2) ++first.at[ends_.at[e] + 1];
    for (int v = 0; v < vertices_; ++v) first.at[v + 1] += first.at[v];
    sorted.resize(ends_.size / 2);
    growing<int> next = first;
    for (int e = end; e < ends_.size; e += 2) sorted.at[next.at[ends_.at[e]]++] = e / 2;
  }
  constexpr void settle() {
    for (; settled_ < done_.size; ++settled_)
      for (int k = first_out_.at[done_.at[settled_]]; k < first_out_.at[done_.at[settled_] + 1]; ++k) {
        const int e = out_.at[k];
        if (dropped.at[e]) continue;
        if (const int to = ends_.at[2 * e + 1]; --waits_.at[to] == 0) done_.push(to);
      }
  }
  // Of those that wait, back along edges from others that wait until one repeats. False: only edges that must be make the
  // cycle.
  constexpr bool drop_one() {
    growing<int> way;    // edges
    growing<int> place;  // by vertex: where the way leaves it backwards, or -1
    place.resize(vertices_);
    for (int v = 0; v < vertices_; ++v) place[v] = -1;
    while (waits_[next_] == 0) ++next_;
    int v = next_;
    while (place[v] < 0) {
      place[v] = way.size;
      int k = first_in_[v];
      while (dropped[in_[k]] || waits_[ends_[2 * in_[k]]] == 0) ++k;
      way.push(in_[k]);
      v = ends_[2 * in_[k]];
    }
    for (int k = place[v]; k < way.size; ++k) {
      const int e = way[k];
      if (e < fixed_) continue;
      dropped[e] = true;
      if (const int to = ends_[2 * e + 1]; --waits_[to] == 0) done_.push(to);
      return true;
    }
    return false;
  }

  growing<int> const& ends_;
  int fixed_, vertices_, settled_ = 0, next_ = 0;
  growing<int> first_out_{}, out_{}, first_in_{}, in_{}, waits_{}, done_{};
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
