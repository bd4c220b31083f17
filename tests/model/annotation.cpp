// The annotation language, rule by rule, while compiling.
#include <doctest/doctest.h>

#include <partita/model/annotation.hpp>

namespace pt = partita;
using pt::fault;
using pt::parse;
using pt::parse_dtypes;

namespace {
constexpr bool good(std::string_view text, int inputs, int outputs) {
  const pt::signature s = parse(text);
  return s.what == fault::none && s.input_count == inputs && s.output_count == outputs;
}
constexpr bool bad(std::string_view text, fault what, int column) {
  const pt::signature s = parse(text);
  return s.what == what && s.column == column;
}

// operands: separated by commas, a scalar is nothing at all
static_assert(good("a -> a", 1, 1));
static_assert(good("a,a->a,a", 2, 2));
static_assert(good("  a   b  ,  b+ c  ->  a  ", 2, 1) == false);  // c is missing from the output and has no mark
static_assert(good("a b, b+ c -> a c", 2, 1));
static_assert(good("...+ ->", 1, 1));
static_assert(good(", ... -> ...", 2, 1));
static_assert(good("..., ..., , ..., ..., ... -> ...", 6, 1));
static_assert(good("-> a", 0, 1));
static_assert(good("a -> a, a, a, a", 1, 4));
static_assert(bad("a, a, a, a, a, a, a -> a", fault::too_many_operands, 21));
static_assert(bad("a -> a, a, a, a, a", fault::too_many_operands, 19));

// letters and ranks
static_assert(parse("b s h+, h+ f -> b s f").inputs[0].rank == 3);
static_assert(parse("b s h+, h+ f -> b s f").inputs[1].terms[1].letter == 'f');
static_assert(good("a b c d e f -> a b c d e f", 1, 1));
static_assert(bad("a b c d e f g -> a", fault::too_many_axes, 13));
static_assert(bad("A -> A", fault::unexpected_character, 1));
static_assert(bad("a1 -> a1", fault::unexpected_character, 2));
static_assert(bad("a a -> a", fault::axis_stands_twice_in_one_operand, 3));
static_assert(bad("(a b) a -> a", fault::axis_stands_twice_in_one_operand, 7));
static_assert(bad("(a a) -> a", fault::axis_stands_twice_in_one_operand, 4));
static_assert(bad("a -> a a", fault::axis_stands_twice_in_one_operand, 8));

// '+' and '^'
static_assert(parse("a b+ -> a").inputs[0].terms[1].summed);
static_assert(parse("a b^ -> a b").inputs[0].terms[1].whole);
static_assert(good("a b^ -> a", 1, 1));
static_assert(good("a b+ -> a, a b", 1, 2));  // missing from one output alone
static_assert(good("a b+, b -> a", 2, 1));    // a mark holds for the letter wherever it stands
static_assert(bad("a b -> a", fault::axis_missing_from_an_output_needs_a_mark, 3));
static_assert(bad("a b -> a b, a", fault::axis_missing_from_an_output_needs_a_mark, 3));
static_assert(bad("a b+ -> a b", fault::axis_in_every_output_must_not_be_summed, 3));
static_assert(bad("... -> ", fault::axis_missing_from_an_output_needs_a_mark, 1));
static_assert(bad("+a -> a", fault::mark_without_axis, 1));
static_assert(bad("a, ^ -> a", fault::mark_without_axis, 4));
static_assert(bad("a b+ -> a b+", fault::unexpected_character, 12));  // an output sums nothing

// groups: one axis of two letters
static_assert(parse("(n d) -> n d").inputs[0].rank == 1);
static_assert(parse("(n d) -> n d").inputs[0].terms[0].inner == 'd');
static_assert(parse("(n d)+ -> ").inputs[0].terms[0].summed);
static_assert(parse("(n^ d) -> n d").inputs[0].terms[0].whole);
static_assert(good("a (n d) b -> a n d b", 1, 1));
static_assert(bad("(n) -> n", fault::group_is_not_two_letters, 3));
static_assert(bad("() -> n", fault::group_is_not_two_letters, 2));
static_assert(bad("(n d e) -> n", fault::group_is_not_two_letters, 6));
static_assert(bad("(n d -> n", fault::group_is_not_two_letters, 6));
static_assert(bad("(n d, a -> n", fault::group_is_not_two_letters, 5));
static_assert(bad("a (n d", fault::group_is_not_two_letters, 7));
static_assert(bad("((n d) -> n", fault::unexpected_character, 2));
static_assert(bad("n) -> n", fault::group_is_not_two_letters, 2));
static_assert(bad("(n d+) -> n", fault::unexpected_character, 5));  // the inner letter is never cut, nor summed
static_assert(bad("(+n d) -> n d", fault::mark_without_axis, 2));
static_assert(bad("a b c d e f (n d) -> a", fault::too_many_axes, 13));

// '...'
static_assert(parse("... a -> ... a").inputs[0].terms[0].letter == pt::rest_letter);
static_assert(good("...+ a+, ... -> a, ...", 2, 2));
static_assert(bad("a ... -> a", fault::rest_does_not_stand_first, 3));
static_assert(bad("... ... -> ...", fault::rest_does_not_stand_first, 5));
static_assert(bad(".. -> ..", fault::unexpected_character, 1));
static_assert(bad("(... a) -> a", fault::unexpected_character, 2));

// '->'
static_assert(bad("", fault::no_arrow, 1));
static_assert(bad("a b", fault::no_arrow, 4));
static_assert(bad("a -> a -> a", fault::unexpected_character, 8));
static_assert(bad("a - a", fault::unexpected_character, 3));

// dtypes
constexpr bool good_dtypes(std::string_view text, int inputs, int outputs) {
  const pt::type_signature s = parse_dtypes(text);
  return s.what == fault::none && s.input_count == inputs && s.output_count == outputs;
}
static_assert(good_dtypes("T, i32 -> A", 2, 1));
static_assert(good_dtypes("T,U->T,U", 2, 2));
static_assert(good_dtypes("f32, f64, bf16, f16, i32 -> T", 5, 1));
static_assert(parse_dtypes("int -> T").what == fault::unknown_dtype);
static_assert(parse_dtypes("T -> B").what == fault::unknown_dtype);
static_assert(parse_dtypes("T -> t").what == fault::unknown_dtype);
static_assert(parse_dtypes("T -> T -> T").what == fault::unexpected_character);
static_assert(parse_dtypes("T, T, T, T, T, T, T -> T").what == fault::more_dtypes_than_operands);

constexpr pt::typed resolve(std::string_view text, int outputs, std::initializer_list<pt::dtype> given) {
  pt::dtype in[pt::max_inputs + 1]{};
  int count = 0;
  for (pt::dtype d : given) in[count++] = d;
  return pt::resolve_dtypes(parse_dtypes(text), outputs, in, count);
}
static_assert(resolve("T, T -> T", 1, {pt::bf16, pt::bf16}).outputs[0] == pt::bf16);
static_assert(resolve("T, T -> T", 1, {pt::bf16, pt::f32}).bad_input == 1);
static_assert(resolve("T, T -> T", 1, {pt::bf16, pt::f32}).expected == pt::bf16);
static_assert(resolve("T -> T", 1, {pt::i32}).bad_input == 0);  // T is a float type
static_assert(resolve("i32, T -> T", 1, {pt::i32, pt::f64}).outputs[0] == pt::f64);
static_assert(resolve("i32, T -> T", 1, {pt::f32, pt::f64}).bad_input == 0);
static_assert(resolve("T, U -> U, T", 2, {pt::f32, pt::bf16}).outputs[0] == pt::bf16);
// A: what sums over T are held in, whichever of the two comes first
static_assert(resolve("T -> A", 1, {pt::bf16}).outputs[0] == pt::f32);
static_assert(resolve("T -> A", 1, {pt::f64}).outputs[0] == pt::f64);
static_assert(resolve("T, A -> T", 1, {pt::bf16, pt::f32}).bad_input == -1);
static_assert(resolve("A, T -> T", 1, {pt::f32, pt::bf16}).bad_input == -1);
static_assert(resolve("A, T -> T", 1, {pt::bf16, pt::bf16}).bad_input == 0);
static_assert(resolve("A, T -> T", 1, {pt::f64, pt::f32}).bad_input == 0);
static_assert(resolve("A -> A", 1, {pt::f64}).outputs[0] == pt::f64);
static_assert(resolve("A -> A", 1, {pt::f16}).bad_input == 0);
}  // namespace

TEST_CASE("annotations") {}  // all of it is asserted while compiling
