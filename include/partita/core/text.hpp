// Text of bounded length, by value: names and messages inside constant evaluation. What does not fit is cut off.
#pragma once
#include <cstddef>
#include <string_view>

namespace partita {

template <int N> struct text {
  char chars[N]{};
  int size = 0;
  bool whole = true;  // nothing was cut off
  constexpr text() = default;
  constexpr text(std::string_view s) { put(s); }
  constexpr void put(std::string_view s) {
    for (char c : s)
      if (size < N) chars[size++] = c;
      else whole = false;
  }
  constexpr void put(int n) {
    if (n >= 10) put(n / 10);
    if (size < N) chars[size++] = static_cast<char>('0' + n % 10);
    else whole = false;
  }
  constexpr std::string_view view() const { return {chars, static_cast<std::size_t>(size)}; }
};

}  // namespace partita
