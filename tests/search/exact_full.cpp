#include <doctest/doctest.h>

#include "../support/against_brute_force.hpp"

using namespace partita;

TEST_CASE("exact search misses nothing in 10,000 random spaces") {
  int without_plan = 0, misses = 0;
  for (unsigned seed = 1000; seed < 11000; ++seed)
    if (const std::string wrong = testing::compare_with_brute_force(seed, without_plan); wrong != "") {
      ++misses;
      MESSAGE("seed " << seed << ": " << wrong);
    }
  CHECK(misses == 0);
  CHECK(without_plan > 300);
}
