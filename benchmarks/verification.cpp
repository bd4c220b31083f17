// What proving a plan and its programs takes, over layers and devices: tracing, verification, the order of all instances,
// one rank's program, the check of the programs of all ranks.
//
// Arguments: layers, data, tensor, stages, micro-batches. The model is GPT-2 of hidden size 768 (3072 where tensor is more
// than 4: heads enough for 8 pieces), sequences of 1024 tokens, AdamW, clipping.
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <vector>

#include <partita/program/check.hpp>
#include <partita/program/lower.hpp>

#include "gpt2.hpp"

namespace {

namespace pt = partita;
namespace gpt = benchmark_model;

using graph_type = pt::recorder<pt::planning_only, gpt::training>;

struct wanted {
  int layers;
  gpt::cuts cuts;
  explicit wanted(benchmark::State const& s)
      : layers(static_cast<int>(s.range(0))),
        cuts{static_cast<int>(s.range(1)), static_cast<int>(s.range(2)), static_cast<int>(s.range(3)),
             static_cast<int>(s.range(4))} {}
};

class planned {
 public:
  explicit planned(wanted const& w) {
    trace(w);
    plan = std::make_unique<pt::plan_base>(g);
    w.cuts(*plan);
    verify();
  }
  void verify() {
    completed = {};
    if (const pt::finding f = pt::verify_plan(g, *plan, completed)) throw pt::error(describe(f));
  }
  graph_type g;
  std::unique_ptr<pt::plan_base> plan;
  pt::completed completed;

 private:
  void trace(wanted const& w) {
    const std::size_t wide = w.cuts.tensor > 4 ? 4 : 1;
    auto bind = [&](pt::binding const& b) { g.bindings.push(b); };
    bind(pt::bind<gpt::sample>(static_cast<std::size_t>(w.cuts.data * w.cuts.micro_batches)));
    bind(pt::bind<gpt::position>(1024));
    bind(pt::bind<gpt::vocabulary>(50257));
    bind(pt::bind<gpt::hidden>(768 * wide));
    bind(pt::bind<gpt::head>(12 * wide));
    bind(pt::bind<gpt::head_width>(64));
    bind(pt::bind<gpt::inner>(3072 * wide));
    pt::trace(g, gpt::training{.model = {w.layers}, .optimizer = {}, .clip = {}, .frozen = {}});
  }
};

// Completing the plan, cover, flow and order.
void verify(benchmark::State& state) {
  planned p{wanted(state)};
  for (auto _ : state) p.verify();
  state.counters["nodes"] = p.completed.nodes.size;
}
// The order of all instances and the chains of collectives: once for all ranks.
void order(benchmark::State& state) {
  planned p{wanted(state)};
  std::size_t instances = 0;
  for (auto _ : state) instances = pt::lowering(p.g, *p.plan, p.completed).order().size();
  state.counters["instances"] = static_cast<double>(instances);
}
// The program of one rank: the one that takes longest of the first rank of every stage.
void lower(benchmark::State& state) {
  const wanted w(state);
  planned p{w};
  const pt::lowering shared(p.g, *p.plan, p.completed);
  int slowest = 0;
  double most = 0;
  for (int stage = 0; stage < w.cuts.stages; ++stage) {
    const int rank = stage;  // stages lie innermost
    const auto begin = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(pt::lower(shared, rank));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds > most) {
      most = seconds;
      slowest = rank;
    }
  }
  std::size_t instructions = 0;
  for (auto _ : state) instructions = pt::lower(shared, slowest).instructions.size();
  state.counters["rank"] = slowest;
  state.counters["instructions"] = static_cast<double>(instructions);
}
// Verification, the order and one rank's program together: what a rank of a large job does before its first step.
void verify_and_lower(benchmark::State& state) {
  const wanted w(state);
  planned p{w};
  for (auto _ : state) {
    p.verify();
    const pt::lowering shared(p.g, *p.plan, p.completed);
    benchmark::DoNotOptimize(pt::lower(shared, w.cuts.stages - 1));
  }
}
// The programs of all ranks.
void check(benchmark::State& state) {
  planned p{wanted(state)};
  const pt::lowering shared(p.g, *p.plan, p.completed);
  std::vector<pt::program> programs;
  std::size_t instructions = 0;
  for (int rank = 0; rank < p.completed.devices; ++rank) {
    programs.push_back(pt::lower(shared, rank));
    instructions += programs.back().instructions.size();
  }
  for (auto _ : state)
    if (const pt::program_finding f = pt::check_programs(p.g, programs)) return state.SkipWithError(f.words.c_str());
  state.counters["instructions"] = static_cast<double>(instructions);
}

void sizes(benchmark::internal::Benchmark* b) {
  b->Unit(benchmark::kMillisecond)->ArgNames({"layers", "data", "tensor", "stages", "micro"});
  for (int layers : {12, 24, 48, 96}) b->Args({layers, 2, 2, 2, 8});
  b->Args({96, 2, 8, 4, 8})->Args({96, 4, 8, 8, 32});
}
void large_too(benchmark::internal::Benchmark* b) {
  sizes(b);
  b->Args({96, 8, 8, 16, 64});  // 1,024 devices
}
BENCHMARK(verify)->Apply(large_too);
BENCHMARK(order)->Apply(large_too);
BENCHMARK(lower)->Apply(large_too);
BENCHMARK(verify_and_lower)->Apply(large_too);
BENCHMARK(check)->Apply(sizes);

}  // namespace
