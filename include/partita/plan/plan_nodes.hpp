// What a policy says about the nodes that completion puts between ops: the moves by which a tensor arrives at its readers,
// the uses of parameters among them, and the sums over pieces in time.
#pragma once
#include <partita/core/glob.hpp>
#include <partita/core/near_name.hpp>
#include <partita/plan/plan_words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

class plan_nodes : public plan_words {
 public:
  // -- selection: what is between the ops of `makers` and their readers, or some of them
  constexpr node_selection moves(selection const& makers) const { return moves_of(makers, nullptr); }
  constexpr node_selection moves(selection const& makers, selection const& readers) const { return moves_of(makers, &readers); }
  constexpr node_selection moves(op_ref maker) const { return moves(only(maker)); }
  constexpr node_selection moves(op_ref maker, op_ref reader) const { return moves(only(maker), only(reader)); }
  // Of parameters, by their names.
  constexpr node_selection uses(std::string_view pattern, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    return moves(parameters(pattern, line));
  }
  constexpr node_selection uses(std::string_view pattern, selection const& readers,
                                int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    return moves(parameters(pattern, line), readers);
  }
  // The sums over time of what ops make; of a parameter those of its gradient, and of what is added up or converted to be it.
  constexpr node_selection accumulates(selection const& makers) const {
    node_selection r{{}, makers.named};
    for (int op : makers.ids) {
      op_entry const& e = graph_->ops[op];
      if (e.info->source == source_kind::parameter) add_terms(r, graph_->tensors[e.first_output].gradient);
      else
        for (int o = 0; o < e.info->output_count; ++o) r.keys.push({between::accumulate, e.first_output + o, -1});
    }
    return r;
  }
  constexpr node_selection accumulates(op_ref maker) const { return accumulates(only(maker)); }
  constexpr node_selection accumulates(std::string_view pattern, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    return accumulates(parameters(pattern, line));
  }

  // -- op_trans: how the tensor is cut there, along its own axes; or that it is moved again for its backward readers.
  template <class Axis, char Letter> constexpr void op_trans(node_selection const& s, split<Axis, Letter> c,
                                                             int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    op_trans(s, cut_axis{&axis_of<Axis>::info, c.pieces, c.mode, Letter, c.sizes, c.size_count, c.fold, c.skew}, line);
  }
  constexpr void op_trans(node_selection const& s, cut_axis const& c, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    op_cut made;
    if (!c.skew.view().empty()) return note_words("a move or a sum is cut in space: its cut cannot be skewed", line);
    if (!read(c, line, made)) return;
    for (node_key const& k : s) {
      const int op = graph_->tensors[k.tensor].op;
      bool twice = false;
      made.dim = static_cast<signed char>(axis_in(k.tensor, c, twice));
      if (twice) note_op(wrong::axis_names_two_letters, op, c.axis, 2, 1, line);
      else if (made.dim >= 0) push_cut(entry(k, s.named, line).own, op, made);
      else if (s.named && s.keys.size == 1) note_op(wrong::op_lacks_the_axis, op, c.axis, 0, 0, line);
    }
  }
  constexpr void op_trans(node_selection const& s, replicate r, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    const short mode = intern(r.mode);
    for (node_key const& k : s) {
      if (k.what != between::move || k.reader >= 0)
        return note_words("what is replicated is the move for all readers of a tensor", line);
      push_cut(entry(k, s.named, line).own, graph_->tensors[k.tensor].op, {mode, -1, r.pieces, -1, line});
    }
  }
  // -- op_assign: the devices of a move that it delivers to, or that keep a sum. Where nothing is said: a move's reader's, and
  // those where what is summed is made.
  constexpr void op_assign(node_selection const& s, grid const& g, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    if (g.rank > max_levels) return note_words("a grid has too many dimensions", line);
    for (node_key const& k : s) {
      op_plan& own = entry(k, s.named, line).own;
      own.assigned = true;
      for (int d = 0; d < g.rank; ++d)
        push_level(own, graph_->tensors[k.tensor].op, {intern(g.dimensions[d].name), g.dimensions[d].extent, -1}, line);
    }
  }
  constexpr void op_assign(node_selection const& s, at a, int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    for (node_key const& k : s) {
      const int op = graph_->tensors[k.tensor].op;
      if (a.index < 0) return note(about_mode(wrong::device_out_of_range, op, intern(a.name), a.index, a.of, line));
      push_level(entry(k, s.named, line).own, op, {intern(a.name), a.of, a.index}, line);
    }
  }
  constexpr void op_assign(node_selection const& s, device_list const& list,
                           int line = line_of(__builtin_LINE(), __builtin_FILE())) {
    for (node_key const& k : s) push_list(entry(k, s.named, line).own, graph_->tensors[k.tensor].op, list, line);
  }

  constexpr growing<node_plan> const& nodes() const { return nodes_; }
  // The entry of a key, made where there is none.
  constexpr node_plan& entry(node_key const& k, bool must, int line) {
    for (node_plan& n : nodes_)
      if (n.key == k) {
        n.must = n.must || must;
        return n;
      }
    nodes_.push({k, {}, line, must});
    return nodes_.back();
  }

 protected:
  constexpr explicit plan_nodes(graph_data const& g) : plan_words(g) {}
  // The ops of a name among those that wanted(op) holds for.
  template <class Wanted> constexpr selection named_like(std::string_view pattern, int line, Wanted wanted) {
    selection s{graph_, {}, true};
    for (char c : pattern)
      if (c == '*') s.named = false;
    for (int op = 0; op < graph_->ops.size; ++op)
      if (wanted(graph_->ops[op]) && matches(pattern, graph_->name(op).view())) s.ids.push(op);
    if (s.ids.size == 0) {
      finding f{wrong::no_op_matches};
      f.op.put(pattern);
      f.line = line;
      nearest_name nearest(pattern);
      for (int op = 0; op < graph_->ops.size; ++op)
        if (wanted(graph_->ops[op])) nearest.look_at(graph_->name(op).view());
      f.other = nearest.found();
      note(f);
    }
    return s;
  }

 private:
  constexpr selection only(op_ref op) const {
    selection s{graph_, {}, true};
    s.ids.push(op.id);
    return s;
  }
  constexpr selection parameters(std::string_view pattern, int line) {
    return named_like(pattern, line, [](op_entry const& e) { return e.info->source == source_kind::parameter; });
  }
  constexpr node_selection moves_of(selection const& makers, selection const* readers) const {
    node_selection r{{}, makers.named && (readers == nullptr || readers->named)};
    for (int op : makers.ids)
      for (int o = 0; o < graph_->ops[op].info->output_count; ++o) {
        const int tensor = graph_->ops[op].first_output + o;
        if (readers == nullptr) r.keys.push({between::move, tensor, -1});
        else
          for (int reader : readers->ids)
            if (reads(reader, tensor)) r.keys.push({between::move, tensor, reader});
      }
    return r;
  }
  constexpr bool reads(int op, int tensor) const {
    op_entry const& e = graph_->ops[op];
    bool any = false;
    for (int i = 0; i < e.input_count; ++i) any = any || graph_->input(e, i) == tensor;
    return any;
  }
  constexpr void add_terms(node_selection& r, int tensor) const {
    if (tensor < 0) return;
    r.keys.push({between::accumulate, tensor, -1});
    op_entry const& e = graph_->ops[graph_->tensors[tensor].op];
    if (e.when != pass::backward || (e.info->kind != "add" && e.info->kind != "cast")) return;
    for (int i = 0; i < e.input_count; ++i) add_terms(r, graph_->input(e, i));
  }
  // The axis of a tensor; the letter is the one that its maker has for it.
  constexpr int axis_in(int tensor, cut_axis const& c, bool& twice) const {
    operand const& x = graph_->operand_of(tensor);
    op_info const& f = *graph_->ops[graph_->tensors[tensor].op].info;
    int found = -1;
    for (int a = 0; a < x.rank; ++a) {
      if (x.axes[a]->id != c.axis->id || (c.letter != 0 && f.dims[x.dims[a]].letter != c.letter)) continue;
      twice = found >= 0;
      if (found < 0) found = a;
    }
    return found;
  }

  growing<node_plan> nodes_;
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
