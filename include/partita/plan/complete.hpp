// From a plan to the completed plan: one compute node per op, and between ops whatever brings each tensor from the
// layout in which it is made to the layout in which it is read.
#pragma once
#include <partita/plan/arrivals.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {
namespace detail {

struct completion : tensor_arrivals {
  growing<bool> sums_first{};  // per op: an order puts the sum over time of what it reads before it
  constexpr void find_sums_first() {
    for (wish const& w : plan.wishes()) {
      if (w.second.op < 0 || w.first.node.what != between::accumulate) continue;
      sums_first.resize(g.ops.size);
      op_entry const& e = g.ops[w.second.op];
      for (int i = 0; i < e.input_count; ++i)
        sums_first[w.second.op] = sums_first[w.second.op] || g.input(e, i) == w.first.node.tensor;
    }
  }
  // Recompute: within one region, backward ops and the region's second replica read what the second replica makes. What
  // comes from outside the region, or is read outside it, is kept.
  constexpr int slot_read(bool replayed, int tensor) {
    const int maker = g.tensors.at[tensor].op;
    const bool runs_again = again.of_op.size > 0 && again.of_op[maker] >= 0;
    if (moved_again(maker) && !runs_again && (replayed || g.ops[reader].when == pass::backward)) {
      const int slot = tensor + g.tensors.size;  // of the same value, moved again
      if (out.source_value[slot] < 0) out.source_value[slot] = out.source_value[tensor];
      return slot;
    }
    if (!runs_again) return tensor;
    op_entry const& e = g.ops[reader];
    const int wanted = again.of_op[maker];
    if (replayed ? again.of_op[reader] != wanted : e.when != pass::backward || again.of_op[e.origin] != wanted) return tensor;
    if (out.source_value[g.ops[maker].first_output + g.tensors.size] < 0) add_compute(maker, true);
    return tensor + g.tensors.size;
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

  // Terms of a sum that are converted to the wider type in which they are to be added (of gradients made in bf16, to f32) are
  // converted one by one, so that sums over time are made in that type. Where nothing is said of the conversion
  // it stands where the terms are made, and sums over devices are made in that type too. Where it is cut or placed, each term
  // is brought there first: summed over devices in its own type, and rounded once. Where an order puts the sum before the
  // conversion, terms are summed over time in their own type.
  constexpr bool converts_terms(int op, int slot, node& n, int& input, layout& made) {
    op_entry const& e = g.ops[op];
    op_info const& f = *e.info;
    if (e.when != pass::backward || !f.passes_partial || f.variadic || f.input_count != 1) return false;
    if (size_of(f.outputs[0].type) <= size_of(f.inputs[0].type)) return false;
    input = out.source_value[slot];
    const layout terms = out.values[input].lay;
    const int maker = out.values[input].node, rank = f.inputs[0].rank;
    bool sum = false, in_turns = false, skewed = false;  // skewed: at one index in time devices have different terms
    for (int p = 0; p < out.nodes[maker].over.count; ++p) skewed = skewed || out.nodes[maker].over.parts[p].skew >= 0;
    for (int p = 0; p < terms.count; ++p) {
      if (!terms.parts[p].partial()) continue;
      if (terms.parts[p].reduce != reduction::sum) return false;
      sum = true;
      in_turns = in_turns || terms.parts[p].in_time();
    }
    const int entry = said.of(between::move, tensor_of(slot), op);
    const bool is_said = plan.of(op).assigned || plan.of(op).cut_count > 0 || entry >= 0;
    if (!sum || (is_said && !in_turns) || (in_turns && sums_first.size > 0 && sums_first[op])) return false;
    if (layout by; is_said && !skewed && in_turns_of(terms, operand_layout(g, f, f.inputs[0], n.over, false), made)) {
      if (entry >= 0 &&
          in_turns_of(terms, layout_said(g, plan, plan.nodes()[entry], placed_by(g, plan, op), made.where, out.first), by)) {
        const int nodes = out.nodes.size;
        input = moved_in_turns(slot, input, by, rank);
        if (out.nodes.size > nodes) out.nodes.back().said = entry;
        said.use(entry);
      }
      input = moved_in_turns(slot, input, made, rank);
      return true;
    }
    made = terms;
    n.over.count = 0;
    n.over.where = terms.where;
    for (int p = 0; p < terms.count; ++p) {
      part x = terms.parts[p];
      if (x.partial()) continue;
      x.axis = f.inputs[0].dims[x.axis];
      n.over.push(x);
    }
    if (out.nodes[maker].placed_as >= 0) n.placed_as = out.nodes[maker].placed_as;
    return true;
  }
  // Terms in time, each lying in space as `whole` does; false: one of the two has pieces in time.
  static constexpr bool in_turns_of(layout const& terms, layout const& whole, layout& made) {
    made.count = 0;
    made.where = whole.where;
    for (int p = 0; p < terms.count; ++p) {
      if (!terms.parts[p].in_time()) continue;
      if (!terms.parts[p].partial()) return false;
      made.push(terms.parts[p]);
    }
    for (int p = 0; p < whole.count; ++p) {
      if (whole.parts[p].in_time()) return false;
      made.push(whole.parts[p]);
    }
    return true;
  }
  constexpr int moved_in_turns(int slot, int from, layout const& to, int rank) {
    const int known = find_value(slot, to, rank);
    return known >= 0 ? known : change(node_kind::move, slot, from, to);
  }

  // A sum of gradients all of which were made in one other place (by the next stage of a pipeline) is made there too:
  // the sum is sent, not each term. Returns the op in whose place that is: the maker of the term that comes last, since a
  // device may have several turns.
  constexpr int place_of_terms(int op, placement& where) const {
    op_entry const& e = g.ops.at[op];
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
  constexpr void lie_as_terms(int op, layout& over) {
    op_entry const& e = g.ops.at[op];
    op_info const& f = *e.info;
    if (e.when != pass::backward || !f.passes_partial || e.input_count < 2 || plan.of(op).cut_count > 0) return;
    layout first_sum, sum;
    layout const* first = nullptr;
    bool kept = true;  // the terms are themselves sums over time that a policy keeps as it has said
    for (int i = 0; i < e.input_count; ++i) {
      const int v = out.source_value[g.input(e, i)];
      if (v < 0) return;
      int entry = -1;
      const bool is_sum = layout_of_terms(v, sum, entry);
      if (is_sum) sum = without_partial(sum);
      kept = kept && is_sum;
      layout const& l = is_sum ? sum : out.values[v].lay;
      bool good = l.where == over.where && f.inputs[i].rank == f.outputs[0].rank;
      for (int a = 0; a < f.inputs[i].rank && good; ++a)
        good = f.inputs[i].dims[a] == f.outputs[0].dims[a] && (first == nullptr || same_on_axis(*first, l, a));
      if (!good || (first != nullptr && !same_on_axis(*first, l, -1))) return;
      if (first != nullptr) continue;
      if (is_sum) first_sum = sum;
      first = is_sum ? &first_sum : &l;
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
    if ((partial || kept) && turns == 0) over = as;
  }

  constexpr void add_compute(int op, bool replayed = false) {
    op_entry const& e = g.ops.at[op];
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
    n.replayed = replayed;
    if (replayed) n.not_before = again.entry[again.of_op[op]];
    int inputs[max_inputs]{}, slots[max_inputs]{};
    for (int i = 0; i < e.input_count; ++i) {
      const int tensor = g.edges.at[e.first_input + i];
      if (out.source_value.at[tensor] < 0) return note(wrong::not_assigned, g.tensors[tensor].op);
      reader = op;  // what it reads may be made again first, by this same function
      if (!f.variadic) slots[i] = slot_read(replayed, tensor);
    }
    reader = op;
    backward_reader = replayed || e.when == pass::backward;
    layout made;
    growing<int> many;  // of a variadic op, whose inputs are any number
    const bool passes =
        !spans && (converts_terms(op, slots[0], n, inputs[0], made) || passes_partial(e, slots, n.over, inputs, made));
    n.time = passes ? times_run(n.over, made) : times_of(n.over);
    if (!passes)
      for (int i = 0; i < e.input_count; ++i) {
        const int tensor = f.variadic ? g.input(e, i) : slots[i];
        operand const& x = f.input(i);
        reader_turns = turns_beside(n.over, x);
        const int v =
            spans && f.variadic ? out.source_value[tensor] : arrive(tensor, operand_layout(g, f, x, n.over, false), x.rank);
        if (f.variadic) many.push(v);
        else inputs[i] = v;
      }
    // Changes of layout were pushed before this node.
    const int self = out.nodes.size;
    n.first_input = out.inputs.size;
    n.input_count = e.input_count;
    for (int i = 0; i < e.input_count; ++i) out.inputs.push(f.variadic ? many.at[i] : inputs[i]);
    n.first_value = out.values.size;
    n.value_count = f.output_count;
    for (int o = 0; o < f.output_count; ++o) {
      const int tensor = e.first_output + o + (replayed ? g.tensors.size : 0);
      layout l = passes ? made : operand_layout(g, f, f.outputs[o], n.over, true);
      if (spans && f.variadic && n.over.where.rank > 0)
        l.push({n.over.where.modes[0], -1, 0, out.devices, -1, 1, reduction::sum});
      out.source_value.at[tensor] = add_value(tensor, self, l);
    }
    if (!replayed) out.node_of_op.at[op] = self;
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
  out.renewed_by.append(g.tensors.size, -1);
  for (int t = 0; t < g.tensors.size; ++t) {
    const int stored = g.tensors.at[t].carried;
    if (stored < 0 || out.source_value.at[t] < 0 || out.source_value.at[stored] < 0) continue;
    operand const& x = g.operand_of(stored);
    if (renews_in_place(out, stored, t, x.rank)) {
      out.renewed_by[stored] = out.values[out.source_value[t]].node;
      continue;
    }
    const layout wanted = out.values[out.source_value[stored]].lay;
    c.reader_turns = {};
    c.reader = g.tensors[stored].op;
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
    if (!p.assigned) continue;
    if (const int n = detail::devices_of(plan, p); n > out.devices) out.devices = n;
  }
  for (node_plan const& n : plan.nodes())
    if (const int d = detail::devices_of(plan, n.own); n.own.assigned && d > out.devices) out.devices = d;
  out.nodes.reserve(g.ops.size * 2);
  out.values.reserve(g.tensors.size * 2);
  out.inputs.reserve(g.edges.size * 2);
  detail::completion c{{g, plan, out, {}, {}}};
  c.next_value.reserve(g.tensors.size * 2);
  c.last_value.append(2 * g.tensors.size, -1);
  out.source_value.append(2 * g.tensors.size, -1);
  c.find_sums_first();
  c.again.find(g, plan);
  c.said.find(g, plan);
  out.node_of_op.append(g.ops.size, -1);
  for (int op = 0; op < g.ops.size && !out.first; ++op) c.add_compute(op);
  if (!out.first) detail::add_stores(g, c);
  if (out.first) return;
  if (const int n = c.said.not_there(); n >= 0) {
    node_plan const& e = plan.nodes()[n];
    out.first = plan.about(wrong::node_is_not_there, g.tensors[e.key.tensor].op, nullptr, 0, 0, e.line);
    out.first.other.put(e.key.what == between::move ? "moved" : "summed over time");
  }
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
