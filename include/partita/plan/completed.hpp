// The completed plan: everything a plan implies, explicit. Nodes are per op, not per piece: space
// coordinates and time indices are expanded by lowering.
#pragma once
#include <partita/plan/plan.hpp>

namespace partita {

enum class node_kind : std::uint8_t {
  compute,   // an op
  assemble,  // pieces in time put together on each device: concatenated, or summed where they are partial
  move,      // a change of layout between devices
  store      // the renewed value of a stored tensor put in its place, where the update was made in another layout
};
inline constexpr int max_time_modes = 4;
struct time_modes {
  int count = 0;
  short modes[max_time_modes]{};
  int extents[max_time_modes]{};
  constexpr int find(short mode) const {
    for (int m = 0; m < count; ++m)
      if (modes[m] == mode) return m;
    return -1;
  }
  constexpr void add(short mode, int extent) {
    if (find(mode) >= 0 || count == max_time_modes) return;
    modes[count] = mode;
    extents[count++] = extent;
  }
  constexpr int size() const {
    int n = 1;
    for (int m = 0; m < count; ++m) n *= extents[m];
    return n;
  }
  constexpr void index(int i, int* at) const {  // the first mode is the slowest
    for (int m = count - 1; m >= 0; --m) {
      at[m] = i % extents[m];
      i /= extents[m];
    }
  }
};
// A tensor as one node leaves it.
struct node_value {
  int tensor = -1, node = -1;
  bool replayed = false;  // made again for backward readers
  layout lay;             // its parts in time are the indices under which its pieces are stored; a fetched one may have copies
};
// A move over as many steps as there are devices along a dimension: pieces go to the neighbour in every step, or partial
// results do, each device adding its own.
enum class ring_kind : std::uint8_t { none, pieces, sums };
struct node {
  node_kind kind = node_kind::compute;
  int op = -1;            // the op; for assemble and move the op whose output is changed
  int placed_as = -1;     // compute: the op in whose place it runs; itself, but for sums of gradients (complete.hpp)
  bool replayed = false;  // compute: a replica in time, run again for backward readers (recompute)
  // What runs no earlier than the inputs of others are there, or memory would not be saved; where this contradicts what must
  // be so it does not count. replayed: a backward op, whose gradients count.
  int not_before = -1;
  int fetched_behind = -1;  // a move of a fetched parameter: the node that reads the parameter fetched before it
  int said = -1;            // move: the entry of the plan that says the layout made
  layout over;              // compute: cuts by letter of the op; else the layout made
  time_modes time;
  ring_kind ring = ring_kind::none;      // of a move
  short ring_mode = -1;                  // the mode in time that counts its steps
  bool for_backward = false;             // ring of pieces: whose readers it serves; kept for both it would hold them all
  int first_input = 0, input_count = 0;  // into completed::inputs
  int first_value = 0, value_count = 0;
};
struct completed {
  growing<node> nodes;
  growing<node_value> values;
  growing<int> inputs;        // value ids
  growing<int> node_of_op;    // the compute node, or -1
  growing<int> source_value;  // per tensor: the value its op makes, or -1; then per tensor: the value made again, or -1
  growing<int> renewed_by;    // per stored tensor: the node after which it holds the next step's value, or -1
  int devices = 0;
  finding first{};
  // Its instances make one value between them, complete after the last.
  static constexpr bool puts_together(node const& n) { return n.kind == node_kind::assemble || n.ring == ring_kind::sums; }
  constexpr int input(node const& n, int i) const { return inputs.at[n.first_input + i]; }
};

constexpr layout without_copies(layout const& l) {
  layout r;
  r.where = l.where;
  for (int p = 0; p < l.count; ++p)
    if (l.parts[p].axis != part::copies) r.push(l.parts[p]);
  return r;
}
// The time modes under which a value's pieces are stored.
constexpr time_modes times_of(layout const& l) {
  time_modes t;
  for (int p = 0; p < l.count; ++p)
    if (l.parts[p].level < 0) t.add(l.parts[p].mode, l.parts[p].pieces);
  return t;
}
// Those of a compute node: of what it is cut by, and of the partial results that it passes on.
constexpr time_modes times_run(layout const& over, layout const& made) {
  time_modes t = times_of(over);
  for (int p = 0; p < made.count; ++p)
    if (made.parts[p].partial() && made.parts[p].in_time()) t.add(made.parts[p].mode, made.parts[p].pieces);
  return t;
}

}  // namespace partita
