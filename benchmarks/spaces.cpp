// Searchers on the fully enumerated spaces of benchmarks/spaces: time, how many choices were looked at, and regret, which
// is how much longer the plan that was found takes than the best, as a share. A searcher of your own is one more line in
// `main_searchers`.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <partita/search/exact.hpp>
#include <partita/search/expert_grid.hpp>
#include <partita/search/frontier.hpp>
#include <partita/search/mcmc.hpp>
#include <partita/search/read_plan.hpp>

#include "space_document.hpp"

namespace {
namespace pt = partita;
namespace spaces = partita::spaces;
using searcher = std::function<spaces::outcome(spaces::problem const&)>;

std::vector<std::pair<std::string, searcher>> main_searchers() {
  return {
      {"exact", [](spaces::problem const& p) { return spaces::outcome(spaces::exact(p)); }},
      {"mcmc 100", [](spaces::problem const& p) { return spaces::mcmc(p, {.evaluations = 100}); }},
      {"mcmc 1000", [](spaces::problem const& p) { return spaces::mcmc(p, {.evaluations = 1000}); }},
      {"frontier",
       [](spaces::problem const& p) {
         const std::vector<spaces::outcome> all = spaces::frontier(p);
         return all.empty() ? spaces::outcome{} : all.front();
       }},
      {"brute force", [](spaces::problem const& p) { return spaces::brute_force(p); }},
  };
}
void tell(benchmark::State& state, spaces::outcome const& found, spaces::space_file::document const& d) {
  state.counters["choices"] = static_cast<double>(d.times.size());
  if (found.evaluations > 0) state.counters["evaluations"] = static_cast<double>(found.evaluations);
  state.counters["found"] = found.best.found();
  if (found.best.found() && d.optimum) state.counters["regret"] = found.time / *d.optimum - 1;
}
// The best of those expert's plans (search/expert_grid.hpp) that are of the space, by its own cost. An evaluation: a plan that is
// read as a choice.
spaces::outcome best_of_experts(spaces::plan_space const& space) {
  spaces::outcome best;
  const int devices = space.available(), samples = static_cast<int>(space.model().samples);
  for (pt::expert_cuts const& cuts : pt::expert_cuts_of(devices, samples)) {
    pt::plan_base plan(space.graph());
    cuts(plan);
    pt::completed done;
    if (pt::verify_plan(space.graph(), plan, done, false)) continue;
    ++best.evaluations;
    const spaces::point_of_plan read = spaces::plan_reader(space, plan).read();
    if (!read.is_of_space()) continue;
    spaces::problem const& p = space.of();
    const spaces::total t = spaces::time_and_memory(
        p, p.make_shape(p.configurations[static_cast<std::size_t>(read.point.configuration)].shape), read.point);
    if (!t.fits || t.time >= best.time) continue;
    best.best = read.point;
    best.time = t.time;
    best.memory = t.memory;
  }
  return best;
}
const bool registered = [] {
  const std::filesystem::path folder = std::filesystem::path(__FILE__).parent_path() / "spaces";
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (auto const& [name, search] : main_searchers())
    for (auto const& file : files)
      benchmark::RegisterBenchmark((name + "/" + file.stem().string()).c_str(), [search = search,
                                                                                 d = spaces::load_space(file.string())](
                                                                                    benchmark::State& state) {
        const spaces::problem p = spaces::problem_of(d);
        spaces::outcome found;
        for (auto _ : state) found = search(p);
        tell(state, found, d);
      })->Unit(benchmark::kMicrosecond);
  benchmark_spaces::each_case([&](std::string const& name, std::string const&, auto const& model, auto const& extents,
                                  pt::cluster const& on, pt::constraints const& given) {
    benchmark::RegisterBenchmark(("expert grid/" + name).c_str(), [=](benchmark::State& state) {
      const auto d = spaces::load_space((folder / (name + ".json")).string());
      benchmark_spaces::made_space const made(model, extents, on, given);
      spaces::outcome found;
      for (auto _ : state) found = best_of_experts(made.space());
      tell(state, found, d);
    })->Unit(benchmark::kMicrosecond);
  });
  return true;
}();
}  // namespace
