// How the tensors of a plan arrive where they are read: sums over time, changes of layout, rings, and which of them several
// readers share.
#pragma once
#include <partita/plan/node_layout.hpp>
#include <partita/plan/reading.hpp>
#include <partita/plan/regions.hpp>
#include <partita/plan/ring.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

struct tensor_arrivals {
  graph_data const& g;
  plan_base const& plan;
  completed& out;
  growing<int> next_value;  // values of one slot are chained
  growing<int> last_value;  // per slot: a tensor, or (after all tensors) a tensor made again
  regions again{};
  said_nodes said{};
  int reader = -1;               // the op that is being added
  int last_fetcher[2]{-1, -1};   // the last node that reads a fetched parameter: of the forward pass, of the backward pass
  growing<int> fetched_first{};  // moves for the first such node of the backward pass
  bool fetched = false;          // for the op that is being added
  time_modes reader_turns{};     // of it: those that cut nothing of the operand that arrives
  bool backward_reader = false;  // it is one of the backward pass, or runs again for one

  constexpr void note(wrong what, int op, long have = 0, long allowed = 0) {
    if (!out.first) out.first = plan.about(what, op, nullptr, have, allowed, 0);
  }
  constexpr int tensor_of(int slot) const { return slot < g.tensors.size ? slot : slot - g.tensors.size; }
  constexpr int add_value(int slot, int node, layout const& l) {
    const int id = out.values.size;
    out.values.push({tensor_of(slot), node, slot >= g.tensors.size, l});
    next_value.push(last_value.at[slot]);
    last_value.at[slot] = id;
    return id;
  }
  constexpr int slot_of(int value) const {
    node_value const& v = out.values.at[value];
    return v.tensor + (v.replayed ? g.tensors.size : 0);
  }
  // A stored tensor that is replicated in time is fetched: moved once for its forward readers and once more for its backward
  // ones, each time when the readers before it are about to run, so that copies of all do not lie about. Readers that run in
  // turns, as under micro-batches, have it moved for every turn. So is what it is converted to for use, where each device
  // converts its piece.
  constexpr bool fetches(int op) const {
    op_entry const& e = g.ops.at[op];
    if (e.info->source == source_kind::none && e.input_count == 1 && e.when == pass::forward && plan.of(op).cut_count > 0) {
      const int maker = g.tensors[g.input(e, 0)].op;
      return g.ops[maker].info->source == source_kind::parameter && e.info->kind == "cast" && fetches(maker);
    }
    if (e.info->source != source_kind::parameter) return false;
    if (said.moves_again(op)) return true;
    op_plan const& p = plan.of(op);
    for (int k = 0; k < p.cut_count; ++k)
      if (p.cuts[k].dim < 0 && p.cuts[k].pieces > 1 && !p.in_space(p.cuts[k].mode)) return true;
    return false;
  }
  // What a policy has said of any other tensor's moves: once more for backward readers, so that what arrived is not kept.
  constexpr bool moved_again(int op) const { return fetches(op) || said.moves_again(op); }
  constexpr void delay_fetch(node& move, int id, bool for_backward) {
    move.fetched_behind = last_fetcher[for_backward ? 1 : 0];
    if (for_backward && move.fetched_behind < 0) fetched_first.push(id);
    fetched = true;
  }
  // A node that reads what was fetched: what comes next is fetched when it is about to run. The first of the backward pass
  // has its own fetched then.
  constexpr void fetched_for(int id) {
    for (int move : fetched_first) out.nodes[move].fetched_behind = id;
    fetched_first.size = 0;
    last_fetcher[backward_reader ? 1 : 0] = id;
    fetched = false;
  }
  constexpr int find_value(int slot, layout const& l, int rank) const {
    for (int v = last_value[slot]; v >= 0; v = next_value[v]) {
      layout const& have = out.values[v].lay;
      if (same_list(have, l)) return v;
      bool same = have.where == l.where && have.count == l.count && same_on_axis(have, l, -1) && same_copies(have, l);
      for (int axis = 0; axis < rank && same; ++axis) same = same_on_axis(have, l, axis);
      if (same) return v;
    }
    return -1;
  }
  constexpr int change(node_kind kind, int slot, int from, layout const& to) {
    const int tensor = out.values[from].tensor;
    const int id = out.nodes.size;
    node n;
    n.kind = kind;
    n.op = g.tensors[tensor].op;
    n.over = without_copies(to);
    n.time = times_of(kind == node_kind::assemble ? out.values[from].lay : to);
    n.first_input = out.inputs.size;
    n.input_count = 1;
    out.inputs.push(from);
    n.first_value = add_value(slot, id, to);
    n.value_count = 1;
    if (kind == node_kind::move && moved_again(n.op)) delay_fetch(n, id, slot >= g.tensors.size);
    out.nodes.push(n);
    return n.first_value;
  }
  // Pieces in time that the reader does not share, put together; the value is otherwise as it was made.
  constexpr int assembled(int from, layout const& wanted, int rank, bool moves, bool& irregular) {
    bool any = false;
    const layout rest = without_unshared_time(out.values[from].lay, wanted, rank, moves, any, irregular);
    if (!any || irregular) return from;
    if (const int kept = kept_sum(from, rank); kept != from) return assembled(kept, wanted, rank, moves, irregular);
    const int known = find_value(slot_of(from), rest, rank);
    return known >= 0 ? known : change(node_kind::assemble, slot_of(from), from, rest);
  }
  // How a policy has said that the sum over time of a value is kept, with the value's own indices in time; false: it has not,
  // or cannot.
  constexpr bool layout_of_terms(int value, layout& made, int& entry) {
    entry = said.of(between::accumulate, out.values[value].tensor);
    if (entry < 0) return false;
    layout const& held = out.values[value].lay;
    bool sums = false;
    for (int p = 0; p < held.count; ++p)
      sums = sums || (held.parts[p].partial() && held.parts[p].in_time() && held.parts[p].reduce != reduction::merge);
    if (!sums) return false;
    node_plan const& e = plan.nodes()[entry];
    const int maker = g.tensors[e.key.tensor].op, stands = out.nodes[out.node_of_op[maker]].placed_as;
    const layout kept = layout_said(g, plan, e, placed_by(g, plan, stands), held.where, out.first);
    made.count = 0;
    made.where = kept.where;
    for (int p = 0; p < held.count; ++p)
      if (held.parts[p].partial() && held.parts[p].in_time()) made.push(held.parts[p]);
    for (int axis = 0; axis < g.operand_of(e.key.tensor).rank; ++axis) {
      bool turns = false;  // terms that are pieces in time stay what they are
      for (int k = 0, p = part_on(held, axis, k); p >= 0; p = part_on(held, axis, ++k)) turns = turns || held.parts[p].in_time();
      if (turns && !pieces_stay(held, kept, axis)) {
        if (!out.first && e.must)
          out.first =
              plan.about(wrong::sum_is_cut_where_its_pieces_are, maker, g.operand_of(e.key.tensor).axes[axis], 0, 0, e.line);
        return false;
      }
      layout const& from = turns ? held : kept;
      for (int k = 0, p = part_on(from, axis, k); p >= 0; p = part_on(from, axis, ++k)) made.push(from.parts[p]);
    }
    return true;
  }
  // Is an axis cut in space as it was said, by none before its last cut in time but those that both have?
  static constexpr bool pieces_stay(layout const& held, layout const& kept, int axis) {
    int next = 0;
    for (int k = 0, p = part_on(held, axis, k); p >= 0; p = part_on(held, axis, ++k)) {
      part const& x = held.parts[p];
      if (x.skew >= 0) return false;
      if (x.in_time()) continue;
      const int q = part_on(kept, axis, next++);
      if (q < 0 || !(held.where == kept.where) || !same_cut(x, kept.parts[q])) return false;
    }
    return part_on(kept, axis, next) < 0;
  }
  // Terms of a sum over time in the layout in which the sum is kept.
  constexpr int kept_sum(int from, int rank) {
    layout terms;
    int entry = -1;
    if (!layout_of_terms(from, terms, entry)) return from;
    said.use(entry);
    const int known = find_value(slot_of(from), terms, rank);
    if (known >= 0) return known;
    const int made = change(node_kind::move, slot_of(from), from, terms);
    out.nodes.back().said = entry;
    return made;
  }
  constexpr bool is_as_early(layout const& held, layout const& target) const {
    const time_modes mine = times_of(held), asked = times_of(target);
    for (int m = 0; m < asked.count; ++m)
      if (mine.find(asked.modes[m]) < 0) return false;
    return true;
  }
  // One neighbour a step, where a reader's cut in time is skewed by the dimension along which the tensor lies; -1: not so.
  constexpr int by_ring(int slot, int from, layout const& wanted, int rank) {
    layout const& held = out.values[from].lay;
    ring r = ring_of_pieces(held, wanted, rank);
    ring_kind kind = ring_kind::pieces;
    if (r.part < 0) {
      r = ring_of_sums(held, wanted, rank);
      kind = ring_kind::sums;
    }
    if (r.part < 0) return -1;
    for (int v = last_value[slot]; v >= 0; v = next_value[v]) {
      node const& n = out.nodes[out.values[v].node];
      const bool serves = kind == ring_kind::sums || n.for_backward == backward_reader;
      if (n.ring == kind && serves && same_list(out.values[v].lay, r.made)) return v;
    }
    const time_modes time = times_of(held);
    const short mode = (kind == ring_kind::pieces ? r.made : held).parts[r.part].mode;
    const int made = change(node_kind::move, slot, from, r.made);
    node& n = out.nodes.back();
    n.ring = kind;
    n.ring_mode = mode;
    n.for_backward = backward_reader;
    if (kind == ring_kind::sums) n.time = time;
    return made;
  }
  constexpr int arrive(int slot, layout const& wanted, int rank) {
    const int source = out.source_value.at[slot], entry = said.of(between::move, tensor_of(slot), reader);
    if (entry < 0) return arrive_from(slot, source, -1, wanted, rank);
    if (readable(out.values[source].lay, wanted, rank)) return source;
    node_plan const& e = plan.nodes()[entry];
    const layout by = on_the_way(layout_said(g, plan, e, placed_by(g, plan, reader), wanted.where, out.first), wanted, rank);
    const time_modes turns = reader_turns;  // what is delivered serves all turns; what they make of it is moved for each
    reader_turns = {};
    const int nodes = out.nodes.size;
    const int delivered = arrive_from(slot, source, -1, by, rank);
    reader_turns = turns;
    if (out.nodes.size > nodes && out.nodes.back().kind == node_kind::move && out.nodes.back().ring == ring_kind::none)
      out.nodes.back().said = entry;
    if (delivered != source) said.use(entry);
    return arrive_from(slot, delivered, delivered == source ? -1 : delivered, wanted, rank);
  }
  // Is a value made of another one, by changes of layout alone?
  constexpr bool comes_by(int value, int of) const {
    while (value != of) {
      node const& n = out.nodes[out.values[value].node];
      if (n.kind == node_kind::compute) return false;
      value = out.input(n, 0);
    }
    return true;
  }
  // `by`: the value by which it has to come, or -1.
  constexpr int arrive_from(int slot, int from, int by, layout const& wanted, int rank) {
    if (readable(out.values.at[from].lay, wanted, rank)) return from;
    bool any = false, irregular = false;
    const layout rest = without_unshared_time(out.values.at[from].lay, wanted, rank, true, any, irregular);
    layout target = target_of(any && !irregular ? rest : out.values.at[from].lay, wanted, rank);
    if (fetches(g.tensors.at[tensor_of(slot)].op))
      for (int m = 0; m < reader_turns.count; ++m)
        if (times_of(out.values[from].lay).find(reader_turns.modes[m]) < 0)  // what it is converted to may be made in such turns
          target.push({reader_turns.modes[m], part::copies, -1, reader_turns.extents[m]});
    if (by < 0)
      if (const int turned = by_ring(slot, from, wanted, rank); turned >= 0) return turned;
    // Another reader's move serves, unless it is of later: a micro-batch does not wait for what needs all of them.
    for (int v = last_value[slot]; v >= 0; v = next_value[v])
      if (out.nodes[out.values[v].node].kind == node_kind::move && out.nodes[out.values[v].node].ring != ring_kind::pieces &&
          readable(out.values[v].lay, wanted, rank) && (by < 0 || comes_by(v, by)) && is_as_early(out.values[v].lay, target) &&
          same_copies(out.values[v].lay, target))
        return v;
    from = assembled(from, wanted, rank, true, irregular);
    if (readable(out.values[from].lay, wanted, rank)) return from;
    const int known = find_value(slot, target, rank);
    return known >= 0 && (by < 0 || comes_by(known, by)) ? known : change(node_kind::move, slot, from, target);
  }
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
