// What a plan under construction is made of: cuts, levels and phases of an op, wishes about order, and ops as a policy
// chooses them.
#pragma once
#include <partita/plan/finding.hpp>
#include <partita/plan/primitives.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// A cut of one op, its axis resolved to a letter; -1: replicas.
struct op_cut {
  short mode = -1;
  signed char dim = -1;
  int pieces = 1, sizes = -1, line = 0;
  bool fold = false;
  short skew = -1;  // the mode of a dimension, or -1
};
struct level {
  short mode = -1;
  int extent = 1, coordinate = -1;  // coordinate -1: all of them
};
inline constexpr int max_phases = 4;
struct op_phase {
  short mode = -1;
  int index = 0;
};
struct op_plan {
  op_cut cuts[max_parts]{};
  level levels[max_levels]{};
  op_phase phases[max_phases]{};
  signed char cut_count = 0, level_count = 0, phase_count = 0;
  bool assigned = false;
  short list = -1;  // of devices, in the plan's own numbers; -1: the grid's places are the devices
  int list_line = 0;
  constexpr bool in_space(short mode) const {
    for (int l = 0; l < level_count; ++l)
      if (levels[l].mode == mode) return true;
    return false;
  }
};
// A moment in the plan's own numbers.
struct moment_entry {
  int op = -1;
  node_key node{};
  signed char when = -1, place_count = 0, index_count = 0;
  op_phase places[max_coordinates]{}, indices[max_coordinates]{};
};
constexpr bool same_ops(moment_entry const& a, moment_entry const& b) {  // whatever their indices
  if (a.op != b.op || a.node != b.node || a.when != b.when || a.place_count != b.place_count) return false;
  for (int p = 0; p < a.place_count; ++p)
    if (a.places[p].mode != b.places[p].mode || a.places[p].index != b.places[p].index) return false;
  return true;
}
// All instances of `first` come before all of `second` on every device that has both.
struct wish {
  moment_entry first, second;
  int line = 0;
  bool continues = false;  // `first` is the `second` of the wish before: links of one sequence
  bool lenient = false;    // a link of a sequence: it may name what no op has
};
struct preference {
  moment_entry which;
  int value = 0, line = 0;
};

// What a policy says about nodes that completion puts between ops: how the tensor lies there, along its own axes.
struct node_plan {
  node_key key{};
  op_plan own{};  // a cut's `dim` is an axis of the tensor
  int line = 0;
  bool must = false;  // it was named exactly: then the node has to be
};
struct node_selection {
  growing<node_key> keys;
  bool named = false;  // exactly
  constexpr node_key const* begin() const { return keys.begin(); }
  constexpr node_key const* end() const { return keys.end(); }
  constexpr int size() const { return keys.size; }
};

class plan_base;
struct op_ref {
  graph_data const* graph;
  int id;
  constexpr op_entry const& entry() const { return graph->ops[id]; }
  constexpr std::string_view kind() const { return entry().info->kind; }
  constexpr text<96> name() const { return graph->name(id); }
  constexpr pass when() const { return entry().when; }
  constexpr operator moment() const {
    moment m;
    m.op = id;
    return m;
  }
  constexpr bool has(axis_info const* axis, char letter = 0) const {  // letter 0: under any
    op_info const& f = *entry().info;
    for (int d = 0; d < f.dim_count; ++d)
      if (f.dims[d].axis->id == axis->id && (letter == 0 || f.dims[d].letter == letter)) return true;
    return false;
  }
};
template <class Axis> constexpr bool has(op_ref op) { return op.has(&axis_of<Axis>::info); }

// Ops chosen by name, axis or pass, in the graph's order.
struct selection {
  graph_data const* graph = nullptr;
  growing<int> ids;
  bool named = false;  // by exact name: then a cut must fit
  struct iterator {
    selection const* all;
    int i;
    constexpr op_ref operator*() const { return {all->graph, all->ids[i]}; }
    constexpr iterator& operator++() {
      ++i;
      return *this;
    }
    constexpr bool operator!=(iterator const& o) const { return i != o.i; }
  };
  constexpr iterator begin() const { return {this, 0}; }
  constexpr iterator end() const { return {this, ids.size}; }
  constexpr int size() const { return ids.size; }
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
