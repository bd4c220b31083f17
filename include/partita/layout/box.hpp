// Boxes: which elements of a tensor a piece is, and where they lie in a dense row-major array of another box.
#pragma once

#include <partita/core/list.hpp>
#include <partita/layout/layout.hpp>

namespace partita {

struct box {
  int rank = 0;
  interval at[max_rank]{};
  constexpr std::size_t elements() const {
    std::size_t n = 1;
    for (int a = 0; a < rank; ++a) n *= at[a].size;
    return n;
  }
  constexpr bool operator==(box const& o) const {
    if (rank != o.rank) return false;
    for (int a = 0; a < rank; ++a)
      if (!(at[a] == o.at[a])) return false;
    return true;
  }
  constexpr bool contains(box const& o) const {
    for (int a = 0; a < rank; ++a)
      if (o.at[a].size > 0 && (o.at[a].begin < at[a].begin || o.at[a].end() > at[a].end())) return false;
    return true;
  }
};
constexpr box intersection(box const& a, box const& b) {
  box r;
  r.rank = a.rank;
  for (int i = 0; i < a.rank; ++i) {
    const std::size_t begin = a.at[i].begin > b.at[i].begin ? a.at[i].begin : b.at[i].begin,
                      end = a.at[i].end() < b.at[i].end() ? a.at[i].end() : b.at[i].end();
    r.at[i] = {begin, end > begin ? end - begin : 0};
  }
  return r;
}

// Elements from the start of `outer`'s array to the first element of `inner`, and the strides of the axes.
struct place_in {
  std::size_t offset = 0;
  std::size_t strides[max_rank]{};
};
constexpr place_in locate(box const& outer, box const& inner) {
  place_in p;
  std::size_t stride = 1;
  for (int a = outer.rank - 1; a >= 0; --a) {
    p.strides[a] = stride;
    if (inner.at[a].size > 0) p.offset += (inner.at[a].begin - outer.at[a].begin) * stride;
    stride *= outer.at[a].size;
  }
  return p;
}
// Is `inner` one run of memory in the array of `outer`?
constexpr bool is_contiguous(box const& outer, box const& inner) {
  if (inner.elements() == 0) return true;
  int a = outer.rank - 1;
  while (a >= 0 && inner.at[a].size == outer.at[a].size) --a;
  for (--a; a >= 0; --a)
    if (inner.at[a].size != 1) return false;
  return true;
}

// A piece as a short list of boxes that do not meet: one, unless a cut is folded. Its array holds them one after another.
struct box_list {
  box first;
  list<box> rest{};
  int count() const { return 1 + static_cast<int>(rest.size()); }
  box const& operator[](int k) const { return k == 0 ? first : rest[static_cast<std::size_t>(k - 1)]; }
  std::size_t elements() const {
    std::size_t n = first.elements();
    for (box const& b : rest) n += b.elements();
    return n;
  }
  bool operator==(box_list const& o) const { return first == o.first && rest == o.rest; }
};
// Where `inner` lies in the array of `outer`, if it is one run of memory there; in elements.
struct run_in {
  bool one_run = false;
  std::size_t offset = 0;
};
inline run_in find_run(box_list const& outer, box_list const& inner) {
  run_in r{true, 0};
  std::size_t taken = 0;
  for (int k = 0; k < inner.count(); ++k) {
    box const& b = inner[k];
    const std::size_t n = b.elements();
    if (n == 0) continue;
    std::size_t before = 0;
    bool found = false;
    for (int o = 0; o < outer.count() && !found; ++o) {
      if (outer[o].contains(b)) {
        found = true;
        if (!is_contiguous(outer[o], b)) return {};
        const std::size_t at = before + locate(outer[o], b).offset;
        if (taken == 0) r.offset = at;
        else if (at != r.offset + taken) return {};
      } else before += outer[o].elements();
    }
    if (!found) return {};
    taken += n;
  }
  return r;
}

// What a piece has of one axis: one interval, or after folded cuts several, in order.
inline constexpr int max_intervals = 8;
struct intervals {
  int count = 0;
  interval at[max_intervals]{};
  constexpr std::size_t size() const {
    std::size_t n = 0;
    for (int k = 0; k < count; ++k) n += at[k].size;
    return n;
  }
  // Adds elements [begin, begin + size) of the list `from`, counted along it.
  constexpr void take(intervals const& from, interval part) {
    std::size_t before = 0;
    for (int k = 0; k < from.count; ++k) {
      interval const& x = from.at[k];
      const std::size_t low = part.begin > before ? part.begin - before : 0,
                        high = part.end() < before + x.size ? part.end() - before : x.size;
      if (part.end() > before && low < high && count < max_intervals) at[count++] = {x.begin + low, high - low};
      before += x.size;
    }
  }
};
// Successive cuts of one axis, each of the piece that the one before left.
template <class IndexOf>
constexpr intervals cut_intervals(layout const& l, int axis, std::size_t extent, int const* sizes, IndexOf index_of) {
  std::size_t unit = 1;
  for (int p = 0; p < l.count; ++p)
    if (l.parts[p].axis == axis && l.parts[p].unit > 1) unit = static_cast<std::size_t>(l.parts[p].unit);
  intervals now{1, {{0, extent / unit}}};
  for (int p = 0; p < l.count; ++p) {
    part const& x = l.parts[p];
    if (x.axis != axis) continue;
    const int i = index_of(x);
    const std::size_t size = now.size();
    if (!x.fold && now.count == 1) {
      const interval one = piece(size, x.pieces, i, x.sizes < 0 ? nullptr : sizes + x.sizes);
      now.at[0] = {now.at[0].begin + one.begin, one.size};
      continue;
    }
    intervals next;
    if (x.fold) {
      next.take(now, piece(size, 2 * x.pieces, i));
      next.take(now, piece(size, 2 * x.pieces, 2 * x.pieces - 1 - i));
    } else next.take(now, piece(size, x.pieces, i, x.sizes < 0 ? nullptr : sizes + x.sizes));
    if (next.count == 0) next = {1, {{now.at[0].begin, 0}}};
    now = next;
  }
  for (int k = 0; k < now.count; ++k) {
    now.at[k].begin *= unit;
    now.at[k].size *= unit;
  }
  return now;
}
// The same where nothing is folded.
template <class IndexOf>
constexpr interval cut_interval(layout const& l, int axis, std::size_t extent, int const* sizes, IndexOf index_of) {
  return cut_intervals(l, axis, extent, sizes, index_of).at[0];
}

// All boxes of intervals per axis, the last axis fastest.
inline box_list boxes_of(intervals const* axes, int rank) {
  box_list all;
  int count = 1;
  for (int a = 0; a < rank; ++a) count *= axes[a].count;
  for (int k = 0; k < count; ++k) {
    box b;
    b.rank = rank;
    int left = k;
    for (int a = rank - 1; a >= 0; --a) {
      b.at[a] = axes[a].at[left % axes[a].count];
      left /= axes[a].count;
    }
    if (k == 0) all.first = b;
    else all.rest.push_back(b);
  }
  return all;
}
// The piece that a layout gives: `index_of` says which, cut by cut.
template <class IndexOf>
box_list boxes_at(layout const& l, int rank, std::size_t const* extents, int const* sizes, IndexOf index_of) {
  intervals axes[max_rank];
  for (int a = 0; a < rank; ++a) axes[a] = cut_intervals(l, a, extents[a], sizes, index_of);
  return boxes_of(axes, rank);
}

}  // namespace partita
