// Many random models under random plans against one device. RANDOM_PLANS is their number, RANDOM_PLANS_SEED the first.
#include <doctest/doctest.h>

#include "../support/number_of.hpp"
#include "../support/plan_trial.hpp"

TEST_CASE("many random models under random plans do what one device does") {
  const unsigned count = partita::testing::number_of("RANDOM_PLANS", 20000),
                 first = partita::testing::number_of("RANDOM_PLANS_SEED", 100000);
  for (unsigned seed = first; seed < first + count; ++seed) {
    const partita::testing::trial_result r =
        partita::testing::run_trial(seed, {.most_devices = seed % 3 == 0 ? 12 : 8, .on_threads = seed % 8 < 2, .minimise = true});
    CHECK_MESSAGE(r.fault.empty(), r.fault);
  }
}
