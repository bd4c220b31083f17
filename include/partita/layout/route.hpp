// From any layout to any other, on the same devices or on others: a chain of collectives where the grids have one shape or
// can be given one; else a chain, boxes from device to device, and a chain on arrival.
#pragma once
#include <array>

#include <partita/core/list.hpp>
#include <partita/layout/redistribution.hpp>
#include <partita/layout/transition.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct tensor_shape {
  int rank = 0;
  std::size_t extents[max_rank]{};
  std::size_t element_bytes = 4;
  constexpr double bytes() const {
    double b = static_cast<double>(element_bytes);
    for (int a = 0; a < rank; ++a) b *= static_cast<double>(extents[a]);
    return b;
  }
};

// The steps from one layout to another. `start` is the first layout, on a grid of the shape that the steps speak of.
struct route {
  layout start;
  growing<transition_step> steps;
  constexpr bool has(transition_kind kind) const {
    for (transition_step const& s : steps)
      if (s.kind == kind) return true;
    return false;
  }
};

// The layout of a value's pieces as the devices have, or want, them; cuts in time at index 0.
inline list<device_piece> pieces_of(layout const& l, tensor_shape const& x, int const* sizes) {
  list<device_piece> all;
  int c[max_levels]{};
  for (int d = 0, n = l.where.size(); d < n; ++d) {
    l.where.coordinates_at(d, c);
    auto index_of = [&](part const& p) { return p.in_time() ? (p.skew >= 0 ? skewed(c[p.skew], 0, p.pieces) : 0) : c[p.level]; };
    device_piece piece;
    piece.device = l.where.device(c);
    piece.boxes = boxes_at(l, x.rank, x.extents, sizes, index_of);
    for (int k = 0; k < l.count; ++k)
      if (l.parts[k].partial()) piece.partial.push_back(index_of(l.parts[k]));
    all.push_back(std::move(piece));
  }
  return all;
}

namespace detail {

// ---- one shape for two grids: a dimension of 4 is two of 2, where that changes no piece

struct grid_factors {
  int count = 0;
  int extents[max_levels]{}, strides[max_levels]{};
  signed char of[max_levels]{};  // the dimension that it is a factor of
};
constexpr grid_factors factors_of(placement const& w) {  // outermost first
  grid_factors f;
  for (int l = 0; l < w.rank; ++l) {
    int at = f.count++;
    for (; at > 0 && f.strides[at - 1] < w.strides[l]; --at) {
      f.extents[at] = f.extents[at - 1];
      f.strides[at] = f.strides[at - 1];
      f.of[at] = f.of[at - 1];
    }
    f.extents[at] = w.extents[l];
    f.strides[at] = w.strides[l];
    f.of[at] = static_cast<signed char>(l);
  }
  return f;
}
// Splits factors until both lists have the same extents.
constexpr bool factor_alike(grid_factors& a, grid_factors& b) {
  auto split = [](grid_factors& f, int at, int outer) {
    if (f.extents[at] % outer != 0 || f.count == max_levels) return false;
    for (int k = f.count; k > at + 1; --k) {
      f.extents[k] = f.extents[k - 1];
      f.strides[k] = f.strides[k - 1];
      f.of[k] = f.of[k - 1];
    }
    ++f.count;
    const int inner = f.extents[at] / outer;
    f.extents[at + 1] = inner;
    f.strides[at + 1] = f.strides[at];
    f.of[at + 1] = f.of[at];
    f.extents[at] = outer;
    f.strides[at] *= inner;
    return true;
  };
  for (int k = 0; k < a.count || k < b.count; ++k) {
    if (k >= a.count || k >= b.count) return false;
    if (a.extents[k] > b.extents[k] && !split(a, k, b.extents[k])) return false;
    if (b.extents[k] > a.extents[k] && !split(b, k, a.extents[k])) return false;
  }
  return true;
}
// The layout on the factors of its grid. False: a cut that is to be split makes other pieces then.
constexpr bool refine(layout const& l, grid_factors const& f, tensor_shape const& x, layout& out) {
  out = layout{};
  out.where.base = l.where.base;
  out.where.list = l.where.list;
  out.where.rank = f.count;
  int factors[max_levels]{}, first[max_levels]{};
  for (int k = 0; k < f.count; ++k) {
    out.where.extents[k] = f.extents[k];
    out.where.strides[k] = f.strides[k];
    out.where.modes[k] = l.where.modes[f.of[k]];
    if (factors[f.of[k]]++ == 0) first[f.of[k]] = k;
  }
  for (int p = 0; p < l.count; ++p) {
    part const& old = l.parts[p];
    part made = old;
    if (old.skew >= 0) {
      if (factors[old.skew] != 1) return false;
      made.skew = static_cast<signed char>(first[old.skew]);
    }
    if (old.in_time()) {
      out.push(made);
      continue;
    }
    const int n = factors[old.level];
    if (n > 1 && !old.partial()) {
      std::size_t pieces = static_cast<std::size_t>(old.unit);
      for (int q = 0; q < l.count; ++q)
        if (l.parts[q].axis == old.axis) pieces *= static_cast<std::size_t>(l.parts[q].pieces);
      if (old.sizes >= 0 || old.fold || x.extents[old.axis] % pieces != 0) return false;
    }
    if (out.count + n > max_parts) return false;
    for (int k = 0; k < n; ++k) {
      made.level = static_cast<signed char>(first[old.level] + k);
      made.pieces = f.extents[made.level];
      out.push(made);
    }
  }
  return true;
}
// Numbers the dimensions of `b` otherwise, so that its grid is that of `a`, where there is such a way: lists of devices may
// name one grid in two ways. `level`: dimensions before it have their new places.
constexpr bool turn_alike(layout const& a, layout& b, int level = 0) {
  if (level == a.where.rank) return a.where == b.where;
  for (int k = level; k < a.where.rank; ++k) {
    if (b.where.extents[k] != a.where.extents[level]) continue;
    layout turned = b;
    auto exchange = [&](auto* of) {
      const auto kept = of[level];
      of[level] = of[k], of[k] = kept;
    };
    exchange(turned.where.extents);
    exchange(turned.where.strides);
    exchange(turned.where.modes);
    auto turn = [&](signed char& l) {
      if (l == level) l = static_cast<signed char>(k);
      else if (l == k) l = static_cast<signed char>(level);
    };
    for (int p = 0; p < turned.count; ++p) {
      turn(turned.parts[p].level);
      turn(turned.parts[p].skew);
    }
    if (!turn_alike(a, turned, level + 1)) continue;
    b = turned;
    return true;
  }
  return false;
}
constexpr bool of_one_shape(layout const& from, layout const& to, tensor_shape const& x, layout& a, layout& b) {
  const bool listed = from.where.list != nullptr || to.where.list != nullptr;
  if (!(from.where == to.where)) {
    grid_factors f = factors_of(from.where), t = factors_of(to.where);
    if (factor_alike(f, t) && refine(from, f, x, a) && refine(to, t, x, b)) {
      if (listed && !(a.where == b.where)) (void)turn_alike(a, b);
      return true;
    }
  }
  a = from;
  b = to;
  if (!from.where.same_shape(to.where)) return false;
  if (listed && !(a.where == b.where)) (void)turn_alike(a, b);
  return true;
}

// ---- grids of different sizes

// Boxes from one layout to another: what the busiest device sends or gets, and a latency for each message.
template <class Cost>
double seconds_by_boxes(layout const& from, layout const& to, tensor_shape const& x, int const* sizes, Cost const& cost) {
  list<device_piece> have = pieces_of(from, x, sizes);
  const list<device_piece> want = pieces_of(to, x, sizes);
  const traffic t = traffic_of(have, want, redistribute(have, want));
  if (t.messages == 0) return cost.slice(static_cast<double>(t.elements * x.element_bytes));
  return cost.send(static_cast<double>(t.elements * x.element_bytes)) + (t.messages - 1) * cost.send(0.0);
}
// What may arrive: the goal, or the goal cut further along dimensions that replicate it, which all-gathers undo.
inline list<layout> arrivals(layout const& to, tensor_shape const& x) {
  list<layout> all{to};
  int longest = -1;
  double most = 1;
  for (int a = 0; a < x.rank; ++a) {
    double n = static_cast<double>(x.extents[a]);
    for (int p = 0; p < to.count; ++p)
      if (to.parts[p].axis == a) n /= to.parts[p].pieces * to.parts[p].unit;
    if (n > most) most = n, longest = a;
  }
  if (longest < 0) return all;
  unsigned free = (1u << to.where.rank) - 1;
  int unit = 1;
  for (int p = 0; p < to.count; ++p) {
    if (!to.parts[p].in_time()) free &= ~(1u << to.parts[p].level);
    if (to.parts[p].axis == longest) unit = std::max(unit, to.parts[p].unit);
  }
  for (unsigned levels = free; levels != 0; levels = (levels - 1) & free) {
    layout l = to;
    for (int level = 0; level < to.where.rank; ++level)
      if (levels >> level & 1)
        l.push({to.where.modes[level], static_cast<signed char>(longest), static_cast<signed char>(level),
                to.where.extents[level], -1, unit, reduction::sum});
    if (l.count == to.count + std::popcount(levels) && devices_over(to.where, levels) <= most) all.push_back(l);
  }
  return all;
}
template <class Cost>
route cross(layout const& from, layout const& to, tensor_shape const& x, int const* sizes, Cost const& cost) {
  const list<layout> arrive = arrivals(to, x);
  layout wish;  // names the cuts that are worth trying before leaving: those of the goal, and of what may arrive
  wish.where = from.where;
  wish.where.list = nullptr;
  wish.where.base = -1;  // another grid: also along the longest axis
  layout const* const ends[]{&to, &arrive.back()};
  for (layout const* l : ends)
    for (int p = 0; p < l->count; ++p)
      if (part q = l->parts[p]; !q.in_time() && !q.partial() && from.where.rank > 0) {
        q.level = 0;
        q.pieces = from.where.extents[0];
        q.sizes = -1;
        q.fold = false;
        wish.push(q);
      }
  layout_search<Cost> search(from, wish, x.rank, x.bytes(), cost, x.extents);
  list<double> landing;
  for (layout const& l : arrive) {
    bool found = false;
    double seconds = 0;
    (void)cheapest_chain(l, to, x.rank, x.bytes(), found, cost, x.extents, &seconds);
    landing.push_back(found ? seconds : -1);
  }
  // Sent as it is: no chain that takes longer is looked at.
  list<double> at_once;
  double limit = 1e300;
  if (!has_partial(from))
    for (std::size_t k = 0; k < arrive.size(); ++k) {
      at_once.push_back(landing[k] < 0 ? -1 : landing[k] + seconds_by_boxes(from, arrive[k], x, sizes, cost));
      if (at_once[k] >= 0 && at_once[k] < limit) limit = at_once[k];
    }
  (void)search.run(false, limit);
  double best = -1;
  int leave = -1;
  std::size_t land = 0;
  const long each = static_cast<long>(from.where.size()) * to.where.size();
  long work = 100'000;                   // pairs of devices that are looked at
  list<std::array<int, max_rank>> seen;  // pieces per axis: which devices have them matters little
  for (int s : sorted_ids(static_cast<std::size_t>(search.states.size),
                          [&](int a, int b) { return search.states[a].seconds < search.states[b].seconds; })) {
    const layout left = search.layout_of(search.states[s]);
    if (has_partial(left)) continue;
    std::array<int, max_rank> pieces;
    pieces.fill(1);
    for (int p = 0; p < left.count; ++p) pieces[static_cast<std::size_t>(left.parts[p].axis)] *= left.parts[p].pieces;
    if (std::find(seen.begin(), seen.end(), pieces) != seen.end()) continue;
    seen.push_back(pieces);
    for (std::size_t k = 0; k < arrive.size(); ++k) {
      const double known = search.states[s].seconds + landing[k];
      if (landing[k] < 0 || (best >= 0 && known >= best) || (work < 0 && leave >= 0)) continue;
      work -= each;
      const double seconds = s == 0 && !at_once.empty() ? at_once[k] : known + seconds_by_boxes(left, arrive[k], x, sizes, cost);
      if (best >= 0 && seconds >= best) continue;
      best = seconds;
      leave = s;
      land = k;
    }
  }
  route r{from, {}};
  if (leave < 0) return r;
  r.steps = search.chain_to(leave);
  transition_step step;
  step.kind = transition_kind::boxes;
  step.after = arrive[land];
  r.steps.push(step);
  bool found = false;
  const growing<transition_step> last = cheapest_chain(arrive[land], to, x.rank, x.bytes(), found, cost, x.extents);
  for (transition_step const& s : last) r.steps.push(s);
  return r;
}

}  // namespace detail

// There always is a route; where the layouts are equal it has no steps. `sizes`: the plan's list of given sizes, or null.
template <class Cost = link_cost>
route find_route(layout const& from, layout const& to, tensor_shape const& x, int const* sizes = nullptr, Cost const& cost = {}) {
  auto by_boxes = [&] {
    route r{from, {}};
    transition_step step;
    step.kind = transition_kind::boxes;
    step.after = to;
    r.steps.push(step);
    return r;
  };
  for (int p = 0; p < from.count; ++p) {  // pieces that are not stored under the same indices do not make a chain
    bool shared = !from.parts[p].in_time();
    for (int q = 0; q < to.count && !shared; ++q) shared = to.parts[q].in_time() && to.parts[q].mode == from.parts[p].mode;
    if (!shared) return by_boxes();
  }
  layout a, b;
  if (!detail::of_one_shape(from, to, x, a, b)) {
    route crossed = detail::cross(from, to, x, sizes, cost);
    return crossed.steps.size > 0 ? crossed : by_boxes();
  }
  bool found = false;
  double seconds = 0;
  route chain{a, cheapest_chain(a, b, x.rank, x.bytes(), found, cost, x.extents, &seconds)};
  constexpr int few = 32;  // devices of a grid on which boxes are worth a look
  int steps = 0;
  for (transition_step const& s : chain.steps) steps += s.kind != transition_kind::renumber;
  if (found && steps > 1 && a.where.size() <= few && !has_partial(from) &&
      (a.where == b.where || renumbering(a.where, b.where).on_the_same_devices()) &&
      detail::seconds_by_boxes(from, to, x, sizes, cost) < seconds * (1 - 1e-9))
    return by_boxes();
  return found ? chain : by_boxes();
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
