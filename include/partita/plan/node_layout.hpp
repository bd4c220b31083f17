// How a node between ops lies, where a policy has said so.
#pragma once
#include <partita/plan/resolve.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// What a policy has said, by tensor: looked up for every tensor that arrives anywhere.
class said_nodes {
 public:
  constexpr void find(graph_data const& g, plan_base const& plan) {
    plan_ = &plan;
    if (plan.nodes().size == 0) return;
    for (int t = 0; t < g.tensors.size; ++t) last_.push(-1);
    for (int op = 0; op < g.ops.size; ++op) again_.push(false);
    for (int n = 0; n < plan.nodes().size; ++n) {
      node_plan const& x = plan.nodes()[n];
      next_.push(last_[x.key.tensor]);
      last_[x.key.tensor] = n;
      used_.push(false);
      for (int c = 0; c < x.own.cut_count; ++c)
        if (x.own.cuts[c].dim < 0 && x.own.cuts[c].pieces > 1 && x.key.what == between::move) {
          again_[g.tensors[x.key.tensor].op] = true;
          used_[n] = true;
        }
    }
  }
  // The entry for this reader, else the one for all; -1: nothing is said.
  constexpr int of(between what, int tensor, int reader = -1) const {
    if (last_.size == 0) return -1;
    int found = -1;
    for (int n = last_[tensor]; n >= 0; n = next_[n]) {
      node_plan const& x = plan_->nodes()[n];
      if (x.key.what != what || !says_where(x.own)) continue;
      if (x.key.reader == reader) return n;
      if (x.key.reader < 0) found = n;
    }
    return found;
  }
  // Is what the op makes moved again for its backward readers?
  constexpr bool moves_again(int op) const { return again_.size > 0 && again_[op]; }
  constexpr void use(int entry) { used_[entry] = true; }
  // Entries by exact names of which none of one line has come to anything.
  constexpr int not_there() const {
    for (int n = 0; n < used_.size; ++n) {
      if (!plan_->nodes()[n].must || plan_->nodes()[n].line == 0) continue;
      bool any = false;
      for (int k = 0; k < used_.size; ++k) any = any || (used_[k] && plan_->nodes()[k].line == plan_->nodes()[n].line);
      if (!any) return n;
    }
    return -1;
  }

 private:
  static constexpr bool says_where(op_plan const& p) {
    bool any = p.assigned;
    for (int c = 0; c < p.cut_count; ++c) any = any || p.cuts[c].dim >= 0;
    return any;
  }
  plan_base const* plan_ = nullptr;
  growing<int> next_{}, last_{};  // entries of one tensor are chained
  growing<bool> used_{}, again_{};
};

// The layout that an entry says, all of it in space. `home` and `otherwise`: whose devices they are where it says none.
constexpr layout layout_said(graph_data const& g, plan_base const& plan, node_plan const& e, op_plan const& home,
                             placement const& otherwise, finding& first) {
  operand const& x = g.operand_of(e.key.tensor);
  const int maker = g.tensors[e.key.tensor].op;
  op_info const& f = *g.ops[maker].info;
  op_plan const& placed = e.own.assigned ? e.own : home;
  layout l;
  l.where = e.own.assigned ? place(plan, e.own) : otherwise;
  auto note = [&](wrong what, axis_info const* axis, long have, long allowed, int line) {
    if (!first) first = plan.about(what, maker, axis, have, allowed, line);
  };
  if (e.own.assigned && !lists_all(plan, e.own))
    note(wrong::devices_differ_from_the_grid, nullptr, plan.devices_of_list(e.own.list).size, places_of(e.own), e.own.list_line);
  std::size_t least[max_rank]{};
  long pieces[max_rank]{};
  int folds[max_rank]{};
  for (int a = 0; a < x.rank; ++a) {
    const std::size_t unit = x.inner[a] < 0 ? 1 : g.extent(f.dims[x.inner[a]].axis);
    least[a] = g.extent(x.axes[a]) == unbound || unit == unbound ? unbound : g.extent(x.axes[a]) / unit;
    pieces[a] = 1;
  }
  for (int c = 0; c < e.own.cut_count; ++c) {
    op_cut const& cut = e.own.cuts[c];
    if (cut.dim < 0) continue;
    const int a = cut.dim;
    int level = -1;
    bool known = false, fixed = false;
    for (int k = 0; k < placed.level_count; ++k) {
      if (placed.levels[k].mode != cut.mode) continue;
      known = true;
      fixed = placed.levels[k].coordinate >= 0;
      if (placed.levels[k].extent != cut.pieces && !first)
        first =
            plan.about_mode(wrong::pieces_differ_from_the_grid, maker, cut.mode, cut.pieces, placed.levels[k].extent, cut.line);
    }
    for (int k = 0; k < l.where.rank; ++k)
      if (l.where.modes[k] == cut.mode) level = k;
    if (!known && level < 0) note(wrong::node_is_cut_in_time, x.axes[a], cut.pieces, 1, cut.line);
    if (fixed || level < 0 || cut.pieces == 1) continue;
    if (l.where.extents[level] != cut.pieces && !first)
      first = plan.about_mode(wrong::pieces_differ_from_the_grid, maker, cut.mode, cut.pieces, l.where.extents[level], cut.line);
    if (least[a] != unbound) {
      const std::size_t extent = least[a];
      int const* sizes = plan.sizes(cut.sizes);
      pieces[a] *= cut.pieces;
      if (sizes != nullptr) {
        std::size_t sum = 0, small = extent;
        for (int i = 0; i < cut.pieces; ++i) {
          const std::size_t s = static_cast<std::size_t>(sizes[i]);
          sum += s;
          if (s < small) small = s;
        }
        if (sum != extent || pieces[a] != cut.pieces)
          note(wrong::sizes_do_not_sum, x.axes[a], static_cast<long>(sum), static_cast<long>(extent), cut.line);
        least[a] = small;
      } else least[a] /= static_cast<std::size_t>(cut.pieces);
      if (least[a] == 0) note(wrong::too_many_pieces, x.axes[a], pieces[a], static_cast<long>(g.extent(x.axes[a])), cut.line);
    }
    folds[a] += cut.fold;
    if (folds[a] > 2) note(wrong::too_many_cuts, x.axes[a], folds[a], 2, cut.line);
    const std::size_t unit = x.inner[a] < 0 ? 1 : g.extent(f.dims[x.inner[a]].axis);
    l.push({cut.mode, static_cast<signed char>(a), static_cast<signed char>(level), cut.pieces, cut.sizes,
            unit == unbound ? 1 : static_cast<int>(unit), reduction::sum, cut.fold});
  }
  return l;
}

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
