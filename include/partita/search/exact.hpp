// The exact searcher: the best choice of a space, and a bound that no choice is below.
//
// Configurations are taken in the order of their bounds until the least bound left is above the best plan known; each is
// solved stage by stage (pipeline.hpp).
#pragma once
#include <queue>

#include <partita/search/pipeline.hpp>

namespace partita::spaces {

struct exact_outcome : outcome {
  // What was looked at.
  long configurations = 0, bounded = 0, solved = 0, listed = 0, eliminations = 0, shapes = 0;
};

// `start`: a choice that is known; the result is no worse.
inline exact_outcome exact(problem const& p, exact_options const& how = {}, choice const* start = nullptr) {
  exact_outcome r;
  r.configurations = static_cast<long>(p.configurations.size());
  r.lower_bound = infinite;
  std::map<int, std::unique_ptr<shape_solver>> shapes;
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
  // The one with the least bound next. A bound is first what is known without the shape, then a closer one.
  struct open {
    double bound;
    int id, steps;  // taken: none, a closer bound, solved without listing
    bool operator<(open const& o) const { return std::tie(bound, id) > std::tie(o.bound, o.id); }
  };
  std::priority_queue<open> queue;
  for (std::size_t i = 0; i < p.configurations.size(); ++i) queue.push({p.configurations[i].bound, static_cast<int>(i), 0});
  std::map<int, std::unique_ptr<configuration_solver>> solvers;
  while (!queue.empty()) {
    const open next = queue.top();
    queue.pop();
    if (next.bound >= r.time * (1 - how.tolerance)) {
      r.lower_bound = std::min(r.lower_bound, next.bound);
      break;
    }
    shape_solver& s = shape_of(p.configurations[static_cast<std::size_t>(next.id)].shape);
    if (next.steps == 0) {
      ++r.bounded;
      queue.push({std::max(next.bound, configuration_solver(p, s, next.id, how).first_bound()), next.id, 1});
      continue;
    }
    auto& solver = solvers[next.id];
    if (!solver) {
      solver = std::make_unique<configuration_solver>(p, s, next.id, how);
      ++r.solved;
    } else ++r.listed;
    configuration_solver::answer a = solver->solve(r.time, next.steps == 2);
    r.least_memory = std::min(r.least_memory, a.least_memory);
    if (a.best.found()) {
      r.best = std::move(a.best);
      r.time = a.time;
      r.memory = time_and_memory(p, s.of(), r.best).memory;
    }
    if (a.open) queue.push({std::max(a.bound, next.bound), next.id, 2});
    else {
      r.lower_bound = std::min(r.lower_bound, a.bound);
      solvers.erase(next.id);
      s.forget();
    }
  }
  for (auto const& [id, s] : shapes) r.eliminations += s->eliminations();
  r.lower_bound = std::min(r.lower_bound, r.time);
  return r;
}

}  // namespace partita::spaces
