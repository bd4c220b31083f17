// No false alarm: the check accepts what is lowered from legal plans, drawn at random.
#include <doctest/doctest.h>

#include <string>

#include <partita/program/check.hpp>

#include "../support/random_programs.hpp"

namespace pt = partita;

TEST_CASE("programs of 200 random plans are accepted") {
  std::size_t devices = 0, instructions = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const pt::testing::random_programs p(seed, 8);
    REQUIRE_MESSAGE(p.rejected.empty(), p.words, p.rejected);
    const pt::program_finding of_step = pt::check_programs(p.g, p.step);
    CHECK_MESSAGE(!of_step, p.words, "\n  ", std::string(name_of(of_step.what)), ": ", of_step.words);
    const pt::program_finding of_forward = pt::check_programs(p.g, p.forward, {.forward_only = true, .workspace = {}, .graphs = {}, .keys = {}});
    CHECK_MESSAGE(!of_forward, p.words, "\n  forward part: ", std::string(name_of(of_forward.what)), ": ", of_forward.words);
    devices += p.step.size();
    for (pt::program const& x : p.step) instructions += x.instructions.size();
  }
  CHECK(devices > 400);        // the plans are plans
  CHECK(instructions > 50000);
}
