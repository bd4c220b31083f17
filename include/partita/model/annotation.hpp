// The annotation language of ops, parsed in constant evaluation: "b s h+, h+ f -> b s f".
//   a letter      an axis; the same letter is the same axis in every operand
//   '+'           the axis is missing from an output; cutting it gives partial results there
//   '^'           whole: never cut
//   "(n d)"       one axis made of two letters, the leading one the slower; it is cut by the leading letter
//   "..."         stands first: any number of axes, the same in every operand that has it
#pragma once
#include <cstdint>
#include <string_view>

#include <partita/core/dtype.hpp>

namespace partita {

inline constexpr int max_inputs = 6, max_outputs = 4, max_rank = 6, max_dims = 10;

enum class fault : std::uint8_t {
  none,
  unexpected_character,
  mark_without_axis,
  rest_does_not_stand_first,
  too_many_axes,
  too_many_operands,
  no_arrow,
  group_is_not_two_letters,
  axis_missing_from_an_output_needs_a_mark,
  axis_in_every_output_must_not_be_summed,
  axis_stands_twice_in_one_operand,
  unknown_dtype,
  more_dtypes_than_operands
};

inline constexpr char rest_letter = '.';
struct term {
  char letter = 0, inner = 0;  // `inner`: the faster letter of a group
  bool summed = false, whole = false, inner_whole = false;
};
struct pattern {
  int rank = 0;
  term terms[max_rank]{};
  constexpr bool has(char c) const {
    for (int i = 0; i < rank; ++i)
      if (terms[i].letter == c || terms[i].inner == c) return true;
    return false;
  }
};
struct signature {
  int input_count = 0, output_count = 0;
  pattern inputs[max_inputs]{};
  pattern outputs[max_outputs]{};
  fault what = fault::none;
  int column = 0;
  char at = 0;
};

constexpr signature parse(std::string_view text) {
  signature s;
  pattern now;
  bool after_arrow = false, comma = false, open = false;
  auto fail = [&](fault f, std::size_t i) {
    if (s.what != fault::none) return;
    s.what = f;
    s.column = static_cast<int>(i) + 1;
    s.at = i < text.size() ? text[i] : ' ';
  };
  auto finish = [&](std::size_t i) {
    if (after_arrow ? s.output_count == max_outputs : s.input_count == max_inputs) fail(fault::too_many_operands, i);
    else if (after_arrow) s.outputs[s.output_count++] = now;
    else if (comma || now.rank > 0) s.inputs[s.input_count++] = now;
    now = {};
  };
  for (std::size_t i = 0; i < text.size() && s.what == fault::none; ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (open && (c == ',' || c == '-')) fail(fault::group_is_not_two_letters, i);
    else if (c == ',') {
      comma = true;
      finish(i);
    } else if (c == '-' && i + 1 < text.size() && text[i + 1] == '>' && !after_arrow) {
      finish(i);
      after_arrow = true;
      ++i;
    } else if (c == '+' || c == '^') {
      if (now.rank == 0) {
        fail(fault::mark_without_axis, i);
        continue;
      }
      term& t = now.terms[now.rank - 1];
      if (open && t.letter == 0) fail(fault::mark_without_axis, i);
      else if (c == '+' && (after_arrow || (open && t.inner != 0))) fail(fault::unexpected_character, i);
      else if (c == '+') t.summed = true;
      else if (open && t.inner != 0) t.inner_whole = true;
      else t.whole = true;
    } else if (c == '(') {
      if (open || now.rank == max_rank) fail(open ? fault::unexpected_character : fault::too_many_axes, i);
      else now.terms[now.rank++] = {};
      open = true;
    } else if (c == ')') {
      if (!open || now.terms[now.rank - 1].inner == 0) fail(fault::group_is_not_two_letters, i);
      open = false;
    } else if (open) {
      term& t = now.terms[now.rank - 1];
      if (c < 'a' || c > 'z') fail(fault::unexpected_character, i);
      else if (now.has(c)) fail(fault::axis_stands_twice_in_one_operand, i);
      else if (t.letter == 0) t.letter = c;
      else if (t.inner == 0) t.inner = c;
      else fail(fault::group_is_not_two_letters, i);
    } else if (now.rank == max_rank) fail(fault::too_many_axes, i);
    else if (text.substr(i, 3) == "...") {
      if (now.rank > 0) fail(fault::rest_does_not_stand_first, i);
      now.terms[now.rank++].letter = rest_letter;
      i += 2;
    } else if (c < 'a' || c > 'z') fail(fault::unexpected_character, i);
    else if (now.has(c)) fail(fault::axis_stands_twice_in_one_operand, i);
    else now.terms[now.rank++].letter = c;
  }
  if (s.what == fault::none && open) fail(fault::group_is_not_two_letters, text.size());
  if (s.what == fault::none && !after_arrow) fail(fault::no_arrow, text.size());
  finish(text.size());
  if (s.what != fault::none) return s;

  // Every letter of an input: missing from some output exactly if it carries '+' or '^' somewhere.
  for (int i = 0; i < s.input_count; ++i)
    for (int t = 0; t < s.inputs[i].rank; ++t) {
      const char c = s.inputs[i].terms[t].letter;
      bool summed = false, whole = false, missing = false, in_all = true;
      for (int j = 0; j < s.input_count; ++j)
        for (int u = 0; u < s.inputs[j].rank; ++u) {
          term const& x = s.inputs[j].terms[u];
          if (x.letter == c) summed |= x.summed, whole |= x.whole;
          if (x.inner == c) whole |= x.inner_whole;
        }
      for (int o = 0; o < s.output_count; ++o)
        if (!s.outputs[o].has(c)) missing = true, in_all = false;
      if (missing && !summed && !whole) fail(fault::axis_missing_from_an_output_needs_a_mark, text.find(c));
      if (in_all && summed) fail(fault::axis_in_every_output_must_not_be_summed, text.find(c));
    }
  return s;
}
template <class Op> struct annotation_of { static constexpr signature parsed = parse(Op::annotation); };

// Dtypes have the same small language: "T, i32 -> A". T and U stand for one float type each, A for the type in which
// sums over T are held. The default is T everywhere.
struct type_slot {
  char variable = 'T';
  dtype type = f32;
};
struct type_signature {
  type_slot inputs[max_inputs]{};
  type_slot outputs[max_outputs]{};
  int input_count = 0, output_count = 0;  // as many as are written
  fault what = fault::none;
  int column = 0;
};
constexpr type_signature parse_dtypes(std::string_view text) {
  type_signature s;
  int count = 0;
  bool after = false;
  auto fail = [&](fault f, std::size_t i) {
    if (s.what != fault::none) return;
    s.what = f;
    s.column = static_cast<int>(i) + 1;
  };
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == ',') {
      ++i;
      continue;
    }
    if (text[i] == '-') {
      if (after || text.substr(i, 2) != "->") fail(fault::unexpected_character, i);
      after = true;
      count = 0;
      i += 2;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && text[end] != ' ' && text[end] != ',' && text[end] != '-') ++end;
    const std::string_view word = text.substr(i, end - i);
    type_slot slot{char{}, f32};
    bool known = word == "T" || word == "U" || word == "A";
    if (known) slot.variable = word[0];
    for (dtype d : {f32, f64, bf16, f16, i32})
      if (word == name_of(d)) {
        slot.type = d;
        known = true;
      }
    if (!known) fail(fault::unknown_dtype, i);
    if (count == (after ? max_outputs : max_inputs)) fail(fault::more_dtypes_than_operands, i);
    else (after ? s.outputs[count] : s.inputs[count]) = slot;
    ++count;
    (after ? s.output_count : s.input_count) = count;
    i = end;
  }
  return s;
}
template <class Op> constexpr type_signature dtypes_of() {
  type_signature s;
  if constexpr (requires { Op::dtypes; }) {
    s = parse_dtypes(Op::dtypes);
    constexpr signature const& axes = annotation_of<Op>::parsed;
    if (s.what == fault::none && axes.what == fault::none &&
        (s.input_count > axes.input_count || s.output_count > axes.output_count))
      s.what = fault::more_dtypes_than_operands;
  }
  return s;
}
struct typed {
  dtype outputs[max_outputs]{};
  int bad_input = -1;
  dtype expected = f32;
};
// The types of the outputs, given those of the inputs. T and U are bound by the first input that has them; A by T, or
// where no input is T by the first that is A.
template <std::size_t N> constexpr typed resolve_dtypes(type_signature const& s, int outputs, dtype const (&in)[N], int count) {
  typed r;
  struct {
    bool known = false;
    dtype type = f32;
  } bound[26]{};
  auto of = [&](char variable) -> auto& { return bound[variable - 'A']; };
  if (count > max_inputs) return r;  // another number than any op takes
  for (int i = 0; i < count; ++i)
    if (const char v = s.inputs[i].variable; v != 0 && !of(v).known) of(v) = {true, in[i] == i32 ? f32 : in[i]};
  of('A') = {true, accumulation_of(of('T').known ? of('T').type : of('A').known ? of('A').type : f32)};
  for (int i = 0; i < count; ++i) {
    const type_slot slot = s.inputs[i];
    const dtype d = in[i];
    const dtype want = slot.variable != 0 ? of(slot.variable).type : slot.type;
    if (want != d && r.bad_input < 0) {
      r.bad_input = i;
      r.expected = want;
    }
  }
  for (int o = 0; o < outputs; ++o) {
    const type_slot slot = s.outputs[o];
    r.outputs[o] = slot.variable != 0 && of(slot.variable).known ? of(slot.variable).type : slot.type;
  }
  return r;
}

}  // namespace partita
