// Full-size cases of a search: for each the plan found, its bound, and what the expert's grid has, both by the simulator.
//   benchmark_suite --benchmark_filter=GPT
//   SUITE_PART=2/8 benchmark_suite --benchmark_filter=175B      a part of the grid, the first is 0/8: one that takes long
//   SUITE_NEAR=0.1 benchmark_suite --benchmark_filter=mBART     also plans that cost up to a tenth more, simulated
//   SUITE_ABLATIONS=1 benchmark_suite --benchmark_filter=Swin   also what each freedom of the space is worth
// Counters: step: of the found plan by the planner's cost, in s; gap to the bound; found, expert: simulated, in s; ratio of
// the two; search, grid: s that they took. Prints what was found. The time of an iteration is of all of it.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "suite.hpp"

namespace {
using namespace benchmark_model;

void run(benchmark::State& state, suite_case const& c) {
  suite_result r;
  pt::expert_options grid = c.grid;
  if (char const* const part = std::getenv("SUITE_PART"); part != nullptr)
    if (std::sscanf(part, "%d/%d", &grid.part, &grid.parts) != 2) return state.SkipWithError("SUITE_PART: as 0/8");
  suite_extras extras;
  extras.ablates = std::getenv("SUITE_ABLATIONS") != nullptr;
  if (char const* const near = std::getenv("SUITE_NEAR"); near != nullptr)
    if (std::sscanf(near, "%lf", &extras.near) != 1) return state.SkipWithError("SUITE_NEAR: as 0.1");
  for (auto _ : state) r = c.run(c.on, grid, extras);
  state.counters["step"] = r.cost;
  state.counters["gap"] = r.gap();
  state.counters["search"] = r.search_seconds;
  state.counters["found"] = r.simulated;
  state.counters["expert"] = r.expert.seconds;
  state.counters["ratio"] = r.ratio();
  state.counters["grid"] = r.grid_seconds;
  std::printf(
      "%s\n  found: %d stages x %d devices, %d micro-batches: %.4g s, %.1f GiB by cost; bound %.4g s; in %.2f s\n"
      "  simulated: %.4g s, %.1f GiB%s\n"
      "  grid, part %d of %d: %ld plans, %ld excluded by time, %ld by memory, %ld simulated (%.0f s)\n"
      "  the best of these: %.4g s, %.1f GiB: %s; ratio %.3f\n",
      c.name.c_str(), r.why.stages, r.why.devices_per_stage, r.why.micro_batches, r.cost, r.memory / (1 << 30), r.bound,
      r.search_seconds, r.simulated, r.simulated_memory / (1 << 30), r.fits ? "" : " (does not fit)", grid.part, grid.parts,
      r.experts, r.too_slow, r.too_large, r.looked_at, r.grid_seconds, r.expert.seconds, r.expert.memory / (1 << 30),
      r.expert.cuts.name().c_str(), r.ratio());
  if (!r.difference.empty()) std::printf("  beside it the found plan %s\n", r.difference.c_str());
  for (std::string const& x : r.near_best) std::printf("  near: %s\n", x.c_str());
  for (pt::ablation const& x : r.ablations) std::printf("  without %s: %s\n", x.without.c_str(), pt::describe(x, r.cost).c_str());
  for (std::size_t s = 0; s < r.why.of_stages.size(); ++s)
    if (s == 0 || s + 1 == r.why.of_stages.size() || s == r.why.of_stages.size() / 2) {
      pt::found_stage const& f = r.why.of_stages[s];
      std::printf("  stage %zu: segments %d to %d, %d again, %d x %d: %.400s\n", s, f.first_block, f.first_block + f.blocks - 1,
                  f.replayed, f.outer, f.inner, f.cuts.c_str());
    }
  std::fflush(stdout);
}
const bool registered = [] {
  for (suite_case const& c : suite())
    benchmark::RegisterBenchmark(c.name.c_str(), [c](benchmark::State& state) { run(state, c); })
        ->Unit(benchmark::kSecond)
        ->Iterations(1);
  return true;
}();
}  // namespace
