// Numbers that a person gives to a long test in the environment.
#pragma once
#include <cstdlib>

namespace partita::testing {

inline unsigned number_of(char const* variable, unsigned otherwise) {
  char const* const given = std::getenv(variable);
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : otherwise;
}

}  // namespace partita::testing
