// What a completed plan takes and holds at the least: a bound of what its simulation says, for a small part of the time.
// Plans of a list that cannot be the best need not be simulated then.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include <partita/simulate/least_seconds.hpp>
#include <partita/simulate/simulate.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct plan_bound {
  double seconds = 0;  // no simulated step of the plan is shorter
  double bytes = 0;    // the device that holds most holds no less: parameters, optimizer state, what backward ops read
};

namespace detail::bounds {

inline double piece_bytes(graph_data const& g, completed const& c, int value) {
  node_value const& v = c.values[value];
  return piece_bytes(g, g.operand_of(v.tensor), v.lay);
}
inline double stored_bytes(graph_data const& g, completed const& c, node const& n) {
  if (n.kind != node_kind::compute) return 0;
  const source_kind from = g.ops[n.op].info->source;
  return from == source_kind::parameter || from == source_kind::state ? piece_bytes(g, c, n.first_value) : 0;
}
// Nodes that have run for a micro-batch when its backward pass begins, whichever of its ops is first.
inline std::vector<bool> run_before_backward(graph_data const& g, completed const& c) {
  const std::size_t nodes = static_cast<std::size_t>(c.nodes.size);
  std::vector<bool> backward(nodes, false), all(nodes, true);  // it is of the backward pass, or comes after what is
  auto each_input = [&](int id, auto visit) {
    node const& n = c.nodes[id];
    for (int in = 0; in < n.input_count; ++in)
      if (const int from = c.values[c.input(n, in)].node; from >= 0 && from < id) visit(static_cast<std::size_t>(from));
  };
  bool any = false;
  for (int id = 0; id < c.nodes.size; ++id) {
    bool after = false;
    each_input(id, [&](std::size_t from) { after = after || backward[from]; });
    op_entry const& e = g.ops[c.nodes[id].op];
    const bool own = c.nodes[id].kind == node_kind::compute && e.when == pass::backward && e.info->source == source_kind::none;
    backward[static_cast<std::size_t>(id)] = after || own;
    if (after || !own) continue;
    any = true;
    std::vector<bool> before(nodes, false);
    before[static_cast<std::size_t>(id)] = true;
    for (int at = id; at >= 0; --at)
      if (before[static_cast<std::size_t>(at)]) each_input(at, [&](std::size_t from) { before[from] = true; });
    for (std::size_t i = 0; i < nodes; ++i) all[i] = all[i] && before[i];
  }
  if (!any) all.assign(nodes, false);
  return all;
}
// By value: is it there when the backward pass begins, for an op of that or one that runs again for it? Views and what moves
// make may lie in what others have made.
inline std::vector<bool> kept_values(graph_data const& g, completed const& c) {
  std::vector<bool> kept(static_cast<std::size_t>(c.values.size), false);
  const std::vector<bool> before = run_before_backward(g, c);
  for (int id = 0; id < c.nodes.size; ++id) {
    node const& n = c.nodes[id];
    if (n.kind != node_kind::compute || !(n.replayed || g.ops[n.op].when == pass::backward)) continue;
    for (int in = 0; in < n.input_count; ++in) {
      const int from = c.values[c.input(n, in)].node;
      node const& maker = c.nodes[from];
      op_entry const& e = g.ops[maker.op];
      if (before[static_cast<std::size_t>(from)] && maker.kind == node_kind::compute && !maker.replayed &&
          e.when == pass::forward && e.info->source == source_kind::none && !e.info->is_view)
        kept[static_cast<std::size_t>(c.input(n, in))] = true;
    }
  }
  return kept;
}

struct job {
  double head = 0, tail = 0;  // what has to run before its first instance can, and after its last one
  double work = 0;            // of all its instances
};
// A device does one op at a time: of those with a head of at least h and a tail of at least q the first waits for h, and q
// comes after the last (Carlier 1982). h and q are taken from some of those there are.
inline double one_machine(std::vector<job> const& jobs) {
  constexpr std::size_t most = 12;
  auto some = [&](double job::*member) {
    std::vector<double> all{0};
    for (job const& j : jobs) all.push_back(j.*member);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.size() <= most) return all;
    std::vector<double> few;
    for (std::size_t i = 0; i < most; ++i) few.push_back(all[i * (all.size() - 1) / (most - 1)]);
    return few;
  };
  double bound = 0;
  const std::vector<double> heads = some(&job::head), tails = some(&job::tail);
  for (double head : heads)
    for (double tail : tails) {
      double work = 0;
      for (job const& j : jobs)
        if (j.head >= head && j.tail >= tail) work += j.work;
      if (work > 0) bound = std::max(bound, head + work + tail);
    }
  return bound;
}

}  // namespace detail::bounds

// `in_flight`: how many micro-batches device 0 has run forward when its first backward op begins; a schedule says that.
inline plan_bound bound_of(graph_data const& g, completed const& c, costs const& k, int in_flight = 1) {
  const std::size_t nodes = static_cast<std::size_t>(c.nodes.size);
  const least_seconds least(g, c, k, rates_of(k, g, c.devices).link);
  std::vector<double> bytes(nodes), head(nodes, 0), tail(nodes, 0);
  std::vector<placement> places;  // those that nodes lie on
  std::vector<int> place_of(nodes, -1);
  for (int id = 0; id < c.nodes.size; ++id) {
    node const& n = c.nodes[id];
    const std::size_t i = static_cast<std::size_t>(id);
    bytes[i] = detail::bounds::stored_bytes(g, c, n);
    for (int in = 0; in < n.input_count; ++in)
      if (const int from = c.values[c.input(n, in)].node; from >= 0 && from < id)
        head[i] = std::max(head[i], head[static_cast<std::size_t>(from)] + least.seconds(from));
    if (least.work(id) <= 0 && bytes[i] <= 0) continue;
    const auto known = std::find(places.begin(), places.end(), n.over.where);
    place_of[i] = static_cast<int>(known - places.begin());
    if (known == places.end()) places.push_back(n.over.where);
  }
  for (int id = c.nodes.size; id-- > 0;) {
    node const& n = c.nodes[id];
    const std::size_t i = static_cast<std::size_t>(id);
    for (int in = 0; in < n.input_count; ++in)
      if (const int from = c.values[c.input(n, in)].node; from >= 0 && from < id)
        tail[static_cast<std::size_t>(from)] = std::max(tail[static_cast<std::size_t>(from)], tail[i] + least.seconds(id));
  }
  // One device of every place stands for it. It computes and communicates at once.
  std::vector<std::vector<detail::bounds::job>> jobs(2 * places.size());
  std::vector<double> held(places.size());
  std::vector<std::vector<int>> reached(places.size());  // by a node's place: those whose device is one of it
  for (std::size_t p = 0; p < places.size(); ++p)
    for (std::size_t q = 0; q < places.size(); ++q) {
      int at[max_levels]{};
      if (places[p].coordinates_of(places[q].device_at(0), at)) reached[p].push_back(static_cast<int>(q));
    }
  for (std::size_t i = 0; i < nodes; ++i) {
    if (place_of[i] < 0) continue;
    for (int q : reached[static_cast<std::size_t>(place_of[i])]) {
      held[static_cast<std::size_t>(q)] += bytes[i];
      node const& n = c.nodes[static_cast<int>(i)];
      if (const double work = least.work(static_cast<int>(i)); work > 0)
        jobs[2 * static_cast<std::size_t>(q) + (n.kind == node_kind::move)].push_back({head[i], tail[i], work * n.time.size()});
    }
  }
  plan_bound r;
  const std::vector<bool> kept = detail::bounds::kept_values(g, c);
  double stored = 0, read_again = 0;  // on device 0; what is made once for all micro-batches counts once
  for (int id = 0; id < c.nodes.size; ++id) {
    node const& n = c.nodes[id];
    int at[max_levels]{};
    if (n.kind != node_kind::compute || !n.over.where.coordinates_of(0, at)) continue;
    stored += bytes[static_cast<std::size_t>(id)];
    for (int v = n.first_value; v < n.first_value + n.value_count; ++v)
      if (kept[static_cast<std::size_t>(v)])
        read_again += std::min(in_flight, n.time.size()) * detail::bounds::piece_bytes(g, c, v);
  }
  r.bytes = stored + read_again;
  for (std::size_t p = 0; p < places.size(); ++p) {
    r.bytes = std::max(r.bytes, held[p]);
    for (std::size_t lane = 0; lane < 2; ++lane) r.seconds = std::max(r.seconds, detail::bounds::one_machine(jobs[2 * p + lane]));
  }
  return r;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
