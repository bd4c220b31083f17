// How long a search takes, over layers and devices: GPT-3's form on nodes of 8 A100, and AlphaFold2's Evoformer of 48 blocks.
#include <benchmark/benchmark.h>

#include <partita/cost/presets.hpp>
#include <partita/search/search.hpp>

#include "gpt3.hpp"
#include "models/evoformer.hpp"

namespace {
using namespace benchmark_model;

void search_gpt(benchmark::State& state, large_sizes const& s, int nodes) {
  const pt::cluster c = pt::preset::dgx_a100(nodes);
  for (auto _ : state) {
    const auto found = pt::search<gpt3>(c, {}, pt::training<gpt3>{{s.layers}}, s.bindings());
    state.counters["step"] = found.seconds;
    state.counters["gap"] = found.seconds / found.lower_bound - 1;
    state.counters["configurations"] = static_cast<double>(found.why.configurations);
    state.counters["solved"] = static_cast<double>(found.why.solved);
  }
}
// layers
void layers(benchmark::State& state) {
  large_sizes s;
  s.layers = static_cast<int>(state.range(0));
  s.hidden = 4096;
  s.heads = 32;
  s.samples = 256;
  search_gpt(state, s, 8);
}
BENCHMARK(layers)->Arg(8)->Arg(32)->Arg(96)->Arg(1000)->Unit(benchmark::kMillisecond);
// nodes of 8 devices
void devices(benchmark::State& state) {
  large_sizes s;
  s.samples = 1536;
  search_gpt(state, s, static_cast<int>(state.range(0)));
}
BENCHMARK(devices)->Arg(32)->Arg(64)->Arg(128)->Arg(256)->Unit(benchmark::kMillisecond);
void gpt_6_7b_on_16(benchmark::State& state) {
  large_sizes s;
  s.layers = 32;
  s.hidden = 4096;
  s.heads = 32;
  s.samples = 256;
  search_gpt(state, s, 2);
}
BENCHMARK(gpt_6_7b_on_16)->Unit(benchmark::kMillisecond);
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
BENCHMARK(evoformer_on_devices)->Arg(4)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond);
void gpt_175b_on_1024(benchmark::State& state) { search_gpt(state, {}, 128); }
BENCHMARK(gpt_175b_on_1024)->Unit(benchmark::kMillisecond);
}  // namespace
