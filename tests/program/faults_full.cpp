// Many faults put into programs of many random plans. SHOW_FAULTS=1 prints how many of each kind were seen.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "../support/faults_trial.hpp"

namespace te = partita::testing;

TEST_CASE("89 kinds of faults in programs of 300 random plans are found") {
  std::vector<unsigned> seeds;
  for (unsigned seed = 5000; seed < 5300; ++seed) seeds.push_back(seed);
  te::fault_trials trials(seeds);
  int seen = 0, harmless = 0;
  for (te::fault_kind const& kind : te::all_faults()) {
    const te::fault_count n = trials.run(kind, 4);
    if (std::getenv("SHOW_FAULTS") != nullptr)
      std::printf("%-50s %4d seen %4d harmless %4d missed\n", kind.name.c_str(), n.seen, n.harmless, n.missed);
    CHECK_MESSAGE(n.missed == 0, trials.misses);
    trials.misses.clear();
    CHECK_MESSAGE(n.seen > 0, kind.name, " was never put in, or never seen");
    seen += n.seen;
    harmless += n.harmless;
  }
  std::printf("%d faults seen, %d harmless\n", seen, harmless);
  CHECK(seen > 40000);
}
