// How a tensor lies on devices and in time: every mode of the grid, and every mode in time, splits an axis,
// holds partial results, or (when it is not listed) replicates.
#pragma once
#include <partita/core/growing.hpp>
#include <partita/model/op_info.hpp>

namespace partita {

inline constexpr int max_levels = 6, max_parts = 8;

// A grid of devices: coordinates (c0, c1, ...) stand on device base + c0 strides[0] + c1 strides[1] + ..., or, where there is a
// list, on the device at that place of it. Dimensions of extent 1 and fixed coordinates are folded into `base`.
struct placement {
  int base = 0, rank = 0;
  int extents[max_levels]{}, strides[max_levels]{};
  short modes[max_levels]{-1, -1, -1, -1, -1, -1};  // what the plan calls the dimension; -1: nothing, as of all devices
  int const* list = nullptr;                        // the plan's, which outlives this
  constexpr int size() const {
    int n = 1;
    for (int l = 0; l < rank; ++l) n *= extents[l];
    return n;
  }
  constexpr int device(int const* coordinates) const {
    int d = base;
    for (int l = 0; l < rank; ++l) d += coordinates[l] * strides[l];
    return list == nullptr ? d : list[d];
  }
  // The device of the i-th coordinate tuple, the last dimension fastest.
  constexpr int device_at(int i) const {
    int d = base;
    for (int l = rank - 1; l >= 0; --l) {
      d += i % extents[l] * strides[l];
      i /= extents[l];
    }
    return list == nullptr ? d : list[d];
  }
  constexpr void coordinates_at(int i, int* c) const {
    for (int l = rank - 1; l >= 0; --l) {
      c[l] = i % extents[l];
      i /= extents[l];
    }
  }
  // The coordinates of a device, if it belongs to the grid.
  constexpr bool coordinates_of(int device, int* c) const {
    if (list != nullptr) return look_for(device, c);
    // By the largest stride first, where each is as long as all that smaller ones span: so it is nearly everywhere.
    int order[max_levels]{}, span = 1;
    bool nested = true;
    for (int l = 0; l < rank; ++l) {
      int at = l;
      for (; at > 0 && strides[order[at - 1]] < strides[l]; --at) order[at] = order[at - 1];
      order[at] = l;
    }
    for (int k = rank - 1; k >= 0; --k) {
      nested = nested && strides[order[k]] >= span;
      span = strides[order[k]] * (extents[order[k]] - 1) + span;
    }
    if (nested) {
      int rest = device - base;
      if (rest < 0) return false;
      for (int k = 0; k < rank; ++k) {
        const int l = order[k];
        c[l] = rest / strides[l];
        if (c[l] >= extents[l]) return false;
        rest -= c[l] * strides[l];
      }
      return rest == 0;
    }
    return look_for(device, c);
  }
  constexpr bool same_shape(placement const& o) const {
    if (rank != o.rank) return false;
    for (int l = 0; l < rank; ++l)
      if (extents[l] != o.extents[l]) return false;
    return true;
  }
  constexpr bool operator==(placement const& o) const {
    if (list != o.list) return same_shape(o) && same_devices(o);
    if (rank != o.rank || base != o.base) return false;
    for (int l = 0; l < rank; ++l)
      if (extents[l] != o.extents[l] || strides[l] != o.strides[l]) return false;
    return true;
  }

 private:
  constexpr bool look_for(int device, int* c) const {
    for (int i = 0, n = size(); i < n; ++i)
      if (device_at(i) == device) {
        coordinates_at(i, c);
        return true;
      }
    return false;
  }
  constexpr bool same_devices(placement const& o) const {  // one by one
    for (int i = 0, n = size(); i < n; ++i)
      if (device_at(i) != o.device_at(i)) return false;
    return true;
  }
};

// Part `i` of an extent cut into n pieces: the first e mod n pieces are one longer. Given sizes replace the rule.
struct interval {
  std::size_t begin = 0, size = 0;
  constexpr bool operator==(interval const&) const = default;
  constexpr std::size_t end() const { return begin + size; }
};
constexpr interval piece(std::size_t extent, int pieces, int i, int const* sizes = nullptr) {
  if (sizes != nullptr) {
    interval r;
    for (int k = 0; k < i; ++k) r.begin += static_cast<std::size_t>(sizes[k]);
    r.size = static_cast<std::size_t>(sizes[i]);
    return r;
  }
  const std::size_t n = static_cast<std::size_t>(pieces), k = static_cast<std::size_t>(i), least = extent / n,
                    longer = extent % n;
  return {k * least + (k < longer ? k : longer), least + (k < longer ? 1 : 0)};
}

// One cut as a tensor, or an op, sees it.
struct part {
  short mode = -1;         // the plan's name for it; -1: none
  signed char axis = -1;   // of the tensor, or the letter of the op; -1: partial results; -2: copies
  signed char level = -1;  // dimension of the placement; -1: in time
  int pieces = 1;
  int sizes = -1;  // given sizes: where they begin in the plan's list; -1: even
  int unit = 1;    // a cut falls on multiples of this (a group's inner extent)
  reduction reduce = reduction::sum;
  bool fold = false;                         // piece i is chunks i and 2n-1-i of 2n
  signed char skew = -1;                     // in time: coordinate r along this dimension has piece (r - t) mod n at time step t
  static constexpr signed char copies = -2;  // in time: the same piece made once more for each index
  constexpr bool partial() const { return axis == -1; }
  constexpr bool in_time() const { return level < 0; }
  constexpr bool operator==(part const& o) const {
    return mode == o.mode && axis == o.axis && level == o.level && pieces == o.pieces && sizes == o.sizes && unit == o.unit &&
           fold == o.fold && skew == o.skew;
  }
};
// The piece that a time step is, at a coordinate along the dimension that skews the cut.
constexpr int skewed(int coordinate, int step, int pieces) { return ((coordinate - step) % pieces + pieces) % pieces; }

struct layout {
  placement where;
  int count = 0;
  part parts[max_parts]{};
  constexpr void push(part const& p) {
    if (count < max_parts) parts[count++] = p;
  }
};

// Two cuts make the same pieces, whoever has them.
constexpr bool same_division(part const& a, part const& b) {
  return a.axis == b.axis && a.pieces == b.pieces && a.sizes == b.sizes && a.unit == b.unit && a.fold == b.fold;
}
// A cut equals another when it takes its index from the same dimension, or in time from the same mode.
constexpr bool same_cut(part const& a, part const& b) {
  return same_division(a, b) && a.level == b.level && (a.level >= 0 || (a.mode == b.mode && a.skew == b.skew));
}

// The k-th part on an axis (or, for axis -1, the k-th partial part), or -1.
constexpr int part_on(layout const& l, int axis, int k) {
  for (int p = 0; p < l.count; ++p)
    if (l.parts[p].axis == axis && k-- == 0) return p;
  return -1;
}
constexpr bool same_on_axis(layout const& a, layout const& b, int axis) {
  int q = 0;
  for (int p = 0; p < a.count; ++p) {
    if (a.parts[p].axis != axis) continue;
    while (q < b.count && b.parts[q].axis != axis) ++q;
    if (q == b.count || !same_cut(a.parts[p], b.parts[q])) return false;
    ++q;
  }
  for (; q < b.count; ++q)
    if (b.parts[q].axis == axis) return false;
  return true;
}
// The same cuts in the same order on one grid: what most layouts that are compared are.
constexpr bool same_list(layout const& a, layout const& b) {
  if (a.count != b.count || !(a.where == b.where)) return false;
  for (int p = 0; p < a.count; ++p)
    if (!same_cut(a.parts[p], b.parts[p])) return false;
  return true;
}
constexpr bool has_partial(layout const& l) {
  for (int p = 0; p < l.count; ++p)
    if (l.parts[p].axis == -1) return true;
  return false;
}
// Whoever holds `held` holds `wanted` on the same grid: each of its cuts is one of theirs, none is finer.
constexpr bool encloses(layout const& held, layout const& wanted, int rank) {
  if (held.count == 0 || same_list(held, wanted)) return true;
  for (int axis = 0; axis < rank; ++axis) {
    int q = 0;
    for (int p = 0; p < held.count; ++p) {
      if (held.parts[p].axis != axis) continue;
      while (q < wanted.count && wanted.parts[q].axis != axis) ++q;
      if (q == wanted.count || !same_cut(held.parts[p], wanted.parts[q])) return false;
      ++q;
    }
  }
  return true;
}
// Along a dimension that skews a cut in time the devices are at different pieces in one step. Does what is held along it, at
// every step, stay where it is?
constexpr bool stays_along(layout const& held, layout const& wanted, int level) {
  if (!held.where.same_shape(wanted.where)) return false;
  for (int p = 0; p < held.count; ++p) {
    if (held.parts[p].level != level) continue;
    if (held.parts[p].partial()) return false;
    for (int k = 0;; ++k) {  // the cuts of its axis up to it
      const int mine = part_on(held, held.parts[p].axis, k), other = part_on(wanted, held.parts[p].axis, k);
      if (other < 0 || !same_cut(held.parts[mine], wanted.parts[other])) return false;
      if (mine == p) break;
    }
  }
  return true;
}
// The same pieces on the same devices at the same indices, nothing partial.
constexpr bool same_pieces(layout const& a, layout const& b, int rank) {
  if (has_partial(a) || has_partial(b) || !(a.where == b.where)) return false;
  for (int axis = 0; axis < rank; ++axis)
    if (!same_on_axis(a, b, axis)) return false;
  return true;
}

}  // namespace partita
