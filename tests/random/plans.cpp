// Random models under random plans against one device, a few seconds of them.
#include <doctest/doctest.h>

#include "../support/number_of.hpp"
#include "../support/plan_trial.hpp"

TEST_CASE("a plan that names no mode, whose parts are of what it does not speak of") {
  const partita::testing::trial_result r = partita::testing::run_trial(103345, {.on_threads = true});
  CHECK_MESSAGE(r.fault.empty(), r.fault);
}

TEST_CASE("a ring whose scores are large: attention that is all but certain of its keys") {
  const partita::testing::trial_result r = partita::testing::run_trial(111395);
  CHECK_MESSAGE(r.fault.empty(), r.fault);
}

TEST_CASE("random models under random plans do what one device does") {
  const unsigned seeds = partita::testing::drawn_sanitized(10, 60);
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const partita::testing::trial_result r = partita::testing::run_trial(seed, {.on_threads = seed % 8 < 2});
    CHECK_MESSAGE(r.fault.empty(), r.fault);
  }
}
