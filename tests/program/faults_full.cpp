// Faults put into programs of random plans: the check sees every one that is not shown to be harmless.
// SHOW_FAULTS=1 prints how many of each kind were seen.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "../support/faults_trial.hpp"
#include "../support/number_of.hpp"

namespace pt = partita;
namespace te = partita::testing;

namespace {
// Between them they have a place for every kind: grids of two dimensions, pipelines, chains, empty pieces in time.
std::vector<unsigned> seeds() {
  std::vector<unsigned> all;
  for (unsigned seed = 0; seed < 30; ++seed) all.push_back(seed);
  return all;
}
}  // namespace

TEST_CASE("89 kinds of faults, each at random places of random plans, are found") {
  te::fault_trials trials(seeds());
  const std::vector<te::fault_kind> kinds = te::all_faults();
  CHECK(kinds.size() == 89);
  std::set<std::string> names;
  int seen = 0, harmless = 0;
  for (te::fault_kind const& kind : kinds) {
    te::fault_count n = trials.run(kind, 2);
    if (n.seen == 0 && n.missed == 0) n = trials.run(kind, 16);  // few plans leave outputs in pieces
    CHECK_MESSAGE(n.missed == 0, trials.misses);
    trials.misses.clear();
    CHECK_MESSAGE(n.seen > 0, kind.name, " was never put in, or never seen");
    CHECK(names.insert(kind.name).second);
    seen += n.seen;
    harmless += n.harmless;
  }
  CHECK(harmless < seen / 4);  // the kinds change what they say they change
  for (int what = 1; what <= static_cast<int>(pt::program_fault::missing); ++what)
    CHECK_MESSAGE(trials.by_fault[what] > 0,
                  "no fault was found to be: ", std::string(name_of(static_cast<pt::program_fault>(what))));
}

TEST_CASE("faults that a check does not look for count as missed: this test can fail") {
  te::fault_trials trials(seeds());
  for (te::fault_kind const& kind : te::all_faults()) {
    auto run = [&](int times) { return trials.run(kind, times, [](te::injection const&) { return pt::program_finding{}; }); };
    te::fault_count n = run(1);
    if (n.missed == 0) n = run(16);  // few ops read the whole extent of a letter
    CHECK_MESSAGE(n.missed > 0, kind.name, " is never noticed without the check: ", n.harmless, " times harmless");
    CHECK(n.seen == 0);
    if (std::getenv("SHOW_FAULTS") != nullptr)
      std::printf("blind: %-50s %4d harmless %4d missed\n", kind.name.c_str(), n.harmless, n.missed);
  }
}

TEST_CASE("89 kinds of faults in programs of many random plans are found") {
  const unsigned first = 5000, plans = te::drawn(100, 300);
  std::vector<unsigned> seeds;
  for (unsigned seed = first; seed < first + plans; ++seed) seeds.push_back(seed);
  te::fault_trials trials(seeds);
  int seen = 0, harmless = 0;
  for (te::fault_kind const& kind : te::all_faults()) {
    const te::fault_count n = trials.run(kind, 2);
    if (std::getenv("SHOW_FAULTS") != nullptr)
      std::printf("%-50s %4d seen %4d harmless %4d missed\n", kind.name.c_str(), n.seen, n.harmless, n.missed);
    CHECK_MESSAGE(n.missed == 0, trials.misses);
    trials.misses.clear();
    CHECK_MESSAGE(n.seen > 0, kind.name, " was never put in, or never seen");
    seen += n.seen;
    harmless += n.harmless;
  }
  std::printf("%d faults seen, %d harmless\n", seen, harmless);
  CHECK(seen > 66 * static_cast<int>(plans));
}
