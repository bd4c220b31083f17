// From a plan to the completed plan: one compute node per op, and between ops whatever brings each tensor from the
// layout in which it is made to the layout in which it is read.
#pragma once
#include <partita/plan/reading.hpp>
#include <partita/plan/regions.hpp>
#include <partita/plan/ring.hpp>
#include <partita/plan/resolve.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {
namespace detail {

struct completion {
  graph_data const& g;
  plan_base const& plan;
  completed& out;
  growing<int> next_value;  // values of one slot are chained
  growing<int> last_value;  // per slot: a tensor, or (after all tensors) a tensor made again
  regions again{};
  int reader = -1;  // the op that is being added
  int last_fetcher[2]{-1, -1};  // the last node that reads a fetched parameter: of the forward pass, of the backward pass
  growing<int> fetched_first{};  // moves for the first such node of the backward pass
  bool fetched = false;         // for the op that is being added
  time_modes reader_turns{};    // of it: those that cut nothing of the operand that arrives
  bool backward_reader = false;  // it is one of the backward pass, or runs again for one

  constexpr void note(wrong what, int op, long have = 0, long allowed = 0) {
    if (!out.first) out.first = plan.about(what, op, nullptr, have, allowed, 0);
  }
  constexpr int tensor_of(int slot) const { return slot < g.tensors.size ? slot : slot - g.tensors.size; }
  constexpr int add_value(int slot, int node, layout const& l) {
    const int id = out.values.size;
    out.values.push({tensor_of(slot), node, slot >= g.tensors.size, l});
    next_value.push(last_value[slot]);
    last_value[slot] = id;
    return id;
  }
  constexpr int slot_of(int value) const {
    return out.values[value].tensor + (out.values[value].replayed ? g.tensors.size : 0);
  }
  // Recompute: within one region, backward ops and the region's second replica read what the second replica makes. What
  // comes from outside the region, or is read outside it, is kept.
  constexpr int slot_read(bool replayed, int tensor) {
    const int maker = g.tensors[tensor].op;
    if (fetches(maker) && (replayed || g.ops[reader].when == pass::backward)) {
      const int slot = tensor + g.tensors.size;  // of the same value, moved again
      if (out.source_value[slot] < 0) out.source_value[slot] = out.source_value[tensor];
      return slot;
    }
    if (again.of_op.size == 0 || again.of_op[maker] < 0) return tensor;
    op_entry const& e = g.ops[reader];
    const int wanted = again.of_op[maker];
    if (replayed ? again.of_op[reader] != wanted : e.when != pass::backward || again.of_op[e.origin] != wanted) return tensor;
    if (out.source_value[g.ops[maker].first_output + g.tensors.size] < 0) add_compute(maker, true);
    return tensor + g.tensors.size;
  }
  // A stored tensor that is replicated in time is fetched: moved once for its forward readers and once more for its backward
  // ones, each time when the readers before it are about to run, so that copies of all do not lie about. Readers that run in
  // turns, as under micro-batches, have it moved for every turn. So is what it is converted to for use, where each device
  // converts its piece.
  constexpr bool fetches(int op) const {
    op_entry const& e = g.ops[op];
    if (e.info->source == source_kind::none && e.input_count == 1 && e.when == pass::forward && plan.of(op).cut_count > 0) {
      const int maker = g.tensors[g.input(e, 0)].op;
      return g.ops[maker].info->source == source_kind::parameter && e.info->kind == "cast" && fetches(maker);
    }
    if (e.info->source != source_kind::parameter) return false;
    op_plan const& p = plan.of(op);
    for (int k = 0; k < p.cut_count; ++k)
      if (p.cuts[k].dim < 0 && p.cuts[k].pieces > 1 && !p.in_space(p.cuts[k].mode)) return true;
    return false;
  }
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
    if (kind == node_kind::move && fetches(n.op)) delay_fetch(n, id, slot >= g.tensors.size);
    out.nodes.push(n);
    return n.first_value;
  }
  // Pieces in time that the reader does not share, put together; the value is otherwise as it was made.
  constexpr int assembled(int from, layout const& wanted, int rank, bool moves, bool& irregular) {
    bool any = false;
    const layout rest = without_unshared_time(out.values[from].lay, wanted, rank, moves, any, irregular);
    if (!any || irregular) return from;
    const int known = find_value(slot_of(from), rest, rank);
    return known >= 0 ? known : change(node_kind::assemble, slot_of(from), from, rest);
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
    int from = out.source_value[slot];
    if (readable(out.values[from].lay, wanted, rank)) return from;
    bool any = false, irregular = false;
    const layout rest = without_unshared_time(out.values[from].lay, wanted, rank, true, any, irregular);
    layout target = target_of(any && !irregular ? rest : out.values[from].lay, wanted, rank);
    if (fetches(g.tensors[tensor_of(slot)].op))
      for (int m = 0; m < reader_turns.count; ++m)
        target.push({reader_turns.modes[m], part::copies, -1, reader_turns.extents[m]});
    if (const int turned = by_ring(slot, from, wanted, rank); turned >= 0) return turned;
    // Another reader's move serves, unless it is of later: a micro-batch does not wait for what needs all of them.
    for (int v = last_value[slot]; v >= 0; v = next_value[v])
      if (out.nodes[out.values[v].node].kind == node_kind::move && out.nodes[out.values[v].node].ring != ring_kind::pieces &&
          readable(out.values[v].lay, wanted, rank) &&
          is_as_early(out.values[v].lay, target) && same_copies(out.values[v].lay, target))
        return v;
    from = assembled(from, wanted, rank, true, irregular);
    if (readable(out.values[from].lay, wanted, rank)) return from;
    const int known = find_value(slot, target, rank);
    return known >= 0 ? known : change(node_kind::move, slot, from, target);
  }

  // A linear op on partial inputs of one layout makes a partial output: the sum is moved once, not each term.
  constexpr bool passes_partial(op_entry const& e, int const* slots, layout const& over, int* inputs, layout& made) {
    op_info const& f = *e.info;
    if (!f.passes_partial || e.input_count < 2) return false;
    for (int i = 0; i < e.input_count; ++i) {
      layout const& first = out.values[out.source_value[slots[i]]].lay;
      bool partial = false;
      for (int p = 0; p < first.count; ++p)
        partial = partial || (first.parts[p].partial() && !first.parts[p].in_time() && first.parts[p].reduce == reduction::sum);
      if (!partial || !(first.where == over.where)) return false;
    }
    for (int i = 0; i < e.input_count; ++i) {
      operand const& x = f.input(i);
      const layout wanted = operand_layout(g, f, x, over, false);
      bool irregular = false;
      inputs[i] = assembled(out.source_value[slots[i]], wanted, x.rank, false, irregular);
      layout have = out.values[inputs[i]].lay;
      if (irregular) return false;
      layout pieces;
      pieces.where = have.where;
      for (int p = 0; p < have.count; ++p)
        if (!have.parts[p].partial()) pieces.push(have.parts[p]);
      if (!same_pieces(pieces, wanted, x.rank)) return false;
      if (i == 0) made = have;
      else if (!same_on_axis(made, have, -1)) return false;
    }
    return true;
  }

  // A sum of gradients all of which were made in one other place (by the next stage of a pipeline) is made there too:
  // the sum is sent, not each term. Returns the op in whose place that is: the maker of the term that comes last, since a
  // device may have several turns.
  constexpr int place_of_terms(int op, placement& where) const {
    op_entry const& e = g.ops[op];
    if (e.when != pass::backward || !e.info->passes_partial || e.input_count < 2 || plan.of(op).assigned) return op;
    placement const* common = nullptr;
    int made_by = op;
    for (int i = 0; i < e.input_count; ++i) {
      const int v = out.source_value[g.input(e, i)];
      if (v < 0) return op;
      placement const& w = out.values[v].lay.where;
      if (common != nullptr && !(*common == w)) return op;
      made_by = out.nodes[out.values[v].node].placed_as;
      common = &w;
    }
    if (*common == where || !common->same_shape(where)) return op;
    for (int l = 0; l < where.rank; ++l)
      if (common->modes[l] != where.modes[l]) return op;
    where = *common;
    return made_by;
  }

  // A sum of gradients all of which are partial, and lie alike but not as the sum is wanted (whole along a sequence that
  // the sum is cut along), is made as they lie: the sum is scattered once, not each term.
  constexpr void lie_as_terms(int op, layout& over) const {
    op_entry const& e = g.ops[op];
    op_info const& f = *e.info;
    if (e.when != pass::backward || !f.passes_partial || e.input_count < 2 || plan.of(op).cut_count > 0) return;
    layout const* first = nullptr;
    for (int i = 0; i < e.input_count; ++i) {
      const int v = out.source_value[g.input(e, i)];
      if (v < 0) return;
      layout const& l = out.values[v].lay;
      bool good = l.where == over.where && f.inputs[i].rank == f.outputs[0].rank;
      for (int a = 0; a < f.inputs[i].rank && good; ++a)
        good = f.inputs[i].dims[a] == f.outputs[0].dims[a] && (first == nullptr || same_on_axis(*first, l, a));
      if (!good || (first != nullptr && !same_on_axis(*first, l, -1))) return;
      if (first == nullptr) first = &l;
    }
    layout as;
    as.where = over.where;
    int turns = 0;
    bool partial = false;
    for (int p = 0; p < first->count; ++p) {
      part x = first->parts[p];
      if (x.partial()) {
        if (x.in_time() || x.reduce != reduction::sum) return;
        partial = true;
        continue;
      }
      x.axis = f.outputs[0].dims[x.axis];
      bool mine = !x.in_time();  // what is summed at an index in time stays there
      for (int q = 0; q < over.count; ++q) mine = mine || same_cut(over.parts[q], x);
      if (!mine) return;
      turns += x.in_time();
      as.push(x);
    }
    for (int q = 0; q < over.count; ++q) turns -= over.parts[q].in_time();
    if (partial && turns == 0) over = as;
  }

  constexpr void add_compute(int op, bool replayed = false) {
    op_entry const& e = g.ops[op];
    op_info const& f = *e.info;
    node n;
    n.op = n.placed_as = op;
    const bool spans = spans_all(g, op);
    if (spans) {
      n.over.where.rank = out.devices > 1 ? 1 : 0;
      n.over.where.extents[0] = out.devices;
      n.over.where.strides[0] = 1;
    } else {
      if (!placed_by(g, plan, op).assigned) return note(wrong::not_assigned, op);
      n.over = says_all(g, plan, op) ? parts_of(g, plan, op, plan.of(op), out.first)
                                     : parts_of(g, plan, op, inherited(g, plan, op), out.first);
      n.placed_as = place_of_terms(op, n.over.where);
      lie_as_terms(op, n.over);
    }
    n.time = times_of(n.over);
    n.replayed = replayed;
    if (replayed) n.not_before = again.entry[again.of_op[op]];
    int inputs[max_inputs]{}, slots[max_inputs]{};
    for (int i = 0; i < e.input_count; ++i) {
      const int tensor = g.input(e, i);
      if (out.source_value[tensor] < 0) return note(wrong::not_assigned, g.tensors[tensor].op);
      reader = op;  // what it reads may be made again first, by this same function
      if (!f.variadic) slots[i] = slot_read(replayed, tensor);
    }
    reader = op;
    backward_reader = replayed || e.when == pass::backward;
    layout made;
    growing<int> many;  // of a variadic op, whose inputs are any number
    const bool passes = !spans && passes_partial(e, slots, n.over, inputs, made);
    if (!passes)
      for (int i = 0; i < e.input_count; ++i) {
        const int tensor = f.variadic ? g.input(e, i) : slots[i];
        operand const& x = f.input(i);
        reader_turns = turns_beside(n.over, x);
        const int v = spans && f.variadic ? out.source_value[tensor]
                                          : arrive(tensor, operand_layout(g, f, x, n.over, false), x.rank);
        if (f.variadic) many.push(v);
        else inputs[i] = v;
      }
    // Changes of layout were pushed before this node.
    const int self = out.nodes.size;
    n.first_input = out.inputs.size;
    n.input_count = e.input_count;
    for (int i = 0; i < e.input_count; ++i) out.inputs.push(f.variadic ? many[i] : inputs[i]);
    n.first_value = out.values.size;
    n.value_count = f.output_count;
    for (int o = 0; o < f.output_count; ++o) {
      const int tensor = e.first_output + o + (replayed ? g.tensors.size : 0);
      layout l = passes ? made : operand_layout(g, f, f.outputs[o], n.over, true);
      if (spans && f.variadic && n.over.where.rank > 0) l.push({n.over.where.modes[0], -1, 0, out.devices, -1, 1, reduction::sum});
      out.source_value[tensor] = add_value(tensor, self, l);
    }
    if (!replayed) out.node_of_op[op] = self;
    out.nodes.push(n);
    if (fetched) fetched_for(self);
    // What the op merges itself is complete with its last piece.
    bool merged = false;
    for (int p = 0; p < n.over.count; ++p) merged = merged || f.dims[n.over.parts[p].axis].merged;
    for (int o = 0; o < f.output_count && merged; ++o) {
      const int tensor = e.first_output + o + (replayed ? g.tensors.size : 0);
      layout const& parts = out.values[out.source_value[tensor]].lay;
      layout rest;
      rest.where = parts.where;
      for (int p = 0; p < parts.count; ++p)
        if (!(parts.parts[p].partial() && parts.parts[p].reduce == reduction::merge)) rest.push(parts.parts[p]);
      out.source_value[tensor] = change(node_kind::assemble, tensor, out.source_value[tensor], rest);
    }
  }
};

// An update writes in place where it was made in the layout of what it renews. Elsewhere (ZeRO: each device updates a
// part) the new value is brought into that layout and then stored.
constexpr bool renews_in_place(completed const& c, int stored, int renewed, int rank) {
  return same_pieces(c.values[c.source_value[renewed]].lay, c.values[c.source_value[stored]].lay, rank);
}
constexpr void add_stores(graph_data const& g, completion& c) {
  completed& out = c.out;
  for (int t = 0; t < g.tensors.size; ++t) out.renewed_by.push(-1);
  for (int t = 0; t < g.tensors.size; ++t) {
    const int stored = g.tensors[t].carried;
    if (stored < 0 || out.source_value[t] < 0 || out.source_value[stored] < 0) continue;
    operand const& x = g.operand_of(stored);
    if (renews_in_place(out, stored, t, x.rank)) {
      out.renewed_by[stored] = out.values[out.source_value[t]].node;
      continue;
    }
    const layout wanted = out.values[out.source_value[stored]].lay;
    c.reader_turns = {};
    const int arrived = c.arrive(t, wanted, x.rank);
    node n;
    n.kind = node_kind::store;
    n.op = n.placed_as = g.tensors[t].op;
    n.over = wanted;
    n.first_input = out.inputs.size;
    n.input_count = 1;
    n.first_value = out.source_value[stored];
    out.inputs.push(arrived);
    out.renewed_by[stored] = out.nodes.size;
    out.nodes.push(n);
  }
}

}  // namespace detail

constexpr void complete(graph_data const& g, plan_base const& plan, completed& out) {
  out.first = plan.first_finding();
  if (out.first) return;
  for (int op = 0; op < g.ops.size; ++op) {
    op_plan const& p = plan.of(op);
    const int n = detail::devices_of(p);
    if (p.assigned && n > out.devices) out.devices = n;
  }
  out.nodes.reserve(g.ops.size * 2);
  out.values.reserve(g.tensors.size * 2);
  out.inputs.reserve(g.edges.size * 2);
  detail::completion c{g, plan, out, {}, {}};
  c.next_value.reserve(g.tensors.size * 2);
  for (int slot = 0; slot < 2 * g.tensors.size; ++slot) {
    c.last_value.push(-1);
    out.source_value.push(-1);
  }
  c.again.find(g, plan);
  for (int op = 0; op < g.ops.size; ++op) out.node_of_op.push(-1);
  for (int op = 0; op < g.ops.size && !out.first; ++op) c.add_compute(op);
  if (!out.first) detail::add_stores(g, c);
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
