// Bounds that are known before stages are solved.
#include <doctest/doctest.h>

#include <partita/search/known_stages.hpp>
#include <partita/search/listing.hpp>
#include <partita/search/packing.hpp>

#include "../support/random_space.hpp"

using namespace partita;
using namespace partita::spaces;

TEST_CASE("of one stage all time weighs against memory") {
  // Four segments, of which each takes a second and at least 5 of seconds and twice its bytes: 4 * 5 - 2 * 2 bytes of the limit.
  const shape_needs needs{1, {{1, 0, 0, 0, 0, 0, 0}}, {}};
  const std::vector<stage_packing::prices> priced{{{{1, 0}, 1, 2, 5}}};
  const double least = stage_packing(configuration{}, {4}, needs, 2, priced).least(4, infinite);
  CHECK(least <= 16);
  CHECK(least > 16 * (1 - 1e-3));
}

TEST_CASE("a price of a byte that is expected raises the bound of a stage, to no more than its best way takes") {
  int higher = 0, stages = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    testing::random_space random(seed);
    problem p = random.make();
    shape_solver s(p.make_shape(0));
    if (s.of().grids.front().place != s.of().place_of(0)) continue;
    sequences stretches(p.chain);
    int all = sequences::empty;
    for (int kind : p.chain) all = stretches.extended(all, kind);
    const in_flight_counts w{2, 0};
    p.limit = random.pick(10, 80);
    const double none = s.grid(0).through_all(stretches.runs(all), {static_cast<double>(s.of().micro_batches), 1}, 0, w).least();
    for (double mu : {0.25, 1.0, 4.0}) {
      known_stages known(s, p, false, 0);
      known.expect(w, 0, mu);
      known_stage& x = known.of(w, 0, all, stretches);
      if (!x.fits) continue;
      known.refresh(x);
      const double bound = x.worth.least();
      stage_problem& solved = known.solve(x, infinite);
      for (int i = 0; i < solved.entries(); ++i)
        for (int j = 0; j < solved.exits(); ++j) {
          stage_listing(solved, {1'000'000, 1'000'000}).list_all(i, j, infinite);
          for (stage_point const& way : solved.at(i, j).points) CHECK(bound <= s.of().micro_batches * way.time + way.step + 1e-9);
        }
      ++stages;
      higher += bound > none + 1e-9;
    }
  }
  CHECK(stages > 30);
  CHECK(higher > 0);
}

TEST_CASE("a stage's bounds under further aims begin with the multiplier of the first: they take few eliminations more") {
  // Twenty segments, in each of which time falls with the bytes that it holds, ever less.
  std::vector<cost> ways;
  for (int held = 0; held < 40; ++held) {
    ways.emplace_back().forward = 1600.0 / (held + 1);
    ways.back().held = held;
  }
  const auto costs = std::make_shared<table>();
  costs->add_variable({cost{}});
  costs->add_variable(ways);
  costs->add_variable({cost{}});
  grid_choice grid;
  grid.kinds.push_back({{costs, false}});
  auto eliminations = [&](bool alone) {
    grid_solver g(grid);
    const stage_problem s(g, {{0, 20}}, {1, 0}, {1, 1}, 150, infinite, alone);
    // By 10 segments that hold 7 bytes and 10 that hold 8.
    CHECK(s.at(0, 0).least_worth == doctest::Approx(10 * 200 + 10 * 1600.0 / 9));
    return g.shared_kind(0)->eliminations();
  };
  const long one = eliminations(true), three = eliminations(false);
  CHECK(three < one + 10);
  MESSAGE("one aim: " << one << " eliminations, three: " << three);
}
