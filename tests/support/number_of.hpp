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

}  // namespace partita::testing
