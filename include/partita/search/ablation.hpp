// What a plan that was found owes to each freedom of the space: the search again, without one freedom at a time.
//   for (pt::ablation const& x : pt::ablate(found, cluster, constraints)) std::puts(pt::describe(x, found.seconds).c_str());
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <partita/policy/sequence_parallel.hpp>
#include <partita/policy/tensor_parallel.hpp>
#include <partita/search/search.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail {

// Narrower constraints, of which a plan may choose; none: the plan found does without.
struct freedom {
  std::string name;
  std::vector<constraints> without;
};

// Which freedoms of a space a plan uses, and what a search has without them. What is not used is left out by looking at the
// plan; in doubt it is searched. `equal_space`: the same where stages are equal.
inline std::vector<freedom> freedoms_of(search_report const& found, spaces::plan_space const& space,
                                        spaces::plan_space const& equal_space) {
  using all_of = std::vector<std::function<void(constraints&)>>;
  int again = 0, turned = 0, blocks = 0;
  std::array<int, 4> zero{};
  bool equal = true;
  constraints const& given = space.given();
  for (found_stage const& s : found.of_stages) {
    again += s.replayed;
    turned += s.in_turns;
    for (std::size_t z = 0; z < zero.size(); ++z) zero[z] += s.zero[z];
    equal = equal && (&s == &found.of_stages.front() || equal_space.of().begins(s.first_block, found.stages));
  }
  for (spaces::segment const& s : space.model().segments) blocks += s.block >= 0;
  std::vector<freedom> all;
  auto add = [&](const char* name, bool used, all_of const& ways) {
    all.push_back({name, {}});
    for (auto const& narrow : ways)
      if (used) narrow(all.back().without.emplace_back(given));
  };
  auto recomputed = [](recompute_rule rule) { return [rule](constraints& c) { c.recompute.push_back({glob("*"), rule}); }; };
  const std::vector<int> allowed = given.zero.empty() ? std::vector<int>{0, 1, 2, 3} : given.zero;
  auto at_most = [&](int most) {
    return [most, allowed](constraints& c) {
      c.zero = allowed;
      std::erase_if(c.zero, [&](int z) { return z > most; });
      if (c.zero.empty()) c.zero = allowed;
    };
  };
  auto named = [&](std::vector<axis_info const*> axes) {
    return [axes](constraints& c) {
      c.cuts.emplace_back();
      c.cuts.back().axes = axes;
      c.cuts.back().no_axes = axes.empty();
    };
  };
  all_of one_stage_of_zero;
  for (int z : allowed) one_stage_of_zero.push_back([z](constraints& c) { c.zero = {z}; });
  std::vector<axis_info const*> usual, batch;
  graph_data const& g = space.graph();
  if (space.model().batch != nullptr) batch = usual = {space.model().batch};
  for (axis_info const* a : policy::detail::tensor_parallel_axes(g, 1)) usual.push_back(a);
  if (axis_info const* sequence = policy::detail::sequence_axis(g)) usual.push_back(sequence);
  const bool staged = found.stages > 1, shared = found.devices_per_stage > 1;
  const bool interleaved = staged && found.by.kind == schedule_kind::interleaved;
  const bool interlaced = found.by.kind == schedule_kind::interlaced || found.by.kind == schedule_kind::interlaced_in_step;
  const bool usual_order = found.by.kind == schedule_kind::one_f_one_b && !found.by.own_order;

  add("co-shard", turned > 0, {[](constraints& c) { c.coshard.clear(); }});
  add("blocks that run again", again > 0, {recomputed(recompute_rule::never)});
  add("blocks of which some run again", again > 0 && again < blocks,
      {recomputed(recompute_rule::never), recomputed(recompute_rule::always)});
  add("pipeline stages", staged, {[](constraints& c) { c.stages = {1}; }});
  if (!interleaved)  // whose stages have equal parts as it is
    add("stages of unequal lengths", staged && !equal, {[](constraints& c) { c.equal_stages = true; }});
  add("other schedules than 1F1B", staged && !usual_order, {[](constraints& c) {
        c.schedules = {schedule_kind::one_f_one_b};
        c.orders.clear();
      }});
  add("ends of the model spread over all stages", staged && interlaced, {[](constraints& c) {
        std::erase_if(c.schedules, [](schedule_kind kind) {
          return kind == schedule_kind::interlaced || kind == schedule_kind::interlaced_in_step;
        });
      }});
  auto is_power = [](int n) { return (n & (n - 1)) == 0; };
  auto powers_of_two = [&](std::vector<int> constraints::*which, std::size_t most) {
    return [=](constraints& c) {
      std::vector<int>& numbers = c.*which;
      if (numbers.empty())
        for (std::size_t n = 1; n <= most; n *= 2)
          if (which != &constraints::micro_batches || most % n == 0) numbers.push_back(static_cast<int>(n));
      std::vector<int> powers = numbers;
      std::erase_if(powers, [&](int n) { return !is_power(n); });
      if (!powers.empty()) numbers = powers;
    };
  };
  add("other numbers of micro-batches than powers of two", !is_power(found.micro_batches),
      {powers_of_two(&constraints::micro_batches, space.model().samples)});
  add("other numbers of devices of a stage than powers of two", !is_power(found.devices_per_stage),
      {powers_of_two(&constraints::devices_per_stage, static_cast<std::size_t>(space.available()))});
  add("ZeRO", shared && zero[1] + zero[2] + zero[3] > 0, {at_most(0)});
  add("ZeRO 2 and 3", shared && zero[2] + zero[3] > 0, {at_most(1)});
  add("a ZeRO stage for each parameter", shared && std::count(zero.begin(), zero.end(), 0) < 3, one_stage_of_zero);
  add("cuts of other axes than the batch", shared, {named(batch)});
  add("cuts of other axes than those of data, tensor and sequence parallelism", shared, {named(usual)});
  return all;
}
}  // namespace detail

// `found` is what a search with these prices, constraints and options gave. Costs a few searches, of which none makes a plan;
// where no plan fits, a few more for the least memory that would do, to one percent.
template <class Model> std::vector<ablation> ablate(search_result<Model> const& found, costs const& prices,
                                                    constraints const& given = {}, search_options const& how = {}) {
  auto const& g = found.plan.traced();
  constraints even = given;
  even.equal_stages = true;
  const spaces::plan_space whole(g, g.forward_count, prices, given), equal(g, g.forward_count, prices, even);
  std::vector<ablation> all;
  for (detail::freedom const& x : detail::freedoms_of(found.why, whole, equal)) {
    ablation r{x.name, !x.without.empty(), true, found.seconds, found.lower_bound, found.memory};
    if (!r.used) {
      all.push_back(r);
      continue;
    }
    r.seconds = r.lower_bound = r.memory = spaces::infinite;
    for (constraints const& narrow : x.without) {
      const spaces::plan_space space(g, g.forward_count, prices, narrow);
      spaces::exact_options exactly;
      exactly.tolerance = how.tolerance;
      exactly.faster_than = r.seconds;
      const spaces::exact_outcome o = spaces::exact(space.of(), exactly);
      r.lower_bound = std::min(r.lower_bound, o.lower_bound);
      if (!o.best.found()) continue;
      r.seconds = o.time;
      r.memory = o.memory;
    }
    r.fits = r.seconds < spaces::infinite;
    // A plan without the freedom is one of the whole space too, unless `given` does not allow it: one stage where it wants four.
    if (r.seconds >= found.lower_bound) r.lower_bound = std::max(r.lower_bound, found.lower_bound);
    for (std::size_t i = 0; i < x.without.size() && !r.fits; ++i)
      r.memory =
          std::min(r.memory, detail::least_memory_that_does(g, g.forward_count, prices, x.without[i], whole.least_memory()));
    all.push_back(r);
  }
  return all;
}
template <class Model> std::vector<ablation> ablate(search_result<Model> const& found, cluster const& c,
                                                    constraints const& given = {}, search_options const& how = {}) {
  return ablate(found, costs(c, how.prices), given, how);
}

// "3.912 s, 6.1% more"; `seconds`: of the plan that was found.
inline std::string describe(ablation const& x, double seconds) {
  if (!x.used) return "not used";
  if (!x.fits)
    return x.memory < spaces::infinite ? "no plan fits; " + detail::size_in_words(x.memory) + " would do"
                                       : "no plan, whatever the memory";
  return detail::few(x.seconds) + " s, " + compared(x, seconds);
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
