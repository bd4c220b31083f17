// Searches from a plan that is known: a plan of one's own, of the space or not, or one that was found before.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <partita/search/read_plan.hpp>
#include <partita/search/search.hpp>
#include <partita/simulate/simulate.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

template <class Model> struct searched_from {
  partita::plan<Model> plan;
  double seconds = 0;                           // of a step, simulated; no more than `start_seconds`
  bool by_search = true;                        // or the start
  double start_seconds = 0, found_seconds = 0;  // simulated; infinite where the plan does not fit
  std::optional<search_result<Model>> found;    // none where a search alone finds no plan:
  std::string not_found{};                      // why, in words
};

namespace detail {
// The start as a choice of a space, or the one next to it.
inline spaces::choice start_in(spaces::plan_space const& space, plan_base const& start, search_report& why) {
  const spaces::point_of_plan read = spaces::plan_reader(space, start).read();
  if (!read.point.found()) {
    why.start = "nothing of the space is near the start (" + read.differs +
                "): it bounds nothing, as what is simulated is no bound of the planner's cost";
    return {};
  }
  why.start = read.is_of_space() ? "the start is of the space" : "the start is not of the space (" + read.differs + ")";
  spaces::problem const& p = space.of();
  spaces::configuration const& c = p.configurations[static_cast<std::size_t>(read.point.configuration)];
  const spaces::total t = spaces::time_and_memory(p, p.make_shape(c.shape), read.point);
  const char* const it = read.is_of_space() ? "it" : "the plan of the space next to it";
  if (!t.fits) {
    why.start += words({"; ", it, " does not fit by the planner's count, and bounds nothing"});
    return {};
  }
  why.start += words({"; ", it, " bounds the search from the beginning"});
  why.start_seconds = t.time;
  return read.point;
}
}  // namespace detail

// The better of the start and of what a search finds, by the simulator. The search itself goes by the planner's cost, and what
// that says of the start, or of the plan of the space next to it, is the best known when it begins. The model and its extents
// are the start's. Throws error where neither fits into the devices' memory, or into that of the constraints.
template <class Model> searched_from<Model> search_from(plan<Model> const& start, costs const& prices,
                                                        constraints const& given = {}, search_options const& how = {}) {
  auto const& g = start.traced();
  const std::vector<binding> extents(g.bindings.begin(), g.bindings.end());
  auto seconds_of = [&](plan<Model> const& p) {
    if (p.devices() > prices.devices() || (given.devices > 0 && p.devices() > given.devices)) return spaces::infinite;
    const simulation s = simulate<Model>(p, prices);
    const double limit = given.memory > 0 ? given.memory : spaces::infinite;
    return s.fits() && static_cast<double>(s.peak_bytes()) <= limit ? s.seconds : spaces::infinite;
  };
  if (const finding f = start.check()) throw error("the plan that a search starts from does not verify: " + describe(f));
  searched_from<Model> r{start, 0, false, seconds_of(start), spaces::infinite, {}, {}};
  try {
    r.found = detail::search_from_choice<Model>(prices, given, start.model(), extents, how,
                                                [&](spaces::plan_space const& space, search_report& why) {
                                                  return detail::start_in(space, start.for_graph(space.graph()), why);
                                                });
    r.found_seconds = seconds_of(r.found->plan);
  } catch (error const& e) {
    if (r.start_seconds == spaces::infinite) throw;
    r.not_found = e.what();
  }
  r.by_search = r.found_seconds < r.start_seconds;
  if (r.by_search) r.plan = r.found->plan;
  r.seconds = std::min(r.found_seconds, r.start_seconds);
  if (r.seconds == spaces::infinite)
    throw error("neither the plan that a search starts from nor what it finds fits into the memory");
  return r;
}
template <class Model> searched_from<Model> search_from(plan<Model> const& start, cluster const& c, constraints const& given = {},
                                                        search_options const& how = {}) {
  return search_from<Model>(start, costs(c, how.prices), given, how);
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
