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
#include <partita/search/mcmc.hpp>
#include <partita/search/space_file.hpp>

namespace {
namespace spaces = partita::spaces;
using searcher = std::function<spaces::outcome(spaces::problem const&)>;

std::vector<std::pair<std::string, searcher>> main_searchers() {
  return {
      {"exact", [](spaces::problem const& p) { return spaces::outcome(spaces::exact(p)); }},
      {"mcmc 100", [](spaces::problem const& p) { return spaces::mcmc(p, {.evaluations = 100}); }},
      {"mcmc 1000", [](spaces::problem const& p) { return spaces::mcmc(p, {.evaluations = 1000}); }},
      {"brute force", [](spaces::problem const& p) { return spaces::brute_force(p); }},
  };
}
void run(benchmark::State& state, searcher const& search, spaces::space_file::document const& d) {
  const spaces::problem p = spaces::problem_of(d);
  spaces::outcome found;
  for (auto _ : state) found = search(p);
  state.counters["choices"] = static_cast<double>(d.times.size());
  state.counters["evaluations"] = static_cast<double>(found.evaluations);
  state.counters["found"] = found.best.found();
  if (found.best.found() && d.optimum) state.counters["regret"] = found.time / *d.optimum - 1;
}
const bool registered = [] {
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator(std::filesystem::path(__FILE__).parent_path() / "spaces"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (auto const& [name, search] : main_searchers())
    for (auto const& file : files)
      benchmark::RegisterBenchmark((name + "/" + file.stem().string()).c_str(), [search = search,
                                                                                 d = spaces::load_space(file.string())](
                                                                                    benchmark::State& state) {
        run(state, search, d);
      })->Unit(benchmark::kMicrosecond);
  return true;
}();
}  // namespace
