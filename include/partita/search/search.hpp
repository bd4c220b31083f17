// Searches the plan of a model on a cluster:
//   auto found = pt::search<training>(pt::cluster::load("cluster.json"), pt::constraints{...});
//   pt::trainer<training> t{found.plan};
// The plan is the best of the declared space (docs/reference/search.md) by the planner's cost, or as near to it as the
// bound says.
#pragma once
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <partita/model/extents.hpp>
#include <partita/plan/typed_plan.hpp>
#include <partita/search/chosen.hpp>
#include <partita/search/exact.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct search_options {
  double tolerance = 1e-3;  // a plan that takes this much longer than the bound, as a share of it, is good enough
  cost_options prices{};    // where a cluster is given, and not its costs
};

// What a stage of the plan holds, for people.
struct found_stage {
  int first_block = 0, blocks = 0;  // segments of the chain
  int replayed = 0, in_turns = 0;   // how many of them run again; heads and features of how many in turns
  int outer = 1, inner = 1;         // its grid
  double seconds = 0;               // of a micro-batch, forward and backward; zero bubble: less what fills
  double step_seconds = 0;          // of a step: gradients brought together, update
  double memory = 0;                // bytes
  std::string cuts;                 // how the ops of its widest block are cut
};
struct search_report {
  long configurations = 0, bounded = 0, solved = 0, listed = 0, eliminations = 0;
  int stages = 1, devices_per_stage = 1, devices = 1, micro_batches = 1, segments = 0;
  std::vector<found_stage> of_stages;
  std::string bound_by;  // what keeps the plan from being faster
};

template <class Model> struct search_result {
  partita::plan<Model> plan;
  double seconds = 0;      // of a step, by the planner's cost
  double lower_bound = 0;  // no plan of the space takes less
  double memory = 0;       // bytes of the fullest device, by the planner's cost
  search_report why;
};

namespace detail {

inline std::string cuts_of(spaces::plan_space const& space, spaces::choice const& x, std::size_t stage) {
  auto const& shape =
      space.shapes()[static_cast<std::size_t>(space.of().configurations[static_cast<std::size_t>(x.configuration)].shape)];
  spaces::stage_choice const& s = x.stages[stage];
  std::size_t widest = 0;
  for (std::size_t i = 0; i < s.segments.size(); ++i)
    if (s.segments[i].options.size() > s.segments[widest].options.size()) widest = i;
  const int number = s.begin + static_cast<int>(widest);
  spaces::table_key const& key = space.key_of(number, shape, s.grid, s.segments[widest].variant);
  std::string text;
  for (std::size_t k = 0; k < key.variables.size(); ++k) {
    if (key.variables[k].what != spaces::table_key::variable::cut) continue;
    spaces::searched_op const& op =
        space.model().segments[static_cast<std::size_t>(number)].ops[static_cast<std::size_t>(key.variables[k].op)];
    const auto cut = key.cuts[k][static_cast<std::size_t>(s.segments[widest].options[k])];
    auto axis = [&](std::size_t d) { return cut[d] < 0 ? std::string("-") : std::string(op.info->dims[cut[d]].axis->name); };
    text += (text.empty() ? "" : ", ") + std::string(space.graph().name(op.op).view()) + " (" + std::string(op.info->kind) +
            ") " + axis(0) + " x " + axis(1);
  }
  return text;
}

inline search_report explain(spaces::plan_space const& space, spaces::exact_outcome const& o) {
  search_report r;
  r.configurations = o.configurations;
  r.bounded = o.bounded;
  r.solved = o.solved;
  r.listed = o.listed;
  r.eliminations = o.eliminations;
  r.segments = space.segments();
  spaces::configuration const& c = space.of().configurations[static_cast<std::size_t>(o.best.configuration)];
  auto const& shape = space.shapes()[static_cast<std::size_t>(c.shape)];
  r.stages = c.stages;
  r.devices_per_stage = shape.devices;
  r.devices = c.stages * shape.devices;
  r.micro_batches = shape.micro_batches;
  const spaces::total t = spaces::time_and_memory(space.of(), space.of().make_shape(c.shape), o.best);
  std::size_t slowest = 0;
  bool fits_free = true;
  int turned = 0;
  for (std::size_t s = 0; s < o.best.stages.size(); ++s) {
    spaces::stage_choice const& stage = o.best.stages[s];
    found_stage f;
    f.first_block = stage.begin;
    f.blocks = static_cast<int>(stage.segments.size());
    for (int i = 0; i < f.blocks; ++i) {
      const spaces::way_to_run how = space.way(stage.begin + i, stage.segments[static_cast<std::size_t>(i)].variant);
      f.replayed += how.again;
      f.in_turns += how.turns > 1;
    }
    f.outer = shape.grids[static_cast<std::size_t>(stage.grid)].first;
    f.inner = shape.grids[static_cast<std::size_t>(stage.grid)].second;
    f.seconds = t.stages[s].time;
    f.step_seconds = t.stages[s].step;
    f.memory = t.stages[s].memory;
    f.cuts = cuts_of(space, o.best, s);
    auto work = [&](std::size_t k) { return shape.micro_batches * t.stages[k].time + t.stages[k].step; };
    if (work(s) > work(slowest)) slowest = s;
    fits_free = fits_free && f.replayed == 0;
    turned += f.in_turns;
    r.of_stages.push_back(std::move(f));
  }
  found_stage const& slow = r.of_stages[slowest];
  const double busy = shape.micro_batches * slow.seconds;
  auto few = [](double x) {  // digits
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", x);
    return std::string(text);
  };
  auto size = [&](double bytes) { return bytes >= 1 << 30 ? few(bytes / (1 << 30)) + " GiB" : few(bytes / (1 << 20)) + " MiB"; };
  const std::string works =
      shape.schedule.splits()
          ? few(busy + slow.step_seconds) + " s of " + few(o.time) + " s, where gradients of weights fill what else would wait"
          : few(busy) + " s of " + few(o.time) + " s and brings gradients together for " + few(slow.step_seconds) + " s";
  r.bound_by = "stage " + std::to_string(slowest) + " works for " + works + "; the fullest device holds " + size(o.memory) +
               " of " + size(space.of().limit) + ", and " + (fits_free ? "no block runs again" : "blocks run again to fit");
  if (turned > 0) r.bound_by += ", heads and features of " + std::to_string(turned) + " of them in turns";
  return r;
}

// No plan fits: how much memory would do, to one percent.
inline double least_memory_that_does(graph_data const& g, int forward_ops, costs const& k, constraints given, double at_least) {
  spaces::exact_options any;
  any.tolerance = 1e9;  // the first plan that is found
  auto fits = [&](double memory) {
    given.memory = memory;
    const spaces::plan_space space(g, forward_ops, k, given);
    return spaces::exact(space.of(), any).best.found();
  };
  double low = at_least, high = std::max(at_least, 1.0);
  for (int i = 0; !fits(high); ++i) {
    if (i == 40) return spaces::infinite;
    low = high;
    high *= i < 8 ? 1.5 : 4;  // where a limit is far off, as in another unit
  }
  while (high > low * 1.01) {
    const double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}
}  // namespace detail

// Throws error where no plan fits, naming what would do, or where the model has an axis without extent.
template <class Model> search_result<Model> search(costs const& prices, constraints const& given = {},
                                                   as_training<Model> const& model = {}, std::vector<binding> const& extents = {},
                                                   search_options const& how = {}) {
  search_result<Model> r{plan<Model>(model, extents), 0, 0, 0, {}};
  auto const& g = r.plan.traced();
  if (const finding f = check_model(g)) throw error(describe(f));
  check_extents(g);
  const spaces::plan_space space(g, g.forward_count, prices, given);
  spaces::exact_options exactly;
  exactly.tolerance = how.tolerance;
  const spaces::exact_outcome o = spaces::exact(space.of(), exactly);
  if (!o.best.found()) {
    const double limit = space.of().limit;
    if (space.shapes().empty() && !space.without_options().empty())
      throw_error({"search: the constraint 'cuts' leaves op ", space.without_options(),
                   " no way to lie on any grid: allow it replicas, or an axis"});
    const double least = detail::least_memory_that_does(g, g.forward_count, prices, given, limit);
    if (least == spaces::infinite)
      throw_error(
          {"search: no plan, whatever the memory; widen the constraints 'stages', 'stage_begins', 'devices_per_stage' or 'micro_batches'"});
    throw_error({"search: no plan fits into the memory of ", limit / (1 << 20), " MiB per device; ", least / (1 << 20),
                 " MiB would do", given.memory > 0 ? " (constraint 'memory')" : " (the cluster's devices)"});
  }
  spaces::chosen(space, o.best)(r.plan);
  if (const finding f = r.plan.check()) throw error("search made a plan that does not verify: " + describe(f));
  r.seconds = o.time;
  r.lower_bound = o.lower_bound;
  r.memory = o.memory;
  r.why = detail::explain(space, o);
  return r;
}
// With the costs of a cluster's roofline: `how.prices`.
template <class Model> search_result<Model> search(cluster const& c, constraints const& given = {},
                                                   as_training<Model> const& model = {}, std::vector<binding> const& extents = {},
                                                   search_options const& how = {}) {
  return search<Model>(costs(c, how.prices), given, model, extents, how);
}
template <class Model, std::same_as<binding>... B>
search_result<Model> search(cluster const& c, constraints const& given, as_training<Model> const& model, B... extents) {
  return search<Model>(c, given, model, std::vector<binding>{extents...});
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
