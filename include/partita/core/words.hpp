// Messages put together from texts and numbers: `words({"rank ", rank, " does not exist"})`.
// A chain of std::string's operator+ says the same, but is code at every place, and clean-up for every step of it; most
// of what a program with a trainer compiled was such chains. Integers are written as std::to_string writes them, other
// numbers in at most six digits, as streams do: "2", "0.3", "1e-05".
#pragma once
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>

#include <partita/core/error.hpp>

namespace partita {

class word {
 public:
  constexpr word(std::string_view text) : text_(text.data()), bits_(text.size()) {}
  constexpr word(char const* text) : word(std::string_view(text)) {}
  word(std::string const& text) : word(std::string_view(text)) {}
  constexpr word(char letter) : bits_(static_cast<unsigned char>(letter)), as_(kind::letter) {}
  template <std::signed_integral N>
  requires(!std::same_as<N, char>) constexpr word(N n) : bits_(static_cast<std::uint64_t>(n)), as_(kind::negative_or_not) {}
  template <std::unsigned_integral N>
  requires(!std::same_as<N, char>) constexpr word(N n) : bits_(n), as_(kind::not_negative) {}
  constexpr word(double n) : number_(n), as_(kind::number) {}

  void append_to(std::string& all) const {
    switch (as_) {
      case kind::text: all.append(text_, static_cast<std::size_t>(bits_)); return;
      case kind::letter: all += static_cast<char>(bits_); return;
      case kind::negative_or_not: all += std::to_string(static_cast<std::int64_t>(bits_)); return;
      case kind::not_negative: all += std::to_string(bits_); return;
      case kind::number: {
        char digits[32];
        all.append(digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%g", number_)));
        return;
      }
    }
  }

 private:
  enum class kind : std::uint8_t { text, letter, negative_or_not, not_negative, number };
  char const* text_ = nullptr;
  union {
    std::uint64_t bits_;
    double number_;
  };
  kind as_ = kind::text;
};

// Out of line and once: what calls it is only the list.
[[gnu::noinline, gnu::cold]] inline std::string words(std::initializer_list<word> all) {
  std::string text;
  for (word const& w : all) w.append_to(text);
  return text;
}
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_error(std::initializer_list<word> all) { throw error(words(all)); }

}  // namespace partita
