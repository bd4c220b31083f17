// A string literal as a template argument.
#pragma once
#include <cstddef>
#include <string_view>

namespace partita {

template <std::size_t N> struct fixed_string {
  char chars[N]{};
  constexpr fixed_string() = default;
  constexpr fixed_string(const char (&text)[N]) {
    for (std::size_t i = 0; i < N; ++i) chars[i] = text[i];
  }
  constexpr std::string_view view() const { return {chars, N - 1}; }
};

}  // namespace partita
