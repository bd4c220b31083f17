// Random models under random plans against one device.
#include <doctest/doctest.h>

#include "../support/number_of.hpp"
#include "../support/plan_trial.hpp"

TEST_CASE("hundreds of random models under random plans do what one device does") {
  const unsigned first = 1000, last = first + partita::testing::drawn(220, 1000);
  for (unsigned seed = first; seed < last; ++seed) {
    const partita::testing::trial_result r =
        partita::testing::run_trial(seed, {.most_devices = 12, .on_threads = seed % 8 < 2, .minimise = true});
    CHECK_MESSAGE(r.fault.empty(), r.fault);
  }
}
