// The exact searcher: the best choice of a space, and a bound that no choice is below.
//
// Configurations are taken in the order of their bounds and dropped when a bound is above the best plan known; what is
// left is solved stage by stage (pipeline.hpp).
#pragma once
#include <partita/search/pipeline.hpp>

namespace partita::spaces {

struct exact_outcome : outcome {
  // What was looked at.
  long configurations = 0, dropped_by_bound = 0, dropped_quickly = 0, solved = 0, eliminations = 0, shapes = 0;
};

// `start`: a choice that is known; the result is no worse.
inline exact_outcome exact(problem const& p, exact_options const& how = {}, choice const* start = nullptr) {
  exact_outcome r;
  r.configurations = static_cast<long>(p.configurations.size());
  r.lower_bound = infinite;
  std::map<int, std::unique_ptr<shape_solver>> shapes;
  std::map<int, int> waiting;
  for (configuration const& c : p.configurations) ++waiting[c.shape];
  auto shape_of = [&](int id) -> shape_solver& {
    auto& s = shapes[id];
    if (!s) {
      s = std::make_unique<shape_solver>(p.make_shape(id));
      ++r.shapes;
    }
    return *s;
  };
  if (start != nullptr && start->found()) {
    const total t = time_and_memory(p, shape_of(p.configurations[static_cast<std::size_t>(start->configuration)].shape).of(), *start);
    if (t.memory <= p.limit) {
      r.best = *start;
      r.time = t.time;
      r.memory = t.memory;
    }
  }
  std::vector<int> order(p.configurations.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return p.configurations[static_cast<std::size_t>(a)].bound < p.configurations[static_cast<std::size_t>(b)].bound;
  });
  for (int id : order) {
    configuration const& c = p.configurations[static_cast<std::size_t>(id)];
    if (c.bound >= r.time * (1 - how.tolerance)) {
      ++r.dropped_by_bound;
      r.lower_bound = std::min(r.lower_bound, c.bound);
    } else {
      shape_solver& s = shape_of(c.shape);
      configuration_solver solver(p, s, id, r.time, how);
      configuration_solver::answer a = solver.solve();
      ++(a.quick ? r.dropped_quickly : r.solved);
      r.lower_bound = std::min(r.lower_bound, a.bound);
      r.least_memory = std::min(r.least_memory, a.least_memory);
      if (a.best.found()) {
        r.best = std::move(a.best);
        r.time = a.time;
        r.memory = time_and_memory(p, s.of(), r.best).memory;
      }
      s.forget();
    }
    if (--waiting[c.shape] == 0)
      if (const auto at = shapes.find(c.shape); at != shapes.end()) {
        r.eliminations += at->second->eliminations();
        shapes.erase(at);
      }
  }
  r.lower_bound = std::min(r.lower_bound, r.time);
  return r;
}

}  // namespace partita::spaces
