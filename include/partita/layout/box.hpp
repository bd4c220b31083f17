// Boxes: which elements of a tensor a piece is, and where they lie in a dense row-major array of another box.
#pragma once
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

// Successive cuts of one axis, each of the piece that the one before left.
template <class IndexOf>
constexpr interval cut_interval(layout const& l, int axis, std::size_t extent, int const* sizes, IndexOf index_of) {
  interval r{0, extent};
  int unit = 1;
  for (int p = 0; p < l.count; ++p)
    if (l.parts[p].axis == axis && l.parts[p].unit > 1) unit = l.parts[p].unit;
  r.size /= static_cast<std::size_t>(unit);
  for (int p = 0; p < l.count; ++p) {
    part const& x = l.parts[p];
    if (x.axis != axis) continue;
    const interval i = piece(r.size, x.pieces, index_of(x), x.sizes < 0 ? nullptr : sizes + x.sizes);
    r.begin += i.begin;
    r.size = i.size;
  }
  r.begin *= static_cast<std::size_t>(unit);
  r.size *= static_cast<std::size_t>(unit);
  return r;
}

}  // namespace partita
