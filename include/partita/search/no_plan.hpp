// Why a search finds no plan: how much memory would do, and which constraints leave none.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <partita/search/exact.hpp>
#include <partita/search/explain.hpp>
#include <partita/search/space.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// Does any plan fit?
inline bool any_plan_fits(graph_data const& g, int forward_ops, costs const& k, constraints const& given) {
  spaces::exact_options any;
  any.tolerance = 1e9;  // the first plan that is found
  const spaces::plan_space space(g, forward_ops, k, given);
  return spaces::exact(space.of(), any).best.found();
}
// Bytes of a device that would do, to one percent; infinite where none would. `too_little`: what does not.
inline double least_memory_that_does(graph_data const& g, int forward_ops, costs const& k, constraints given, double too_little) {
  auto fits_into = [&](double memory) {
    given.memory = memory;
    return any_plan_fits(g, forward_ops, k, given);
  };
  if (!fits_into(spaces::infinite)) return spaces::infinite;
  double low = too_little, high = std::max(too_little, 1.0);
  for (int i = 0; !fits_into(high); ++i) {
    if (i == 40) return spaces::infinite;
    low = high;
    high *= i < 8 ? 1.5 : 4;  // where a limit is far off, as in another unit
  }
  while (high > low * 1.01) {
    const double middle = (low + high) / 2;
    (fits_into(middle) ? high : low) = middle;
  }
  return high;
}

class no_plan {
 public:
  // All of them must outlive this.
  no_plan(graph_data const& g, int forward_ops, costs const& k, spaces::plan_space const& space)
      : g_(g), forward_ops_(forward_ops), costs_(k), space_(space) {}

  [[noreturn]] void tell() const {
    constraints const& given = space_.given();
    const double smallest = space_.least_memory(), largest = space_.of().limit;
    const double least = least_memory_that_does(g_, forward_ops_, costs_, given, smallest);
    if (least == spaces::infinite) {
      constraints any_memory = given;
      any_memory.memory = spaces::infinite;
      const spaces::plan_space space(g_, forward_ops_, costs_, any_memory);
      if (space.shapes().empty() && !space.without_options().empty())
        throw_error({"search: the constraint 'cuts' leaves op ", space.without_options(),
                     " no way to lie on any grid: allow it replicas, or an axis"});
      const std::string alone = each_without(any_memory), all = given_names();
      if (all.empty()) throw_error({"search: no plan, whatever the memory"});
      if (alone.empty())
        throw_error({"search: no plan, whatever the memory; the constraints ", all, " leave none together: widen two or more"});
      throw_error({"search: no plan, whatever the memory; widen the constraint ", alone});
    }
    const std::string up_to = smallest < largest ? " to " + size_in_words(largest) : "", without = each_without(given);
    throw_error({"search: no plan fits into the memory of ", size_in_words(smallest), up_to, " per device; ",
                 size_in_words(least, true), up_to.empty() ? " would do" : " on each would do",
                 given.memory > 0 ? " (constraint 'memory')" : " (the cluster's devices)",
                 without.empty() ? "" : ", or this much without the constraint ", without});
  }

 private:
  // The constraints that are given, but for memory, each with how to do without it.
  static std::vector<std::pair<char const*, void (*)(constraints&)>> all_of(constraints const& given) {
    std::vector<std::pair<char const*, void (*)(constraints&)>> all;
    auto add = [&](bool is_given, char const* name, void (*drop)(constraints&)) {
      if (is_given) all.push_back({name, drop});
    };
    add(given.devices > 0, "devices", [](constraints& c) { c.devices = 0; });
    add(!given.cuts.empty(), "cuts", [](constraints& c) { c.cuts.clear(); });
    add(!given.stages.empty(), "stages", [](constraints& c) { c.stages.clear(); });
    add(given.stage_begins.patterns.view() != "*", "stage_begins", [](constraints& c) { c.stage_begins = glob("*"); });
    add(given.equal_stages, "equal_stages", [](constraints& c) { c.equal_stages = false; });
    add(!given.regions.empty(), "regions", [](constraints& c) { c.regions.clear(); });
    add(!given.devices_per_stage.empty(), "devices_per_stage", [](constraints& c) { c.devices_per_stage.clear(); });
    add(!given.micro_batches.empty(), "micro_batches", [](constraints& c) { c.micro_batches.clear(); });
    add(!given.schedules.empty(), "schedules", [](constraints& c) { c.schedules.clear(); });
    add(!given.orders.empty(), "orders", [](constraints& c) { c.orders.clear(); });
    add(!given.chunks.empty(), "chunks", [](constraints& c) { c.chunks.clear(); });
    add(!given.zero.empty(), "zero", [](constraints& c) { c.zero.clear(); });
    add(!given.recompute.empty(), "recompute", [](constraints& c) { c.recompute.clear(); });
    return all;
  }
  // Those without each of which alone there is a plan, "'stages' or 'regions'".
  std::string each_without(constraints const& given) const {
    std::string names;
    for (auto const& [name, drop] : all_of(given)) {
      constraints wider = given;
      drop(wider);
      if (any_plan_fits(g_, forward_ops_, costs_, wider)) names += (names.empty() ? "'" : " or '") + std::string(name) + "'";
    }
    return names;
  }
  std::string given_names() const {
    std::string names;
    for (auto const& [name, drop] : all_of(space_.given())) names += (names.empty() ? "'" : ", '") + std::string(name) + "'";
    return names;
  }

  graph_data const& g_;
  int forward_ops_;
  costs const& costs_;
  spaces::plan_space const& space_;
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
