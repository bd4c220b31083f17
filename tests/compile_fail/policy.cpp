// Mistakes in a policy: each is one error that names the op, the axis, the numbers and the policy's line.
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/layer_norm.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/relu.hpp>
#include <partita/plan/verify.hpp>
#include <partita/policy/data_parallel.hpp>

namespace pt = partita;

struct batch : pt::axis<"batch", 32> {};
struct in : pt::axis<"in", 784> {};
struct ffn : pt::axis<"ffn", 512> {};
struct seq : pt::axis<"seq", 128> {};
struct label : pt::axis<"class", 10> {};

struct square_op {  // one axis under two letters
  static constexpr std::string_view name = "square", annotation = "b m+, m+ n -> b n";
  static constexpr auto gradient(auto, auto, auto, auto) { return std::tuple{pt::none{}, pt::none{}}; }
};
struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, in, ffn>(g, "fc1.weight")));
#if MISTAKE == 6
    h = pt::apply<square_op>(h, pt::param<pt::f32, ffn, ffn>(g, "square.weight"));
#elif MISTAKE == 7
    h = pt::layer_norm(h, pt::param<pt::f32, ffn>(g, "norm.weight"), pt::param<pt::f32, ffn>(g, "norm.bias"));
#endif
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, ffn, label>(g, "fc2.weight")), y);
  }
};

struct policy {
#if MISTAKE == 1
  constexpr void apply(auto& plan) const {  // expect 1: mistake::policy_has_no_call_operator_that_takes_a_plan<policy>
#else
  constexpr void operator()(auto& plan) const {
#endif
    plan.op_trans(plan.ops(), pt::split<batch>{2, "data"});
    pt::grid devices{{"data", 2}, {"tensor", 2}};
#if MISTAKE == 2
    plan.op_trans(plan.ops("fc*"), pt::split<seq>{2, "tensor"});
    // expect 2: mistake::model_has_no_such_axis<.*axis_of<seq>::info.*at_line<44>, policy>
#elif MISTAKE == 3
    plan.op_trans(plan.ops("fx*"), pt::split<ffn>{2, "tensor"});
    // expect 3 gcc: mistake::no_op_matches_this_glob<partita::quoted<.*"fx\*".*nearest<.*"fc1.weight".*at_line<47>, policy>
    // expect 3 clang: mistake::no_op_matches_this_glob<partita::quoted<'f', 'x', '\*'>, partita::nearest<.*'f', 'c', '1', '.', 'w'.*at_line<47>, policy>
#elif MISTAKE == 4
    plan.op_trans(plan.ops("relu"), pt::split<label>{2, "tensor"});
    // expect 4 gcc: mistake::op_lacks_the_axis_of_its_cut<partita::quoted<.*"relu".*axis_of<label>.*at_line<51>, policy>
    // expect 4 clang: mistake::op_lacks_the_axis_of_its_cut<partita::quoted<'r', 'e', 'l', 'u'>, .*axis_of<label>.*at_line<51>, policy>
#elif MISTAKE == 5
    for (auto op : plan.ops("fc1*")) plan.op_trans(op, pt::split<label>{2, "tensor"});
    // expect 5 gcc: mistake::op_lacks_the_axis_of_its_cut<partita::quoted<.*"fc1.weight".*axis_of<label>.*at_line<55>, policy>
    // expect 5 clang: mistake::op_lacks_the_axis_of_its_cut<partita::quoted<'f', 'c', '1', .*axis_of<label>.*at_line<55>, policy>
#elif MISTAKE == 6
    plan.op_trans(plan.ops("square"), pt::split<ffn>{2, "tensor"});
    // expect 6 gcc: mistake::axis_names_two_letters_of_this_op<partita::quoted<.*"square".*axis_of<ffn>.*at_line<59>, policy>
    // expect 6 clang: mistake::axis_names_two_letters_of_this_op<partita::quoted<'s', 'q', 'u', 'a', 'r', 'e'>, .*axis_of<ffn>.*at_line<59>, policy>
#elif MISTAKE == 7
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{2, "tensor"});
    // expect 7 gcc: mistake::axis_is_whole_and_may_not_be_cut<partita::quoted<.*"norm".*axis_of<ffn>.*at_line<63>, policy>
    // expect 7 clang: mistake::axis_is_whole_and_may_not_be_cut<partita::quoted<'n', 'o', 'r', 'm'>, .*axis_of<ffn>.*at_line<63>, policy>
#elif MISTAKE == 8
    plan.op_trans(plan.ops(pt::with<label>), pt::split<label>{11, "tensor"});
    devices = {{"data", 2}, {"tensor", 11}};
    // expect 8 gcc: mistake::more_pieces_than_the_axis_is_long<partita::quoted<.*"fc2.weight".*axis_of<label>.*pieces<11>, partita::extent<10>, partita::at_line<67>, policy>
    // expect 8 clang: mistake::more_pieces_than_the_axis_is_long<partita::quoted<'f', 'c', '2'.*axis_of<label>.*pieces<11>, partita::extent<10>, partita::at_line<67>, policy>
#elif MISTAKE == 9
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{2, "tensor", {300, 200}});
    // expect 9: mistake::given_sizes_do_not_sum_to_the_extent<partita::quoted<.*axis_of<ffn>.*given<500>, partita::extent<512>, partita::at_line<72>, policy>
#elif MISTAKE == 10
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{2, "data"});
    // expect 10 gcc: mistake::op_is_cut_twice_under_one_mode<partita::quoted<.*quoted<.*"data".*at_line<75>, policy>
    // expect 10 clang: mistake::op_is_cut_twice_under_one_mode<partita::quoted<.*quoted<'d', 'a', 't', 'a'>, partita::at_line<75>, policy>
#elif MISTAKE == 11
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{4, "tensor"});
    // expect 11: mistake::pieces_differ_from_the_grid<partita::quoted<.*quoted<.*t.*e.*n.*s.*o.*r.*pieces<4>, partita::extent<2>, partita::at_line<79>, policy>
#elif MISTAKE == 12
    devices = {{"data", 2}, {"data", 2}};
    // expect 12 gcc: mistake::op_is_assigned_twice_to_one_dimension<partita::quoted<.*"x".*quoted<.*"data".*at_line<162>, policy>
    // expect 12 clang: mistake::op_is_assigned_twice_to_one_dimension<partita::quoted<'x'>, partita::quoted<'d', 'a', 't', 'a'>, partita::at_line<162>, policy>
#elif MISTAKE == 13
    plan.op_assign(plan.ops("fc*"), devices);
    return;
    // expect 13 gcc: mistake::op_is_not_assigned<partita::quoted<.*"x".*policy>
    // expect 13 clang: mistake::op_is_not_assigned<partita::quoted<'x'>, policy>
#elif MISTAKE == 14
    plan.op_assign(plan.ops("relu"), pt::at{"stage", 2, 2});
    // expect 14 gcc: mistake::device_is_out_of_range<partita::quoted<.*"relu".*"stage".*device<2>, partita::devices<2>, partita::at_line<91>, policy>
    // expect 14 clang: mistake::device_is_out_of_range<partita::quoted<'r', 'e', 'l', 'u'>, partita::quoted<'s', 't', 'a', 'g', 'e'>, partita::device<2>, partita::devices<2>, partita::at_line<91>, policy>
#elif MISTAKE == 15
    plan.op_order(pt::moment{}.of(pt::pass::backward), pt::moment{}.of(pt::pass::forward));
    // expect 15: mistake::wished_order_has_a_cycle<partita::quoted<.*quoted<.*at_line<95>, policy>
#elif MISTAKE == 16
    plan.op_order(pt::moment{}.index("micro", 3), pt::moment{}.of(pt::pass::backward));
    // expect 16: mistake::order_names_a_moment_that_no_op_has<partita::quoted<.*at_line<98>, policy>
#elif MISTAKE == 17
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{0, "tensor"});
    // expect 17: mistake::arguments_make_no_sense<partita::quoted<.*at_line<101>, policy>
#elif MISTAKE == 18
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{3, "tensor", {256, 256}});
    // expect 18: mistake::arguments_make_no_sense<partita::quoted<.*at_line<104>, policy>
#elif MISTAKE == 19
    plan.op_trans(plan.ops(pt::with<seq>), pt::split<seq>{2, "tensor"});
    // expect 19: mistake::model_has_no_such_axis<.*axis_of<seq>::info.*at_line<107>, policy>
#elif MISTAKE == 20
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{2, "tensor", {600, -88}});
    // expect 20: mistake::arguments_make_no_sense<partita::quoted<.*at_line<110>, policy>
#elif MISTAKE == 21
    plan.op_assign(plan.ops("relu"), pt::at{"stage", -1, 2});
    // expect 21: mistake::device_is_out_of_range<partita::quoted<.*device<-1>, partita::devices<2>, partita::at_line<113>, policy>
#elif MISTAKE == 22
    auto relu = *plan.ops("relu").begin(), fc2 = *plan.ops("fc2").begin();
    plan.op_order(fc2, relu);
    // expect 22 gcc: mistake::wished_order_has_a_cycle<partita::quoted<.*"relu .forward.".*quoted<.*"fc2 .forward.".*at_line<117>, policy>
    // expect 22 clang: mistake::wished_order_has_a_cycle<partita::quoted<'r', 'e', 'l', 'u', .*quoted<'f', 'c', '2', .*at_line<117>, policy>
#elif MISTAKE == 23
    for (char const* mode : {"a", "b", "c", "d", "e", "f", "g", "h"}) plan.op_trans(plan.ops("relu"), pt::replicate{2, mode});
    // expect 23: mistake::op_has_too_many_cuts<partita::quoted<.*at_line<121>, policy>
#elif MISTAKE == 24
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{4, "tensor"});
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{200, "more"});
    devices = {{"data", 2}, {"tensor", 4}, {"more", 200}};
    // expect 24: mistake::more_pieces_than_the_axis_is_long<partita::quoted<.*axis_of<ffn>.*pieces<800>, partita::extent<512>, partita::at_line<125>, policy>
#elif MISTAKE == 25
    plan.op_trans(plan.ops(), pt::split<label, 'z'>{2, "tensor"});
    // expect 25: mistake::model_has_no_such_axis<.*axis_of<label>.*letter<'z'>, partita::at_line<129>, policy>
#elif MISTAKE == 26
    plan.op_trans(plan.ops(pt::with<ffn>), pt::skewed(pt::split<ffn>{2, "tensor"}, "data"));
    // expect 26: mistake::skewed_cut_is_laid_out_in_space<partita::quoted<.*axis_of<ffn>.*at_line<132>, policy>
#elif MISTAKE == 27
    plan.op_trans(plan.ops(pt::with<ffn>), pt::skewed(pt::split<ffn>{2, "turn"}, "ring"));
    // expect 27: mistake::cut_is_skewed_by_a_dimension_the_op_does_not_stand_on<partita::quoted<.*axis_of<ffn>.*at_line<135>, policy>
#elif MISTAKE == 28
    plan.op_trans(plan.moves(plan.ops("relu")), pt::split<ffn>{2, "tensor"});
    // expect 28: mistake::nothing_is_moved_or_summed_as_the_plan_says<partita::quoted<.*quoted<.*at_line<138>, policy>
#elif MISTAKE == 29
    plan.op_trans(plan.moves(plan.ops("fc1")), pt::split<ffn>{2, "turn"});
    plan.op_trans(plan.ops("fc1"), pt::split<in>{2, "tensor"});
    // expect 29: mistake::move_or_sum_is_cut_by_a_mode_that_is_no_dimension_of_its_devices<partita::quoted<.*axis_of<ffn>.*at_line<141>, policy>
#elif MISTAKE == 30
    plan.op_assign(plan.ops(), pt::device_list{{3, 1, 3, 0}});
    // expect 30: mistake::device_stands_twice_in_a_list<partita::quoted<.*device<3>, partita::at_line<145>, policy>
#elif MISTAKE == 31
    plan.op_assign(plan.ops(), pt::device_list{{3, 1, 0}});
    // expect 31: mistake::list_of_devices_differs_from_the_grid<partita::quoted<.*given<3>, partita::devices<4>, partita::at_line<148>, policy>
#elif MISTAKE == 32
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{2, "tensor"});
    devices = {{"data", 2}, {"tensro", 2}};
    // expect 32 gcc: mistake::nothing_is_cut_over_this_dimension_of_the_grid<partita::quoted<.*"tensro".*devices<2>, partita::nearest<.*"tensor".*at_line<162>, policy>
    // expect 32 clang: mistake::nothing_is_cut_over_this_dimension_of_the_grid<partita::quoted<'t', 'e', 'n', 's', 'r', 'o'>, partita::devices<2>, partita::nearest<.*'o', 'r'>.*at_line<162>, policy>
#elif MISTAKE == 33
    pt::policy::data_parallel<2>{}(plan);
    // expect 33 gcc: mistake::op_is_cut_twice_under_one_mode<partita::quoted<.*ready_made_policy<partita::quoted<.*"data_parallel".*at_line<[0-9][0-9]> ?>, policy>
    // expect 33 clang: mistake::op_is_cut_twice_under_one_mode<partita::quoted<.*ready_made_policy<partita::quoted<'d', 'a', 't', 'a', '_', .*at_line<[0-9][0-9]> ?>, policy>
#else
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{2, "tensor"});
#endif
    plan.op_assign(plan.ops(), devices);
  }
};
#if MISTAKE == 34
constexpr pt::training<mlp> recipe{.frozen = "fc*.bias fc1.wieght"};
static_assert(pt::verify<recipe, policy>());
// expect 34 gcc: mistake::no_parameter_matches_this_pattern<partita::quoted<.*"fc\*.bias".*nearest<.*"fc1.weight"
// expect 34 clang: mistake::no_parameter_matches_this_pattern<partita::quoted<'f', 'c', '\*', .*nearest<.*'f', 'c', '1', '.', 'w'
#else
static_assert(pt::verify<mlp, policy>());
#endif
