// Laws of searchers on random spaces.
#include <doctest/doctest.h>

#include <partita/search/exact.hpp>
#include <partita/search/frontier.hpp>
#include <partita/search/mcmc.hpp>

#include "../support/number_of.hpp"
#include "../support/random_space.hpp"

using namespace partita;

namespace {
spaces::outcome fullest(spaces::problem const& p) { return spaces::exact(p); }
}  // namespace

TEST_CASE("more memory never slows the best plan") {
  for (unsigned seed = 0; seed < testing::drawn_sanitized(12, 40); ++seed) {
    spaces::problem p = testing::random_space(seed).make();
    const spaces::outcome free = fullest(p);
    if (!free.best.found()) continue;
    double before = spaces::infinite;
    for (double share : {0.3, 0.6, 0.8, 0.9, 1.0}) {
      p.limit = free.memory * share;
      const spaces::outcome found = fullest(p);
      CHECK(found.time <= before);
      CHECK(found.lower_bound <= found.time);
      before = found.time;
    }
    CHECK(before == free.time);
  }
}

TEST_CASE("fewer choices never give a better plan") {
  for (unsigned seed = 100; seed < 100 + testing::drawn_sanitized(20, 60); ++seed) {
    spaces::problem p = testing::random_space(seed).make();
    const double free = fullest(p).time;
    spaces::problem fewer = p;
    fewer.configurations.pop_back();
    CHECK(fullest(fewer).time >= free);
    fewer = p;
    fewer.may_begin.assign(p.chain.size(), false);
    CHECK(fullest(fewer).time >= free);
  }
}

TEST_CASE("a plan given as a start never worsens the result, and nothing beats the exact searcher") {
  std::mt19937 random(3);
  for (unsigned seed = 200; seed < 200 + testing::drawn_sanitized(12, 40); ++seed) {
    const spaces::problem p = testing::random_space(seed).make();
    const spaces::outcome best = fullest(p);
    const spaces::shape s = p.make_shape(p.configurations.front().shape);
    const spaces::choice start = spaces::random_choice(p, s, 0, random);
    if (start.found() && spaces::time_and_memory(p, s, start).fits) {
      const double known = spaces::time_and_memory(p, s, start).time;
      spaces::exact_options lazy;
      lazy.tolerance = 1;
      CHECK(spaces::exact(p, lazy, &start).time <= known);
      CHECK(spaces::exact(p, {}, &start).time == best.time);
      CHECK(spaces::mcmc(p, {.evaluations = 200}, &start).time <= known);
    }
    CHECK(spaces::mcmc(p, {.evaluations = 500}).time >= best.time);
  }
}

TEST_CASE("a frontier is the Pareto set of all choices") {
  for (unsigned seed = 300; seed < 300 + testing::drawn_sanitized(10, 30); ++seed) {
    const spaces::problem p = testing::random_space(seed).make();
    std::vector<std::pair<double, double>> all;
    spaces::detail::enumeration::all(p, [&](spaces::choice const&, spaces::total const& t) {
      if (t.fits) all.push_back({t.time, t.memory});
    });
    std::sort(all.begin(), all.end());
    std::vector<std::pair<double, double>> best;
    for (auto const& x : all)
      if (best.empty() || x.second < best.back().second) {
        if (!best.empty() && best.back().first == x.first) best.pop_back();
        best.push_back(x);
      }
    const std::vector<spaces::outcome> found = spaces::frontier(p, {.points = 1000, .step = 0, .exactly = {}});
    REQUIRE(found.size() == best.size());
    for (std::size_t i = 0; i < best.size(); ++i) {
      CHECK(found[i].time == best[i].first);
      CHECK(found[i].memory == best[i].second);
    }
  }
}
