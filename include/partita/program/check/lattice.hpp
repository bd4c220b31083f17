// Elements that lie at regular places in memory: nested loops, each of which goes a fixed number of bytes further in the
// buffer and a fixed number of elements further in the whole tensor. A box of a tensor in an array of any other box is one
// such lattice. Lattices are met and subtracted exactly, whatever boxes they came from; no element is ever visited alone
// unless strides have no common measure.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace partita::detail::checking {

inline constexpr int max_loops = 12;
struct loop {
  std::int64_t count = 1, place = 0, index = 0;  // place: bytes; index: elements of the whole tensor
};
// Loops by falling stride, no two of extent 1; a row of one loop ends before its next row begins.
struct lattice {
  std::int64_t place = 0, index = 0;
  int depth = 0;
  loop loops[max_loops];

  void push(std::int64_t count, std::int64_t place_step, std::int64_t index_step) {
    if (count == 1) return;
    if (depth > 0) {  // one loop where this one continues the one around it
      loop& around = loops[depth - 1];
      if (around.place == count * place_step && around.index == count * index_step) {
        around = {around.count * count, place_step, index_step};
        return;
      }
    }
    loops[depth++] = {count, place_step, index_step};
  }
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int l = 0; l < depth; ++l) n *= loops[l].count;
    return n;
  }
  std::int64_t last() const {  // the place of the last element
    std::int64_t at = place;
    for (int l = 0; l < depth; ++l) at += (loops[l].count - 1) * loops[l].place;
    return at;
  }
  bool operator==(lattice const& o) const {
    if (place != o.place || index != o.index || depth != o.depth) return false;
    for (int l = 0; l < depth; ++l)
      if (loops[l].count != o.loops[l].count || loops[l].place != o.loops[l].place || loops[l].index != o.loops[l].index)
        return false;
    return true;
  }
};
// Do elements of `size` bytes fill every byte between the first and the last?
inline bool is_dense(lattice const& x, std::int64_t size) { return x.last() + size - x.place == x.elements() * size; }
// Can the lattice be followed: strides fall, rows do not run into each other?
inline bool is_nested(lattice const& x, std::int64_t size) {
  std::int64_t row = size;  // bytes from the first to behind the last
  for (int l = x.depth - 1; l >= 0; --l) {
    if (x.loops[l].place < row) return false;
    row += (x.loops[l].count - 1) * x.loops[l].place;
  }
  return true;
}

// Puts a handful in order: `before(a, b)` says that a comes first.
template <class T, class Before> void sort_few(T* few, int count, Before before) {
  for (int i = 1; i < count; ++i) {
    const T moved = few[i];
    int to = i;
    for (; to > 0 && before(moved, few[to - 1]); --to) few[to] = few[to - 1];
    few[to] = moved;
  }
}

// A lattice, or the inner part of one.
struct lattice_view {
  loop const* loops;
  int depth;
  std::int64_t place, index;
  lattice_view(lattice const& x) : loops(x.loops), depth(x.depth), place(x.place), index(x.index) {}
  lattice_view(loop const* l, int d, std::int64_t p, std::int64_t i) : loops(l), depth(d), place(p), index(i) {}
  std::int64_t last() const {
    std::int64_t at = place;
    for (int l = 0; l < depth; ++l) at += (loops[l].count - 1) * loops[l].place;
    return at;
  }
  std::int64_t stride() const { return depth == 0 ? 0 : loops[0].place; }
  lattice_view row(std::int64_t i) const {
    return {loops + 1, depth - 1, place + i * loops[0].place, index + i * loops[0].index};
  }
  lattice copied() const {
    lattice x;
    x.place = place;
    x.index = index;
    for (int l = 0; l < depth; ++l) x.loops[x.depth++] = loops[l];
    return x;
  }
};

// Calls `visit` with one or two parts of the lattice, each of which has `stride` as its outermost one. False where that
// cannot be: then one has to go row by row of the other.
template <class F> bool stretch(lattice_view const& x, std::int64_t stride, F visit) {
  loop loops[max_loops + 2];
  if (x.depth + 1 > max_loops) return false;
  auto copy = [&](int to, int from) {
    for (int l = from; l < x.depth; ++l) loops[to++] = x.loops[l];
    return to;
  };
  if (x.last() - x.place < stride) {
    loops[0] = {1, stride, 0};
    visit(lattice_view(loops, copy(1, 0), x.place, x.index));
    return true;
  }
  const loop outer = x.loops[0];
  if (stride % outer.place != 0) return false;
  const std::int64_t in_row = stride / outer.place, rows = outer.count / in_row, left = outer.count % in_row;
  const int depth = copy(2, 1);
  if (rows > 0) {
    loops[0] = {rows, stride, in_row * outer.index};
    loops[1] = {in_row, outer.place, outer.index};
    visit(lattice_view(loops, depth, x.place, x.index));
  }
  if (left > 0) {
    loops[0] = {1, stride, 0};
    loops[1] = {left, outer.place, outer.index};
    visit(lattice_view(loops, depth, x.place + rows * stride, x.index + rows * in_row * outer.index));
  }
  return true;
}

// Rows of two lattices of one outermost stride that may share places: row i of the first and row i + offset of the
// second, for i from `begin` to `end`.
struct common_rows {
  std::int64_t offset, begin, end;
};
inline int rows_in_common(lattice_view const& a, lattice_view const& b, common_rows* found) {
  const std::int64_t stride = a.stride(), apart = a.place - b.place;
  std::int64_t whole = apart / stride;
  if (whole * stride > apart) --whole;
  int count = 0;
  for (int shift = 0; shift < (whole * stride == apart ? 1 : 2); ++shift) {
    const std::int64_t offset = whole + shift, begin = std::max<std::int64_t>(0, -offset),
                       end = std::min(a.loops[0].count, b.loops[0].count - offset);
    if (begin < end) found[count++] = {offset, begin, end};
  }
  return count;
}

// Part of two lattices: the same places; the index of each.
struct shared_loop {
  std::int64_t count, place, index, other;
};
struct shared_part {
  std::int64_t place = 0, index = 0, other = 0;
  int depth = 0;
  shared_loop loops[max_loops];
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int l = 0; l < depth; ++l) n *= loops[l].count;
    return n;
  }
  bool same_index() const {
    if (index != other) return false;
    for (int l = 0; l < depth; ++l)
      if (loops[l].index != loops[l].other) return false;
    return true;
  }
};

inline constexpr std::int64_t most_single_rows = 1 << 16;  // of strides without a common measure; more is not followed

namespace meeting {
template <class F> void meet(lattice_view const& a, lattice_view const& b, shared_part& now, F& visit) {
  if (a.place > b.last() || b.place > a.last()) return;
  if (a.depth == 0 && b.depth == 0) {
    now.place = a.place;
    now.index = a.index;
    now.other = b.index;
    visit(std::as_const(now));
    return;
  }
  const std::int64_t of_a = a.stride(), of_b = b.stride();
  if (of_a == of_b) {
    common_rows rows[2];
    for (int k = 0, n = rows_in_common(a, b, rows); k < n; ++k) {
      const std::int64_t count = rows[k].end - rows[k].begin;
      const bool looped = count > 1;
      if (looped && now.depth == max_loops) return;
      if (looped) now.loops[now.depth++] = {count, of_a, a.loops[0].index, b.loops[0].index};
      meet(a.row(rows[k].begin), b.row(rows[k].begin + rows[k].offset), now, visit);
      if (looped) --now.depth;
    }
  } else if (of_a > of_b) {
    if (stretch(b, of_a, [&](lattice_view const& part) { meet(a, part, now, visit); })) return;
    for (std::int64_t i = 0; i < std::min(a.loops[0].count, most_single_rows); ++i) meet(a.row(i), b, now, visit);
  } else {
    if (stretch(a, of_b, [&](lattice_view const& part) { meet(part, b, now, visit); })) return;
    for (std::int64_t i = 0; i < std::min(b.loops[0].count, most_single_rows); ++i) meet(a, b.row(i), now, visit);
  }
}
}  // namespace meeting

// Calls `visit` with every part of `a` and `b` that lies at the same places; the parts are disjoint.
template <class F> void meet(lattice const& a, lattice const& b, F visit) {
  shared_part now;
  meeting::meet(lattice_view(a), lattice_view(b), now, visit);
}
inline std::int64_t elements_in_common(lattice const& a, lattice const& b) {
  std::int64_t n = 0;
  meet(a, b, [&](shared_part const& s) { n += s.elements(); });
  return n;
}

// What is left of `a` without the places of `b`, appended to `left`.
inline void subtract(lattice_view const& a, lattice_view const& b, std::vector<lattice>& left) {
  if (a.place > b.last() || b.place > a.last()) {
    left.push_back(a.copied());
    return;
  }
  if (a.depth == 0 && b.depth == 0) return;
  const std::int64_t of_a = a.stride(), of_b = b.stride();
  auto without_each = [&](std::vector<lattice>& parts, lattice_view const& taken) {
    std::vector<lattice> rest;
    for (lattice const& p : parts) subtract(p, taken, rest);
    parts = std::move(rest);
  };
  if (of_a == of_b) {
    common_rows rows[2];
    const int n = rows_in_common(a, b, rows);
    std::int64_t ends[6]{0, a.loops[0].count};
    int count = 2;
    for (int k = 0; k < n; ++k) {
      ends[count++] = rows[k].begin;
      ends[count++] = rows[k].end;
    }
    sort_few(ends, count, [](std::int64_t x, std::int64_t y) { return x < y; });
    for (int e = 0; e + 1 < count; ++e) {
      const std::int64_t begin = ends[e], end = ends[e + 1];
      if (begin == end) continue;
      std::vector<lattice> inner{a.row(begin).copied()};
      for (int k = 0; k < n; ++k)
        if (rows[k].begin <= begin && end <= rows[k].end) without_each(inner, b.row(begin + rows[k].offset));
      for (lattice const& x : inner) {
        lattice whole;
        whole.place = x.place;
        whole.index = x.index;
        if (end - begin > 1) whole.loops[whole.depth++] = {end - begin, of_a, a.loops[0].index};
        for (int l = 0; l < x.depth && whole.depth < max_loops; ++l) whole.loops[whole.depth++] = x.loops[l];
        left.push_back(whole);
      }
    }
  } else if (of_a > of_b) {
    std::vector<lattice> parts{a.copied()};
    if (!stretch(b, of_a, [&](lattice_view const& taken) { without_each(parts, taken); })) {
      parts.clear();
      for (std::int64_t i = 0; i < std::min(a.loops[0].count, most_single_rows); ++i) subtract(a.row(i), b, parts);
    }
    left.insert(left.end(), parts.begin(), parts.end());
  } else {
    if (stretch(a, of_b, [&](lattice_view const& part) { subtract(part, b, left); })) return;
    std::vector<lattice> parts{a.copied()};
    for (std::int64_t i = 0; i < std::min(b.loops[0].count, most_single_rows); ++i) without_each(parts, b.row(i));
    if (b.loops[0].count <= most_single_rows) left.insert(left.end(), parts.begin(), parts.end());
  }
}

}  // namespace partita::detail::checking
