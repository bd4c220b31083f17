// Layouts as words: numbers that a search can compare and look up.
#pragma once
#include <partita/layout/transition_step.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// A layout as a word: which cuts, each a number into a table, axis by axis and in the order of each axis. One byte per
// cut, the first lowest; 0 ends it.
using layout_word = std::uint64_t;

struct layout_words {
  double bytes = 0;                      // of the whole tensor
  std::size_t const* extents = nullptr;  // of the tensor, or null
  growing<part> items;
  unsigned frozen = 0;         // dimensions that skew a cut in time: what lies along them is not of one piece
  bool wide = true;            // few enough dimensions and axes to try every cut
  bool several_units = false;  // cuts of one axis fall on multiples of different numbers

  constexpr part const& item(layout_word w) const { return items[static_cast<int>(w & 255) - 1]; }

  // The cuts that layouts on the way may have: those of both ends, on every dimension of their extent, and even ones.
  constexpr bool collect(layout const& from, layout const& to, int rank) {
    if (!from.where.same_shape(to.where)) return false;
    growing<part> cuts;
    auto add_cut = [&](part p) {
      p.level = 0;
      for (part const& q : cuts)
        if (same_division(p, q)) return;
      cuts.push(p);
    };
    layout const* const ends[]{&from, &to};
    for (layout const* l : ends)
      for (int k = 0; k < l->count; ++k) {
        part const& p = l->parts[k];
        if (p.in_time() && p.skew >= 0) frozen |= 1u << p.skew;
        if (p.in_time() || p.partial()) {
          bool known = false;
          for (part const& q : items) known = known || same_cut(p, q);
          if (!known) items.push(p);
        } else if (p.axis < rank) add_cut(p);
      }
    // What goes to another grid may be cut for the way along the longest axis.
    if (extents != nullptr && rank > 0 && !(from.where == to.where)) {
      part longest;
      longest.axis = 0;
      for (int a = 1; a < rank; ++a)
        if (extents[a] > extents[longest.axis]) longest.axis = static_cast<signed char>(a);
      for (part const& p : cuts)
        if (p.axis == longest.axis && p.unit > longest.unit) longest.unit = p.unit;
      cuts.push(longest);
    }
    for (part const& p : cuts)
      for (part const& q : cuts) several_units = several_units || (p.axis == q.axis && p.unit != q.unit);
    for (part const& p : items)
      for (part const& q : cuts) several_units = several_units || (p.axis == q.axis && p.unit != q.unit);
    const int given = cuts.size;
    for (int k = 0; k < given; ++k)
      for (int l = 0; l < from.where.rank; ++l) {
        part even = cuts[k];
        even.pieces = from.where.extents[l];
        even.sizes = -1;
        even.fold = false;
        add_cut(even);
      }
    for (int l = 0; l < from.where.rank; ++l)
      for (part p : cuts)
        if (p.pieces == from.where.extents[l]) {
          p.level = static_cast<signed char>(l);
          items.push(p);
        }
    unsigned axes = 0;
    for (part const& p : cuts) axes |= 1u << p.axis;
    wide = from.where.rank <= 4 && std::popcount(axes) <= 3;
    return items.size < 255;
  }
  // Cuts of one axis stay in their order; axes and partial results are sorted.
  constexpr layout_word word_of(layout const& l, bool& good) const {
    layout_word word = 0;
    for (int k = 0; k < l.count; ++k) {
      int found = -1;
      for (int i = 0; i < items.size && found < 0; ++i)
        if (same_cut(items[i], l.parts[k])) found = i;
      if (found < 0) good = false;
      else word = with(word, found);
    }
    return word;
  }
  constexpr layout_word with(layout_word w, int i) const {
    part const& p = items[i];
    int at = 0;
    for (layout_word rest = w; rest != 0; rest >>= 8, ++at) {
      part const& q = item(rest);
      if (q.axis > p.axis || (q.axis == p.axis && p.partial() && q.level > p.level)) break;
    }
    const layout_word low = at == 0 ? 0 : w & (~layout_word{0} >> (64 - 8 * at));
    const layout_word high = at == 8 ? 0 : w >> (8 * at);
    return low | static_cast<layout_word>(i + 1) << (8 * at) | (at >= 7 ? 0 : high << (8 * at + 8));
  }
  constexpr layout_word without(layout_word w, unsigned levels) const {
    layout_word r = 0;
    int at = 0;
    for (; w != 0; w >>= 8)
      if (part const& p = item(w); p.level < 0 || !(levels >> p.level & 1)) r |= (w & 255) << (8 * at++);
    return r;
  }
  constexpr double held(layout_word w) const {
    double b = bytes;
    for (; w != 0; w >>= 8)
      if (part const& p = item(w); !p.partial()) b /= p.pieces;
    return b;
  }
  constexpr int pieces_of(layout_word w, int axis) const {
    int n = 1;
    for (; w != 0; w >>= 8)
      if (item(w).axis == axis) n *= item(w).pieces;
    return n;
  }
  constexpr bool is_plain(layout_word word) const {
    for (layout_word w = word; w != 0; w >>= 8)
      if (part const& p = item(w); p.in_time() || p.partial() || p.fold || p.sizes >= 0) return false;
    return extents != nullptr;
  }
  // Where piece k of an axis begins.
  constexpr std::size_t begin_of(layout_word word, int axis, int k) const {
    int pieces = pieces_of(word, axis);
    interval now{0, extents[axis]};
    for (; word != 0; word >>= 8) {
      part const& p = item(word);
      if (p.axis != axis) continue;
      pieces /= p.pieces;
      const interval i = piece(now.size / static_cast<std::size_t>(p.unit), p.pieces, k / pieces % p.pieces);
      now = {now.begin + i.begin * static_cast<std::size_t>(p.unit), i.size * static_cast<std::size_t>(p.unit)};
    }
    return now.begin;
  }
  // Are the pieces of an axis of one size, in whatever order its cuts are?
  constexpr bool is_even(layout_word w, int axis, int pieces) const {
    std::size_t unit = 1;
    for (; w != 0; w >>= 8)
      if (part const& p = item(w); p.axis == axis) unit = static_cast<std::size_t>(p.unit);
    return extents[axis] % (unit * static_cast<std::size_t>(pieces)) == 0;
  }
  // Of plain words with as many pieces of every axis.
  constexpr bool same_pieces_of(layout_word a, layout_word b) const {
    for (int axis = 0; axis < max_rank; ++axis) {
      const int n = pieces_of(a, axis);
      if (n == 1 || (is_even(a, axis, n) && is_even(b, axis, n))) continue;
      for (int k = 1; k < n; ++k)
        if (begin_of(a, axis, k) != begin_of(b, axis, k)) return false;
    }
    return true;
  }
  constexpr bool one_reduction(layout_word w, unsigned levels) const {
    int reduce = -1;
    for (; w != 0; w >>= 8) {
      part const& p = item(w);
      if (!p.partial() || p.level < 0 || !(levels >> p.level & 1)) continue;
      if (reduce >= 0 && reduce != static_cast<int>(p.reduce)) return false;
      reduce = static_cast<int>(p.reduce);
    }
    return true;
  }
  // Pieces of a cut in one unit are no multiples of another: one axis is cut in one unit at a time.
  constexpr bool is_in_one_unit(layout_word w) const {
    if (!several_units) return true;
    for (; w != 0; w >>= 8)
      for (layout_word rest = w >> 8; rest != 0; rest >>= 8)
        if (part const& p = item(w), &q = item(rest); !p.partial() && p.axis == q.axis && p.unit != q.unit) return false;
    return true;
  }
  // The dimension of the innermost cut of an axis, or -1 where it is not one in space.
  constexpr int innermost(layout_word w, int axis) const {
    int level = -1;
    for (; w != 0; w >>= 8)
      if (item(w).axis == axis) level = item(w).level;
    return level >= 0 && !(frozen >> level & 1) ? level : -1;
  }
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
