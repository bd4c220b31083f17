// Instances of a completed plan, (node, indices in time), and what each must wait for: data, wishes, and the readers of
// a stored tensor before its update. Space is collapsed: all pieces in space of one instance are one.
#pragma once
#include <partita/plan/resolve.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct instance_graph {
  growing<int> first;       // per node: its first instance; one more entry at the end
  int instances = 0;        // of nodes
  int vertices = 0;         // and one more per wish
  growing<int> begin, to;   // edges, by their source
  growing<int> waits;       // per vertex: how many edges end there
  growing<int> wish_lines;  // of the policy, per wish
  growing<int> priority;    // per instance; empty where none was given
};

namespace detail {

// The node's own index tuple of an instance.
constexpr void index_of(node const& n, int i, int* at) { n.time.index(i, at); }

// Calls `visit` with every instance of `made`'s node that a reader at the given index waits for.
template <class F> constexpr void each_producer(completed const& c, instance_graph const& ig, int value_id,
                                                time_modes const& reader, int const* at, F visit) {
  node_value const& v = c.values[value_id];
  node const& made = c.nodes[v.node];
  int low[max_time_modes]{}, high[max_time_modes]{};
  for (int m = 0; m < made.time.count; ++m) {
    const int mine = reader.find(made.time.modes[m]);
    bool stored = false;
    for (int p = 0; p < v.lay.count; ++p)
      stored = stored || (v.lay.parts[p].in_time() && v.lay.parts[p].mode == made.time.modes[m]);
    if (mine >= 0 && stored) low[m] = high[m] = at[mine];
    else if (completed::puts_together(made)) low[m] = high[m] = made.time.extents[m] - 1;
    else high[m] = made.time.extents[m] - 1;
  }
  int now[max_time_modes]{};
  for (int m = 0; m < made.time.count; ++m) now[m] = low[m];
  for (;;) {
    int i = 0;
    for (int m = 0; m < made.time.count; ++m) i = i * made.time.extents[m] + now[m];
    visit(ig.first[v.node] + i);
    int m = made.time.count - 1;
    while (m >= 0 && now[m] == high[m]) {
      now[m] = low[m];
      --m;
    }
    if (m < 0) return;
    ++now[m];
  }
}

// Calls `visit` with every instance of a node at the given indices of some modes.
template <class F> constexpr void each_reader(node const& r, time_modes const& times, int const* at, F visit) {
  for (int i = 0, count = r.time.size(); i < count; ++i) {
    int mine[max_time_modes]{};
    r.time.index(i, mine);
    bool same = true;
    for (int m = 0; m < times.count; ++m)
      if (const int k = r.time.find(times.modes[m]); k >= 0) same = same && mine[k] == at[m];
    if (same) visit(i);
  }
}
// The instance of a ring's step before this one, or -1.
constexpr int previous_in_ring(node const& n, int i, int steps = 1) {
  int at[max_time_modes]{};
  n.time.index(i, at);
  const int m = n.time.find(n.ring_mode);
  if (at[m] < steps) return -1;
  at[m] -= steps;
  int before = 0;
  for (int k = 0; k < n.time.count; ++k) before = before * n.time.extents[k] + at[k];
  return before;
}
// The instance of an assemble node that comes before this one into the same buffer, or -1.
constexpr int previous_assembled(completed const& c, node const& n, int i) {
  int at[max_time_modes]{};
  n.time.index(i, at);
  layout const& made = c.values[n.first_value].lay;
  int m = n.time.count - 1;
  for (; m >= 0; --m) {
    bool kept = false;
    for (int p = 0; p < made.count; ++p) kept = kept || (made.parts[p].in_time() && made.parts[p].mode == n.time.modes[m]);
    if (kept) continue;
    if (at[m] > 0) {
      --at[m];
      break;
    }
    at[m] = n.time.extents[m] - 1;
  }
  if (m < 0) return -1;
  int before = 0;
  for (int k = 0; k < n.time.count; ++k) before = before * n.time.extents[k] + at[k];
  return before;
}

// Does an op read what a node makes, as it is or moved on?
constexpr bool is_read_by(completed const& c, int id, int op) {
  growing<bool> of_it;  // by value
  of_it.resize(c.values.size);
  for (int v = 0; v < c.nodes[id].value_count; ++v) of_it[c.nodes[id].first_value + v] = true;
  for (int k = id + 1; k < c.nodes.size; ++k) {
    node const& n = c.nodes[k];
    for (int i = 0; i < n.input_count; ++i) {
      if (!of_it[c.input(n, i)]) continue;
      if (n.kind == node_kind::compute && n.op == op) return true;
      if (n.kind == node_kind::move || n.kind == node_kind::assemble) of_it[n.first_value] = true;
    }
  }
  return false;
}
// Is it a sum of pieces in time? What is put together may also be pieces that lie one after another.
constexpr bool sums_over_time(completed const& c, node const& n) {
  if (n.kind != node_kind::assemble) return false;
  layout const& from = c.values[c.input(n, 0)].lay;
  for (int p = 0; p < from.count; ++p)
    if (from.parts[p].partial() && from.parts[p].in_time()) return true;
  return false;
}
constexpr bool is_between(graph_data const& g, plan_base const& plan, completed const& c, int id, moment_entry const& m) {
  node const& n = c.nodes[id];
  if (m.node.what == between::move ? n.kind != node_kind::move : !sums_over_time(c, n)) return false;
  node_value const& v = c.values[n.first_value];
  if (v.tensor != m.node.tensor) return false;
  if (m.when >= 0 && static_cast<int>(v.replayed ? pass::backward : g.ops[n.op].when) != m.when) return false;
  for (int p = 0; p < m.place_count; ++p)
    if (coordinate_of(g, plan, n.op, m.places[p].mode) != m.places[p].index) return false;
  return m.node.reader < 0 || is_read_by(c, id, m.node.reader);
}
constexpr bool node_matches(graph_data const& g, plan_base const& plan, completed const& c, int id, moment_entry const& m) {
  if (m.node.what != between::nothing) return is_between(g, plan, c, id, m);
  node const& n = c.nodes.at[id];
  if (n.kind != node_kind::compute) return false;
  // An op by name is its first run; that for backward readers is meant where its pass is said.
  if (m.op >= 0 && (n.op != m.op || (m.when < 0 && n.replayed))) return false;
  if (m.when >= 0 && static_cast<int>(n.replayed ? pass::backward : g.ops.at[n.op].when) != m.when) return false;
  for (int p = 0; p < m.place_count; ++p)
    if (coordinate_of(g, plan, n.placed_as, m.places[p].mode) != m.places[p].index) return false;
  return true;
}

// Calls `visit` with every instance of a node that is at a moment's indices. Returns whether there is one.
template <class F> constexpr bool each_index(time_modes const& time, moment_entry const& m, F visit) {
  int low[max_time_modes]{}, high[max_time_modes]{}, now[max_time_modes]{};
  for (int q = 0; q < time.count; ++q) high[q] = time.extents[q] - 1;
  for (int k = 0; k < m.index_count; ++k) {
    const int q = time.find(m.indices[k].mode);
    if (q < 0 || m.indices[k].index >= time.extents[q]) return false;
    low[q] = high[q] = m.indices[k].index;
  }
  for (int q = 0; q < time.count; ++q) now[q] = low[q];
  for (int q = 0; q >= 0;) {
    int i = 0;
    for (int k = 0; k < time.count; ++k) i = i * time.extents[k] + now[k];
    visit(i);
    for (q = time.count - 1; q >= 0 && now[q] == high[q]; --q) now[q] = low[q];
    if (q >= 0) ++now[q];
  }
  return true;
}

// The instances that a moment names, found once for all its indices.
struct moments {
  graph_data const& g;
  plan_base const& plan;
  completed const& c;
  instance_graph const& ig;
  struct chosen {
    moment_entry who;
    growing<int> nodes;
  };
  growing<chosen> known{};

  constexpr growing<int> const& nodes_of(moment_entry const& m) {
    int k = 0;
    while (k < known.size && !same_ops(known[k].who, m)) ++k;
    if (k == known.size) {
      known.push({m, {}});
      for (int id = 0; id < c.nodes.size; ++id)
        if (node_matches(g, plan, c, id, m)) known[k].nodes.push(id);
    }
    return known[k].nodes;
  }
  // Calls `visit` with every instance. Returns whether there is one.
  template <class F> constexpr bool each(moment_entry const& m, F visit) {
    bool hit = false;
    for (int id : nodes_of(m)) {
      node const& n = c.nodes[id];
      if (each_index(n.time, m, [&](int i) { visit(ig.first[id] + i); })) hit = true;
    }
    return hit;
  }
  constexpr finding names_nothing(moment_entry const& m, int line) const {
    finding f{wrong::order_names_nothing};
    f.line = line;
    if (m.op >= 0) f.op.put(g.name(m.op).view());
    if (m.node.what != between::nothing) {
      f.op.put(m.node.what == between::move ? "the move of " : "the sum over time of ");
      f.op.put(g.name(g.tensors[m.node.tensor].op).view());
    }
    for (int p = 0; p < m.place_count; ++p) put(f.op, plan.modes()[m.places[p].mode].view(), " ", m.places[p].index);
    for (int k = 0; k < m.index_count; ++k) put(f.op, "index ", "", m.indices[k].index, plan.modes()[m.indices[k].mode].view());
    return f;
  }

 private:
  static constexpr void put(text<96>& to, std::string_view what, std::string_view between, int number, std::string_view of = "") {
    if (to.size > 0) to.put(of.empty() ? ", " : " at ");
    to.put(what);
    to.put(between);
    to.put(number);
    if (of.empty()) return;
    to.put(" of ");
    to.put(of);
  }
};

// Does an instance of `n` at index i wait for exactly the instance i of the value's maker? So it is nearly everywhere:
// one has to look at the modes once, and not for every index.
constexpr bool waits_for_its_own_index(completed const& c, node_value const& v, node const& n) {
  node const& made = c.nodes.at[v.node];
  if (made.time.count != n.time.count) return false;
  for (int m = 0; m < n.time.count; ++m) {
    if (made.time.modes[m] != n.time.modes[m] || made.time.extents[m] != n.time.extents[m]) return false;
    bool stored = false;
    for (int p = 0; p < v.lay.count; ++p) stored = stored || (v.lay.parts[p].in_time() && v.lay.parts[p].mode == n.time.modes[m]);
    if (!stored) return false;
  }
  return true;
}

// Calls `visit(from, to)` for every edge that must be. Arrays are read through `at`: a call costs constant evaluation more
// than the access.
template <class F> constexpr void each_edge(graph_data const& g, plan_base const& plan, completed const& c,
                                            instance_graph const& ig, finding& first, F visit) {
  for (int id = 0; id < c.nodes.size; ++id) {
    node const& n = c.nodes.at[id];
    const int own = ig.first.at[id], count = ig.first.at[id + 1] - own;
    auto after = [&](int value_id) {  // all instances wait for theirs of a value
      node_value const& v = c.values.at[value_id];
      const int made = ig.first.at[v.node];
      if (waits_for_its_own_index(c, v, n)) {
        for (int i = 0; i < count; ++i) visit(made + i, own + i);
      } else if (c.nodes.at[v.node].time.count == 0) {
        for (int i = 0; i < count; ++i) visit(made, own + i);
      } else
        for (int i = 0; i < count; ++i) {
          int at[max_time_modes]{};
          n.time.index(i, at);
          each_producer(c, ig, value_id, n.time, at, [&](int from) { visit(from, own + i); });
        }
    };
    for (int k = 0; k < n.input_count; ++k) after(c.inputs.at[n.first_input + k]);
    if (n.kind == node_kind::assemble)
      for (int i = 0; i < count; ++i)
        if (const int before = previous_assembled(c, n, i); before >= 0) visit(own + before, own + i);
    if (n.ring != ring_kind::none)
      for (int i = 0; i < count; ++i)
        if (const int before = previous_in_ring(n, i); before >= 0) visit(own + before, own + i);
  }
  // Readers of a stored tensor before the op that renews it: also those of its views, and of moves of it, since a slice,
  // or what a device sends itself, is a place inside it.
  growing<int> stored;  // per tensor: the stored one whose bytes it may be, or -1
  stored.resize(g.tensors.size);
  for (int t = 0; t < g.tensors.size; ++t) {
    op_entry const& e = g.ops.at[g.tensors.at[t].op];
    stored.at[t] = e.info->source != source_kind::none ? t : e.info->is_view ? stored.at[g.input(e, 0)] : -1;
  }
  for (int id = 0; id < c.nodes.size; ++id) {
    node const& n = c.nodes.at[id];
    for (int k = 0; k < n.input_count; ++k) {
      const int of = stored.at[c.values.at[c.inputs.at[n.first_input + k]].tensor], writer = of < 0 ? -1 : c.renewed_by.at[of];
      if (writer < 0 || writer == id) continue;
      for (int i = 0, count = n.time.size(); i < count; ++i) visit(ig.first.at[id] + i, ig.first.at[writer]);
    }
  }
  // Wishes: all of the first, then the wish's own vertex, then all of the second.
  moments named{g, plan, c, ig};
  bool any = true;  // does the wish before end in anything?
  for (int w = 0; w < plan.wishes().size; ++w) {
    wish const& x = plan.wishes()[w];
    const int vertex = ig.instances + w;
    if (x.continues && !any) visit(vertex - 1, vertex);
    const bool begins = named.each(x.first, [&](int i) { visit(i, vertex); });
    any = named.each(x.second, [&](int i) { visit(vertex, i); });
    if (!x.lenient && x.line != 0 && !first && !(begins && any)) first = named.names_nothing(begins ? x.second : x.first, x.line);
  }
}

}  // namespace detail

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
