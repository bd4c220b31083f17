// Random models under many random plans on pretended GPUs. PRETENDED_PLANS is their number, PRETENDED_PLANS_SEED the first.
#include <doctest/doctest.h>

#include <cstdlib>

#include "../support/pretended_trial.hpp"

TEST_CASE("500 random models under random plans on pretended GPUs do what one device of the CPU does") {
  auto number = [](const char* name, unsigned otherwise) {
    const char* given = std::getenv(name);
    return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : otherwise;
  };
  const unsigned count = number("PRETENDED_PLANS", 500), first = number("PRETENDED_PLANS_SEED", 1000);
  for (unsigned seed = first; seed < first + count; ++seed) {
    const std::string fault = partita::testing::pretended_fault(seed);
    CHECK_MESSAGE(fault.empty(), fault);
  }
}
