#include <doctest/doctest.h>

#include "../support/against_brute_force.hpp"

using namespace partita;

TEST_CASE("exact search misses nothing that brute force finds, with and without a memory limit") {
  int without_plan = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const std::string wrong = testing::compare_with_brute_force(seed, without_plan);
    CAPTURE(seed);
    CHECK(wrong == "");
  }
  CHECK(without_plan > 5);
}
