// A small model, searched while it compiles, inside the constraints that a search takes at run time:
//   struct machine { static constexpr pt::plain_machine of{.flops = 1e12, .memory = 64e6}; };
//   using found = pt::searched_at_compile_time<mlp, machine, 4, pt::only::axes<"*", batch, ffn>, pt::only::micro_batches<1, 4>>;
//   static_assert(pt::verify<mlp, found>());
// `found` is a policy like any other, and `found::best` says what it takes. What is searched stands in search/small_space.hpp.
#pragma once
#include <partita/core/mistake.hpp>
#include <partita/cost/plain_machine.hpp>
#include <partita/plan/verify.hpp>
#include <partita/search/at_point.hpp>
#include <partita/search/check_constraints.hpp>
#include <partita/search/chosen.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

using found_at_compile_time = spaces::small_outcome;

namespace detail::compile_time {

inline constexpr long most_tables = 256, most_ways = 4096;

enum class hindrance { none, number, schedule, name, axes, segments, tables, ways };
struct obstacle {
  hindrance what = hindrance::none;
  long count = 0;
  int tables = 0;  // where nothing is in the way
};
// What keeps a space from being searched while compiling.
template <class Costs> constexpr obstacle obstacle_of(spaces::small_space<Costs> const& s, constraints const& c) {
  auto from_one = [](std::vector<int> const& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](int n) { return n >= 1; });
  };
  const bool numbers = from_one(c.stages) && from_one(c.devices_per_stage) && from_one(c.micro_batches) && c.devices >= 0 &&
                       std::all_of(c.zero.begin(), c.zero.end(), [](int z) { return z >= 0 && z <= 3; });
  if (!numbers) return {hindrance::number, 0};
  const bool schedules = std::all_of(c.schedules.begin(), c.schedules.end(), [](schedule_kind k) {
    return k != schedule_kind::interleaved && k != schedule_kind::interlaced && k != schedule_kind::interlaced_in_step;
  });
  if (!schedules || !c.orders.empty() || !c.chunks.empty() || !c.coshard.empty()) return {hindrance::schedule, 0};
  if (!spaces::unmatched_name(s.model(), c).name.empty()) return {hindrance::name, 0};
  if (std::ssize(s.axes()) > spaces::small_axes) return {hindrance::axes, std::ssize(s.axes())};
  if (std::ssize(s.model().segments) > spaces::small_segments) return {hindrance::segments, std::ssize(s.model().segments)};
  if (const long n = s.tables(); n > most_tables) return {hindrance::tables, n};
  if (const long n = s.ways(); n > most_ways) return {hindrance::ways, n};
  return {hindrance::none, 0, static_cast<int>(s.tables())};
}
// Asks a space of what is traced. Extents are static.
template <class Training, class... Constraint> constexpr auto ask(plain_machine m, int devices, auto&& question) {
  recorder<planning_only, Training> g;
  trace(g, Training{});
  m.count = devices;
  const constraints given = constrained<Constraint...>();
  const spaces::small_space<plain_machine> space(g, g.forward_count, m, given);
  return question(space, given);
}
constexpr int forward_ops(graph_data const& g) {
  int n = 0;
  while (n < g.ops.size && g.ops[n].when == pass::forward) ++n;
  return n;
}

}  // namespace detail::compile_time

namespace mistake {
template <class Model, class Machine> struct no_plan_of_these_constraints_fits_the_memory_of_the_machine;
template <class Model> struct a_constraint_has_a_number_that_no_plan_can_have;
template <class Model> struct a_constraint_names_what_the_model_does_not_have;
template <class Model> struct interleaved_interlaced_own_orders_and_coshard_are_searched_at_run_time;
template <class Count, class Model> struct too_many_axes_for_compile_time_so_name_fewer_in_only_axes;
template <class Count, class Model> struct too_many_segments_for_compile_time_so_search_at_run_time;
template <class Count, class Model>
struct too_many_tables_for_compile_time_so_give_fewer_devices_per_stage_micro_batches_schedules_or_zero;
template <class Count, class Model> struct too_many_ways_to_cut_for_compile_time_so_name_fewer_in_only_axes;
}  // namespace mistake
template <long N> struct tables_to_make;
template <long N> struct ways_to_cut;
template <long N> struct axes_that_may_be_cut;
template <long N> struct segments_of_the_model;

// `Machine::of` is a plain_machine, `Devices` how many there are, `Constraint` types as pt::constrained takes them. Extents are
// static.
template <class Model, class Machine, int Devices, class... Constraint> struct searched_at_compile_time {
  static constexpr detail::compile_time::obstacle in_the_way = detail::compile_time::ask<as_training<Model>, Constraint...>(
      Machine::of, Devices, [](auto const& space, constraints const& c) { return detail::compile_time::obstacle_of(space, c); });
  // Of one table, a constant of its own: evaluation is metered by the constant.
  template <int Table>
  static constexpr found_at_compile_time best_of = detail::compile_time::ask<as_training<Model>, Constraint...>(
      Machine::of, Devices, [](auto const& space, constraints const&) { return space.best(Table); });
  template <int... Table> static constexpr found_at_compile_time best_of_all(std::integer_sequence<int, Table...>) {
    found_at_compile_time r;
    (r.take(best_of<Table>), ...);
    return r;
  }
  static constexpr found_at_compile_time best = best_of_all(std::make_integer_sequence<int, in_the_way.tables>{});

  constexpr void operator()(auto& plan) const {
    using enum detail::compile_time::hindrance;
    constexpr detail::compile_time::obstacle x = in_the_way;
    if constexpr (x.what == number) refuse<mistake::a_constraint_has_a_number_that_no_plan_can_have<Model>>(plan);
    else if constexpr (x.what == schedule)
      refuse<mistake::interleaved_interlaced_own_orders_and_coshard_are_searched_at_run_time<Model>>(plan);
    else if constexpr (x.what == name) refuse<mistake::a_constraint_names_what_the_model_does_not_have<Model>>(plan);
    else if constexpr (x.what == axes)
      refuse<mistake::too_many_axes_for_compile_time_so_name_fewer_in_only_axes<axes_that_may_be_cut<x.count>, Model>>(plan);
    else if constexpr (x.what == segments)
      refuse<mistake::too_many_segments_for_compile_time_so_search_at_run_time<segments_of_the_model<x.count>, Model>>(plan);
    else if constexpr (x.what == tables)
      refuse<mistake::too_many_tables_for_compile_time_so_give_fewer_devices_per_stage_micro_batches_schedules_or_zero<
          tables_to_make<x.count>, Model>>(plan);
    else if constexpr (x.what == ways)
      refuse<mistake::too_many_ways_to_cut_for_compile_time_so_name_fewer_in_only_axes<ways_to_cut<x.count>, Model>>(plan);
    else if constexpr (!best.found)
      refuse<mistake::no_plan_of_these_constraints_fits_the_memory_of_the_machine<Model, Machine>>(plan);
    else take(plan);
  }

 private:
  template <class Mistake> static constexpr void refuse(auto& plan) {
    (void)reject<Mistake>::value;
    plan.note(finding{wrong::model_is_rejected});  // one error is enough
  }
  static constexpr void take(plan_base& plan) {
    graph_data const& g = plan.graph();
    plain_machine m = Machine::of;
    m.count = Devices;
    const constraints given = constrained<Constraint...>();
    const spaces::small_space<plain_machine> space(g, detail::compile_time::forward_ops(g), m, given);
    const spaces::at_point<plain_machine> here(space, best.point);
    const spaces::choice x = here.chosen();
    spaces::chosen(here, x)(plan);
  }
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
