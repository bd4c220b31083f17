// Markov chain Monte Carlo over a space, as FlexFlow searches (Jia et al. 2019): a random change to one decision, taken if
// it is better, or by chance if it is a little worse.
#pragma once
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <utility>

#include <partita/search/brute_force.hpp>

namespace partita::spaces {

// A point of the space drawn at random; `found()` is false where the configuration has none, or the
// one drawn leaves a region.
inline choice random_choice(problem const& p, shape const& s, int configuration, std::mt19937& random) {
  auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  spaces::configuration const& c = p.configurations[static_cast<std::size_t>(configuration)];
  choice x;
  std::vector<int> begins;
  for (int i = 1; i < p.segments(); ++i)
    if (p.begins(i, c.stages)) begins.push_back(i);
  if (static_cast<int>(begins.size()) < c.stages - 1) return x;
  std::shuffle(begins.begin(), begins.end(), random);
  begins.resize(static_cast<std::size_t>(c.stages) - 1);
  begins.push_back(0);
  std::sort(begins.begin(), begins.end());
  for (int k = 0; k < c.stages; ++k) {
    std::vector<int> grids;
    for (int g = 0; g < static_cast<int>(s.grids.size()); ++g)
      if (s.may_have(k, g)) grids.push_back(g);
    const int grid = grids[static_cast<std::size_t>(pick(static_cast<int>(grids.size())))];
    stage_choice stage{begins[static_cast<std::size_t>(k)], grid, {}};
    const int end = k + 1 < c.stages ? begins[static_cast<std::size_t>(k) + 1] : p.segments();
    for (int i = stage.begin; i < end; ++i) {
      if (!p.lies(i, k, s.devices)) return {};
      auto const& variants =
          s.grids[static_cast<std::size_t>(stage.grid)].kinds[static_cast<std::size_t>(p.chain[static_cast<std::size_t>(i)])];
      segment_choice chosen{pick(static_cast<int>(variants.size())), {}};
      for (int options : variants[static_cast<std::size_t>(chosen.variant)].costs->options)
        chosen.options.push_back(pick(options));
      if (i > stage.begin) chosen.options.front() = stage.segments.back().options.back();
      stage.segments.push_back(std::move(chosen));
    }
    x.stages.push_back(std::move(stage));
  }
  x.configuration = configuration;
  if (s.spreads() > 1) x.spread = pick(s.spreads());
  return x;
}

struct mcmc_options {
  long evaluations = 20000;
  unsigned seed = 1;
  double temperature = 0.02;        // of the time: a change this much worse is taken once in e
  double over_memory = 4;           // times the share by which memory is exceeded, added to the time
  double new_configuration = 0.02;  // how often all is drawn anew in another configuration
};

inline outcome mcmc(problem const& p, mcmc_options const& how = {}, choice const* start = nullptr) {
  std::mt19937 random(how.seed);
  auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  std::uniform_real_distribution<double> chance(0, 1);
  outcome r;
  if (p.configurations.empty()) return r;
  std::map<int, shape> shapes;
  auto shape_of = [&](int configuration) -> shape const& {
    const int id = p.configurations[static_cast<std::size_t>(configuration)].shape;
    const auto known = shapes.find(id);
    if (known != shapes.end()) return known->second;
    if (shapes.size() > 64) shapes.clear();
    return shapes.emplace(id, p.make_shape(id)).first->second;
  };
  auto judge = [&](choice const& x) {
    ++r.evaluations;
    const total t = time_and_memory(p, shape_of(x.configuration), x);
    if (t.fits && t.time < r.time) {
      r.time = t.time;
      r.memory = t.memory;
      r.best = x;
    }
    return t.fits ? t.time : t.time * (1 + how.over_memory * (t.fullness - 1));
  };
  choice now;
  for (int i = 0; i < 1000 && !now.found(); ++i) {
    const int c = pick(static_cast<int>(p.configurations.size()));
    now = start != nullptr && start->found() ? *start : random_choice(p, shape_of(c), c, random);
  }
  if (!now.found()) return r;
  double value = judge(now);
  while (r.evaluations < how.evaluations) {
    choice next = now;
    if (chance(random) < how.new_configuration) {
      const int c = pick(static_cast<int>(p.configurations.size()));
      next = random_choice(p, shape_of(c), c, random);
      if (!next.found()) {
        ++r.evaluations;
        continue;
      }
    } else {
      shape const& s = shape_of(now.configuration);
      if (s.spreads() > 1 && chance(random) < 0.05) next.spread = pick(s.spreads());
      const std::size_t k = static_cast<std::size_t>(pick(static_cast<int>(next.stages.size())));
      stage_choice& stage = next.stages[k];
      const std::size_t i = static_cast<std::size_t>(pick(static_cast<int>(stage.segments.size())));
      segment_choice& chosen = stage.segments[i];
      auto const& kinds = s.grids[static_cast<std::size_t>(stage.grid)].kinds;
      auto const& variants = kinds[static_cast<std::size_t>(p.chain[static_cast<std::size_t>(stage.begin) + i])];
      if (variants.size() > 1 && chance(random) < 0.1) {
        const int v = pick(static_cast<int>(variants.size()));
        if (variants[static_cast<std::size_t>(v)].costs->options ==
            variants[static_cast<std::size_t>(chosen.variant)].costs->options)
          chosen.variant = v;
      } else {
        auto const& options = variants[static_cast<std::size_t>(chosen.variant)].costs->options;
        const std::size_t v = static_cast<std::size_t>(pick(static_cast<int>(options.size())));
        chosen.options[v] = pick(options[v]);
        if (v == 0 && i > 0) stage.segments[i - 1].options.back() = chosen.options[v];
        if (v + 1 == options.size() && i + 1 < stage.segments.size()) stage.segments[i + 1].options.front() = chosen.options[v];
      }
    }
    const double other = judge(next);
    if (other <= value || chance(random) < std::exp((value - other) / (how.temperature * value))) {
      now = std::move(next);
      value = other;
    }
  }
  return r;
}

}  // namespace partita::spaces
