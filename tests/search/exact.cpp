#include <doctest/doctest.h>

#include "../support/against_brute_force.hpp"

using namespace partita;

TEST_CASE("exact search misses nothing that brute force finds, with and without a memory limit") {
  int without_plan = 0;
#if defined(PARTITA_SANITIZED)  // half a second each there
  constexpr unsigned spaces = 60;
#else
  constexpr unsigned spaces = 200;
#endif
  for (unsigned seed = 0; seed < spaces; ++seed) {
    const std::string wrong = testing::compare_with_brute_force(seed, without_plan);
    CAPTURE(seed);
    CHECK(wrong == "");
  }
  CHECK(without_plan > 5);
}
