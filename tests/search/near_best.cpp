// Plans that are nearly the best by the planner's cost, as simulated.
#include <doctest/doctest.h>

#include <set>
#include <tuple>

#include <partita/search/near_best.hpp>

#include "../support/blocks_on_slow_links.hpp"

using namespace partita;
using namespace partita::testing::blocks_on_slow_links;

namespace {
constraints all_schedules() {
  return constrained<only::schedules<schedule_kind::one_f_one_b, schedule_kind::interleaved, schedule_kind::zero_bubble_h1,
                                     schedule_kind::interlaced>>();
}
}  // namespace

TEST_CASE(
    "plans that are nearly the best are the best of their stages and schedules, and the first is the fastest as simulated") {
  int others_first = 0, others = 0;
  for (double slow : {1.0, 128.0, 500.0}) {
    CAPTURE(slow);
    const cluster on = slow_cluster(slow);
    const constraints given = all_schedules();
    const auto found = search<trained>(on, given);
    // [near-best]
    const std::vector<near_plan<trained>> near = near_best(found, on, given, {.within = 0.3, .most = 5});
    // [/near-best]
    REQUIRE(!near.empty());
    CHECK(near.size() <= 5);
    std::set<std::tuple<int, int, std::string>> seen;
    bool found_is_there = false;
    for (near_plan<trained> const& x : near) {
      search_report const& why = x.found.why;
      CAPTURE(why.stages);
      CAPTURE(why.schedule);
      CHECK(seen.insert({why.stages, why.devices_per_stage, why.schedule}).second);
      CHECK(!x.found.plan.check());
      CHECK(x.found.seconds >= found.lower_bound);
      CHECK(x.found.seconds <= found.seconds * 1.3);
      const simulation s = simulate<trained>(x.found.plan, on);
      CHECK(x.seconds == s.seconds);
      CHECK(x.memory == static_cast<double>(s.peak_bytes()));
      CHECK(x.fits == s.fits());
      const bool is_found = why.stages == found.why.stages && why.devices_per_stage == found.why.devices_per_stage &&
                            why.schedule == found.why.schedule;
      found_is_there = found_is_there || is_found;
      if (!is_found) ++others;
      if (x.fits) CHECK(near.front().seconds <= x.seconds);
      // What the first search knew of the same stages and schedule is no better.
      for (considered_configuration const& c : found.why.considered)
        if (c.stages == why.stages && c.devices_per_stage == why.devices_per_stage && c.schedule == why.schedule) {
          CHECK(x.found.seconds >= c.lower_bound * (1 - 1e-9));
          if (c.seconds > 0) CHECK(x.found.seconds <= c.seconds * 1.002);
        }
    }
    CHECK(found_is_there);
    others_first += near.front().found.seconds > found.seconds;
  }
  CHECK(others > 3);
  CHECK(others_first > 0);
}

TEST_CASE("with no room beside the best there is the found plan alone") {
  const auto found = search<trained>(slow_cluster(1), all_schedules());
  CHECK(near_best(found, slow_cluster(1), all_schedules(), {.within = 0.3, .most = 1}).size() == 1);
  const auto equals = near_best(found, slow_cluster(1), all_schedules(), {.within = 0});
  int same = 0;
  for (near_plan<trained> const& x : equals) {
    CHECK(x.found.seconds <= found.seconds);
    same += x.found.why.stages == found.why.stages && x.found.why.devices_per_stage == found.why.devices_per_stage &&
            x.found.why.schedule == found.why.schedule;
  }
  CHECK(same == 1);
}

TEST_CASE("a plan fits if it does into the memory of the constraints, too") {
  constraints given = all_schedules();
  const cluster on = slow_cluster(128);
  given.memory = 0.7 * search<trained>(on, given).memory;
  const auto found = search<trained>(on, given);
  // Of what was found a limit that is a little less than what it holds is not kept.
  const double held = near_best(found, on, given, {.most = 1}).front().memory;
  for (double limit : {held, held - 1}) {
    given.memory = limit;
    const auto near = near_best(found, on, given, {.most = 1});
    CHECK(near.front().memory == held);
    CHECK(near.front().fits == (limit == held));
  }
  const auto near = near_best(found, on, given, {.within = 0.5});
  for (near_plan<trained> const& x : near) CHECK(x.fits == (x.memory <= given.memory));
}
