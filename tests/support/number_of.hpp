// How much a test draws, and numbers that a person gives to a long test in the environment.
#pragma once
#include <cstdlib>

namespace partita::testing {

inline unsigned number_of(char const* variable, unsigned otherwise) {
  char const* const given = std::getenv(variable);
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : otherwise;
}

// How many cases a test of label full draws: `few`, so that a whole run of scripts/test stays short, or `many` in
// scripts/test --long, which sets PARTITA_TESTS_LONG.
inline unsigned drawn(unsigned few, unsigned many) { return std::getenv("PARTITA_TESTS_LONG") != nullptr ? many : few; }

// Under a sanitizer a case takes five to ten times as long, and what it finds shows in few of them: a quick test draws `few`
// there, unless the run is a long one.
#if defined(PARTITA_SANITIZED)
inline const bool sanitized_briefly = std::getenv("PARTITA_TESTS_LONG") == nullptr;
#else
inline constexpr bool sanitized_briefly = false;
#endif
inline unsigned drawn_sanitized(unsigned few, unsigned many) { return sanitized_briefly ? few : many; }

}  // namespace partita::testing
