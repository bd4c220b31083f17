// The planner's cost knows nothing of what overlaps, or of who waits for whom on a link. So of the plans that it takes to be
// nearly as fast as the best, another may be the fastest as simulated:
//   auto near = pt::near_best(found, cluster, constraints, {.within = 0.1});
//   near.front().found.plan, near.front().seconds
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include <partita/search/search.hpp>
#include <partita/simulate/simulate.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct near_options {
  double within = 0.05;     // that much more than the found plan by the planner's cost, as a share of it
  int most = 6;             // plans that are simulated, the found one included
  search_options search{};  // as for the found plan
};

// The best by the planner's cost of one number of stages, of devices of a stage, and one schedule.
template <class Model> struct near_plan {
  search_result<Model> found;
  double seconds = 0, memory = 0;  // as simulated; bytes of the fullest device
  bool fits = false;               // as simulated, into the devices' memory and that of the constraints
};

namespace detail {
inline constraints narrowed_to(considered_configuration const& x, constraints given) {
  given.stages = {x.stages};
  given.devices_per_stage = {x.devices_per_stage};
  if (x.stages < 2) return given;
  if (x.by.own_order) std::erase_if(given.orders, [&](own_order const& o) { return o.name != x.schedule; });
  else given.orders.clear();
  given.schedules.clear();
  if (!x.by.own_order) given.schedules = {x.by.kind};
  if (x.by.kind == schedule_kind::interleaved) given.chunks = {x.by.chunks};
  return given;
}
}  // namespace detail

// `found` is what a search with these prices, constraints and options gave. Of the dozen that it considered
// (search_report::considered) those are looked at whose bound leaves room, in that order, until `how.most` plans are there. The
// fastest as simulated first, those that do not fit last; the found plan is among them. Costs a search for each that is looked
// at, and a simulation for each that is taken.
template <class Model> std::vector<near_plan<Model>> near_best(search_result<Model> const& found, costs const& prices,
                                                               constraints const& given = {}, near_options const& how = {}) {
  std::vector<near_plan<Model>> all;
  const double limit = given.memory > 0 ? given.memory : spaces::infinite;
  const auto add = [&](search_result<Model> x) {
    simulate_options about;
    about.keep_programs = false;
    const simulation s = simulate<Model>(x.plan, prices, about);
    const double peak = static_cast<double>(s.peak_bytes());
    all.push_back({std::move(x), s.seconds, peak, s.fits() && peak <= limit});
  };
  add(found);
  auto const& g = found.plan.traced();
  const std::vector<binding> extents(g.bindings.begin(), g.bindings.end());
  search_report const& why = found.why;
  const double most = found.seconds * (1 + how.within);
  for (considered_configuration const& x : why.considered) {
    if (static_cast<int>(all.size()) >= how.most) break;
    if (x.stages == why.stages && x.devices_per_stage == why.devices_per_stage && x.schedule == why.schedule) continue;
    if (x.lower_bound > most) continue;  // its seconds are those of the best one known, which need not be the best
    auto other = detail::search_for_any<Model>(
        prices, detail::narrowed_to(x, given), found.plan.model(), extents, how.search,
        [](spaces::plan_space const&, search_report&) { return spaces::choice{}; }, [](detail::no_plan const&) {});
    if (other && other->seconds <= most) add(std::move(*other));
  }
  std::stable_sort(all.begin(), all.end(), [](near_plan<Model> const& a, near_plan<Model> const& b) {
    return a.fits != b.fits ? a.fits : a.seconds < b.seconds;
  });
  return all;
}
template <class Model> std::vector<near_plan<Model>> near_best(search_result<Model> const& found, cluster const& c,
                                                               constraints const& given = {}, near_options const& how = {}) {
  return near_best(found, costs(c, how.search.prices), given, how);
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
