// Mistakes in a model's ops: axes, ranks, dtypes, annotations.
#include <partita/grad/training.hpp>
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/relu.hpp>

namespace pt = partita;

struct batch : pt::axis<"batch", 32> {};
struct in : pt::axis<"in", 784> {};
struct ffn : pt::axis<"ffn", 512> {};
struct wider : pt::axis<"ffn", 640> {};
struct seq : pt::axis<"seq", 128> {};
struct head : pt::axis<"head", 12> {};
struct label : pt::axis<"class", 10> {};

struct swish_gradient {
  static constexpr std::string_view name = "swish.grad", annotation = "..., ... -> ...";
};
struct swish {
#if MISTAKE == 1
  static constexpr std::string_view name = "swish", annotation = "b f* -> b f";
#elif MISTAKE == 2
  static constexpr std::string_view name = "swish", annotation = "b f -> b";
#elif MISTAKE == 3
  static constexpr std::string_view name = "swish", annotation = "b f+ -> b f";
#elif MISTAKE == 4
  static constexpr std::string_view name = "swish", annotation = "b f -> b f g";
#elif MISTAKE == 5
  static constexpr std::string_view name = "swish", annotation = "(b f g) -> b f";
#elif MISTAKE == 6
  static constexpr std::string_view name = "swish", annotation = "b f";
#elif MISTAKE == 16
  static constexpr std::string_view name = "swish", annotation = "b f, b b -> b f";
#elif MISTAKE == 17
  static constexpr std::string_view name = "swish", annotation = "... -> ...", dtypes = "T -> float";
#elif MISTAKE == 18
  static constexpr std::string_view name = "swish", annotation = "... -> ...", dtypes = "T, i32 -> T";
#elif MISTAKE == 19
  static constexpr std::string_view name = "swish", annotation = "... -> a b c d e ...";
#else
  static constexpr std::string_view name = "swish", annotation = "... -> ...";
#endif
  // expect 1: mistake::annotation_is_malformed<swish, partita::because<.*unexpected_character>, partita::at_column<4>, partita::character<'\*'
  // expect 2: mistake::annotation_is_malformed<swish, partita::because<.*axis_missing_from_an_output_needs_a_mark>, partita::at_column<3>, partita::character<'f'
  // expect 3: mistake::annotation_is_malformed<swish, partita::because<.*axis_in_every_output_must_not_be_summed>, partita::at_column<3>, partita::character<'f'
  // expect 4: mistake::output_axis_is_not_given_by_an_input_or_the_op<swish, partita::letter<'g'
  // expect 5: mistake::annotation_is_malformed<swish, partita::because<.*group_is_not_two_letters>, partita::at_column<6>
  // expect 16: mistake::annotation_is_malformed<swish, partita::because<.*axis_stands_twice_in_one_operand>, partita::at_column<8>, partita::character<'b'
  // expect 17: mistake::dtypes_are_malformed<swish, partita::because<.*unknown_dtype>, partita::at_column<6>
  // expect 18: mistake::dtypes_are_malformed<swish, partita::because<.*more_dtypes_than_operands>
  // expect 19: mistake::annotation_is_malformed<swish, partita::because<.*rest_does_not_stand_first>
  // expect 6: mistake::annotation_is_malformed<swish, partita::because<.*no_arrow>
  static constexpr auto gradient(auto dy, auto, auto x) { return std::tuple{pt::apply<swish_gradient>(dy, x)}; }
};

struct only_matrices {  // takes rank 2
  static constexpr std::string_view name = "only_matrices", annotation = "a b -> a b";
  static constexpr auto gradient(auto dy, auto, auto) { return std::tuple{dy}; }
};

struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
#if MISTAKE == 7
    auto h = pt::apply<swish>(pt::linear(x, pt::param<pt::f32, ffn, seq>(g, "fc1.weight")));
    // expect 7: mistake::weight_shares_no_axis_with_the_end_of_the_input<partita::input_axes<batch, in>, partita::weight_axes<ffn, seq>
#elif MISTAKE == 8
    auto h = pt::apply<swish>(pt::linear(x, pt::param<pt::bf16, in, ffn>(g, "fc1.weight")));
    // expect 8: mistake::input_has_the_wrong_dtype<partita::linear_op<.*>, partita::input_number<1>, partita::found_dtype<.*bf16>, partita::expected_dtype<.*f32
#else
    auto h = pt::apply<swish>(pt::linear(x, pt::param<pt::f32, in, ffn>(g, "fc1.weight")));
#endif
#if MISTAKE == 9
    h = h + pt::linear(x, pt::param<pt::f32, in, seq>(g, "skip.weight"));
    // expect 9: mistake::one_letter_names_two_axes<partita::add_op, partita::letter<'.'>, .*ffn.*seq
#elif MISTAKE == 10
    h = h + pt::linear(x, pt::param<pt::f32, in, wider>(g, "skip.weight"));
    // expect 10: mistake::one_axis_has_two_extents<partita::add_op, partita::letter<'.'>, .*ffn>.*extent<512>.*wider>.*extent<640>
#elif MISTAKE == 11
    h = pt::apply<swish>(h, x);
    // expect 11: mistake::op_takes_another_number_of_inputs<swish, partita::takes<1>, partita::given<2>
#elif MISTAKE == 12
    auto z = pt::apply<only_matrices>(pt::param<pt::f32, ffn>(g, "row"));
    h = h + z;
    // expect 12: mistake::input_has_another_rank_than_its_annotation<only_matrices, partita::input_number<0>, partita::has_rank<1>
#elif MISTAKE == 13
    h = h + y;
    // expect 13: mistake::input_has_another_rank_than_its_annotation<partita::add_op, partita::input_number<1>, partita::has_rank<1>
#elif MISTAKE == 14
    h = pt::linear(h, pt::param<pt::f32, ffn, ffn>(g, "square.weight"), pt::param<pt::f32, seq>(g, "square.bias"));
    // expect 14: mistake::bias_axes_are_not_the_last_axes_of_the_input<partita::input_axes<batch, ffn>, partita::weight_axes<seq>
#elif MISTAKE == 15
    h = pt::relu(pt::input<pt::i32, batch, ffn>(g, "counts"));
    // expect 15: mistake::input_has_the_wrong_dtype<partita::relu_op, partita::input_number<0>, partita::found_dtype<.*i32>, partita::expected_dtype<.*f32
#elif MISTAKE == 20
    h = pt::linear(h, pt::param<pt::f32, ffn, in, label, seq, batch, head, ffn>(g, "large.weight"));
    // expect 20: mistake::tensor_has_more_axes_than_can_be_held<partita::takes<6>, partita::given<7>, ffn, in
#elif MISTAKE == 21
    h = pt::linear(h, pt::param<pt::i32, ffn, ffn>(g, "square.weight"));
    // expect 21: mistake::parameter_is_not_of_a_float_type<partita::found_dtype<.*i32>, ffn, ffn
#elif MISTAKE == 22
    h = pt::apply<swish>(h, h, h, h, h, h, h);
    // expect 22: mistake::op_takes_another_number_of_inputs<swish, partita::takes<1>, partita::given<7>
#elif MISTAKE == 23
    auto four = pt::param<pt::f32, batch, ffn, label, seq>(g, "four");
    h = pt::linear(four, pt::param<pt::f32, seq, head, in, batch, seq>(g, "four.weight"));
    // expect 23: mistake::op_has_more_axes_than_can_be_held<partita::linear_op<.*>, partita::takes<6>
#elif MISTAKE == 24
    auto large = pt::input<pt::f32, ffn, in, label, seq, batch, head, ffn>(g, "large");
    h = h + large;
    // expect 24: mistake::tensor_has_more_axes_than_can_be_held<partita::takes<6>, partita::given<7>, ffn, in
#endif
    // A rejected op's handle goes everywhere and is checked no more.
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, ffn, label>(g, "fc2.weight")), y);
  }
};

constexpr int traced = [] {
  pt::recorder<pt::planning_only, pt::training<mlp>> g;
  pt::trace(g, pt::training<mlp>{});
  return g.ops.size;
}();
