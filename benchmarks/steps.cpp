// Whole training steps. Every figure is a ratio of rates measured in turns within one run, because machines are shared:
//   gpt2_124m        GFLOP/s of a step of GPT-2 124M on one device with all cores, and of sgemm at 2048 beside it
//   two_devices/...  the time of one device on one core over that of two devices on two
//   buckets/...      two devices that replicate 48 narrow layers: collectives and time of a step, with every move alone and
//                    with those that wait at the same time made as one
#include <algorithm>
#include <chrono>
#include <vector>

#include <benchmark/benchmark.h>

#include "gpt2.hpp"

namespace {

namespace pt = partita;
using benchmark_model::cuts;
using benchmark_model::run;
using benchmark_model::sizes;

double seconds(auto work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

class square_product {
 public:
  explicit square_product(int threads) : team_(threads), a_(n * n, 1.0f), b_(n * n, 0.5f), c_(n * n) { (*this)(); }
  double operator()() {  // GFLOP/s
    const double s = seconds(
        [&] { pt::on_cpu::gemm<float>(team_, false, false, n, n, n, 1.0f, a_.data(), n, b_.data(), n, 0.0f, c_.data(), n); });
    return 2e-9 * n * n * n / s;
  }

 private:
  static constexpr std::size_t n = 2048;
  pt::on_cpu::workers team_;
  std::vector<float> a_, b_, c_;
};

void gpt2_124m(benchmark::State& state) {
  const int cores = pt::available_cores();
  run model({}, {}, cores, state.range(0) != 0);
  square_product product(cores);
  model.step();  // pages, caches
  model.step();
  std::vector<double> steps, products;
  for (auto _ : state) {
    products.push_back(product());
    const double s = seconds([&] { model.step(); });
    steps.push_back(s);
    state.SetIterationTime(s);
    products.push_back(product());
  }
  const double rate = model.trainer().step_flops() / median(steps) * 1e-9, sgemm = median(products);
  state.counters["GFLOP"] = model.trainer().step_flops() * 1e-9;
  state.counters["GFLOP/s"] = rate;
  state.counters["sgemm GFLOP/s"] = sgemm;
  state.counters["ratio"] = rate / sgemm;
  state.counters["tokens/s"] = 256 / median(steps);
}
BENCHMARK(gpt2_124m)->ArgName("fuse")->Arg(1)->Arg(0)->UseManualTime()->Iterations(8)->Unit(benchmark::kMillisecond);

// 19M parameters without the table of positions: 6 layers, hidden 512, a vocabulary of bytes.
void two_devices(benchmark::State& state, cuts plan) {
  const sizes model{.layers = 6, .vocabulary = 256, .hidden = 512, .heads = 8, .samples = 16, .positions = 64};
  run one(model, {}, 1), two(model, plan, 1);
  one.step();
  two.step();
  std::vector<double> alone, together;
  for (auto _ : state) {
    alone.push_back(seconds([&] { one.step(); }));
    const double s = seconds([&] { two.step(); });
    together.push_back(s);
    state.SetIterationTime(s);
  }
  state.counters["one device ms"] = median(alone) * 1e3;
  state.counters["speed-up"] = median(alone) / median(together);
  state.counters["parameters"] = static_cast<double>(one.trainer().parameter_count());
}
BENCHMARK_CAPTURE(two_devices, data_parallel, cuts{.data = 2})->UseManualTime()->Iterations(12)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(two_devices, tensor_parallel, cuts{.tensor = 2})
    ->UseManualTime()
    ->Iterations(12)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(two_devices, pipeline_8_micro_batches, cuts{.stages = 2, .micro_batches = 8})
    ->UseManualTime()
    ->Iterations(12)
    ->Unit(benchmark::kMillisecond);

void buckets(benchmark::State& state, cuts plan) {
  const sizes model{.layers = 48, .vocabulary = 64, .hidden = 32, .heads = 2, .samples = 4, .positions = 8};
  run alone(model, plan, 1, true, 0), joined(model, plan, 1);
  alone.step();
  joined.step();
  std::vector<double> of_alone, of_joined;
  for (auto _ : state) {
    of_alone.push_back(seconds([&] { alone.step(); }));
    const double s = seconds([&] { joined.step(); });
    of_joined.push_back(s);
    state.SetIterationTime(s);
  }
  auto calls = [&](run const& r) { return static_cast<double>(r.trainer().communication().calls) / plan.devices(); };
  state.counters["calls alone"] = calls(alone);
  state.counters["calls joined"] = calls(joined);
  state.counters["ms alone"] = 1e3 * median(of_alone);
  state.counters["ms joined"] = 1e3 * median(of_joined);
  state.counters["ratio"] = median(of_alone) / median(of_joined);
}
BENCHMARK_CAPTURE(buckets, data_parallel, cuts{.data = 2})->UseManualTime()->Iterations(200)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(buckets, zero_1, cuts{.data = 2, .zero = 1})->UseManualTime()->Iterations(200)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(buckets, zero_3, cuts{.data = 2, .zero = 3})->UseManualTime()->Iterations(200)->Unit(benchmark::kMillisecond);

}  // namespace
