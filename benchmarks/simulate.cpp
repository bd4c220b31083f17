// How long it takes to simulate a step of GPT-3 175B: the events alone, with one rank of each class lowered beside, and
// from the plan on. Arguments: replicas (8: 1,024 devices, 128: 16,384), micro-batches.
#include <benchmark/benchmark.h>

#include <memory>

#include <partita/cost/presets.hpp>
#include <partita/simulate/simulate.hpp>

#include "gpt3.hpp"

namespace pt = partita;
using namespace benchmark_model;

namespace {

struct prepared {
  pt::plan<gpt3> plan;
  pt::costs costs;
  pt::completed done;
  std::unique_ptr<pt::lowering> shared;
  pt::rank_classes classes;
  std::vector<pt::program> programs;

  static large_cuts cuts(benchmark::State const& state) {
    return {.data = static_cast<int>(state.range(0)), .micro_batches = static_cast<int>(state.range(1))};
  }
  static pt::plan<gpt3> plan_of(large_cuts const& c) {
    large_sizes s;
    s.samples = static_cast<std::size_t>(c.data * c.micro_batches * 3);
    return plan_large(s, c);
  }
  explicit prepared(large_cuts const& c) : plan(plan_of(c)), costs(pt::preset::dgx_a100(c.data * c.stages * c.tensor / 8)) {
    if (const pt::finding f = pt::verify_plan(plan.traced(), plan, done, false)) throw pt::error(pt::describe(f));
    pt::lowering_options options;
    options.seconds = [this](pt::node const& n) { return pt::node_seconds(plan.traced(), done, n, costs); };
    shared = std::make_unique<pt::lowering>(plan.traced(), plan, done, options);
    classes = pt::find_rank_classes(*shared, costs);
    for (pt::rank_class const& k : classes.all) programs.push_back(pt::lower(*shared, k.rank));
  }
};

void events(benchmark::State& state) {
  prepared p(prepared::cuts(state));
  std::size_t instructions = 0;
  for (pt::program const& x : p.programs) instructions += x.instructions.size();
  double step = 0;
  for (auto _ : state) {
    pt::simulation s = pt::simulate(*p.shared, p.costs, p.classes, std::move(p.programs));
    step = s.seconds;
    p.programs.clear();
    for (pt::simulated_class& c : s.classes) p.programs.push_back(std::move(c.what));
  }
  state.counters["devices"] = static_cast<double>(p.classes.of.size());
  state.counters["classes"] = static_cast<double>(p.classes.all.size());
  state.counters["instructions"] = static_cast<double>(instructions);
  state.counters["step_s"] = step;
}
void from_the_plan_on(benchmark::State& state) {
  const large_cuts c = prepared::cuts(state);
  const pt::plan<gpt3> plan = prepared::plan_of(c);
  const pt::costs costs(pt::preset::dgx_a100(c.data * c.stages * c.tensor / 8));
  for (auto _ : state) {
    const pt::simulation s = pt::simulate(plan, costs);
    state.counters["step_s"] = s.seconds;
    state.counters["peak_GB"] = static_cast<double>(s.peak_bytes()) / 1e9;
  }
}
BENCHMARK(events)->Args({8, 64})->Args({128, 64})->Unit(benchmark::kMillisecond);
BENCHMARK(from_the_plan_on)->Args({8, 64})->Args({128, 64})->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
