// Mistakes in pipelines and in the words of orders.
#include <string_view>

#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/relu.hpp>
#include <partita/plan/verify.hpp>
#include <partita/policy/interlaced_pipeline.hpp>
#include <partita/policy/pipeline.hpp>

namespace pt = partita;

struct batch : pt::axis<"batch", 32> {};
struct in : pt::axis<"in", 784> {};
struct ffn : pt::axis<"ffn", 512> {};
struct seq : pt::axis<"seq", 128> {};
struct label : pt::axis<"class", 10> {};

struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, in, ffn>(g, "fc1.weight")));
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, ffn, label>(g, "fc2.weight")), y);
  }
};
struct backwards_first {  // no stage can begin
  static constexpr void order(pt::plan_base& plan, int stages, int micro_batches) {
    for (int s = 0; s < stages; ++s) {
      pt::schedule::turns stage(plan, s, micro_batches);
      for (int i = 0; i < micro_batches; ++i) stage.backward(i);
      for (int i = 0; i < micro_batches; ++i) stage.forward(i);
    }
  }
};
struct no_schedule { static constexpr std::string_view name = "none"; };

struct policy {
  constexpr void operator()(auto& plan) const {
    plan.op_assign(plan.ops(), pt::grid{});
#if MISTAKE == 8
    plan.op_assign(plan.ops("fc1"), pt::phase{"half", 0});
    plan.op_assign(plan.ops("relu"), pt::phase{"half", 1});
    plan.op_order(pt::moment{}.at("half", 1).of(pt::pass::forward), pt::moment{}.at("half", 0).of(pt::pass::forward));
    // expect 8 gcc: mistake::wished_order_has_a_cycle<partita::quoted<.*"fc1 .forward.".*quoted<.*"relu .forward.".*at_line<44>, policy>
    // expect 8 clang: mistake::wished_order_has_a_cycle<partita::quoted<'f', 'c', '1', .*quoted<'r', 'e', 'l', 'u', .*at_line<44>, policy>
#elif MISTAKE == 9
    pt::sequence turns(plan);
    for (char const* half : {"second", "first"}) turns.then(pt::moment{}.at(half, 0).of(pt::pass::forward));
    plan.op_assign(plan.ops("fc1"), pt::phase{"first", 0});
    plan.op_assign(plan.ops("fc2"), pt::phase{"second", 0});
    // expect 9: mistake::wished_order_has_a_cycle<partita::quoted<.*quoted<.*at_line<48>, policy>
#elif MISTAKE == 10
    plan.op_order(pt::moment{}.at("chunk", 1), pt::moment{}.of(pt::pass::backward));
    // expect 10 gcc: mistake::order_names_a_moment_that_no_op_has<partita::quoted<.*"chunk 1".*at_line<54>, policy>
    // expect 10 clang: mistake::order_names_a_moment_that_no_op_has<partita::quoted<'c', 'h', 'u', 'n', 'k', ' ', '1'>, partita::at_line<54>, policy>
#elif MISTAKE == 11
    plan.op_order(pt::moment{}.index("a", 0).index("b", 0).index("c", 0).index("d", 0).index("e", 0), pt::moment{});
    // expect 11: mistake::arguments_make_no_sense<partita::quoted<.*at_line<58>, policy>
#elif MISTAKE == 12
    plan.op_assign(plan.ops("fc*"), pt::phase{"chunk", 0});
    plan.op_assign(plan.ops("fc2"), pt::phase{"chunk", 1});
    // expect 12 gcc: mistake::op_is_assigned_twice_to_one_dimension<partita::quoted<.*"fc2".*quoted<.*"chunk".*at_line<62>, policy>
    // expect 12 clang: mistake::op_is_assigned_twice_to_one_dimension<partita::quoted<'f', 'c', '2'>, partita::quoted<'c', 'h', 'u', 'n', 'k'>, partita::at_line<62>, policy>
#elif MISTAKE == 13
    plan.op_assign(plan.ops(), pt::phase{"chunk", -1});
    // expect 13: mistake::arguments_make_no_sense<partita::quoted<.*at_line<66>, policy>
#elif MISTAKE == 14
    plan.op_order(pt::moment{}.at("stage", -2), pt::priority{1});
    // expect 14: mistake::arguments_make_no_sense<partita::quoted<.*at_line<69>, policy>
#endif
  }
};

#if MISTAKE == 1
using chosen = pt::policy::pipeline<0, pt::schedule::gpipe, 4>;
// expect 1 gcc: mistake::arguments_make_no_sense<partita::quoted<.*"a pipeline has less than one stage"
// expect 1 clang: mistake::arguments_make_no_sense<partita::quoted<'a', ' ', 'p', 'i', 'p', 'e', 'l', 'i', 'n', 'e'
#elif MISTAKE == 2
using chosen = pt::policy::pipeline<2, pt::schedule::one_f_one_b, 0>;
// expect 2 gcc: mistake::arguments_make_no_sense<partita::quoted<.*"a pipeline has less than one micro-batch"
// expect 2 clang: mistake::arguments_make_no_sense<partita::quoted<'a', ' ', 'p', 'i', 'p', 'e', 'l', 'i', 'n', 'e'
#elif MISTAKE == 3
using chosen = pt::policy::pipeline<2, pt::schedule::interleaved<0>, 4>;
// expect 3 gcc: mistake::arguments_make_no_sense<partita::quoted<.*"a pipeline has less than one chunk on a stage"
// expect 3 clang: mistake::arguments_make_no_sense<partita::quoted<'a', ' ', 'p', 'i', 'p', 'e', 'l', 'i', 'n', 'e'
#elif MISTAKE == 4
using chosen = pt::policy::pipeline<2, no_schedule, 4>;
// expect 4: mistake::schedule_has_no_order_of_a_plan_and_two_numbers<no_schedule>
#elif MISTAKE == 5
using chosen = pt::policy::pipeline<2, backwards_first, 2>;
// expect 5 gcc: mistake::wished_order_has_a_cycle<partita::quoted<.*backward, index .*quoted<.*forward, index
// expect 5 clang: mistake::wished_order_has_a_cycle<partita::quoted<.*'b', 'a', 'c', 'k', 'w', 'a', 'r', 'd'
#elif MISTAKE == 6
using chosen = pt::policy::interlaced_pipeline<2, 4, seq>;
// expect 6: mistake::model_has_no_such_axis<.*axis_of<seq>::info
#elif MISTAKE == 7
using chosen = pt::policy::interlaced_pipeline<1000, 4>;
// expect 7 gcc: mistake::arguments_make_no_sense<partita::quoted<.*"an interlaced pipeline finds no axis to spread: name it"
// expect 7 clang: mistake::arguments_make_no_sense<partita::quoted<'a', 'n', ' ', 'i', 'n', 't', 'e', 'r', 'l', 'a', 'c', 'e', 'd'
#elif MISTAKE == 0
using chosen = pt::policy::pipeline<2, pt::schedule::zero_bubble<pt::schedule::v_shaped>, 2>;
#else
using chosen = policy;
#endif
static_assert(pt::verify<mlp, chosen>());
