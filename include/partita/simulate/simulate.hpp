// Simulates one step of a plan on a cluster:
//   pt::simulation s = pt::simulate<gpt>(plan, pt::cluster::load("cluster.json"));
//   s.seconds, s.parts.bubble, s.peak_bytes()
// The programs are those that devices would run; only their durations are guessed.
#pragma once
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <partita/model/extents.hpp>
#include <partita/plan/typed_plan.hpp>
#include <partita/program/lower.hpp>
#include <partita/simulate/node_seconds.hpp>
#include <partita/simulate/prices.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// Rates for `lowering` that speak of this cluster: its first device at its efficiency for large ops, the links between
// all the devices that a plan needs.
inline rates rates_of(costs const& k, graph_data const& g, int devices) {
  rates r;
  double most = 0;
  op_work largest;
  for (op_entry const& e : g.ops) {
    std::size_t extents[max_dims]{};
    for (int d = 0; d < e.info->dim_count; ++d) extents[d] = g.extent(e.info->dims[d].axis);
    const op_work w = work_of(*e.info, extents, e.input_count);
    if (w.flops > most) {
      most = w.flops;
      largest = w;
    }
  }
  const double bytes = 1 << 30;
  if (largest.flops > 0) r.flops = largest.flops / k.op(op_work{largest.flops, 0, largest.type, largest.product});
  r.bytes = bytes / k.pass_over(bytes);
  const int other = std::min(devices, k.devices()) - 1;
  if (other > 0) {
    const double empty = k.send(0, other, 1e-9), full = k.send(0, other, bytes);
    r.link = {empty, (full - empty) / bytes};
  }
  return r;
}

namespace detail::simulating {
// FLOPs of one step, and the type in which most of them are.
inline std::pair<double, dtype> step_flops(graph_data const& g) {
  double all = 0, by_type[8]{};
  for (op_entry const& e : g.ops) {
    std::size_t extents[max_dims]{};
    for (int d = 0; d < e.info->dim_count; ++d) extents[d] = g.extent(e.info->dims[d].axis);
    const op_work w = work_of(*e.info, extents, e.input_count);
    all += w.flops;
    by_type[static_cast<std::size_t>(w.type)] += w.flops;
  }
  return {all, static_cast<dtype>(std::max_element(by_type, by_type + 8) - by_type)};
}
}  // namespace detail::simulating

namespace detail::simulating {
// `next(c)`: the program of class c. At any time no more than one is there that the result does not keep.
template <class Next> simulation of_programs(lowering const& shared, costs const& k, rank_classes const& classes, Next next,
                                             simulate_options const& how) {
  simulation s;
  s.class_of = classes.of;
  std::vector<runner> runners(classes.all.size());
  pricing prices(shared, k, classes, how);
  for (std::size_t c = 0; c < classes.all.size(); ++c) {
    program p = next(c);
    prices.add(static_cast<int>(c), p, runners[c]);
    simulated_class made;
    made.rank = classes.all[c].rank;
    made.ranks = classes.all[c].ranks;
    made.memory = report_memory(p);
    made.capacity = k.memory(made.rank);
    if (how.keep_programs) made.what = std::move(p);
    s.classes.push_back(std::move(made));
    if (how.fitting_only && !s.classes.back().fits()) {
      s.seconds = std::numeric_limits<double>::infinity();
      return s;
    }
  }
  prices.finish(runners);
  event_loop(runners, prices.meetings(), prices.links()).run();
  for (runner const& r : runners)
    for (instruction_time const& t : r.times) s.seconds = std::max(s.seconds, t.end);
  double ranks = 0;
  for (std::size_t c = 0; c < runners.size(); ++c) {
    simulated_class& made = s.classes[c];
    made.parts = parts_of(runners[c], s.seconds);
    if (how.keep_programs) made.times = std::move(runners[c].times);
    const double n = static_cast<double>(made.ranks.size());
    ranks += n;
    s.parts.compute += n * made.parts.compute;
    s.parts.communication += n * made.parts.communication;
    s.parts.exposed += n * made.parts.exposed;
    s.parts.bubble += n * made.parts.bubble;
  }
  for (double* part : {&s.parts.compute, &s.parts.communication, &s.parts.exposed, &s.parts.bubble}) *part /= ranks;
  const auto [flops, type] = step_flops(shared.graph());
  s.model_flops = flops;
  for (int d = 0; d < static_cast<int>(s.class_of.size()); ++d) s.peak_flops += k.peak(type, d);
  return s;
}
}  // namespace detail::simulating

// Of programs that were lowered already, one for each class: what `find_rank_classes` says.
inline simulation simulate(lowering const& shared, costs const& k, rank_classes const& classes, std::vector<program> programs,
                           simulate_options const& how = {}) {
  return detail::simulating::of_programs(
      shared, k, classes, [&](std::size_t c) { return std::move(programs[c]); }, how);
}

// Lowers one rank of each class and simulates them.
inline simulation simulate(lowering const& shared, costs const& k, simulate_options const& how = {}) {
  const rank_classes classes = find_rank_classes(shared, k);
  return detail::simulating::of_programs(
      shared, k, classes, [&](std::size_t c) { return lower(shared, classes.all[c].rank); }, how);
}

namespace detail::simulating {
template <class Model> struct lowered_plan {  // a lowering refers to all of these
  explicit lowered_plan(plan<Model> const& p) : made(p) {}
  plan<Model> made;
  completed done;
  std::unique_ptr<lowering> shared;
};
}  // namespace detail::simulating

// Throws error where the plan does not verify, or needs more devices than the cluster has. Whether it fits the devices'
// memory is what `fits()` of the result says.
template <class Model>
simulation simulate(plan<Model> const& p, costs const& k, simulate_options const& how = {}, lowering_options options = {}) {
  auto all = std::make_shared<detail::simulating::lowered_plan<Model>>(p);
  if (const finding f = verify_plan(all->made.traced(), all->made, all->done, false)) throw error(describe(f));
  check_extents(all->made.traced());
  options.speed = rates_of(k, all->made.traced(), all->done.devices);
  if (!options.seconds)
    options.seconds = [a = all.get(), &k](node const& n) { return node_seconds(a->made.traced(), a->done, n, k); };
  all->shared = std::make_unique<lowering>(all->made.traced(), all->made, all->done, std::move(options));
  simulation s = simulate(*all->shared, k, how);
  s.lowered = std::shared_ptr<lowering const>(all, all->shared.get());
  return s;
}
template <class Model> simulation simulate(plan<Model> const& p, cluster const& c, simulate_options const& how = {}) {
  return simulate<Model>(p, costs(c), how);
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
