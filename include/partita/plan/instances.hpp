// Instances of a completed plan, (node, indices in time), and what each must wait for: data, wishes, and the readers of
// a stored tensor before its update. Space is collapsed: all pieces in space of one instance are one.
#pragma once
#include <partita/plan/resolve.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct instance_graph {
  growing<int> first;        // per node: its first instance; one more entry at the end
  int instances = 0;         // of nodes
  int vertices = 0;          // and one more per wish
  growing<int> begin, to;    // edges, by their source
  growing<int> waits;        // per vertex: how many edges end there
  growing<int> wish_lines;   // of the policy, per wish
};

namespace detail {

// The node's own index tuple of an instance.
constexpr void index_of(node const& n, int i, int* at) { n.time.index(i, at); }

// Calls `visit` with every instance of `made`'s node that a reader at the given index waits for.
template <class F>
constexpr void each_producer(completed const& c, instance_graph const& ig, int value_id, time_modes const& reader,
                             int const* at, F visit) {
  node_value const& v = c.values[value_id];
  node const& made = c.nodes[v.node];
  int low[max_time_modes]{}, high[max_time_modes]{};
  for (int m = 0; m < made.time.count; ++m) {
    const int mine = reader.find(made.time.modes[m]);
    bool stored = false;
    for (int p = 0; p < v.lay.count; ++p)
      stored = stored || (v.lay.parts[p].in_time() && v.lay.parts[p].mode == made.time.modes[m]);
    if (mine >= 0 && stored) low[m] = high[m] = at[mine];
    else if (made.kind == node_kind::assemble) low[m] = high[m] = made.time.extents[m] - 1;
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

constexpr bool node_matches(graph_data const& g, plan_base const& plan, node const& n, moment const& m, short level) {
  if (n.kind != node_kind::compute) return false;
  // An op by name is its first run; that for backward readers is meant where its pass is said.
  if (m.op >= 0 && (n.op != m.op || (m.when < 0 && n.replayed))) return false;
  if (m.when >= 0 && static_cast<int>(n.replayed ? pass::backward : g.ops[n.op].when) != m.when) return false;
  if (m.coordinate >= 0) {
    op_plan const& p = placed_by(g, plan, n.placed_as);
    for (int l = 0; l < p.level_count; ++l)
      if (p.levels[l].mode == level && p.levels[l].coordinate == m.coordinate) return true;
    return false;
  }
  return true;
}

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

// Calls `visit(from, to)` for every edge. Arrays are read through `at`: a call costs constant evaluation more than the
// access.
template <class F>
constexpr void each_edge(graph_data const& g, plan_base const& plan, completed const& c, instance_graph const& ig,
                         finding& first, F visit) {
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
    if (n.not_before >= 0 && c.node_of_op[n.not_before] >= 0) {
      node const& entry = c.nodes[c.node_of_op[n.not_before]];
      for (int k = 0; k < entry.input_count; ++k) {
        const int v = c.input(entry, k);
        if (g.ops[g.tensors[c.values[v].tensor].op].when == pass::backward) after(v);
      }
    }
    if (n.kind == node_kind::assemble)
      for (int i = 0; i < count; ++i)
        if (const int before = previous_assembled(c, n, i); before >= 0) visit(own + before, own + i);
  }
  // Readers of a stored tensor before the op that renews it: also those of its views, and of moves of it, since a slice,
  // or what a device sends itself, is a place inside it.
  growing<int> stored;  // per tensor: the stored one whose bytes it may be, or -1
  for (int t = 0; t < g.tensors.size; ++t) {
    op_entry const& e = g.ops[g.tensors[t].op];
    stored.push(e.info->source != source_kind::none ? t : e.info->is_view ? stored[g.input(e, 0)] : -1);
  }
  for (int id = 0; id < c.nodes.size; ++id) {
    node const& n = c.nodes[id];
    for (int k = 0; k < n.input_count; ++k) {
      const int of = stored[c.values[c.input(n, k)].tensor], writer = of < 0 ? -1 : c.renewed_by[of];
      if (writer < 0 || writer == id) continue;
      for (int i = 0, count = n.time.size(); i < count; ++i) visit(ig.first[id] + i, ig.first[writer]);
    }
  }
  // Wishes: all of the first, then the wish's own vertex, then all of the second.
  struct chosen {
    moment who;
    growing<int> nodes;
  };
  growing<chosen> known;
  auto each_match = [&](moment const& m, int line, auto found) {
    moment who = m;
    who.index_of_mode = -1;
    who.mode = {};
    int k = 0;
    for (; k < known.size; ++k) {
      moment const& w = known[k].who;
      if (w.op == who.op && w.when == who.when && w.coordinate == who.coordinate && w.level.view() == who.level.view()) break;
    }
    if (k == known.size) {
      known.push({who, {}});
      const short level = m.coordinate >= 0 ? plan.find_mode(m.level) : short{-1};
      for (int id = 0; id < c.nodes.size; ++id)
        if (node_matches(g, plan, c.nodes[id], m, level)) known[k].nodes.push(id);
    }
    const short mode = m.index_of_mode >= 0 ? plan.find_mode(m.mode) : short{-1};
    bool hit = false;
    for (int id : known[k].nodes) {
      node const& n = c.nodes[id];
      const int which = m.index_of_mode >= 0 ? n.time.find(mode) : -1;
      if (m.index_of_mode >= 0 && (which < 0 || n.time.extents[which] <= m.index_of_mode)) continue;
      const int count = n.time.size();
      int inner = count, outer = count;  // runs of `inner` instances, `outer` apart
      if (which >= 0) {
        inner = 1;
        for (int q = n.time.count - 1; q > which; --q) inner *= n.time.extents[q];
        outer = inner * n.time.extents[which];
      }
      for (int run = which < 0 ? 0 : m.index_of_mode * inner; run < count; run += outer)
        for (int i = run; i < run + inner; ++i) {
          hit = true;
          found(ig.first[id] + i);
        }
    }
    // A schedule (line 0) does not know that a stage's only backward op, a sum, is made where its terms are.
    if (!hit && !first && line != 0) {
      first.what = wrong::order_names_nothing;
      first.line = line;
      first.op = text<96>(m.op >= 0 ? g.name(m.op).view() : m.level.view());
      if (m.index_of_mode >= 0) {
        first.op.put(" at index ");
        first.op.put(m.index_of_mode);
        first.op.put(" of ");
        first.op.put(m.mode.view());
      }
    }
  };
  for (int w = 0; w < plan.wishes().size; ++w) {
    wish const& x = plan.wishes()[w];
    const int vertex = ig.instances + w;
    each_match(x.first, x.line, [&](int i) { visit(i, vertex); });
    each_match(x.second, x.line, [&](int i) { visit(vertex, i); });
  }
}

}  // namespace detail

constexpr finding build_instances(graph_data const& g, plan_base const& plan, completed const& c, instance_graph& ig) {
  finding first{};
  ig.first.reserve(c.nodes.size + 1);
  for (int id = 0; id < c.nodes.size; ++id) {
    ig.first.push(ig.instances);
    ig.instances += c.nodes[id].time.size();
  }
  ig.first.push(ig.instances);
  ig.vertices = ig.instances + plan.wishes().size;
  ig.begin.reserve(ig.vertices + 1);
  ig.waits.reserve(ig.vertices);
  for (int v = 0; v < ig.vertices; ++v) {
    ig.begin.push(0);
    ig.waits.push(0);
  }
  ig.begin.push(0);
  for (wish const& w : plan.wishes()) ig.wish_lines.push(w.line);
  growing<int> ends;  // of each edge: from, to
  ends.reserve(4 * ig.vertices + 16);
  detail::each_edge(g, plan, c, ig, first, [&](int from, int to) {
    if (ends.size + 2 > ends.room) ends.reserve(2 * ends.room);
    ends.at[ends.size] = from;
    ends.at[ends.size + 1] = to;
    ends.size += 2;
    ++ig.begin.at[from + 1];
    ++ig.waits.at[to];
  });
  for (int v = 0; v < ig.vertices; ++v) ig.begin.at[v + 1] += ig.begin.at[v];
  ig.to.resize(ends.size / 2);
  growing<int> next = ig.begin;
  for (int e = 0; e < ends.size; e += 2) ig.to.at[next.at[ends.at[e]]++] = ends.at[e + 1];
  return first;
}

// Kahn's algorithm; a finding that names two ops of a cycle when there is one.
constexpr finding check_acyclic(graph_data const& g, completed const& c, instance_graph const& ig) {
  growing<int> waits = ig.waits, ready;
  ready.reserve(ig.vertices);
  for (int v = 0; v < ig.vertices; ++v)
    if (waits[v] == 0) ready.push(v);
  for (int i = 0; i < ready.size; ++i)
    for (int e = ig.begin[ready[i]]; e < ig.begin[ready[i] + 1]; ++e)
      if (--waits[ig.to[e]] == 0) ready.push(ig.to[e]);
  finding f{};
  if (ready.size == ig.vertices) return f;
  f.what = wrong::cyclic_order;
  auto describe_instance = [&](int v, text<96>& out) {
    int id = 0;
    while (ig.first[id + 1] <= v) ++id;
    out.put(g.name(c.nodes[id].op).view());
    out.put(g.ops[c.nodes[id].op].when == pass::forward    ? " (forward"
            : g.ops[c.nodes[id].op].when == pass::backward ? " (backward"
                                                            : " (update");
    if (c.nodes[id].time.count > 0) {
      out.put(", index ");
      out.put(v - ig.first[id]);
    }
    out.put(")");
  };
  // Of the vertices left, every one that lies on a cycle has a successor that is left too: walk until one repeats.
  growing<bool> seen;
  for (int v = 0; v < ig.vertices; ++v) seen.push(false);
  growing<int> before;  // a predecessor among those left
  for (int v = 0; v < ig.vertices; ++v) before.push(-1);
  for (int v = 0; v < ig.vertices; ++v)
    if (waits[v] > 0)
      for (int e = ig.begin[v]; e < ig.begin[v + 1]; ++e)
        if (waits[ig.to[e]] > 0) before[ig.to[e]] = v;
  int v = 0;
  while (waits[v] == 0 || before[v] < 0) ++v;
  while (!seen[v]) {
    seen[v] = true;
    v = before[v];
  }
  int a = v, b = -1;
  do {
    if (a < ig.instances) {
      if (b < 0) describe_instance(a, f.op);
      b = a;
    } else if (f.line == 0) f.line = ig.wish_lines[a - ig.instances];
    a = before[a];
  } while (a != v);
  if (b >= 0) describe_instance(b, f.other);
  return f;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
