// Seconds of one instance of a node of the completed plan, before anything is lowered: what `lowering` orders by.
#pragma once
#include <partita/cost/costs.hpp>
#include <partita/plan/completed.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail::node_cost {

// Extents of a piece; where pieces differ in size, of the largest.
constexpr std::size_t piece_extent(std::size_t whole, layout const& l, int axis) {
  for (int p = 0; p < l.count; ++p)
    if (l.parts[p].axis == axis) {
      const std::size_t n = static_cast<std::size_t>(l.parts[p].pieces);
      whole = (whole + n - 1) / n;
    }
  return whole;
}
constexpr double piece_bytes(graph_data const& g, operand const& x, layout const& l) {
  double b = static_cast<double>(size_of(x.type));
  for (int a = 0; a < x.rank; ++a) b *= static_cast<double>(piece_extent(g.extent(x.axes[a]), l, a));
  return b;
}
constexpr int part_at(layout const& l, int level) {
  for (int p = 0; p < l.count; ++p)
    if (l.parts[p].level == level) return p;
  return -1;
}
// Along every dimension of the grid whose cut changes, the collective that changes it; one for all along which partial results
// become whole, as where gradients are brought together over several.
template <class Costs>
constexpr double change(graph_data const& g, operand const& x, layout const& from, layout const& to, Costs const& k) {
  double seconds = 0;
  layout now;
  now.where = from.where;
  unsigned reduced = 0;
  for (int p = 0; p < from.count; ++p) {
    const bool whole = from.parts[p].partial() && from.parts[p].level >= 0 && part_at(to, from.parts[p].level) < 0;
    if (whole) reduced |= 1u << from.parts[p].level;
    else now.push(from.parts[p]);
  }
  if (reduced != 0) seconds += k.collective_over(collective_kind::all_reduce, from.where, reduced, piece_bytes(g, x, now));
  for (int level = 0; level < from.where.rank; ++level) {
    const int p = part_at(now, level), q = part_at(to, level);
    if (p < 0 || (q >= 0 && same_cut(now.parts[p], to.parts[q]))) continue;
    layout rest;
    rest.where = now.where;
    for (int i = 0; i < now.count; ++i)
      if (i != p) rest.push(now.parts[i]);
    const collective_kind kind = now.parts[p].partial() ? (q >= 0 ? collective_kind::reduce_scatter : collective_kind::all_reduce)
                                                        : (q >= 0 ? collective_kind::all_to_all : collective_kind::all_gather);
    seconds += k.collective(kind, from.where, level, piece_bytes(g, x, rest));
    now = rest;
    if (q >= 0) now.push(to.parts[q]);
  }
  return seconds;
}

}  // namespace detail::node_cost

// `k`: `costs`, or what answers as they do (search/at_compile_time.hpp).
template <class Costs> constexpr double node_seconds(graph_data const& g, completed const& c, node const& n, Costs const& k) {
  namespace by = detail::node_cost;
  const int device = n.over.where.device_at(0);
  if (n.kind == node_kind::compute) {
    op_info const& f = *g.ops[n.op].info;
    std::size_t extents[max_dims]{};
    for (int d = 0; d < f.dim_count; ++d) extents[d] = by::piece_extent(g.extent(f.dims[d].axis), n.over, d);
    return k.op(f, extents, device, n.input_count);
  }
  node_value const& from = c.values[c.input(n, 0)];
  operand const& x = g.operand_of(from.tensor);
  if (n.kind != node_kind::move) return k.pass_over(2 * by::piece_bytes(g, x, from.lay), device);
  if (from.lay.where == n.over.where) return by::change(g, x, from.lay, n.over, k);
  const int a = from.lay.where.device_at(0);
  return k.send(a, device, std::min(by::piece_bytes(g, x, from.lay), by::piece_bytes(g, x, n.over)));
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
