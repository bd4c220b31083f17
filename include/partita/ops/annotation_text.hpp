// Annotations put together at compile time, for ops over a number of axes that depends on their inputs.
#pragma once
#include <array>
#include <cstddef>
#include <string_view>

namespace partita::detail {

struct annotation_text {
  std::array<char, 96> chars{};
  int size = 0;
  constexpr void put(std::string_view s) {
    for (char c : s) chars[static_cast<std::size_t>(size++)] = c;
  }
  // " a^ b^ c^": `count` letters from `first` on, each with the mark
  constexpr void put_axes(char first, int count, std::string_view mark = "") {
    for (int i = 0; i < count; ++i) {
      const char axis[]{' ', static_cast<char>(first + i)};
      put({axis, 2});
      put(mark);
    }
  }
  constexpr std::string_view view() const { return {chars.data(), static_cast<std::size_t>(size)}; }
};

// "... FROM p q -> ... TO p q" with `Trailing` axes after those that the op is about, which are spelled 'a' to 'o'.
template <const auto& From, const auto& To, int Trailing> struct about_axes {
  static constexpr annotation_text text = [] {
    annotation_text t;
    t.put("... ");
    t.put(From);
    t.put_axes('p', Trailing);
    t.put(" -> ... ");
    t.put(To);
    t.put_axes('p', Trailing);
    return t;
  }();
};

}  // namespace partita::detail
