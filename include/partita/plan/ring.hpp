// Moves round a ring of devices: between a cut in space and the same cut in time, skewed by the dimension in space.
#pragma once
#include <partita/plan/completed.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// Does `turning` (in time, skewed) have at step 0 the piece that `standing` (in space) has?
constexpr bool one_ring(part const& standing, part const& turning, placement const& w) {
  return standing.level >= 0 && turning.in_time() && turning.skew == standing.level && same_division(standing, turning) &&
         standing.pieces == w.extents[standing.level];
}
// Does another cut in time turn along the same dimension? Then neighbours are never at one piece of it.
constexpr bool turns_twice(layout const& l, int turning) {
  for (int p = 0; p < l.count; ++p)
    if (p != turning && l.parts[p].skew >= 0 && l.parts[p].skew == l.parts[turning].skew) return true;
  return false;
}
struct ring {
  int part = -1;  // of the layout that is moved: the one that changes; -1: no ring
  layout made{};
};
// From pieces in space to pieces in time, of which a reader may take parts.
constexpr ring ring_of_pieces(layout const& held, layout const& wanted, int rank) {
  ring r{-1, held};
  if (has_partial(held) || !(held.where == wanted.where)) return {};
  for (int axis = 0; axis < rank; ++axis)
    for (int k = 0;; ++k) {
      const int p = part_on(held, axis, k), q = part_on(wanted, axis, k);
      if (p < 0) break;
      if (q < 0) return {};
      if (same_cut(held.parts[p], wanted.parts[q])) continue;
      if (r.part >= 0 || !one_ring(held.parts[p], wanted.parts[q], held.where)) return {};
      r.part = p;
      r.made.parts[p] = wanted.parts[q];
    }
  return r.part >= 0 && turns_twice(r.made, r.part) ? ring{} : r;
}
// From partial sums over a dimension, of pieces in time, to sums of pieces in space.
constexpr ring ring_of_sums(layout const& held, layout const& wanted, int rank) {
  ring r;
  r.made.where = held.where;
  if (!(held.where == wanted.where)) return {};
  const int partial = part_on(held, -1, 0);
  if (partial < 0 || part_on(held, -1, 1) >= 0 || held.parts[partial].in_time() || held.parts[partial].reduce != reduction::sum)
    return {};
  for (int axis = 0; axis < rank; ++axis)
    for (int k = 0;; ++k) {
      const int p = part_on(held, axis, k), q = part_on(wanted, axis, k);
      if (p < 0) break;
      part now = held.parts[p];
      if (q < 0 || !same_cut(now, wanted.parts[q])) {
        if (q < 0 || r.part >= 0 || now.skew != held.parts[partial].level) return {};
        if (!one_ring(wanted.parts[q], now, held.where)) return {};
        r.part = p;
        now = wanted.parts[q];
      }
      r.made.push(now);
    }
  return r.part >= 0 && turns_twice(held, r.part) ? ring{} : r;
}

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
