#include <doctest/doctest.h>

#include "../support/against_brute_force.hpp"

using namespace partita;

TEST_CASE("exact search misses nothing in 10,000 random spaces") {
  testing::searched_spaces counted;
  int misses = 0;
  for (unsigned seed = 1000; seed < 11000; ++seed)
    if (const std::string wrong = testing::compare_with_brute_force(seed, counted); wrong != "") {
      ++misses;
      MESSAGE("seed " << seed << ": " << wrong);
    }
  CHECK(misses == 0);
  CHECK(counted.without_plan > 300);
  CHECK(counted.unsettled < 20);
}
