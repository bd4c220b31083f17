// Devices that no node of a completed plan tells apart.
#pragma once
#include <algorithm>

#include <partita/core/list.hpp>
#include <partita/core/sort.hpp>
#include <partita/plan/completed.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// Devices that belong to the same nodes are one resource.
struct device_classes {
  list<list<int>> of_node;  // per node: its classes
  int count = 0;
};
inline void add_devices(placement const& w, list<int>& to) {
  for (int i = 0, n = w.size(); i < n; ++i) to.push_back(w.device_at(i));
}
inline device_classes classify(completed const& c) {
  list<list<int>> sets;  // distinct device sets
  list<int> set_of(static_cast<std::size_t>(c.nodes.size));
  list<std::pair<placement, placement>> seen;
  list<int> seen_set;
  for (int id = 0; id < c.nodes.size; ++id) {
    node const& n = c.nodes[id];
    placement const& to = n.over.where;
    placement const& from = n.kind == node_kind::move ? c.values[c.input(n, 0)].lay.where : to;
    std::size_t k = 0;
    while (k < seen.size() && !(seen[k].first == from && seen[k].second == to)) ++k;
    if (k == seen.size()) {
      list<int> devices;
      add_devices(from, devices);
      add_devices(to, devices);
      sort_ids(devices, [](int a, int b) { return a < b; });
      devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
      seen.emplace_back(from, to);
      const auto known = std::find(sets.begin(), sets.end(), devices);
      seen_set.push_back(static_cast<int>(known - sets.begin()));
      if (known == sets.end()) sets.push_back(std::move(devices));
    }
    set_of[static_cast<std::size_t>(id)] = seen_set[k];
  }
  list<list<int>> signature(static_cast<std::size_t>(c.devices));
  for (std::size_t s = 0; s < sets.size(); ++s)
    for (int d : sets[s]) signature[static_cast<std::size_t>(d)].push_back(static_cast<int>(s));
  list<list<int>> distinct;
  for (int d : sorted_ids(signature.size(), [&](int a, int b) {
         return signature[static_cast<std::size_t>(a)] < signature[static_cast<std::size_t>(b)];
       }))
    if (distinct.empty() || distinct.back() != signature[static_cast<std::size_t>(d)])
      distinct.push_back(signature[static_cast<std::size_t>(d)]);
  device_classes r;
  r.count = static_cast<int>(distinct.size());
  list<list<int>> classes_of_set(sets.size());
  for (std::size_t k = 0; k < distinct.size(); ++k)
    for (int s : distinct[k]) classes_of_set[static_cast<std::size_t>(s)].push_back(static_cast<int>(k));
  for (int id = 0; id < c.nodes.size; ++id)
    r.of_node.push_back(classes_of_set[static_cast<std::size_t>(set_of[static_cast<std::size_t>(id)])]);
  return r;
}

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
