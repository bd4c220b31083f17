// Random models under many random plans on pretended GPUs. PRETENDED_PLANS is their number, PRETENDED_PLANS_SEED the first.
#include <doctest/doctest.h>

#include "../support/number_of.hpp"
#include "../support/pretended_trial.hpp"

TEST_CASE("500 random models under random plans on pretended GPUs do what one device of the CPU does") {
  const unsigned count = partita::testing::number_of("PRETENDED_PLANS", 500),
                 first = partita::testing::number_of("PRETENDED_PLANS_SEED", 1000);
  for (unsigned seed = first; seed < first + count; ++seed) {
    const std::string fault = partita::testing::pretended_fault(seed);
    CHECK_MESSAGE(fault.empty(), fault);
  }
}
