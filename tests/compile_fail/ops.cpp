// Mistakes that the functions of the op library find themselves.
#include <partita/grad/training.hpp>
#include <partita/ops/attention.hpp>
#include <partita/ops/concatenate.hpp>
#include <partita/ops/einsum.hpp>
#include <partita/ops/embedding.hpp>
#include <partita/ops/experts.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/rename.hpp>
#include <partita/ops/reshape.hpp>
#include <partita/ops/rotary.hpp>
#include <partita/ops/routing.hpp>
#include <partita/ops/slice.hpp>
#include <partita/ops/top_k.hpp>
#include <partita/ops/transpose.hpp>

namespace pt = partita;

struct batch : pt::axis<"batch", 4> {};
struct position : pt::axis<"position", 8> {};
struct half : pt::axis<"half", 3> {};
struct hidden : pt::axis<"hidden", 12> {};
struct other : pt::axis<"other", 10> {};
struct head : pt::axis<"head", 3> {};
struct width : pt::axis<"width", 4> {};
struct vocab : pt::axis<"vocab", 20> {};

struct nameless_op {
  static constexpr std::string_view annotation = "... -> ...";
};
struct unannotated_op {
  static constexpr std::string_view name = "unannotated";
};
struct model {
  constexpr auto operator()(auto& g) const {
    auto ids = pt::input<pt::i32, batch, position>(g, "ids");
    auto table = pt::param<pt::f32, vocab, hidden>(g, "table");
#if MISTAKE == 1
    auto h = pt::embedding(table, ids);  // expect 1: mistake::.*embedding_op
#else
    auto h = pt::embedding(ids, table);
#endif
#if MISTAKE == 2
    h = pt::linear(h, pt::param<pt::f32, vocab, other>(g, "w"));
    // expect 2: mistake::weight_shares_no_axis_with_the_end_of_the_input<.*batch, position, hidden>.*vocab, other>
#elif MISTAKE == 22
    h = pt::linear(h, pt::param<pt::f32, hidden>(g, "w"));
    // expect 22: mistake::weight_of_linear_has_one_axis_which_leaves_none_to_make<.*batch, position, hidden>.*hidden>
#elif MISTAKE == 3
    h = pt::bias(h, pt::param<pt::f32, other>(g, "b"));
    // expect 3: mistake::bias_axes_are_not_the_last_axes_of_the_input<.*batch, position, hidden>.*other>
#elif MISTAKE == 4
    auto t = pt::transpose<position, batch>(h);
    // expect 4: mistake::transpose_must_name_the_last_axes_once_each<
    h = t;
#elif MISTAKE == 5
    h = pt::split_axis<hidden, head, other>(h);
    // expect 5: mistake::one_axis_is_not_the_product_of_the_two<.*hidden.*head.*other
#elif MISTAKE == 6
    h = pt::merge<batch, hidden, other>(h);
    // expect 6: mistake::merged_axes_are_not_neighbours<.*batch.*hidden
#elif MISTAKE == 7
    h = pt::rename<hidden, other>(h);
    // expect 7: mistake::renamed_axis_has_another_extent<.*hidden.*other
#elif MISTAKE == 8
    h = pt::slice<half, position>(h, 0);
    // expect 8: mistake::tensor_has_no_such_axis<.*slice.*half
#elif MISTAKE == 9
    h = pt::slice<position, hidden>(h, 0);
    // expect 9: mistake::slice_is_longer_than_its_axis<.*hidden.*position
#elif MISTAKE == 10
    h = pt::concatenate<position>(h, h);
    // expect 10: mistake::concatenated_tensors_must_differ_in_one_axis<
#elif MISTAKE == 11
    h = pt::concatenate<position>(h, pt::slice<position, half>(h, 0));
    // expect 11: mistake::concatenated_axis_is_not_the_sum_of_the_two<.*position.*position.*half
#elif MISTAKE == 12
    h = pt::einsum<"b s h -> b s">(h, h);
    // expect 12: mistake::einsum_takes_two_tensors_and_makes_one<
#elif MISTAKE == 13
    h = pt::einsum<"b s h, b s k -> b s k">(h, h);
    // expect 13: mistake::einsum_axis_stands_in_one_tensor_alone<.*letter<'h'>
#elif MISTAKE == 14
    h = pt::einsum<"b b h, b s h -> b s">(h, h);
    // expect 14: mistake::einsum_axis_stands_twice_in_one_tensor<.*letter<'b'>
#elif MISTAKE == 15
    h = pt::matmul(h, pt::param<pt::f32, batch, other, vocab>(g, "w"));
    // expect 15: mistake::one_letter_names_two_axes<.*einsum_op.*letter<'k'>.*hidden.*other
#elif MISTAKE == 16
    h = pt::attention(pt::split_axis<hidden, head, width>(h), pt::split_axis<hidden, width, head>(h),
                      pt::split_axis<hidden, head, width>(h));
    // expect 16: mistake::one_letter_names_two_axes<.*attention_op.*letter<'n'>.*head.*width
#elif MISTAKE == 17
    h = pt::rotary<hidden>(h);
    // expect 17: mistake::rotary_positions_are_the_last_axis_itself<.*hidden
#elif MISTAKE == 18
    auto odd = pt::rotary<position>(pt::param<pt::f32, position, half>(g, "odd"));
    // expect 18: mistake::rotary_turns_pairs_and_the_last_axis_is_odd<.*half.*3
#elif MISTAKE == 19
    auto slots = pt::assign_slots<other>(pt::param<pt::f32, head>(g, "gates"));
    // expect 19: mistake::gates_are_of_tokens_and_experts<.*head
#elif MISTAKE == 20
    h = pt::top_k<width>(h, 2);
    // expect 20: mistake::tensor_has_no_such_axis<.*top_k_op.*width
#elif MISTAKE == 21
    auto gates = pt::top_k<head>(pt::linear(h, pt::param<pt::f32, hidden, head>(g, "router")), 2);
    auto slots = pt::assign_slots<other>(gates);
    h = pt::combine(pt::dispatch(h, slots), h, slots);
    // expect 21: mistake::one_letter_names_two_axes<.*combine_op.*letter<'e'>.*head.*hidden
#elif MISTAKE == 24
    h = pt::apply<nameless_op>(h);
    // expect 24: mistake::op_has_no_name<nameless_op>
#elif MISTAKE == 25
    h = pt::apply<unannotated_op>(h);
    // expect 25: mistake::op_has_no_annotation<unannotated_op>
#endif
    return pt::apply<pt::square_sum_op>(h);
  }
};

void trace_it() {
  pt::recorder<pt::planning_only, pt::training<model>> g;
  pt::trace(g, pt::training<model>{});
}
