// Searches the plan of a model on a cluster:
//   auto found = pt::search<training>(pt::cluster::load("cluster.json"), pt::constraints{...});
//   pt::trainer<training> t{found.plan};
// The plan is the best of the declared space (docs/reference/search.md) by the planner's cost, or as near to it as the
// bound says.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <partita/model/extents.hpp>
#include <partita/plan/typed_plan.hpp>
#include <partita/search/chosen.hpp>
#include <partita/search/exact.hpp>
#include <partita/search/explain.hpp>
#include <partita/search/no_plan.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct search_options {
  double tolerance = 1e-3;  // a plan that takes this much longer than the bound, as a share of it, is good enough
  cost_options prices{};    // where a cluster is given, and not its costs
};

template <class Model> struct search_result {
  partita::plan<Model> plan;
  double seconds = 0;      // of a step, by the planner's cost
  double lower_bound = 0;  // no plan of the space takes less
  double memory = 0;       // the most bytes that a device holds, by the planner's cost
  search_report why;
};

namespace detail {
// `start(space, report)`: a choice of the space that is known, or one that is not found. Where no plan fits, `none` is told.
template <class Model, class Start, class None>
std::optional<search_result<Model>> search_for_any(costs const& prices, constraints const& given, as_training<Model> const& model,
                                                   std::vector<binding> const& extents, search_options const& how, Start&& start,
                                                   None&& none) {
  search_result<Model> r{plan<Model>(model, extents), 0, 0, 0, {}};
  auto const& g = r.plan.traced();
  if (const finding f = check_model(g)) throw error(describe(f));
  check_extents(g);
  const spaces::plan_space space(g, g.forward_count, prices, given);
  spaces::exact_options exactly;
  exactly.tolerance = how.tolerance;
  const spaces::choice known = start(space, r.why);
  const spaces::exact_outcome o = spaces::exact(space.of(), exactly, &known);
  if (!o.best.found()) {
    none(no_plan(g, g.forward_count, prices, space));
    return {};
  }
  spaces::chosen(space, o.best)(r.plan);
  if (const finding f = r.plan.check()) throw error("search made a plan that does not verify: " + describe(f));
  r.seconds = o.time;
  r.lower_bound = o.lower_bound;
  r.memory = o.memory;
  explain(space, o, r.why);
  return r;
}
template <class Model, class Start>
search_result<Model> search_from_choice(costs const& prices, constraints const& given, as_training<Model> const& model,
                                        std::vector<binding> const& extents, search_options const& how, Start&& start) {
  return *search_for_any<Model>(prices, given, model, extents, how, start, [](no_plan const& why) { why.tell(); });
}
}  // namespace detail

// Throws error where no plan fits, naming what would do, or where the model has an axis without extent.
template <class Model> search_result<Model> search(costs const& prices, constraints const& given = {},
                                                   as_training<Model> const& model = {}, std::vector<binding> const& extents = {},
                                                   search_options const& how = {}) {
  return detail::search_from_choice<Model>(prices, given, model, extents, how,
                                           [](spaces::plan_space const&, search_report&) { return spaces::choice{}; });
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
