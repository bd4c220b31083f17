// The order of a plan run by devices that take given times: when each works on what.
#pragma once
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <partita/program/order.hpp>

#include "planned.hpp"

namespace partita::testing {

// In words, for INFO: clang captures structured bindings from version 16 on.
inline std::string shape_of(int stages, int micro_batches) {
  return std::to_string(stages) + " stages, " + std::to_string(micro_batches) + " micro-batches";
}

// One instance, on the first of its devices.
struct ran {
  int node, index, device;
  pass when;
  std::int64_t begin, end;
};
struct simulated {
  std::vector<ran> all;
  std::int64_t makespan = 0;  // of forward and backward passes
};
// An instance starts when what it waits for has ended and its devices are free, in the order's turn.
template <class Planned> simulated run_in_order(Planned const& p, std::function<std::int64_t(node const&)> const& duration) {
  instance_graph ig;
  REQUIRE_FALSE(build_instances(p.g, p.plan, p.c, ig));
  const list<instance> order = order_instances(p.g, p.c, ig, duration);
  REQUIRE(static_cast<int>(order.size()) == ig.instances);
  std::vector<std::int64_t> ready(static_cast<std::size_t>(ig.vertices), 0);
  std::vector<std::int64_t> free(static_cast<std::size_t>(2 * p.c.devices), 0);
  std::vector<int> waits(ig.waits.begin(), ig.waits.end());
  simulated s;
  auto finish = [&](auto self, int v, std::int64_t at) -> void {
    for (int e = ig.begin[v]; e < ig.begin[v + 1]; ++e) {
      const std::size_t to = static_cast<std::size_t>(ig.to[e]);
      ready[to] = std::max(ready[to], at);
      if (--waits[to] == 0 && static_cast<int>(to) >= ig.instances) self(self, static_cast<int>(to), ready[to]);
    }
  };
  for (instance const& i : order) {
    const int v = ig.first[i.node] + i.index;
    REQUIRE(waits[static_cast<std::size_t>(v)] == 0);  // the order respects every edge
    node const& n = p.c.nodes[i.node];
    const bool source = n.kind == node_kind::compute && p.g.ops[n.op].info->source != source_kind::none;
    const std::size_t lane = n.kind == node_kind::move ? 1 : 0;
    std::int64_t begin = ready[static_cast<std::size_t>(v)];
    std::vector<int> devices;
    for (int d = 0; d < n.over.where.size(); ++d) devices.push_back(n.over.where.device_at(d));
    if (n.kind == node_kind::move) {
      placement const& from = p.c.values[p.c.input(n, 0)].lay.where;
      for (int d = 0; d < from.size(); ++d) devices.push_back(from.device_at(d));
    }
    if (!source)
      for (int d : devices) begin = std::max(begin, free[2 * static_cast<std::size_t>(d) + lane]);
    const std::int64_t end = begin + (source ? 0 : duration(n));
    if (!source)
      for (int d : devices) free[2 * static_cast<std::size_t>(d) + lane] = end;
    finish(finish, v, end);
    s.all.push_back({i.node, i.index, devices[0], n.replayed ? pass::backward : p.g.ops[n.op].when, begin, end});
    if (p.g.ops[n.op].when != pass::update) s.makespan = std::max(s.makespan, end);
  }
  return s;
}

}  // namespace partita::testing
