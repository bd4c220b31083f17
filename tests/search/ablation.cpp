// What a plan owes to each freedom of the space.
#include <doctest/doctest.h>

#include <algorithm>

#include <partita/search/ablation.hpp>

#include "../support/blocks_on_slow_links.hpp"

using namespace partita;
using namespace partita::testing::blocks_on_slow_links;

namespace {
ablation const& of(std::vector<ablation> const& all, std::string const& without) {
  const auto at = std::find_if(all.begin(), all.end(), [&](ablation const& x) { return x.without == without; });
  REQUIRE(at != all.end());
  return *at;
}
}  // namespace

TEST_CASE("without a freedom no plan is better, within the bound") {
  search_options exactly;
  exactly.tolerance = 0;
  int used = 0;
  for (double share : {1.0, 0.7, 0.5, 0.4}) {
    constraints given = constrained<only::coshard<4>>();
    given.memory = 5.2e6 * share;
    CAPTURE(share);
    const auto found = search<trained>(slow_cluster(), given, {}, {}, exactly);
    for (ablation const& x : ablate(found, slow_cluster(), given, exactly)) {
      CAPTURE(x.without);
      used += x.used;
      CHECK(x.seconds >= found.lower_bound);
      CHECK(x.lower_bound >= found.lower_bound);
      CHECK(x.lower_bound <= x.seconds);
      if (!x.used) CHECK(x.seconds == found.seconds);
      if (x.fits) CHECK(x.memory <= given.memory);
      if (!x.fits) {  // what is said to do does, and a little less does not
        CHECK(x.memory > given.memory);
        CHECK(describe(x, found.seconds).find("no plan") == 0);
      }
    }
  }
  CHECK(used > 8);
}

TEST_CASE("an ablation is the search with the freedom taken away") {
  constraints given = constrained<only::stages<2>, only::devices_per_stage<2>, only::micro_batches<4>>();
  search_options exactly;
  exactly.tolerance = 0;
  const auto found = search<trained>(slow_cluster(), given, {}, {}, exactly);
  const std::vector<ablation> all = ablate(found, slow_cluster(), given, exactly);
  constraints narrow = given;
  narrow.equal_stages = true;
  const auto equal = search<trained>(slow_cluster(), narrow, {}, {}, exactly);
  CHECK(found.why.of_stages[0].blocks > found.why.of_stages[1].blocks);  // of which the last one has the output layer
  CHECK(equal.why.of_stages[1].first_block == 4);                        // the embedding and three blocks
  ablation const& unequal = of(all, "stages of unequal lengths");
  CHECK(unequal.used);
  CHECK(unequal.seconds == equal.seconds);
  CHECK(unequal.lower_bound > found.seconds);
  CHECK(describe(unequal, found.seconds).find("% more") != std::string::npos);
  CHECK(!of(all, "co-shard").used);
  CHECK(describe(of(all, "co-shard"), found.seconds) == "not used");
  // Every parameter of a stage that is cut whole over its devices, or has ZeRO 0 to 3.
  for (found_stage const& s : found.why.of_stages) {
    int parameters = 0;
    for (int z : s.zero) parameters += z;
    CHECK(parameters == 2 * (s.blocks - 1) + 1);
  }
}

TEST_CASE("where nothing fits without a freedom, the least memory that would do is said") {
  const constraints alone = constrained<only::devices<1>, only::micro_batches<1>>();
  constraints given = alone;
  given.memory = 0.9 * search<trained>(slow_cluster(), alone).memory;  // of a plan that runs nothing again
  const auto found = search<trained>(slow_cluster(), given);
  REQUIRE(found.why.of_stages[0].replayed > 0);
  ablation const x = of(ablate(found, slow_cluster(), given), "blocks that run again");
  CHECK(x.used);
  CHECK(!x.fits);
  CHECK(x.memory > given.memory);
  constraints without = alone;
  without.recompute = {{glob("*"), recompute_rule::never}};
  without.memory = x.memory;
  CHECK(search<trained>(slow_cluster(), without).memory <= x.memory);
  without.memory = x.memory * 0.98;
  CHECK_THROWS_AS(search<trained>(slow_cluster(), without), error);
  // Where no memory would do: of the stages none is left.
  const search_result<trained> staged =
      search<trained>(slow_cluster(), constrained<only::devices_per_stage<2>, only::stages<2>>());
  constraints two = constrained<only::devices_per_stage<2>, only::stages<2>>();
  two.stage_begins = glob("block.1");
  const auto forced = search<trained>(slow_cluster(), two);
  CHECK(forced.seconds >= staged.lower_bound);
  ablation const equal = of(ablate(forced, slow_cluster(), two), "stages of unequal lengths");
  CHECK(describe(equal, forced.seconds) == "no plan, whatever the memory");
}
