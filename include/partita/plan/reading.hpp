// How a tensor that lies in one layout is read in another: whether a reader finds its piece where it is, and if not, what
// a move has to make so that it does.
#pragma once
#include <partita/layout/layout.hpp>
#include <partita/plan/completed.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// Is the piece that a reader wants inside the piece that its own device holds, at the same index in time?
constexpr bool readable(layout const& held, layout const& wanted, int rank) {
  if (has_partial(held)) return false;
  if (!(held.where == wanted.where)) {
    if (held.count > 0) return false;
    int c[max_levels]{};
    for (int i = 0, n = wanted.where.size(); i < n; ++i)
      if (!held.where.coordinates_of(wanted.where.device_at(i), c)) return false;
    return true;
  }
  return encloses(held, wanted, rank);
}

// A cut that both have. `moves`: a move at each index in time has to find its pieces among those of the same index.
constexpr bool is_shared(layout const& held, int p, layout const& wanted, int q, bool moves) {
  if (p < 0 || q < 0 || !same_cut(held.parts[p], wanted.parts[q])) return false;
  return !moves || held.parts[p].skew < 0 || stays_along(held, wanted, held.parts[p].skew);
}
// Parts in time that the reader does not share: those to be put together first. `irregular`: one of them is cut
// further, so that a device's pieces do not make one box.
constexpr layout without_unshared_time(layout const& held, layout const& wanted, int rank, bool moves, bool& any,
                                       bool& irregular) {
  layout l;
  l.where = held.where;
  bool drop[max_parts]{};
  any = irregular = false;
  for (int p = 0; p < held.count; ++p)
    if (held.parts[p].partial() && held.parts[p].in_time()) drop[p] = any = true;
  for (int axis = 0; axis < rank; ++axis) {
    bool shared = true;
    int last_dropped = -1;
    for (int k = 0;; ++k) {
      const int p = part_on(held, axis, k);
      if (p < 0) break;
      shared = shared && is_shared(held, p, wanted, part_on(wanted, axis, k), moves);
      if (last_dropped >= 0 && !held.parts[p].in_time()) irregular = true;
      if (held.parts[p].in_time() && !shared) {
        drop[p] = any = true;
        last_dropped = p;
      }
    }
  }
  for (int p = 0; p < held.count; ++p)
    if (!drop[p]) l.push(held.parts[p]);
  return l;
}
// What a move must make so that the reader finds its piece: the wanted layout, less the reader's own cuts in time
// where they come last on an axis (it takes pieces itself), less every cut of an axis where they do not.
constexpr layout target_of(layout const& held, layout const& wanted, int rank) {
  layout l;
  l.where = wanted.where;
  bool drop[max_parts]{};
  for (int axis = 0; axis < rank; ++axis) {
    int first_own = -1;
    bool shared = true;
    for (int k = 0;; ++k) {
      const int q = part_on(wanted, axis, k);
      if (q < 0) break;
      shared = shared && is_shared(held, part_on(held, axis, k), wanted, q, true);
      if (first_own < 0 && wanted.parts[q].in_time() && !shared) first_own = k;
      if (first_own >= 0) drop[q] = true;
      // A cut in space after one's own cut in time: the piece is taken from the enclosing one.
    }
  }
  for (int q = 0; q < wanted.count; ++q)
    if (!drop[q]) l.push(wanted.parts[q]);
  return l;
}
// What a move delivers on the way to a reader: cuts in space as it was said; in time those of the reader, but along an axis
// where a cut that was said would come after them.
constexpr layout on_the_way(layout const& said, layout const& wanted, int rank) {
  layout l;
  l.where = said.where;
  for (int axis = 0; axis < rank; ++axis) {
    const int before = l.count;
    int next = 0;  // of the cuts that were said, along the axis
    bool turns = false, good = true;
    for (int p = 0; p < wanted.count && good; ++p) {
      part const& x = wanted.parts[p];
      if (x.axis != axis) continue;
      const int q = part_on(said, axis, next);
      if (x.in_time() && (x.skew < 0 || said.where == wanted.where)) {
        turns = true;
        l.push(x);
      } else if (!x.in_time() && q >= 0 && said.where == wanted.where && same_cut(said.parts[q], x) && !turns) {
        ++next;
        l.push(said.parts[q]);
      } else good = false;
    }
    if (part_on(said, axis, next) < 0) continue;
    l.count = before;
    for (int k = 0, q = part_on(said, axis, k); q >= 0; q = part_on(said, axis, ++k)) l.push(said.parts[q]);
  }
  return l;
}
constexpr layout without_partial(layout const& l) {
  layout r;
  r.where = l.where;
  for (int p = 0; p < l.count; ++p)
    if (!l.parts[p].partial()) r.push(l.parts[p]);
  return r;
}
constexpr bool same_copies(layout const& a, layout const& b) { return same_on_axis(a, b, part::copies); }
constexpr time_modes turns_beside(layout const& over, operand const& x) {
  time_modes t;
  for (int p = 0; p < over.count; ++p)
    if (over.parts[p].level < 0 && x.find(over.parts[p].axis) < 0) t.add(over.parts[p].mode, over.parts[p].pieces);
  return t;
}

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
