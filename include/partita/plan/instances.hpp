// Instances of a completed plan in the order in which they can run: what waits for what, and cycles.
#pragma once
#include <partita/plan/delays.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

constexpr finding build_instances(graph_data const& g, plan_base const& plan, completed const& c, instance_graph& ig) {
  finding first{};
  ig.first.reserve(c.nodes.size + 1);
  for (int id = 0; id < c.nodes.size; ++id) {
    ig.first.push(ig.instances);
    ig.instances += c.nodes.at[id].time.size();
  }
  ig.first.push(ig.instances);
  ig.vertices = ig.instances + plan.wishes().size;
  ig.begin.append(ig.vertices + 1, 0);
  ig.waits.append(ig.vertices, 0);
  for (wish const& w : plan.wishes()) ig.wish_lines.push(w.line);
  growing<int> ends;  // of each edge: from, to
  ends.reserve(4 * ig.vertices + 16);
  auto add = [&](int from, int to) {
    if (ends.size + 2 > ends.room) ends.reserve(2 * ends.room);
    ends.at[ends.size] = from;
    ends.at[ends.size + 1] = to;
    ends.size += 2;
  };
  detail::each_edge(g, plan, c, ig, first, add);
  const int fixed = ends.size / 2;
  detail::each_delay(g, c, ig, add);
  if (fixed < ends.size / 2) {
    const detail::consistent_edges chosen(ends, fixed, ig.vertices);
    int kept = fixed;
    for (int e = fixed; e < ends.size / 2; ++e) {
      if (chosen.dropped[e]) continue;
      ends[2 * kept] = ends[2 * e];
      ends[2 * kept++ + 1] = ends[2 * e + 1];
    }
    ends.size = 2 * kept;
  }
  for (int e = 0; e < ends.size; e += 2) {
    ++ig.begin.at[ends.at[e] + 1];
    ++ig.waits.at[ends.at[e + 1]];
  }
  for (int v = 0; v < ig.vertices; ++v) ig.begin.at[v + 1] += ig.begin.at[v];
  if (plan.preferences().size > 0) {
    for (int i = 0; i < ig.instances; ++i) ig.priority.push(0);
    detail::moments named{g, plan, c, ig};
    for (preference const& p : plan.preferences())
      if (!named.each(p.which, [&](int i) { ig.priority[i] = p.value; }) && p.line != 0 && !first)
        first = named.names_nothing(p.which, p.line);
  }
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
    if (waits.at[v] == 0) ready.at[ready.size++] = v;
  for (int i = 0; i < ready.size; ++i) {
    const int v = ready.at[i];
    for (int e = ig.begin.at[v], end = ig.begin.at[v + 1]; e < end; ++e)
      if (const int to = ig.to.at[e]; --waits.at[to] == 0) ready.at[ready.size++] = to;
  }
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
