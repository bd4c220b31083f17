// Whether what an op reads is what was made, in a completed plan: every node's layouts against those of what it reads.
#pragma once
#include <partita/plan/complete.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail {
// Putting together drops cuts in time and nothing else; a move makes no partial results that were not there, and where it
// keeps a skewed cut in time it moves nothing along the dimension that skews it.
constexpr bool changes_well(node_kind kind, layout const& from, layout const& to) {
  if (kind == node_kind::assemble) {
    int q = 0;
    for (int p = 0; p < from.count; ++p)
      if (q < to.count && from.parts[p] == to.parts[q]) ++q;
      else if (!from.parts[p].in_time()) return false;
    return q == to.count && from.where == to.where;
  }
  for (int q = 0; q < to.count; ++q) {
    bool there = !to.parts[q].partial();
    for (int p = 0; p < from.count; ++p) {
      if (!(from.parts[p] == to.parts[q])) continue;
      there = true;
      if (to.parts[q].skew >= 0 && !stays_along(from, to, to.parts[q].skew)) return false;
    }
    if (!there) return false;
  }
  return true;
}
// At an index in time a move has the pieces of that index alone: what an axis is cut by up to a cut in time stays as it is.
constexpr bool keeps_turns(layout const& from, layout const& to, int rank) {
  for (int axis = 0; axis < rank; ++axis) {
    bool same = true;
    for (int k = 0, q = part_on(to, axis, k); q >= 0; q = part_on(to, axis, ++k)) {
      const int p = part_on(from, axis, k);
      same = same && p >= 0 && same_cut(from.parts[p], to.parts[q]);
      if (to.parts[q].in_time() && !same) return false;
    }
  }
  return true;
}
// Does every device that wants a piece hold it, at the same index in time, as a part of what it has or whole?
constexpr bool holds(layout const& held, layout const& wanted, int rank) {
  if (!(held.where == wanted.where)) {
    int at[max_levels]{};
    for (int k = 0, m = wanted.where.size(); k < m; ++k)
      if (!held.where.coordinates_of(wanted.where.device_at(k), at)) return false;
    return held.count == 0;
  }
  return encloses(held, wanted, rank);
}
// A move round a ring begins and ends as its kind says.
constexpr bool goes_round(node const& n, layout const& from, layout const& to, int rank) {
  if (n.ring == ring_kind::none) return true;
  const bool sums = n.ring == ring_kind::sums;
  const ring r = sums ? ring_of_sums(from, to, rank) : ring_of_pieces(from, to, rank);
  return n.kind == node_kind::move && r.part >= 0 && same_list(r.made, to) &&
         (sums ? from : to).parts[r.part].mode == n.ring_mode;
}
// Moves alone make copies, one for each index in time of what does not differ over them.
constexpr bool copies_well(node const& n, layout const& from, layout const& to) {
  for (int k = 0, p = part_on(to, part::copies, k); p >= 0; p = part_on(to, part::copies, ++k)) {
    if (n.kind != node_kind::move || n.ring != ring_kind::none || !to.parts[p].in_time()) return false;
    if (times_of(from).find(to.parts[p].mode) >= 0) return false;
  }
  return true;
}
constexpr bool has_copies(layout const& l) { return part_on(l, part::copies, 0) >= 0; }
// A copy is read at its own index.
constexpr bool reads_its_copy(node const& n, layout const& read) {
  for (int k = 0, p = part_on(read, part::copies, k); p >= 0; p = part_on(read, part::copies, ++k)) {
    const int m = n.time.find(read.parts[p].mode);
    if (m < 0 || n.time.extents[m] != read.parts[p].pieces) return false;
  }
  return true;
}
// An instance of a node for every index in time of what it is cut by.
constexpr bool runs_as_often(time_modes const& a, time_modes const& b) {
  if (a.count != b.count) return false;
  for (int m = 0; m < a.count; ++m)
    if (a.modes[m] != b.modes[m] || a.extents[m] != b.extents[m]) return false;
  return true;
}
// Cuts of an op are along its letters, none that is whole, and one part a dimension of the grid.
constexpr bool cuts_well(op_info const& f, layout const& over) {
  int taken = 0;
  for (int p = 0; p < over.count; ++p) {
    part const& x = over.parts[p];
    if (x.axis < 0 || x.axis >= f.dim_count || (f.dims[x.axis].whole && !(x.in_time() && f.dims[x.axis].merged))) return false;
    if (x.in_time()) continue;
    if (x.level >= over.where.rank || x.pieces != over.where.extents[x.level] || (taken >> x.level & 1) != 0) return false;
    taken |= 1 << x.level;
  }
  return true;
}
// A node that a policy has said something about makes the tensor cut in space as it was said, and no otherwise.
constexpr bool is_as_said(graph_data const& g, plan_base const& plan, node const& n, layout const& made) {
  if (n.said < 0) return true;
  if (n.said >= plan.nodes().size) return false;
  node_plan const& e = plan.nodes()[n.said];
  if (g.tensors[e.key.tensor].op != n.op || (e.own.assigned && !(place(plan, e.own) == made.where))) return false;
  int said = 0, found = 0;
  for (int c = 0; c < e.own.cut_count; ++c) {
    op_cut const& x = e.own.cuts[c];
    int level = -1;
    for (int l = 0; l < made.where.rank; ++l)
      if (made.where.modes[l] == x.mode) level = l;
    if (x.dim < 0 || level < 0 || x.pieces == 1) continue;
    ++said;
    for (int p = 0; p < made.count; ++p)
      found += made.parts[p].level == level && made.parts[p].axis == x.dim && made.parts[p].pieces == x.pieces &&
               made.parts[p].sizes == x.sizes && made.parts[p].fold == x.fold;
  }
  int in_space = 0;
  for (int p = 0; p < made.count; ++p) in_space += !made.parts[p].in_time();
  return said == found && found == in_space;
}
// flow: every reader's piece lies inside what its device holds, and what it holds is whole, not partial. Checked on the
// completed plan's own data, whatever `complete` meant to do.
constexpr finding check_flow(graph_data const& g, plan_base const& plan, completed const& c) {
  // What is carried to the next step arrives in the layout in which that step will look for it.
  for (int t = 0; t < g.tensors.size; ++t) {
    const int stored = g.tensors.at[t].carried;
    if (stored < 0) continue;
    const int writer = c.renewed_by[stored], rank = g.operand_of(stored).rank;
    layout const& kept = c.values[c.source_value[stored]].lay;
    bool good = writer >= 0;
    if (good && c.nodes[writer].kind == node_kind::store) {
      node_value const& arrived = c.values[c.input(c.nodes[writer], 0)];
      good = arrived.tensor == t && c.nodes[writer].first_value == c.source_value[stored] && !has_partial(arrived.lay) &&
             holds(arrived.lay, kept, rank);
    } else if (good)
      good = writer == c.values[c.source_value[t]].node && same_pieces(c.values[c.source_value[t]].lay, kept, rank);
    if (!good) return plan.about(wrong::flow_differs, g.tensors[t].op, nullptr, 0, 0, 0);
  }
  for (int id = 0; id < c.nodes.size; ++id) {
    node const& n = c.nodes.at[id];
    op_entry const& e = g.ops.at[n.op];
    op_info const& f = *e.info;
    if (n.kind == node_kind::store) continue;
    if (n.kind != node_kind::compute) {
      node_value const &from = c.values.at[c.input(n, 0)], &to = c.values.at[n.first_value];
      if (from.node >= id || from.tensor != to.tensor || !changes_well(n.kind, from.lay, to.lay) ||
          !same_list(without_copies(to.lay), n.over) || !copies_well(n, from.lay, to.lay) ||
          (n.kind == node_kind::move && n.ring == ring_kind::none &&
           !keeps_turns(from.lay, to.lay, g.operand_of(to.tensor).rank)) ||
          !is_as_said(g, plan, n, to.lay) || !goes_round(n, from.lay, to.lay, g.operand_of(to.tensor).rank) ||
          !runs_as_often(n.time, times_of(completed::puts_together(n) ? from.lay : to.lay)))
        return plan.about(wrong::flow_differs, n.op, nullptr, 0, 0, 0);
      continue;
    }
    if (!cuts_well(f, n.over) || !runs_as_often(n.time, times_run(n.over, c.values[n.first_value].lay)))
      return plan.about(wrong::flow_differs, n.op, nullptr, 0, 0, 0);
    bool passes = false;
    for (int i = 0; i < n.input_count; ++i) {
      node_value const& v = c.values.at[c.input(n, i)];
      operand const& x = f.input(i);
      if (v.tensor != g.input(e, i) || v.node >= id || !reads_its_copy(n, v.lay))
        return plan.about(wrong::flow_differs, n.op, nullptr, i, 0, 0);
      if (f.variadic) continue;
      passes = passes || (f.passes_partial && has_partial(v.lay));
      const layout wanted = operand_layout(g, f, x, n.over, false);
      bool good = true;
      if (f.passes_partial && has_partial(v.lay)) {
        layout const& made = c.values.at[n.first_value].lay;
        good = v.lay.where == n.over.where && same_on_axis(v.lay, made, -1);
        for (int axis = 0; axis < x.rank && good; ++axis) good = same_on_axis(v.lay, wanted, axis);
      } else if (has_partial(v.lay)) good = false;
      else good = holds(v.lay, wanted, x.rank);
      if (!good) return plan.about(wrong::flow_differs, n.op, nullptr, i, 0, 0);
    }
    // What it makes lies as its cuts say.
    for (int o = 0; o < n.value_count; ++o) {
      layout const& made = c.values.at[n.first_value + o].lay;
      layout follows = operand_layout(g, f, f.outputs[o], n.over, true);
      if (f.variadic && n.over.where.rank > 0 && spans_all(g, n.op))  // each device sums what lies there
        follows.push({n.over.where.modes[0], -1, 0, c.devices, -1, 1, reduction::sum});
      if (same_list(made, follows)) continue;
      bool good = !has_copies(made) && made.where == follows.where && (passes || same_on_axis(made, follows, -1));
      for (int axis = 0; axis < f.outputs[o].rank && good; ++axis) good = same_on_axis(made, follows, axis);
      if (!good) return plan.about(wrong::flow_differs, n.op, nullptr, n.input_count + o, 0, 0);
    }
  }
  return {};
}
}  // namespace detail

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
