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
  sequences stretches(p.chain);
  // Some shapes are kept: those of the last bounds, and those that configurations are being solved in.
  struct kept_shape {
    std::unique_ptr<shape_solver> of;
    long last = 0;
    int solvers = 0;
  };
  constexpr std::size_t most_kept = 16;
  std::map<int, kept_shape> shapes;
  long now = 0;
  auto shape_of = [&](int id) -> shape_solver& {
    auto& s = shapes[id];
    s.last = ++now;
    if (!s.of) {
      if (shapes.size() > most_kept) {
        auto oldest = shapes.end();
        for (auto at = shapes.begin(); at != shapes.end(); ++at)
          if (at->first != id && at->second.solvers == 0 && (oldest == shapes.end() || at->second.last < oldest->second.last)) oldest = at;
        if (oldest != shapes.end()) {
          r.eliminations += oldest->second.of->eliminations();
          shapes.erase(oldest);
        }
      }
      s.of = std::make_unique<shape_solver>(p.make_shape(id));
      ++r.shapes;
    }
    return *s.of;
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
  // Others of a shape that will want a closer bound soon get it while the shape is there.
  constexpr double soon = 1.3;
  std::vector<std::vector<int>> of_shape(static_cast<std::size_t>(p.shapes));
  for (std::size_t i = 0; i < p.configurations.size(); ++i)
    of_shape[static_cast<std::size_t>(p.configurations[i].shape)].push_back(static_cast<int>(i));
  std::vector<double> close(p.configurations.size(), -1);
  while (!queue.empty()) {
    const open next = queue.top();
    queue.pop();
    if (next.bound >= r.time / (1 + how.tolerance)) {
      r.lower_bound = std::min(r.lower_bound, next.bound);
      break;
    }
    const int id = p.configurations[static_cast<std::size_t>(next.id)].shape;
    if (next.steps == 0) {
      if (close[static_cast<std::size_t>(next.id)] < 0)
        for (int other : of_shape[static_cast<std::size_t>(id)])
          if (const double bound = p.configurations[static_cast<std::size_t>(other)].bound;
              close[static_cast<std::size_t>(other)] < 0 && bound <= next.bound * soon && bound < r.time) {
            ++r.bounded;
            close[static_cast<std::size_t>(other)] = std::max(bound, configuration_solver(p, stretches, shape_of(id), other, how).first_bound());
          }
      queue.push({std::max(next.bound, close[static_cast<std::size_t>(next.id)]), next.id, 1});
      continue;
    }
    shape_solver& s = shape_of(id);
    auto& solver = solvers[next.id];
    if (!solver) {
      solver = std::make_unique<configuration_solver>(p, stretches, s, next.id, how);
      ++shapes[id].solvers;
      ++r.solved;
    }
    r.listed += next.steps == 2;
    configuration_solver::answer a = solver->solve(r.time, next.steps == 2, queue.empty() ? infinite : queue.top().bound);
    if (a.best.found()) {
      r.best = std::move(a.best);
      r.time = a.time;
      r.memory = time_and_memory(p, s.of(), r.best).memory;
    }
    if (a.open) queue.push({std::max(a.bound, next.bound), next.id, a.paused ? next.steps : 2});
    else {
      r.lower_bound = std::min(r.lower_bound, a.bound);
      solvers.erase(next.id);
      --shapes[id].solvers;
      s.forget();
    }
  }
  for (auto const& [id, s] : shapes) r.eliminations += s.of->eliminations();
  r.lower_bound = std::min(r.lower_bound, r.time);
  return r;
}

}  // namespace partita::spaces
