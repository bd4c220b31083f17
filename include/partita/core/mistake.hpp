// Compile-time diagnostics as types. A mistake is a struct that is declared and never defined: naming its `value`
// in a static_assert gives one error whose first line holds the struct's name and its arguments, on every compiler.
#pragma once
#include <string_view>
#include <utility>

#include <partita/core/axis.hpp>
#include <partita/core/dtype.hpp>
#include <partita/core/fixed_string.hpp>
#include <partita/core/text.hpp>

namespace partita {

template <int N> struct input_number;
template <int N> struct takes;
template <int N> struct given;
template <int N> struct has_rank;
template <auto Fault> struct because;
template <int N> struct at_line;
template <int N> struct at_column;
template <char C> struct letter;
template <char C> struct character;
template <long N> struct pieces;
template <long N> struct extent;
template <long N> struct devices;
template <long N> struct device;
template <dtype D> struct found_dtype;
template <dtype D> struct expected_dtype;
template <class Name> struct nearest;                          // to what was written, of the names that there are
template <class Header, class Line> struct ready_made_policy;  // partita/policy/<header>.hpp
template <class... Axes> struct input_axes;
template <class... Axes> struct weight_axes;
template <axis_info const* Axis> struct on_axis;
#if defined(__clang__) && __clang_major__ < 15
template <char... C> struct quoted;  // clang 14 prints an array of char as numbers
#else
template <fixed_string Text> struct quoted;
#endif

// The assertion stands in a class of its own: in a constexpr function it would make the function invalid, and clang
// would then complain of every constant that is computed from it.
template <class Mistake> struct reject {
  static_assert(Mistake::value, "");
  static constexpr bool value = false;
};

namespace detail {
template <auto const& Text> constexpr auto exact() {  // clang prints an array as a string only if nothing follows its end
  fixed_string<static_cast<std::size_t>(Text.size) + 1> s;
  for (int i = 0; i < Text.size; ++i) s.chars[i] = Text.chars[i];
  return s;
}
#if defined(__clang__) && __clang_major__ < 15
template <auto const& Text, std::size_t... I> auto spell(std::index_sequence<I...>) -> quoted<Text.chars[I]...>;
#define PARTITA_QUOTED(t) decltype(::partita::detail::spell<t>(std::make_index_sequence<t.size>{}))
#else
#define PARTITA_QUOTED(t) ::partita::quoted<::partita::detail::exact<t>()>  // nvcc prints an alias as it was written
#endif
}  // namespace detail

}  // namespace partita
