// Pieces of ops and tensors on one device at one index in time, as numbers.
#pragma once
#include <partita/layout/box.hpp>
#include <partita/plan/completed.hpp>

namespace partita::detail {

// Where an instance of a node is: coordinates on the node's grid, and the index of every mode in time.
struct position {
  int coordinates[max_levels]{};
  time_modes times;
  int index[max_time_modes]{};
};
inline int index_of_part(part const& p, position const& at) {
  if (p.level >= 0) return at.coordinates[p.level];
  const int m = at.times.find(p.mode);
  return m < 0 ? 0 : at.index[m];
}

// The box that a layout gives one device.
inline box box_of(graph_data const& g, operand const& x, layout const& l, int const* sizes, position const& at) {
  box b;
  b.rank = x.rank;
  for (int a = 0; a < x.rank; ++a)
    b.at[a] = cut_interval(l, a, g.extent(x.axes[a]), sizes, [&](part const& p) { return index_of_part(p, at); });
  return b;
}
inline box whole_of(graph_data const& g, operand const& x) {
  box b;
  b.rank = x.rank;
  for (int a = 0; a < x.rank; ++a) b.at[a] = {0, g.extent(x.axes[a])};
  return b;
}
// The interval of a letter of an op.
inline interval letter_interval(graph_data const& g, op_info const& f, layout const& over, int d, int const* sizes,
                                position const& at) {
  return cut_interval(over, d, g.extent(f.dims[d].axis), sizes, [&](part const& p) { return index_of_part(p, at); });
}
// What an operand's piece is, given the intervals of the op's letters.
inline box operand_box(graph_data const& g, op_info const& f, operand const& x, interval const* letters) {
  box b;
  b.rank = x.rank;
  for (int a = 0; a < x.rank; ++a) {
    b.at[a] = letters[x.dims[a]];
    if (x.inner[a] >= 0) {
      const std::size_t unit = g.extent(f.dims[x.inner[a]].axis);
      b.at[a].begin *= unit;
      b.at[a].size *= unit;
    }
  }
  return b;
}

// The position of time index `i` of `times`.
inline position position_at(placement const& w, int device, time_modes const& times, int i, bool& here) {
  position p;
  here = w.coordinates_of(device, p.coordinates);
  p.times = times;
  times.index(i, p.index);
  return p;
}
// The number under which a value stores the piece of this position.
inline int stored_index(time_modes const& stored, position const& at) {
  int i = 0;
  for (int m = 0; m < stored.count; ++m) {
    const int k = at.times.find(stored.modes[m]);
    i = i * stored.extents[m] + (k < 0 ? 0 : at.index[k]);
  }
  return i;
}

}  // namespace partita::detail
