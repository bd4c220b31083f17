// No false alarm: the check accepts what is lowered from many legal plans. RANDOM_PLANS is their number, RANDOM_PLANS_SEED
// the first.
#include <doctest/doctest.h>

#include <string>

#include <partita/program/check.hpp>

#include "../support/number_of.hpp"
#include "../support/random_programs.hpp"

namespace pt = partita;

TEST_CASE("programs of many random plans are accepted") {
  const unsigned count = partita::testing::number_of("RANDOM_PLANS", 20000),
                 first = partita::testing::number_of("RANDOM_PLANS_SEED", 200000);
  for (unsigned seed = first; seed < first + count; ++seed) {
    const pt::testing::random_programs p(seed, seed % 3 == 0 ? 12 : 8);
    REQUIRE_MESSAGE(p.rejected.empty(), p.words, p.rejected);
    const pt::program_finding of_step = pt::check_programs(p.g, p.step);
    CHECK_MESSAGE(!of_step, p.words, "\n  ", std::string(name_of(of_step.what)), ": ", of_step.words);
    const pt::program_finding of_forward =
        pt::check_programs(p.g, p.forward, {.forward_only = true, .workspace = {}, .graphs = {}, .keys = {}});
    CHECK_MESSAGE(!of_forward, p.words, "\n  forward part: ", std::string(name_of(of_forward.what)), ": ", of_forward.words);
  }
}
