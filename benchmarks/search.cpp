// How long a search takes, over layers and devices: GPT-3's form on nodes of 8 A100, and AlphaFold2's Evoformer of 48 blocks.
//
// The time is that of the whole call. Of it, in seconds: `tracing`, the model and its backward pass; `searching`, segments, costs
// and the search itself. The rest is making the plan and verifying it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include <partita/cost/presets.hpp>
#include <partita/search/read_plan.hpp>
#include <partita/search/search.hpp>

#include "gpt3.hpp"
#include "models/evoformer.hpp"

namespace {
using namespace benchmark_model;

template <class F> double seconds_of(F run) {  // the least of three
  double least = pt::spaces::infinite;
  for (int k = 0; k < 3; ++k) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}
void search_gpt(benchmark::State& state, large_sizes const& s, pt::cluster const& c, pt::constraints const& given = {}) {
  const pt::training<gpt3> model{{s.layers}};
  for (auto _ : state) {
    const auto found = pt::search<gpt3>(c, given, model, s.bindings());
    state.counters["step"] = found.seconds;
    state.counters["gap"] = found.seconds / found.lower_bound - 1;
    state.counters["configurations"] = static_cast<double>(found.why.configurations);
    state.counters["solved"] = static_cast<double>(found.why.solved);
    state.counters["eliminations"] = static_cast<double>(found.why.eliminations);
  }
  state.counters["tracing"] = seconds_of([&] { benchmark::DoNotOptimize(pt::plan<gpt3>(model, s.bindings())); });
  const pt::plan<gpt3> traced(model, s.bindings());
  auto const& g = traced.traced();
  const pt::costs prices(c);
  pt::spaces::exact_options how;
  how.tolerance = pt::search_options{}.tolerance;
  state.counters["searching"] = seconds_of([&] {
    const pt::spaces::plan_space space(g, g.forward_count, prices, given);
    benchmark::DoNotOptimize(pt::spaces::exact(space.of(), how));
  });
}
void search_gpt(benchmark::State& state, large_sizes const& s, int nodes, pt::constraints const& given = {}) {
  search_gpt(state, s, pt::preset::dgx_a100(nodes), given);
}
large_sizes of_layers(int layers) {
  large_sizes s;
  s.layers = layers;
  s.hidden = 4096;
  s.heads = 32;
  s.samples = 256;
  return s;
}
// Layers, nodes of 8 devices.
void layers(benchmark::State& state) {
  search_gpt(state, of_layers(static_cast<int>(state.range(0))), static_cast<int>(state.range(1)));
}
BENCHMARK(layers)->ArgsProduct({{8, 32, 96, 320, 1000}, {8, 32}})->Unit(benchmark::kMillisecond);
// The same on devices whose memory grows with the model: percent of what weights (in f32, and bf16 for use) and gradients take
// when all devices share them. 250: nearly every block has to run again; 20,000: none has to.
pt::constraints with_memory(large_sizes const& s, int nodes, double percent) {
  const double hidden = static_cast<double>(s.hidden), parameters = s.layers * 12 * hidden * hidden + 51200 * hidden;
  pt::constraints given;
  given.memory = percent / 100 * 10 * parameters / (8 * nodes);
  return given;
}
void layers_with_memory(benchmark::State& state) {
  const large_sizes s = of_layers(static_cast<int>(state.range(0)));
  search_gpt(state, s, 8, with_memory(s, 8, static_cast<double>(state.range(1))));
}
BENCHMARK(layers_with_memory)->ArgsProduct({{8, 32, 96, 320, 1000}, {250, 20000}})->Unit(benchmark::kMillisecond);
// Layers; sums and comparisons that may go into telling the segments of one stage apart (spaces::class_limits).
void closing(benchmark::State& state) {
  const large_sizes s = of_layers(static_cast<int>(state.range(0)));
  const pt::plan<gpt3> traced(pt::training<gpt3>{{s.layers}}, s.bindings());
  auto const& g = traced.traced();
  const pt::costs prices(pt::preset::dgx_a100(8));
  pt::spaces::exact_options how;
  how.tolerance = pt::search_options{}.tolerance;
  how.classes.work = state.range(1);
  how.classes.at_last = 1;
  for (auto _ : state) {
    const pt::spaces::plan_space space(g, g.forward_count, prices, with_memory(s, 8, 250));
    const auto found = pt::spaces::exact(space.of(), how);
    state.counters["gap"] = found.time / found.lower_bound - 1;
  }
}
BENCHMARK(closing)->ArgsProduct({{8, 32}, benchmark::CreateRange(100'000, 1'000'000'000, 10)})->Unit(benchmark::kMillisecond);
// nodes of 8 devices
void devices(benchmark::State& state) {
  large_sizes s;
  s.samples = 1536;
  search_gpt(state, s, static_cast<int>(state.range(0)));
}
BENCHMARK(devices)->RangeMultiplier(2)->Range(8, 256)->Unit(benchmark::kMillisecond);
// nodes of 8 devices
void gpt_6_7b(benchmark::State& state) { search_gpt(state, of_layers(32), static_cast<int>(state.range(0))); }
BENCHMARK(gpt_6_7b)->RangeMultiplier(2)->Range(1, 8)->Unit(benchmark::kMillisecond);
// So many nodes of H100, and as many of A100, on the A100s' links.
pt::cluster unequal(int nodes) {
  pt::cluster c = pt::preset::dgx_a100(2 * nodes);
  c.kinds.push_back(pt::preset::dgx_h100(1).kinds.front());
  c.devices = {{c.kinds[1].name, 8 * nodes}, {c.kinds[0].name, 8 * nodes}};
  return c;
}
void gpt_6_7b_on_unequal(benchmark::State& state) { search_gpt(state, of_layers(32), unequal(static_cast<int>(state.range(0)))); }
BENCHMARK(gpt_6_7b_on_unequal)->Arg(1)->Arg(4)->Unit(benchmark::kMillisecond);
void gpt_175b_on_unequal(benchmark::State& state) { search_gpt(state, {}, unequal(static_cast<int>(state.range(0)))); }
BENCHMARK(gpt_175b_on_unequal)->Arg(64)->Unit(benchmark::kMillisecond);
void evoformer_on_devices(benchmark::State& state) {
  using trained = pt::training<evoformer, pt::adamw, pt::clip_norm>;
  pt::cluster c = pt::preset::dgx_a100((static_cast<int>(state.range(0)) + 7) / 8);
  c.devices.front().count = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const auto found = pt::search<trained>(c, {}, trained{}, evoformer_sizes{}.bindings());
    state.counters["step"] = found.seconds;
    state.counters["gap"] = found.seconds / found.lower_bound - 1;
    state.counters["configurations"] = static_cast<double>(found.why.configurations);
    state.counters["solved"] = static_cast<double>(found.why.solved);
  }
}
BENCHMARK(evoformer_on_devices)->RangeMultiplier(2)->Range(4, 64)->Unit(benchmark::kMillisecond);
void gpt_175b_on_1024(benchmark::State& state) { search_gpt(state, {}, 128); }
BENCHMARK(gpt_175b_on_1024)->Unit(benchmark::kMillisecond);
// The same with every schedule that the library has, 2, 3, 4 or 6 chunks where stages have several.
void gpt_175b_all_schedules(benchmark::State& state) {
  using enum pt::schedule_kind;
  pt::constraints given;
  given.schedules = {one_f_one_b, gpipe, interleaved, zero_bubble_h1, zero_bubble_h2, interlaced, interlaced_in_step};
  given.chunks = {2, 3, 4, 6};
  search_gpt(state, {}, 128, given);
}
BENCHMARK(gpt_175b_all_schedules)->Unit(benchmark::kMillisecond);
// What an expert knows, one thing at a time, then all together.
struct known {
  char const* what;
  pt::constraints of_175b, of_6_7b;
};
std::vector<known> all_known() {
  using namespace pt;
  using only::stages, only::micro_batches, only::zero, only::axes, only::recompute, only::devices_per_stage;
  std::vector<known> all{
      {"nothing", {}, {}},
      {"stages", constrained<stages<8, 16>>(), constrained<stages<1, 2>>()},
      {"micro_batches", constrained<micro_batches<48, 64>>(), constrained<micro_batches<4, 8>>()},
      {"devices_per_stage", constrained<devices_per_stage<64, 128>>(), constrained<devices_per_stage<8, 16>>()},
      {"axes", constrained<axes<"block.*", head, benchmark_model::inner, sample>>(), {}},
      {"zero", constrained<zero<1>>(), constrained<zero<1>>()},
      {"recompute", constrained<recompute<recompute_rule::never>>(), constrained<recompute<recompute_rule::never>>()},
  };
  all[4].of_6_7b = all[4].of_175b;
  known together{"all of these", {}, {}};
  for (known const& x : all) {
    together.of_175b.narrow(x.of_175b);
    together.of_6_7b.narrow(x.of_6_7b);
  }
  all.push_back(together);
  return all;
}
const bool constrained_registered = [] {
  for (known const& x : all_known()) {
    benchmark::RegisterBenchmark((std::string("gpt_175b_on_1024_knowing/") + x.what).c_str(), [given = x.of_175b](auto& state) {
      search_gpt(state, {}, 128, given);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark((std::string("gpt_6_7b_on_16_knowing/") + x.what).c_str(), [given = x.of_6_7b](auto& state) {
      search_gpt(state, of_layers(32), 2, given);
    })->Unit(benchmark::kMillisecond);
  }
  return true;
}();
// The search alone from a plan, which is read first: 0, an expert's (8 stages, 16 x data, 8 x tensor, 64 micro-batches,
// ZeRO 1); 1, the best. `without`: what is looked at without a start.
void gpt_175b_from_a_plan(benchmark::State& state) {
  const large_sizes s;
  const pt::cluster c = pt::preset::dgx_a100(128);
  const pt::costs prices(c);
  large_cuts cuts;
  cuts.stages = 8;
  cuts.data = 16;
  const pt::plan<gpt3> traced = plan_large(s, cuts);
  auto const& g = traced.traced();
  const pt::spaces::plan_space space(g, g.forward_count, prices, {});
  pt::spaces::exact_options how;
  how.tolerance = pt::search_options{}.tolerance;
  const auto free = pt::spaces::exact(space.of(), how);
  pt::plan_base start = traced;
  if (state.range(0) == 1) {
    start = pt::plan_base(g);
    pt::spaces::chosen(space, free.best)(start);
  }
  for (auto _ : state) {
    const auto read = pt::spaces::plan_reader(space, start).read();
    const auto found = pt::spaces::exact(space.of(), how, &read.point);
    state.counters["step"] = found.time;
    state.counters["bounded"] = static_cast<double>(found.bounded);
    state.counters["eliminations"] = static_cast<double>(found.eliminations);
  }
  state.counters["bounded_without"] = static_cast<double>(free.bounded);
  state.counters["eliminations_without"] = static_cast<double>(free.eliminations);
}
BENCHMARK(gpt_175b_from_a_plan)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
}  // namespace
