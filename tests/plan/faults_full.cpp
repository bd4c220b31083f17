// Faults put into random plans and completed plans: verification sees every one that changes what is computed.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../support/plan_faults.hpp"

namespace pt = partita;
namespace te = partita::testing;

TEST_CASE("44 kinds of faults in 60 random plans are found") {
  std::vector<std::unique_ptr<te::random_programs>> plans;
  for (unsigned seed = 0; seed < 60; ++seed) plans.push_back(std::make_unique<te::random_programs>(seed, 8));
  const std::vector<te::plan_fault> kinds = te::all_plan_faults();
  CHECK(kinds.size() == 44);
  for (te::plan_fault const& kind : kinds) {
    int seen = 0, harmless = 0;
    std::string missed;
    for (auto const& p : plans)
      for (unsigned k = 0; k < 4; ++k) {
        te::plan_injection x(p->g, *p->plan, p->completed_plan, 100 * k + 7);
        if (!kind.put(x)) continue;
        pt::completed again;
        const pt::finding f = kind.in_words ? pt::verify_plan(p->g, x.plan, again) : pt::detail::check_flow(p->g, x.plan, x.c);
        if (f) {
          ++seen;
          CHECK_FALSE(describe(f).empty());
        } else if (!kind.in_words && !te::makes_wrong_programs(p->g, x.plan, x.c)) ++harmless;
        else missed += "\n  " + x.words + " (" + p->words + ")";
      }
    if (std::getenv("SHOW_FAULTS") != nullptr) std::printf("%-50s %4d seen %4d harmless\n", kind.name.c_str(), seen, harmless);
    CHECK_MESSAGE(missed.empty(), kind.name, missed);
    CHECK_MESSAGE(seen > 0, kind.name, " was never put in, or never seen");
  }
}
