// Random models under random plans against one device.
#include <doctest/doctest.h>

#include "../support/plan_trial.hpp"

TEST_CASE("1000 random models under random plans do what one device does") {
  for (unsigned seed = 1000; seed < 2000; ++seed) {
    const partita::testing::trial_result r =
        partita::testing::run_trial(seed, {.most_devices = 12, .on_threads = seed % 8 < 2, .minimise = true});
    CHECK_MESSAGE(r.fault.empty(), r.fault);
  }
}
