// From a plan's words to placements and parts, op by op: inheritance by backward and update ops, modes in space and in
// time, and what can be wrong with them.
#pragma once
#include <partita/plan/completed.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// Ops of the update that belong to no parameter (norm, clipping) stand on all devices.
constexpr bool spans_all(graph_data const& g, int op) {
  op_entry const& e = g.ops.at[op];
  return e.when == pass::update && e.origin == op;
}
// Stored tensors, and what is updated with them, are whole in time: their readers take pieces.
constexpr bool is_whole_in_time(graph_data const& g, int op) {
  op_entry const& e = g.ops.at[op];
  op_info const& f = *e.info;
  return f.source != source_kind::none || f.whole_in_time || f.is_output || e.when == pass::update ||
         g.ops.at[e.origin].info->source != source_kind::none;
}

// Does an op's own plan leave nothing to inherit?
constexpr bool says_all(graph_data const& g, plan_base const& p, int op) {
  if (g.ops.at[op].origin == op) return true;
  op_plan const& own = p.of(op);
  return own.assigned && own.cut_count > 0;
}
// The plan of an op that may inherit: cuts follow letters, places are the same.
constexpr op_plan inherited(graph_data const& g, plan_base const& p, int op) {
  op_plan own = p.of(op);
  op_entry const& e = g.ops.at[op];
  if (e.origin == op) return own;
  op_plan const& from = p.of(e.origin);
  if (!own.assigned) {
    for (int l = 0; l < from.level_count; ++l) own.levels[l] = from.levels[l];
    own.level_count = from.level_count;
    own.assigned = from.assigned;
    own.list = from.list;
    own.list_line = from.list_line;
  }
  if (own.cut_count > 0) return own;
  for (int c = 0; c < from.cut_count; ++c) {
    op_cut cut = from.cuts[c];
    if (cut.dim >= 0) {
      int dim = -1;
      for (int d = 0; d < e.info->dim_count && dim < 0; ++d)
        if (e.origin_dims[d] == cut.dim && !e.info->dims[d].whole) dim = d;
      if (dim < 0) continue;
      cut.dim = static_cast<signed char>(dim);
    }
    own.cuts[own.cut_count++] = cut;
  }
  return own;
}

// Of the same, the place alone, and nothing copied.
constexpr op_plan const& placed_by(graph_data const& g, plan_base const& p, int op) {
  op_plan const& own = p.of(op);
  return own.assigned ? own : p.of(g.ops.at[op].origin);
}

// The coordinate of an op, in space or in time, or -1. A phase that the op was given itself goes before an inherited one.
constexpr int coordinate_of(graph_data const& g, plan_base const& p, int op, short mode) {
  const int origin = g.ops.at[op].origin;
  op_plan const& own = p.of(op);
  for (int k = 0; k < own.phase_count; ++k)
    if (own.phases[k].mode == mode) return own.phases[k].index;
  op_plan const& from = p.of(origin);
  for (int k = 0; k < from.phase_count; ++k)
    if (from.phases[k].mode == mode) return from.phases[k].index;
  op_plan const& placed = own.assigned ? own : from;
  for (int l = 0; l < placed.level_count; ++l)
    if (placed.levels[l].mode == mode) return placed.levels[l].coordinate;
  return -1;
}

constexpr int places_of(op_plan const& p) {  // of its grid
  int n = 1;
  for (int l = 0; l < p.level_count; ++l) n *= p.levels[l].extent;
  return n;
}
// Does a list of devices have one for every place of the grid?
constexpr bool lists_all(plan_base const& plan, op_plan const& p) {
  return p.list < 0 || plan.devices_of_list(p.list).size == places_of(p);
}
// As many as the highest number among them says.
constexpr int devices_of(plan_base const& plan, op_plan const& p) {
  if (p.list < 0) return places_of(p);
  int most = 0;
  for (int d : plan.devices_of_list(p.list)) most = d > most ? d : most;
  return most + 1;
}
// A list that is a grid all the same becomes one: then what is known of grids is known of it.
constexpr void without_list(placement& w) {
  int strides[max_levels]{};
  for (int l = 0; l < w.rank; ++l) {
    int c[max_levels]{};
    c[l] = 1;
    strides[l] = w.device(c) - w.list[w.base];
    if (strides[l] < 1) return;
  }
  for (int i = 0, n = w.size(); i < n; ++i) {
    int c[max_levels]{}, d = w.list[w.base];
    w.coordinates_at(i, c);
    for (int l = 0; l < w.rank; ++l) d += c[l] * strides[l];
    if (d != w.device(c)) return;
  }
  w.base = w.list[w.base];
  w.list = nullptr;
  for (int l = 0; l < w.rank; ++l) w.strides[l] = strides[l];
}
constexpr placement place(plan_base const& plan, op_plan const& p) {
  placement w;
  int stride = 1;
  for (int l = p.level_count - 1; l >= 0; --l) {
    if (p.levels[l].coordinate >= 0) w.base += p.levels[l].coordinate * stride;
    else if (p.levels[l].extent > 1) {
      for (int k = w.rank; k > 0; --k) {
        w.extents[k] = w.extents[k - 1];
        w.strides[k] = w.strides[k - 1];
        w.modes[k] = w.modes[k - 1];
      }
      w.extents[0] = p.levels[l].extent;
      w.strides[0] = stride;
      w.modes[0] = p.levels[l].mode;
      ++w.rank;
    }
    stride *= p.levels[l].extent;
  }
  if (p.list >= 0 && lists_all(plan, p)) {
    w.list = plan.devices_of_list(p.list).at;
    without_list(w);
  }
  return w;
}

// An op's cuts as parts over its letters, in space and in time; the first mistake goes to `first`.
constexpr layout parts_of(graph_data const& g, plan_base const& plan, int op, op_plan const& p, finding& first) {
  auto note = [&](wrong what, axis_info const* axis, long have, long allowed, int line) {
    if (!first) first = plan.about(what, op, axis, have, allowed, line);
  };
  op_info const& f = *g.ops.at[op].info;
  layout over;
  over.where = place(plan, p);
  if (!lists_all(plan, p))
    note(wrong::devices_differ_from_the_grid, nullptr, plan.devices_of_list(p.list).size, places_of(p), p.list_line);
  std::size_t least[max_dims]{};
  long pieces_of[max_dims]{};
  bool cut_before[max_dims]{};
  int folds[max_dims]{};
  int in_time = 0;
  for (int c = 0; c < p.cut_count; ++c) {
    op_cut const& cut = p.cuts[c];
    int level = -1;
    bool fixed = false;
    for (int l = 0; l < p.level_count; ++l)
      if (p.levels[l].mode == cut.mode) {
        fixed = p.levels[l].coordinate >= 0;
        if (p.levels[l].extent != cut.pieces && !first)
          first = plan.about_mode(wrong::pieces_differ_from_the_grid, op, cut.mode, cut.pieces, p.levels[l].extent, cut.line);
        level = -2;
      }
    if (level == -2)
      for (int l = 0; l < over.where.rank; ++l)
        if (over.where.modes[l] == cut.mode) level = l;
    const bool in_space = level != -1;
    if (cut.dim < 0 || fixed) continue;
    dim const& x = f.dims[cut.dim];
    if (x.whole && (in_space || !x.merged)) {
      note(wrong::whole_axis, x.axis, cut.pieces, 1, cut.line);
      continue;
    }
    if (!in_space && is_whole_in_time(g, op)) continue;
    const std::size_t extent = g.extent(x.axis);
    int const* sizes = plan.sizes(cut.sizes);
    if (!cut_before[cut.dim]) {
      least[cut.dim] = extent;
      pieces_of[cut.dim] = 1;
    }
    if (extent != unbound) {
      pieces_of[cut.dim] *= cut.pieces;
      if (sizes != nullptr) {
        std::size_t sum = 0, small = extent;
        for (int i = 0; i < cut.pieces; ++i) {
          const std::size_t s = sizes[i] < 0 ? extent + 1 : static_cast<std::size_t>(sizes[i]);
          sum += s;
          if (s < small) small = s;
        }
        if (sum != extent || cut_before[cut.dim])
          note(wrong::sizes_do_not_sum, x.axis, static_cast<long>(sum), static_cast<long>(least[cut.dim]), cut.line);
        least[cut.dim] = small;
      } else least[cut.dim] /= static_cast<std::size_t>(cut.pieces);
      if (in_space && cut.pieces > 1 && least[cut.dim] == 0)
        note(wrong::too_many_pieces, x.axis, pieces_of[cut.dim], static_cast<long>(extent), cut.line);
    }
    cut_before[cut.dim] = true;
    if (cut.pieces == 1) continue;
    if (!in_space && ++in_time > max_time_modes) note(wrong::too_many_cuts, nullptr, in_time, max_time_modes, cut.line);
    part made{cut.mode, cut.dim, static_cast<signed char>(level), cut.pieces, cut.sizes, 1, reduction::sum, cut.fold};
    if (cut.skew >= 0) {
      if (in_space) note(wrong::skewed_in_space, x.axis, cut.pieces, 1, cut.line);
      bool known = false;  // a dimension of one coordinate skews nothing
      for (int l = 0; l < p.level_count; ++l) known = known || p.levels[l].mode == cut.skew;
      for (int l = 0; l < over.where.rank; ++l)
        if (over.where.modes[l] == cut.skew) made.skew = static_cast<signed char>(l);
      if (!known) note(wrong::skewed_over_nothing, x.axis, cut.pieces, 1, cut.line);
    }
    folds[cut.dim] += cut.fold;
    if (folds[cut.dim] > 2) note(wrong::too_many_cuts, x.axis, folds[cut.dim], 2, cut.line);
    over.push(made);
  }
  // Where all coordinates of a dimension have the same to do, they do it in one order: their sums are the same bits.
  for (int i = 0; i < over.count; ++i) {
    if (over.parts[i].skew < 0) continue;
    bool differs = false;
    for (int k = 0; k < over.count; ++k)
      differs = differs || (!over.parts[k].in_time() && over.parts[k].level == over.parts[i].skew);
    if (!differs) over.parts[i].skew = -1;
  }
  return over;
}

// How an operand lies, given the op's parts. A letter that an output lacks leaves partial results.
constexpr layout operand_layout(graph_data const& g, op_info const& f, operand const& x, layout const& over, bool is_output) {
  layout l;
  l.where = over.where;
  for (int i = 0; i < over.count; ++i) {
    const int axis = x.find(over.parts[i].axis);
    if (axis < 0 && !is_output) continue;
    part& p = l.parts[l.count++] = over.parts[i];
    p.axis = static_cast<signed char>(axis);
    if (axis < 0) p.skew = -1;  // a sum's terms are counted by steps
    p.reduce = axis < 0 && f.dims[over.parts[i].axis].merged ? reduction::merge : x.reduce;
    if (axis >= 0 && x.inner[axis] >= 0) {
      const std::size_t unit = g.extent(f.dims[x.inner[axis]].axis);
      p.unit = unit == unbound ? 1 : static_cast<int>(unit);
    }
  }
  return l;
}

}  // namespace partita::detail

namespace partita {

// Writes what a backward or update op inherits into its own plan, so that further cuts add to it: a policy that comes
// last in a composition may so cut an update more finely than its parameter.
constexpr void inherit(plan_base& plan, int op) { plan.of(op) = detail::inherited(plan.graph(), plan, op); }

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
