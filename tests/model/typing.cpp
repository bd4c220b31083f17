// What an op makes of its inputs: letters are unified, outputs follow.
#include <doctest/doctest.h>

#include <type_traits>

#include <partita/grad/training.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/reshape.hpp>

namespace pt = partita;

namespace {
struct batch : pt::axis<"batch", 4> {};
struct seq : pt::axis<"seq", 6> {};
struct hidden : pt::axis<"hidden", 12> {};
struct heads : pt::axis<"heads", 3> {};
struct width : pt::axis<"width", 4> {};
struct made : pt::axis<"made", 5> {};
struct sample : pt::axis<"sample"> {};
struct sample_of_8 : pt::axis<"sample", 8> {};
using f = pt::like<pt::f32>;
template <class... Axes> using f32 = pt::like<pt::f32, Axes...>;
template <class... Axes> using f64 = pt::like<pt::f64, Axes...>;
template <class... Axes> using i32 = pt::like<pt::i32, Axes...>;

template <pt::fixed_string Text> struct op { static constexpr std::string_view name = "op", annotation = Text.view(); };
template <class Op, class... In> inline constexpr pt::verdict verdict_of = pt::typing<Op, In...>::what;
template <int O, class Op, class... In> using output = typename pt::detail::output_like<Op, O, In...>::type;
using pt::verdict;

// '...' is any number of axes, the same in every operand
static_assert(std::is_same_v<output<0, op<"..., ... -> ...">, f, f>, f>);
static_assert(std::is_same_v<output<0, op<"..., ... -> ...">, f32<batch>, f32<batch>>, f32<batch>>);
static_assert(
    std::is_same_v<output<0, op<"..., ... -> ...">, f32<batch, seq, hidden>, f32<batch, seq, hidden>>, f32<batch, seq, hidden>>);
static_assert(verdict_of<op<"..., ... -> ...">, f32<batch>, f32<seq>> == verdict::axis);
static_assert(verdict_of<op<"..., ... -> ...">, f32<batch>, f> == verdict::rank);
static_assert(verdict_of<op<"..., ... -> ...">, f32<batch, seq>, f32<seq, batch>> == verdict::axis);
static_assert(
    std::is_same_v<output<0, op<"... a+, a+ b -> ... b">, f32<batch, seq, hidden>, f32<hidden, made>>, f32<batch, seq, made>>);
static_assert(std::is_same_v<output<0, op<"... a+, a+ b -> ... b">, f32<hidden>, f32<hidden, made>>, f32<made>>);
static_assert(verdict_of<op<"... a+, a+ b -> ... b">, f, f32<hidden, made>> == verdict::rank);
static_assert(verdict_of<op<"a, ... -> a">, f32<batch>, f32<batch>> == verdict::annotation);
static_assert(std::is_same_v<output<0, op<"...+ ->">, f32<batch, seq>>, f>);
// the scalar in between is no axis of the rest
static_assert(std::is_same_v<output<1, op<", ...+ a+ -> , ... a">, f, f32<batch, hidden>>, f32<batch, hidden>>);

// numbers of inputs and ranks
static_assert(verdict_of<op<"a -> a">, f32<batch>, f32<batch>> == verdict::arity);
static_assert(verdict_of<op<"a, a -> a">, f32<batch>> == verdict::arity);
static_assert(verdict_of<op<"a b -> a b">, f32<batch>> == verdict::rank);
static_assert(pt::typing<op<"a, b -> a b">, f32<batch>, f32<batch, seq>>::result.input == 1);

// an axis is its name: a run-time extent agrees with a static one, two static ones do not
static_assert(verdict_of<op<"a, a -> a">, f32<sample>, f32<sample_of_8>> == verdict::good);
struct sample_of_9 : pt::axis<"sample", 9> {};
static_assert(verdict_of<op<"a, a -> a">, f32<sample_of_9>, f32<sample_of_8>> == verdict::extents);
using anonymous = pt::axis<"hidden", 12>;
static_assert(verdict_of<op<"a, a -> a">, f32<hidden>, f32<anonymous>> == verdict::good);
static_assert(std::is_same_v<output<0, op<"a, a -> a">, f32<hidden>, f32<anonymous>>, f32<hidden>>);  // the first gives the type
// one axis under two letters is legal
static_assert(verdict_of<op<"a+, a+ b -> b">, f32<hidden>, f32<hidden, hidden>> == verdict::good);

// groups: the two letters come from elsewhere, the group's axis is an input's or the op's
struct split_heads {
  static constexpr std::string_view name = "split", annotation = "... (n d) -> ... n d";
  template <int O, int P> using output_axis = std::conditional_t<P == 1, heads, std::conditional_t<P == 2, width, void>>;
};
struct merge_heads {
  static constexpr std::string_view name = "merge", annotation = "... n d -> ... (n d)";
  template <int O, int P> using output_axis = std::conditional_t<P == 1, hidden, void>;
};
static_assert(std::is_same_v<output<0, split_heads, f32<batch, hidden>>, f32<batch, heads, width>>);
static_assert(std::is_same_v<output<0, merge_heads, f32<batch, heads, width>>, f32<batch, hidden>>);
static_assert(verdict_of<op<"... n d -> ... (n d)">, f32<batch, heads, width>> == verdict::unknown_axis);
static_assert(verdict_of<op<"... (n d) -> ... n d">, f32<batch, hidden>> == verdict::unknown_axis);
static_assert([] {  // the leading letter may be cut, the inner one is whole
  constexpr pt::op_info const& i = pt::typing<merge_heads, f32<batch, heads, width>>::result.info;
  bool right = i.dim_count == 3;
  for (int d = 0; d < i.dim_count; ++d) right = right && i.dims[d].whole == (i.dims[d].letter == 'd');
  return right && i.outputs[0].rank == 2 && i.outputs[0].find(1) == 1 && i.outputs[0].inner[1] == 2;
}());

// an output axis that the op names
struct makes_axis {
  static constexpr std::string_view name = "makes", annotation = "a -> a b";
  template <int O, int P> using output_axis = std::conditional_t<P == 1, made, void>;
};
static_assert(std::is_same_v<output<0, makes_axis, f32<batch>>, f32<batch, made>>);
static_assert(verdict_of<op<"a -> a b">, f32<batch>> == verdict::unknown_axis);
// letters of a donor of shape
static_assert(
    std::is_same_v<output<0, op<"a+ h, a+, v h -> v h">, f32<batch, hidden>, f32<batch>, f32<made, hidden>>, f32<made, hidden>>);

// dtypes go by variables
struct widens {
  static constexpr std::string_view name = "widens", annotation = "..., ... -> ..., ...", dtypes = "T, i32 -> A, i32";
};
static_assert(std::is_same_v<output<0, widens, pt::like<pt::bf16, batch>, i32<batch>>, f32<batch>>);
static_assert(std::is_same_v<output<0, widens, f64<batch>, i32<batch>>, f64<batch>>);
static_assert(std::is_same_v<output<1, widens, f64<batch>, i32<batch>>, i32<batch>>);
static_assert(verdict_of<widens, f64<batch>, f64<batch>> == verdict::type);
static_assert(verdict_of<op<"..., ... -> ...">, f64<batch>, f32<batch>> == verdict::type);
struct misspelt {
  static constexpr std::string_view name = "misspelt", annotation = "... -> ...", dtypes = "T -> float";
};
static_assert(verdict_of<misspelt, f32<batch>> == verdict::dtypes);

// tables are of bounded size
static_assert(verdict_of<op<"... a, a b -> ... b a">, f32<batch, seq, heads, width, made, hidden>, f32<hidden, sample>> ==
              verdict::too_large);
static_assert(verdict_of<op<"..., ... a -> ... a">, f32<batch, seq, heads, width, made, hidden>,
                         f32<batch, seq, heads, width, made, hidden>> == verdict::rank);

// letters
static_assert([] {
  constexpr pt::op_info const& i =
      pt::typing<op<"... a+, a+ b -> ... b">, f32<batch, seq, hidden>, f32<hidden, made>>::result.info;
  bool right = i.dim_count == 4 && i.input_count == 2 && i.output_count == 1;
  right = right && i.dims[0].axis->name == "batch" && i.dims[1].axis->name == "seq" && i.dims[2].axis->name == "hidden" &&
          i.dims[3].axis->name == "made";
  right = right && i.dims[2].summed && !i.dims[0].summed && !i.dims[3].summed;
  return right && i.outputs[0].dims[0] == 0 && i.outputs[0].dims[1] == 1 && i.outputs[0].dims[2] == 3 &&
         i.outputs[0].find(2) == -1 && i.inputs[1].find(2) == 0;
}());
}  // namespace

TEST_CASE("typing of ops") {}  // all of it is asserted while compiling
