// Pieces of ops and tensors on one device at one index in time, as numbers.
#pragma once
#include <partita/layout/route.hpp>
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
  const int m = at.times.find(p.mode), step = m < 0 ? 0 : at.index[m];
  return p.skew < 0 ? step : skewed(at.coordinates[p.skew], step, p.pieces);
}

inline tensor_shape shape_of(graph_data const& g, operand const& x) {
  tensor_shape s;
  s.rank = x.rank;
  s.element_bytes = size_of(x.type);
  for (int a = 0; a < x.rank; ++a) s.extents[a] = g.extent(x.axes[a]);
  return s;
}
// The piece that a layout gives one device.
inline box_list boxes_at(layout const& l, tensor_shape const& x, int const* sizes, position const& at) {
  return boxes_at(l, x.rank, x.extents, sizes, [&](part const& p) { return index_of_part(p, at); });
}
inline box_list boxes_at(graph_data const& g, operand const& x, layout const& l, int const* sizes, position const& at) {
  return boxes_at(l, shape_of(g, x), sizes, at);
}
inline box whole_of(graph_data const& g, operand const& x) {
  box b;
  b.rank = x.rank;
  for (int a = 0; a < x.rank; ++a) b.at[a] = {0, g.extent(x.axes[a])};
  return b;
}
// The intervals of a letter of an op.
inline intervals letter_intervals(graph_data const& g, op_info const& f, layout const& over, int d, int const* sizes,
                                  position const& at) {
  return cut_intervals(over, d, g.extent(f.dims[d].axis), sizes, [&](part const& p) { return index_of_part(p, at); });
}
// What an operand's piece is, given the intervals of the op's letters.
inline box_list operand_boxes(graph_data const& g, op_info const& f, operand const& x, intervals const* letters) {
  intervals axes[max_rank];
  for (int a = 0; a < x.rank; ++a) {
    axes[a] = letters[x.dims[a]];
    if (x.inner[a] < 0) continue;
    const std::size_t unit = g.extent(f.dims[x.inner[a]].axis);
    for (int k = 0; k < axes[a].count; ++k) {
      axes[a].at[k].begin *= unit;
      axes[a].at[k].size *= unit;
    }
  }
  return boxes_of(axes, x.rank);
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
