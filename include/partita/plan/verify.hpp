// Verification of plans: cover, flow and order, in constant evaluation or at run time by the same functions.
#pragma once
#include <type_traits>

#include <partita/grad/training.hpp>
#include <partita/plan/check_flow.hpp>
#include <partita/plan/complete.hpp>
#include <partita/plan/idle_dimension.hpp>
#include <partita/plan/instances.hpp>
#include <partita/plan/order_by_groups.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// The model's own mistakes that are values.
template <class G> constexpr finding check_model(G const& g) {
  finding f{};
  if (g.poisoned) f.what = wrong::model_is_rejected;
  else if (g.twice >= 0) {
    f.what = wrong::two_parameters_of_one_name;
    f.op = g.name(g.twice);
  } else if (g.stuck >= 0) {
    f.what = wrong::no_gradient_rule;
    f.op = g.name(g.stuck);
  } else if (g.unmatched.size > 0) {
    f.what = wrong::no_parameter_matches;
    f.op = g.unmatched;
    nearest_name nearest(g.unmatched.view());
    for (int op = 0; op < g.ops.size; ++op)
      if (g.ops[op].info->source == source_kind::parameter) nearest.look_at(g.name(op).view());
    f.other = nearest.found();
  }
  return f;
}

// Completes a plan and proves it: every cut covers its axis, every tensor arrives in the layout in which it is read, and
// no cycle runs through data and wishes. `out` is the completed plan.
constexpr finding verify_plan(graph_data const& g, plan_base const& plan, completed& out, bool check_order = true) {
  complete(g, plan, out);
  if (out.first) return out.first;
  if (const finding f = detail::check_flow(g, plan, out)) return f;
  if (check_order && plan.wishes().size + plan.preferences().size > 0) {
    if (!std::is_constant_evaluated() && detail::order_by_groups(g, plan, out).proved()) return {};
    instance_graph ig;
    if (const finding f = build_instances(g, plan, out, ig)) return f;
    return check_acyclic(g, out, ig);
  }
  return {};
}

namespace mistake {
template <class...> struct two_parameters_of_one_name;
template <class...> struct op_on_the_way_to_the_loss_has_no_gradient_rule;
template <class...> struct no_parameter_matches_this_pattern;
template <class...> struct policy_has_no_call_operator_that_takes_a_plan;
template <class...> struct model_has_no_such_axis;
template <class...> struct no_op_matches_this_glob;
template <class...> struct op_lacks_the_axis_of_its_cut;
template <class...> struct axis_names_two_letters_of_this_op;
template <class...> struct axis_is_whole_and_may_not_be_cut;
template <class...> struct more_pieces_than_the_axis_is_long;
template <class...> struct given_sizes_do_not_sum_to_the_extent;
template <class...> struct skewed_cut_is_laid_out_in_space;
template <class...> struct cut_is_skewed_by_a_dimension_the_op_does_not_stand_on;
template <class...> struct op_is_cut_twice_under_one_mode;
template <class...> struct pieces_differ_from_the_grid;
template <class...> struct nothing_is_cut_over_this_dimension_of_the_grid;
template <class...> struct op_is_assigned_twice_to_one_dimension;
template <class...> struct op_is_not_assigned;
template <class...> struct device_is_out_of_range;
template <class...> struct device_stands_twice_in_a_list;
template <class...> struct list_of_devices_differs_from_the_grid;
template <class...> struct op_has_too_many_cuts;
template <class...> struct wished_order_has_a_cycle;
template <class...> struct order_names_a_moment_that_no_op_has;
template <class...> struct nothing_is_moved_or_summed_as_the_plan_says;
template <class...> struct move_or_sum_is_cut_by_a_mode_that_is_no_dimension_of_its_devices;
template <class...> struct sum_over_time_is_cut_where_its_pieces_in_time_are;
template <class...> struct input_arrives_in_another_layout_than_it_is_read_in;
template <class...> struct arguments_make_no_sense;
}  // namespace mistake

namespace detail {
template <class Policy>
concept policy_for = requires(Policy const& p, plan_base& made) {
  p(made);
};

// Nothing here is stored but the finding: the graph and the plan live only while this is evaluated.
template <class Backend = planning_only, class Training, class Policy>
constexpr finding find_mistake(Training const& t, Policy const& policy) {
  recorder<Backend, Training> g;
  trace(g, t);
  if (const finding f = check_model(g)) return f;
  plan_base p(g);
  policy(p);
  completed c;
  if (const finding f = verify_plan(g, p, c)) return f;
  return find_idle_dimension(p);
}
template <class Training, class Policy> constexpr int count_devices(Training const& t, Policy const& policy) {
  recorder<planning_only, Training> g;
  trace(g, t);
  plan_base p(g);
  policy(p);
  int n = 0;
  for (int op = 0; op < g.ops.size; ++op)
    if (const int d = devices_of(p, p.of(op)); p.of(op).assigned && d > n) n = d;
  for (node_plan const& x : p.nodes())
    if (const int d = devices_of(p, x.own); x.own.assigned && d > n) n = d;
  return n;
}
template <auto Training, class Policy, class Backend = planning_only> struct checked {
  static constexpr finding found = find_mistake<Backend>(Training, Policy{});
  static constexpr text<96> op = found.op, other = found.other, header = text<96>(found.ready_made());
};
template <class Training, class Policy, class Backend = planning_only> struct checked_type {
  static constexpr finding found = find_mistake<Backend>(Training{}, Policy{});
  static constexpr text<96> op = found.op, other = found.other, header = text<96>(found.ready_made());
};

template <class C, bool ReadyMade> struct place_of_finding { using type = at_line<C::found.line>; };
template <class C> struct place_of_finding<C, true> {
  using type = ready_made_policy<PARTITA_QUOTED(C::header), at_line<C::found.line_in_file()>>;
};

template <class C, class Policy> constexpr void explain_finding() {
  constexpr auto const& f = C::found;
  using where = typename place_of_finding<C, (f.line >= lines_of_a_header)>::type;
  if constexpr (f.what == wrong::two_parameters_of_one_name)
    (void)reject<mistake::two_parameters_of_one_name<PARTITA_QUOTED(C::op)>>::value;
  else if constexpr (f.what == wrong::no_gradient_rule)
    (void)reject<mistake::op_on_the_way_to_the_loss_has_no_gradient_rule<PARTITA_QUOTED(C::op)>>::value;
  else if constexpr (f.what == wrong::no_parameter_matches)
    (void)reject<mistake::no_parameter_matches_this_pattern<PARTITA_QUOTED(C::op), nearest<PARTITA_QUOTED(C::other)>>>::value;
  else if constexpr (f.what == wrong::no_such_axis && f.letter != 0)
    (void)reject<mistake::model_has_no_such_axis<on_axis<f.axis>, letter<f.letter>, where, Policy>>::value;
  else if constexpr (f.what == wrong::no_such_axis)
    (void)reject<mistake::model_has_no_such_axis<on_axis<f.axis>, where, Policy>>::value;
  else if constexpr (f.what == wrong::no_op_matches)
    (void)
        reject<mistake::no_op_matches_this_glob<PARTITA_QUOTED(C::op), nearest<PARTITA_QUOTED(C::other)>, where, Policy>>::value;
  else if constexpr (f.what == wrong::op_lacks_the_axis)
    (void)reject<mistake::op_lacks_the_axis_of_its_cut<PARTITA_QUOTED(C::op), on_axis<f.axis>, where, Policy>>::value;
  else if constexpr (f.what == wrong::axis_names_two_letters)
    (void)reject<mistake::axis_names_two_letters_of_this_op<PARTITA_QUOTED(C::op), on_axis<f.axis>, where, Policy>>::value;
  else if constexpr (f.what == wrong::whole_axis)
    (void)reject<mistake::axis_is_whole_and_may_not_be_cut<PARTITA_QUOTED(C::op), on_axis<f.axis>, where, Policy>>::value;
  else if constexpr (f.what == wrong::too_many_pieces)
    (void)reject<mistake::more_pieces_than_the_axis_is_long<PARTITA_QUOTED(C::op), on_axis<f.axis>, pieces<f.have>,
                                                            extent<f.allowed>, where, Policy>>::value;
  else if constexpr (f.what == wrong::sizes_do_not_sum)
    (void)reject<mistake::given_sizes_do_not_sum_to_the_extent<PARTITA_QUOTED(C::op), on_axis<f.axis>, given<f.have>,
                                                               extent<f.allowed>, where, Policy>>::value;
  else if constexpr (f.what == wrong::skewed_in_space)
    (void)reject<mistake::skewed_cut_is_laid_out_in_space<PARTITA_QUOTED(C::op), on_axis<f.axis>, where, Policy>>::value;
  else if constexpr (f.what == wrong::skewed_over_nothing)
    (void)reject<mistake::cut_is_skewed_by_a_dimension_the_op_does_not_stand_on<PARTITA_QUOTED(C::op), on_axis<f.axis>, where,
                                                                                Policy>>::value;
  else if constexpr (f.what == wrong::mode_used_twice)
    (void)reject<mistake::op_is_cut_twice_under_one_mode<PARTITA_QUOTED(C::op), PARTITA_QUOTED(C::other), where, Policy>>::value;
  else if constexpr (f.what == wrong::pieces_differ_from_the_grid)
    (void)reject<mistake::pieces_differ_from_the_grid<PARTITA_QUOTED(C::op), PARTITA_QUOTED(C::other), pieces<f.have>,
                                                      extent<f.allowed>, where, Policy>>::value;
  else if constexpr (f.what == wrong::nothing_is_cut_over_the_dimension && f.axis != nullptr)
    (void)reject<mistake::nothing_is_cut_over_this_dimension_of_the_grid<PARTITA_QUOTED(C::op), devices<f.have>, on_axis<f.axis>,
                                                                         extent<f.allowed>, where, Policy>>::value;
  else if constexpr (f.what == wrong::nothing_is_cut_over_the_dimension)
    (void)reject<mistake::nothing_is_cut_over_this_dimension_of_the_grid<
        PARTITA_QUOTED(C::op), devices<f.have>, nearest<PARTITA_QUOTED(C::other)>, where, Policy>>::value;
  else if constexpr (f.what == wrong::dimension_assigned_twice)
    (void)reject<
        mistake::op_is_assigned_twice_to_one_dimension<PARTITA_QUOTED(C::op), PARTITA_QUOTED(C::other), where, Policy>>::value;
  else if constexpr (f.what == wrong::not_assigned)
    (void)reject<mistake::op_is_not_assigned<PARTITA_QUOTED(C::op), Policy>>::value;
  else if constexpr (f.what == wrong::device_out_of_range)
    (void)reject<mistake::device_is_out_of_range<PARTITA_QUOTED(C::op), PARTITA_QUOTED(C::other), device<f.have>,
                                                 devices<f.allowed>, where, Policy>>::value;
  else if constexpr (f.what == wrong::device_twice)
    (void)reject<mistake::device_stands_twice_in_a_list<PARTITA_QUOTED(C::op), device<f.have>, where, Policy>>::value;
  else if constexpr (f.what == wrong::devices_differ_from_the_grid)
    (void)reject<mistake::list_of_devices_differs_from_the_grid<PARTITA_QUOTED(C::op), given<f.have>, devices<f.allowed>, where,
                                                                Policy>>::value;
  else if constexpr (f.what == wrong::too_many_cuts)
    (void)reject<mistake::op_has_too_many_cuts<PARTITA_QUOTED(C::op), where, Policy>>::value;
  else if constexpr (f.what == wrong::cyclic_order)
    (void)reject<mistake::wished_order_has_a_cycle<PARTITA_QUOTED(C::op), PARTITA_QUOTED(C::other), where, Policy>>::value;
  else if constexpr (f.what == wrong::order_names_nothing)
    (void)reject<mistake::order_names_a_moment_that_no_op_has<PARTITA_QUOTED(C::op), where, Policy>>::value;
  else if constexpr (f.what == wrong::node_is_not_there)
    (void)reject<mistake::nothing_is_moved_or_summed_as_the_plan_says<PARTITA_QUOTED(C::op), PARTITA_QUOTED(C::other), where,
                                                                      Policy>>::value;
  else if constexpr (f.what == wrong::node_is_cut_in_time)
    (void)reject<mistake::move_or_sum_is_cut_by_a_mode_that_is_no_dimension_of_its_devices<PARTITA_QUOTED(C::op), on_axis<f.axis>,
                                                                                           where, Policy>>::value;
  else if constexpr (f.what == wrong::sum_is_cut_where_its_pieces_are)
    (void)reject<
        mistake::sum_over_time_is_cut_where_its_pieces_in_time_are<PARTITA_QUOTED(C::op), on_axis<f.axis>, where, Policy>>::value;
  else if constexpr (f.what == wrong::flow_differs)
    (void)reject<
        mistake::input_arrives_in_another_layout_than_it_is_read_in<PARTITA_QUOTED(C::op), input_number<f.have>, Policy>>::value;
  else if constexpr (f.what == wrong::bad_arguments)
    (void)reject<mistake::arguments_make_no_sense<PARTITA_QUOTED(C::op), where, Policy>>::value;
}
}  // namespace detail

// `static_assert(pt::verify<mlp, policy>());`: never false; a mistake is a compile error that names it. What needs an
// extent that is bound at run time is checked when a trainer, a plan or a search is made.
template <class Model, class Policy> constexpr bool verify() {
  if constexpr (!detail::policy_for<Policy>) (void)reject<mistake::policy_has_no_call_operator_that_takes_a_plan<Policy>>::value;
  else detail::explain_finding<detail::checked_type<as_training<Model>, Policy>, Policy>();
  return true;
}
template <auto Model, class Policy> constexpr bool verify() {
  using training_type = as_training<std::remove_const_t<decltype(Model)>>;
  if constexpr (!detail::policy_for<Policy>) (void)reject<mistake::policy_has_no_call_operator_that_takes_a_plan<Policy>>::value;
  else detail::explain_finding<detail::checked<training_type{Model}, Policy>, Policy>();
  return true;
}
// The same finding as a value, for tests: verify never says false, it does not compile.
template <class Model, class Policy> inline constexpr finding check = detail::find_mistake(as_training<Model>{}, Policy{});

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
