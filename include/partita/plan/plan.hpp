// A plan under construction: for every op its cuts, where its pieces run, and the orders that must hold. The same class
// in constant evaluation and at run time.
#pragma once
#include <partita/core/glob.hpp>
#include <partita/plan/plan_nodes.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

class plan_base : public plan_nodes {
 public:
  constexpr explicit plan_base(graph_data const& g) : plan_nodes(g) { ops_.resize(g.ops.size); }

  // -- selection. Backward and update ops inherit from forward ops, so that only those that are asked for are chosen.
  constexpr selection ops(pass when = pass::forward) const {
    selection s{graph_, {}, false};
    op_entry const* const all = graph_->ops.at;
    s.ids.reserve(graph_->ops.size);
    for (int op = 0; op < graph_->ops.size; ++op)
      if (all[op].when == when) s.ids.at[s.ids.size++] = op;
    return s;
  }
  template <class Axis> constexpr selection ops(with_axis<Axis>, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    return with(&axis_of<Axis>::info, line);
  }
  constexpr selection with(axis_info const* axis, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    selection s{graph_, {}, false};
    op_entry const* const all = graph_->ops.at;
    for (int op = 0; op < graph_->ops.size; ++op)
      if (all[op].when == pass::forward && op_ref{graph_, op}.has(axis)) s.ids.push(op);
    if (s.ids.size == 0) note_axis(wrong::no_such_axis, axis, line);
    return s;
  }
  constexpr selection ops(std::string_view pattern, pass when = pass::forward,
                          int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    return named_like(pattern, line, [when](op_entry const& e) { return e.when == when; });
  }

  // -- op_trans: cuts ops along an axis, or replicates them.
  using plan_nodes::op_trans;
  template <class Axis, char Letter>
  constexpr void op_trans(selection const& s, split<Axis, Letter> c, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    op_trans(s, cut_axis{&axis_of<Axis>::info, c.pieces, c.mode, Letter, c.sizes, c.size_count, c.fold, c.skew}, line);
  }
  template <class Axis, char Letter>
  constexpr void op_trans(op_ref op, split<Axis, Letter> c, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    selection s{graph_, {}, true};
    s.ids.push(op.id);
    op_trans(s, c, line);
  }
  constexpr void op_trans(op_ref op, cut_axis const& c, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    selection s{graph_, {}, true};
    s.ids.push(op.id);
    op_trans(s, c, line);
  }
  constexpr void op_trans(selection const& s, cut_axis const& c, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    op_cut made;
    if (!read(c, line, made)) return;
    bool any = false;
    for (int id : s.ids) {
      op_info const& f = *graph_->ops[id].info;
      int dim = -1;
      bool twice = false;
      for (int d = 0; d < f.dim_count; ++d)
        if (f.dims[d].axis->id == c.axis->id && (c.letter == 0 || f.dims[d].letter == c.letter)) {
          twice = dim >= 0;
          if (dim < 0) dim = d;
        }
      if (dim < 0) continue;
      any = true;
      if (twice && !f.dims[dim].whole) note_op(wrong::axis_names_two_letters, id, c.axis, 2, 1, line);
      else {
        made.dim = static_cast<signed char>(dim);
        push_cut(ops_[id], id, made);
      }
    }
    if (any) return;
    bool known = false;
    for (int op = 0; op < graph_->ops.size && !known; ++op) known = op_ref{graph_, op}.has(c.axis, c.letter);
    if (!known) note_axis(wrong::no_such_axis, c.axis, line, c.letter);
    else if (s.named && s.ids.size > 0) note_op(wrong::op_lacks_the_axis, s.ids[0], c.axis, 0, 0, line);
  }
  constexpr void op_trans(op_ref op, replicate r, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    push_cut(ops_[op.id], op.id, {intern(r.mode), -1, r.pieces, -1, line});
  }
  constexpr void op_trans(selection const& s, replicate r, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    const short mode = intern(r.mode);
    for (int id : s.ids) push_cut(ops_[id], id, {mode, -1, r.pieces, -1, line});
  }

  // -- op_assign: lays modes out in space, by name.
  using plan_nodes::op_assign;
  constexpr void op_assign(selection const& s, grid const& g, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    if (g.rank > max_levels) return note_words("a grid has too many dimensions", line);
    for (int id : s.ids) ops_[id].assigned = true;  // an empty grid is device 0
    for (int d = 0; d < g.rank; ++d) {
      const short mode = intern(g.dimensions[d].name);
      remember_grid(mode, line);
      for (int id : s.ids) push_level(ops_[id], id, {mode, g.dimensions[d].extent, -1}, line);
    }
  }
  constexpr void op_assign(op_ref op, grid const& g, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    selection s{graph_, {}, true};
    s.ids.push(op.id);
    op_assign(s, g, line);
  }
  constexpr void op_assign(selection const& s, at a, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    if (s.ids.size == 0) return;
    if (a.index < 0) return note(about_mode(wrong::device_out_of_range, s.ids[0], intern(a.name), a.index, a.of, line));
    const short mode = intern(a.name);  // once: comparing names is most of what constant evaluation would do here
    for (int id : s.ids) push_level(ops_[id], id, {mode, a.of, a.index}, line);
  }
  constexpr void op_assign(op_ref op, at a, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    if (a.index < 0) note(about_mode(wrong::device_out_of_range, op.id, intern(a.name), a.index, a.of, line));
    else push_level(ops_[op.id], op.id, {intern(a.name), a.of, a.index}, line);
  }
  // Of as many devices as the op's grid has, whenever it is given that.
  constexpr void op_assign(selection const& s, device_list const& list, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    for (int id : s.ids) push_list(ops_[id], id, list, line);
  }
  constexpr void op_assign(op_ref op, device_list const& list, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    push_list(ops_[op.id], op.id, list, line);
  }

  constexpr void op_assign(selection const& s, phase a, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    const short mode = intern(a.name);
    for (int id : s.ids) push_phase(id, {mode, a.index}, line);
  }
  constexpr void op_assign(op_ref op, phase a, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    push_phase(op.id, {intern(a.name), a.index}, line);
  }

  // -- op_order: what comes first on one device.
  constexpr void op_order(moment const& first, moment const& second, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    wishes_.push({entry_of(first, line), entry_of(second, line), line});
  }
  constexpr void op_order(op_ref first, op_ref second, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    moment_entry a, b;
    a.op = first.id;
    b.op = second.id;
    wishes_.push({a, b, line});
  }
  // Of nodes that were not named exactly those that there are.
  constexpr void op_order(node_selection const& first, moment const& second,
                          int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    for (node_key const& k : first) order_nodes(k, second, first.named, line);
  }
  constexpr void op_order(moment const& first, node_selection const& second,
                          int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    for (node_key const& k : second) order_nodes(first, k, second.named, line);
  }
  constexpr void op_order(node_selection const& first, node_selection const& second,
                          int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    for (node_key const& a : first)
      for (node_key const& b : second) order_nodes(a, b, first.named && second.named, line);
  }
  constexpr void op_order(node_selection const& which, priority p, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    for (node_key const& k : which) preferences_.push({entry_of(k, line), p.value, which.named ? line : 0});
  }
  constexpr void op_order(moment const& which, priority p, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    preferences_.push({entry_of(which, line), p.value, line});
  }
  constexpr void op_order(op_ref op, priority p, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    moment_entry which;
    which.op = op.id;
    preferences_.push({which, p.value, line});
  }

  // The same words for another trace of the same model, as when extents are bound later.
  constexpr plan_base for_graph(graph_data const& g) const {
    plan_base p = *this;
    p.graph_ = &g;
    return p;
  }

  // -- what a policy may ask
  constexpr axis_info const* batch_axis() const {  // by convention: the first axis of the first input
    for (int op = 0; op < graph_->ops.size; ++op)
      if (op_info const& f = *graph_->ops[op].info; f.source == source_kind::input && f.dim_count > 0) return f.dims[0].axis;
    return nullptr;
  }
  constexpr op_plan const& of(int op) const { return ops_.at[op]; }
  constexpr op_plan& of(int op) { return ops_.at[op]; }
  constexpr growing<wish> const& wishes() const { return wishes_; }
  constexpr growing<preference> const& preferences() const { return preferences_; }

 private:
  constexpr void order_nodes(moment const& first, moment const& second, bool named, int line) {
    wishes_.push({entry_of(first, line), entry_of(second, line), line, false, !named});
  }
  constexpr void push_phase(int op, op_phase const& x, int line) {
    op_plan& p = ops_[op];
    if (x.index < 0) return note_words("a phase has an index below 0", line);
    for (int i = 0; i < p.phase_count; ++i)
      if (p.phases[i].mode == x.mode) return note(about_mode(wrong::dimension_assigned_twice, op, x.mode, 2, 1, line));
    if (p.phase_count == max_phases) return note_words("an op has more than 4 phases", line);
    p.phases[p.phase_count++] = x;
  }

  friend class sequence;
  growing<op_plan> ops_;
  growing<wish> wishes_;
  growing<preference> preferences_;
};

// Moments one after another: `pt::sequence turns(plan); turns.then(a); turns.then(b);`. What no op has is left out, and the
// next one follows the one before: a stage of a pipeline may have nothing to do in its turn.
class sequence {
 public:
  constexpr explicit sequence(plan_base& plan, int line = line_of(__builtin_LINE(), __builtin_FILE()))
      : plan_(plan), line_(line) {}
  constexpr void then(moment const& m) {
    const moment_entry next = plan_.entry_of(m, line_);
    if (length_++ > 0) plan_.wishes_.push({last_, next, line_, length_ > 2, true});
    last_ = next;
  }

 private:
  plan_base& plan_;
  moment_entry last_{};
  int line_, length_ = 0;
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
