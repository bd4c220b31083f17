#include <doctest/doctest.h>

#include "../support/against_brute_force.hpp"
#include "../support/number_of.hpp"

using namespace partita;

TEST_CASE("exact search misses nothing in thousands of random spaces") {
  const int spaces = static_cast<int>(testing::drawn(2500, 10000));
  testing::searched_spaces counted;
  int misses = 0;
  for (int i = 0; i < spaces; ++i) {
    const unsigned seed = 1000 + static_cast<unsigned>(i);
    if (const std::string wrong = testing::compare_with_brute_force(seed, counted); wrong != "") {
      ++misses;
      MESSAGE("seed " << seed << ": " << wrong);
    }
  }
  CHECK(misses == 0);
  CHECK(counted.without_plan > spaces / 33);
  CHECK(counted.unsettled < static_cast<int>(testing::drawn(10, 20)));
}
