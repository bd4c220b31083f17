// Selection by name: '*' is any run of characters, everything else is itself.
#pragma once
#include <cstddef>
#include <string_view>

#include <partita/core/error.hpp>
#include <partita/core/text.hpp>

namespace partita {

constexpr bool matches(std::string_view pattern, std::string_view word) {
  std::size_t p = 0, i = 0, star = pattern.size(), back = 0;
  while (i < word.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      if (p + 1 == pattern.size()) return true;
      star = p++;
      back = i;
    } else if (p < pattern.size() && pattern[p] == word[i]) {
      ++p;
      ++i;
    } else if (star < pattern.size()) {
      p = star + 1;
      i = ++back;
    } else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Not constexpr: while compiling it is an error to come here.
[[noreturn]] inline void a_glob_has_more_than_128_characters() {
  throw error("a glob has more than 128 characters: give fewer patterns, or shorter ones with '*'");
}

// Patterns separated by spaces; a name matches when one of them does. The empty glob matches nothing.
struct glob {
  text<128> patterns;
  constexpr glob() = default;
  template <std::size_t N> constexpr glob(const char (&literal)[N]) : glob(std::string_view(literal, N - 1)) {}
  constexpr explicit glob(std::string_view words) : patterns(words) {
    if (!patterns.whole) a_glob_has_more_than_128_characters();
  }
  // Not inlined: every type of parameter has an update of its own, which asks.
  [[gnu::noinline]] constexpr bool contains(std::string_view word) const {
    std::size_t at = 0;
    for (std::string_view one = next(at); !one.empty(); one = next(at))
      if (matches(one, word)) return true;
    return false;
  }
  // The first pattern from `at` on, which moves behind it; empty where there are no more.
  constexpr std::string_view next(std::size_t& at) const {
    const std::string_view all = patterns.view();
    while (at < all.size() && all[at] == ' ') ++at;
    const std::size_t begin = at;
    while (at < all.size() && all[at] != ' ') ++at;
    return all.substr(begin, at - begin);
  }
};

}  // namespace partita
