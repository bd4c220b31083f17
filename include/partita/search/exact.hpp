// The exact searcher: the best choice of a space, and a bound that no choice is below.
//
// Configurations are taken in the order of their bounds until the least bound left is above the best plan known; each is
// solved stage by stage (pipeline.hpp).
#pragma once
#include <queue>

#include <partita/search/kept_shapes.hpp>
#include <partita/search/leanest.hpp>
#include <partita/search/pipeline.hpp>

namespace partita::spaces {

struct exact_outcome : outcome {
  // What was looked at.
  long configurations = 0, bounded = 0, solved = 0, listed = 0, eliminations = 0;
  // Per configuration: seconds that no choice in it takes less than, and those of the best one known or infinite.
  std::vector<double> bounds, times;
};

// `start`: a choice that is known. The result is no worse, and it bounds the search from the beginning.
inline exact_outcome exact(problem const& p, exact_options const& how = {}, choice const* start = nullptr) {
  exact_outcome r;
  r.configurations = static_cast<long>(p.configurations.size());
  r.time = how.faster_than;  // as if such a choice were known
  sequences stretches(p.chain);
  kept_shapes shapes(p);
  if (start != nullptr && start->found()) {
    const total t =
        time_and_memory(p, shapes.of(p.configurations[static_cast<std::size_t>(start->configuration)].shape).of(), *start);
    if (t.fits && t.time < r.time) {
      r.best = *start;
      r.time = t.time;
      r.memory = t.memory;
    }
  }
  // The one with the least bound next. A bound is first what is known without the shape, then what fits into its memory, then
  // what the tables of one kind of segment say, then what all of the shape's do, at first by figures that all its configurations
  // share, then both together.
  enum step { untouched, packed, outlined, estimated, bounded, priced, solved };  // solved: without listing
  struct open {
    double bound;
    int id;
    step taken;
    int spread = 0;  // from `estimated` on: the way of the shape
    bool operator<(open const& o) const { return std::tie(bound, id, spread) > std::tie(o.bound, o.id, o.spread); }
  };
  std::priority_queue<open> queue;
  r.times.assign(p.configurations.size(), infinite);
  if (r.best.found()) r.times[static_cast<std::size_t>(r.best.configuration)] = r.time;
  r.bounds.assign(p.configurations.size(), 0);
  std::map<int, std::vector<double>> of_ways;  // bounds, where a configuration has ways to spread
  auto set_bound = [&](open const& o) {
    double& bound = r.bounds[static_cast<std::size_t>(o.id)];
    bound = o.bound;
    const auto ways = of_ways.find(o.id);
    if (ways == of_ways.end()) return;
    ways->second[static_cast<std::size_t>(o.spread)] = o.bound;
    bound = *std::min_element(ways->second.begin(), ways->second.end());
  };
  auto wait = [&](open const& o) {
    set_bound(o);
    queue.push(o);
  };
  for (std::size_t i = 0; i < p.configurations.size(); ++i) wait({p.configurations[i].bound, static_cast<int>(i), untouched});
  std::map<std::pair<int, int>, std::unique_ptr<configuration_solver>> solvers;  // by configuration and way to spread
  std::vector<double> packed_bounds(p.configurations.size(), -1);
  auto pack = [&](int configuration) {
    double& bound = packed_bounds[static_cast<std::size_t>(configuration)];
    if (bound >= 0) return bound;
    spaces::configuration const& c = p.configurations[static_cast<std::size_t>(configuration)];
    bound = c.bound;
    if (p.needs)
      bound =
          stage_packing(c, stretches.counts(), p.needs(c.shape), p.limit).least(bound - c.spread, r.time - c.spread) + c.spread;
    return bound;
  };
  std::vector<double> outlined_bounds(p.configurations.size(), -1);
  auto outline = [&](int configuration) {
    double& bound = outlined_bounds[static_cast<std::size_t>(configuration)];
    if (bound >= 0) return bound;
    const double by_part = shapes.least_by_part(p.configurations[static_cast<std::size_t>(configuration)], stretches.counts());
    return bound = std::max(pack(configuration), by_part);
  };
  // Others with the same tables that will want a closer bound soon get it while these are there. (What is spread is not in tables
  // that shapes share, and costs more.)
  constexpr double soon = 1.3;
  std::map<int, std::vector<int>> with_tables;
  for (std::size_t i = 0; i < p.configurations.size(); ++i)
    with_tables[shapes.tables_of(p.configurations[i].shape)].push_back(static_cast<int>(i));
  std::vector<std::vector<double>> close(p.configurations.size());  // by way to spread
  auto bound_close = [&](int configuration, shape_solver& s) {
    std::vector<double>& of = close[static_cast<std::size_t>(configuration)];
    for (int way = 0; way < s.of().spreads(); ++way)
      of.push_back(std::max(outline(configuration), configuration_solver(p, stretches, s, configuration, way, how).estimate()));
    ++r.bounded;
  };
  auto take = [&](int configuration, shape_solver& s, configuration_solver::answer& a) {
    if (!a.best.found()) return;
    r.times[static_cast<std::size_t>(configuration)] = a.time;
    r.best = std::move(a.best);
    r.time = a.time;
    r.memory = time_and_memory(p, s.of(), r.best).memory;
  };
  auto is_enough = [&](double bound) { return bound >= r.time / (1 + how.tolerance); };
  std::vector<open> cut_short;  // what would have a better bound with more work
  double left = infinite;       // nothing else has a choice below this
  while (!queue.empty()) {
    const open next = queue.top();
    queue.pop();
    if (is_enough(next.bound)) {
      left = std::min(left, next.bound);
      break;
    }
    const int id = p.configurations[static_cast<std::size_t>(next.id)].shape;
    if (next.taken == untouched) {
      wait({pack(next.id), next.id, packed});
      continue;
    }
    if (next.taken == packed) {
      wait({std::max(next.bound, outline(next.id)), next.id, outlined});
      continue;
    }
    if (next.taken == outlined) {
      std::vector<double> const& own = close[static_cast<std::size_t>(next.id)];
      if (own.empty())
        for (int other : with_tables[shapes.tables_of(id)])
          if (const double most = next.bound * soon;
              close[static_cast<std::size_t>(other)].empty() &&
              (other == next.id || p.configurations[static_cast<std::size_t>(other)].spread == 0) &&
              p.configurations[static_cast<std::size_t>(other)].bound <= most && pack(other) <= most && outline(other) <= most &&
              outline(other) < r.time / (1 + how.tolerance))
            bound_close(other, shapes.of(p.configurations[static_cast<std::size_t>(other)].shape));
      if (own.size() > 1) of_ways.emplace(next.id, own);
      for (std::size_t way = 0; way < own.size(); ++way)
        wait({std::max(next.bound, own[way]), next.id, estimated, static_cast<int>(way)});
      continue;
    }
    shape_solver& s = shapes.of(id);
    if (next.taken == estimated) {
      wait({std::max(next.bound, configuration_solver(p, stretches, s, next.id, next.spread, how).first_bound()), next.id,
            bounded, next.spread});
      continue;
    }
    if (next.taken == bounded) {
      wait({std::max(next.bound, configuration_solver(p, stretches, s, next.id, next.spread, how).priced_bound()), next.id,
            priced, next.spread});
      continue;
    }
    auto& solver = solvers[{next.id, next.spread}];
    if (!solver) {
      solver = std::make_unique<configuration_solver>(p, stretches, s, next.id, next.spread, how);
      shapes.hold(id);
      ++r.solved;
    }
    r.listed += next.taken == solved;
    configuration_solver::answer a =
        solver->solve(r.time, next.taken == solved, queue.empty() ? infinite : queue.top().bound, next.bound);
    take(next.id, s, a);
    if (a.open) wait({std::max(a.bound, next.bound), next.id, a.paused ? next.taken : solved, next.spread});
    else {
      const open closed{std::max(next.bound, a.bound), next.id, solved, next.spread};
      set_bound(closed);
      if (a.cut_short) cut_short.push_back(closed);
      else left = std::min(left, closed.bound);
      solvers.erase({next.id, next.spread});
      shapes.release(id);
      s.forget();
    }
  }
  // The least bound first. Where something else keeps the gap open, more work would not close it.
  exact_options at_last = how;
  at_last.classes.work *= how.classes.at_last;
  std::sort(cut_short.begin(), cut_short.end(), [](open const& a, open const& b) { return b < a; });
  for (open& x : cut_short) {
    if (r.best.found() && how.classes.at_last > 1 && is_enough(left) && !is_enough(x.bound)) {
      shape_solver& s = shapes.of(p.configurations[static_cast<std::size_t>(x.id)].shape);
      configuration_solver::answer a =
          configuration_solver(p, stretches, s, x.id, x.spread, at_last).solve(r.time, true, infinite, x.bound);
      take(x.id, s, a);
      x.bound = std::max(x.bound, a.bound);
      set_bound(x);
      s.forget();
    }
    left = std::min(left, x.bound);
  }
  r.lower_bound = left;
  r.eliminations = shapes.eliminations();
  // Where nothing is found and nothing shows that there is nothing, what fits with the least memory is the start of another try.
  if (!r.best.found() && r.lower_bound < infinite && how.faster_than == infinite) {
    std::vector<int> unsettled;
    for (std::size_t i = 0; i < r.bounds.size(); ++i)
      if (r.bounds[i] < infinite) unsettled.push_back(static_cast<int>(i));
    std::sort(unsettled.begin(), unsettled.end(), [&](int a, int b) {
      return std::tuple(r.bounds[static_cast<std::size_t>(a)], a) < std::tuple(r.bounds[static_cast<std::size_t>(b)], b);
    });
    long work = 100'000'000;
    for (int id : unsettled) {
      const shape s = p.make_shape(p.configurations[static_cast<std::size_t>(id)].shape);
      if (const choice lean = leanest(p, s, id, work).find(); lean.found() && time_and_memory(p, s, lean).fits)
        return exact(p, how, &lean);
      work -= 100'000;  // for making a shape
      if (work <= 0) break;
    }
  }
  r.lower_bound = std::min(r.lower_bound, r.time);
  if (!r.best.found()) r.time = infinite;
  return r;
}

}  // namespace partita::spaces
