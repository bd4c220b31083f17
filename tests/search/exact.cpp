#include <doctest/doctest.h>

#include <algorithm>

#include "../support/against_brute_force.hpp"
#include "../support/number_of.hpp"

using namespace partita;

namespace {
const unsigned most_spaces = testing::drawn_sanitized(20, 200);
}  // namespace

TEST_CASE("exact search misses nothing that brute force finds, with and without a memory limit") {
  testing::searched_spaces counted;
  for (unsigned seed = 0; seed < most_spaces; ++seed) {
    const std::string wrong = testing::compare_with_brute_force(seed, counted);
    CAPTURE(seed);
    CHECK(wrong == "");
  }
  CHECK(counted.without_plan > 0);
  CHECK(counted.unsettled == 0);
}

TEST_CASE("shapes share tables: what is found out about them under one schedule serves the others") {
  using namespace spaces;
  int shared = 0;
  for (unsigned seed = 1000; seed < 1000 + std::min(most_spaces, 40u); ++seed) {
    CAPTURE(seed);
    testing::random_space random(seed);
    problem p = random.make();
    // Of each shape another one with the same tables, with crossings that take twice as long and under another schedule.
    const int shapes = p.shapes;
    p.make_shape = [made = p.make_shape, shapes](int id) {
      shape s = made(id % shapes);
      for (auto& of_pair : s.crossings)
        for (double& x : of_pair) x *= id < shapes ? 1 : 2;
      return s;
    };
    if (p.needs) p.needs = [needs = p.needs, shapes](int id) { return needs(id % shapes); };
    if (p.make_part) p.make_part = [part = p.make_part, shapes](int id) { return part(id % shapes); };
    for (std::size_t i = 0, n = p.configurations.size(); i < n; ++i) {
      configuration c = p.configurations[i];
      c.shape += shapes;
      c.bound = 0;
      if (c.schedule.holds != pipeline_schedule::told)
        c.schedule.holds = c.schedule.holds == pipeline_schedule::all ? pipeline_schedule::stages_behind : pipeline_schedule::all;
      p.configurations.push_back(c);
    }
    p.shapes = 2 * shapes;
    double best = infinite;
    spaces::detail::enumeration::all(p, [&](choice const&, total const& t) {
      if (t.fits) best = std::min(best, t.time);
    });
    const exact_outcome apart = exact(p);
    for (int s = 0; s < p.shapes; ++s) p.tables_of.push_back(s % shapes);
    const exact_outcome found = exact(p);
    CHECK(found.time == best);
    CHECK(found.lower_bound == apart.lower_bound);
    shared += found.eliminations < apart.eliminations;
  }
  CHECK(shared > 0);
}

TEST_CASE("what is cut short gets more work at last: its bound is never lower, and often higher") {
  int higher = 0;
  for (unsigned seed = 0; seed < std::min(most_spaces, 60u); ++seed) {
    testing::random_space random(seed);
    spaces::problem p = random.make();
    p.limit = spaces::exact(p).memory * 0.7;
    spaces::exact_options how;
    how.listing = {0, 0};
    how.classes.work = 20'000;
    how.classes.at_last = 1;
    const spaces::exact_outcome once = spaces::exact(p, how);
    how.classes.at_last = 32;
    const spaces::exact_outcome again = spaces::exact(p, how);
    CAPTURE(seed);
    CHECK(again.lower_bound >= once.lower_bound);
    CHECK(again.time <= once.time);
    higher += again.lower_bound > once.lower_bound * (1 + 1e-9);
  }
  CHECK(higher > 0);
}
