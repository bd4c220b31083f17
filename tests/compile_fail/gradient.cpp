// Mistakes in gradient rules, losses and parameters: found when a training is traced, or when a plan of it is proved.
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/relu.hpp>
#include <partita/plan/verify.hpp>
#include <partita/policy/data_parallel.hpp>

namespace pt = partita;

struct batch : pt::axis<"batch", 32> {};
struct in : pt::axis<"in", 784> {};
struct ffn : pt::axis<"ffn", 512> {};
struct label : pt::axis<"class", 10> {};

struct swish_gradient {
#if MISTAKE == 1
  static constexpr std::string_view name = "swish.grad", annotation = "b f, b f -> b";
#elif MISTAKE == 5
  static constexpr std::string_view name = "swish.grad", annotation = "b f, b f -> b c";
#elif MISTAKE == 7
  static constexpr std::string_view name = "swish.grad", annotation = "b f^, b f^ -> b";
  // expect 7: mistake::gradient_rule_returns_another_type_than_its_input<swish, partita::like<.*f32, batch, ffn>, partita::like<.*f32, batch>
#else
  static constexpr std::string_view name = "swish.grad", annotation = "..., ... -> ...";
#endif
};
struct swish {
  static constexpr std::string_view name = "swish", annotation = "... -> ...";
#if MISTAKE == 2
  static constexpr auto gradient(auto dy, auto, auto) { return std::tuple{pt::cast<pt::bf16>(dy)}; }
  // expect 2: mistake::gradient_rule_returns_another_type_than_its_input<swish, partita::like<.*f32, batch, ffn>, partita::like<.*bf16, batch, ffn>
#elif MISTAKE == 3
  static constexpr auto gradient(auto dy, auto, auto x) { return std::tuple{pt::apply<swish_gradient>(dy, x), dy}; }
  // expect 3: mistake::gradient_rule_returns_another_number_of_terms<swish, partita::takes<1>, partita::given<2>
#elif MISTAKE == 4
  // expect 4 gcc: mistake::op_on_the_way_to_the_loss_has_no_gradient_rule<partita::quoted<.*"swish"
  // expect 4 clang: mistake::op_on_the_way_to_the_loss_has_no_gradient_rule<partita::quoted<'s', 'w', 'i', 's', 'h'>
#elif MISTAKE == 6
  static constexpr auto gradient(auto dy, auto, auto x) {
    return std::tuple{[=] { return pt::apply<swish_gradient>(dy); }};
  }
  // expect 6: mistake::op_takes_another_number_of_inputs<swish_gradient, partita::takes<2>, partita::given<1>
#elif MISTAKE == 8
  static constexpr auto gradient(auto dy, auto, auto x) { return pt::apply<swish_gradient>(dy, x); }
  // expect 8: mistake::gradient_rule_returns_no_list_of_gradients<swish
#else
  static constexpr auto gradient(auto dy, auto, auto x) { return std::tuple{pt::apply<swish_gradient>(dy, x)}; }
#endif
  // expect 1: mistake::annotation_is_malformed<swish_gradient, .*axis_missing_from_an_output_needs_a_mark>, partita::at_column<3>
  // expect 5: mistake::annotation_is_malformed<swish_gradient, .*axis_missing_from_an_output_needs_a_mark>, partita::at_column<3>
};

struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto h = pt::apply<swish>(pt::linear(x, pt::param<pt::f32, in, ffn>(g, "fc1.weight")));
#if MISTAKE == 17
    auto scope = pt::scope(g, "fc1");
    auto logits = pt::linear(h, pt::param<pt::f32, ffn, label>(g, "weight"));
    // expect 17 gcc: mistake::two_parameters_of_one_name<partita::quoted<.*"fc1.weight"
    // expect 17 clang: mistake::two_parameters_of_one_name<partita::quoted<'f', 'c', '1', '.', 'w', 'e', 'i', 'g', 'h', 't'>
#elif MISTAKE == 9
    auto logits = pt::linear(h, pt::param<pt::f32, ffn, label>(g, "fc1.weight"));
    // expect 9 gcc: mistake::two_parameters_of_one_name<partita::quoted<.*"fc1.weight"
    // expect 9 clang: mistake::two_parameters_of_one_name<partita::quoted<'f', 'c', '1', '.', 'w', 'e', 'i', 'g', 'h', 't'>
#else
    auto logits = pt::linear(h, pt::param<pt::f32, ffn, label>(g, "fc2.weight"));
#endif
#if MISTAKE == 10
    return logits;
    // expect 10: mistake::loss_is_not_a_float_scalar<partita::like<.*f32, batch, label>
#elif MISTAKE == 11
    return pt::outputs(pt::loss("loss", pt::cross_entropy(logits, y)), pt::loss("odd", y));
    // expect 11: mistake::loss_is_not_a_float_scalar<partita::like<.*i32, batch>
#elif MISTAKE == 12
    return pt::output("logits", logits);
    // expect 12: mistake::model_returns_no_loss<
#elif MISTAKE == 13
    return pt::outputs(pt::output("logits", logits), pt::output("hidden", h));
    // expect 13: mistake::model_returns_no_loss<
#elif MISTAKE == 14
    return 0;
    // expect 14: mistake::model_returns_no_loss<int
#elif MISTAKE == 15
    (void)pt::cross_entropy(logits, y);
    // expect 15: mistake::model_returns_no_loss<void
#else
    return pt::cross_entropy(logits, y);
#endif
  }
};
#if MISTAKE == 16
struct nothing_to_call {};
static_assert(pt::verify<nothing_to_call, pt::policy::single_device>());
// expect 16: mistake::model_has_no_const_call_operator_that_takes_a_graph<nothing_to_call
#else
static_assert(pt::verify<mlp, pt::policy::single_device>());
#endif
