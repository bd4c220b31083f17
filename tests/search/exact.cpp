#include <doctest/doctest.h>

#include <algorithm>

#include "../support/against_brute_force.hpp"

using namespace partita;

namespace {
#if defined(PARTITA_SANITIZED)  // a second each there
constexpr unsigned most_spaces = 20;
#else
constexpr unsigned most_spaces = 200;
#endif
}  // namespace

TEST_CASE("exact search misses nothing that brute force finds, with and without a memory limit") {
  testing::searched_spaces counted;
  for (unsigned seed = 0; seed < most_spaces; ++seed) {
    const std::string wrong = testing::compare_with_brute_force(seed, counted);
    CAPTURE(seed);
    CHECK(wrong == "");
  }
  CHECK(counted.without_plan > 0);
  CHECK(counted.unsettled == 0);
}

TEST_CASE("what is cut short gets more work at last: its bound is never lower, and often higher") {
  int higher = 0;
  for (unsigned seed = 0; seed < std::min(most_spaces, 60u); ++seed) {
    testing::random_space random(seed);
    spaces::problem p = random.make();
    p.limit = spaces::exact(p).memory * 0.7;
    spaces::exact_options how;
    how.listing = {0, 0};
    how.classes.work = 20'000;
    how.classes.at_last = 1;
    const spaces::exact_outcome once = spaces::exact(p, how);
    how.classes.at_last = 32;
    const spaces::exact_outcome again = spaces::exact(p, how);
    CAPTURE(seed);
    CHECK(again.lower_bound >= once.lower_bound);
    CHECK(again.time <= once.time);
    higher += again.lower_bound > once.lower_bound * (1 + 1e-9);
  }
  CHECK(higher > 0);
}
