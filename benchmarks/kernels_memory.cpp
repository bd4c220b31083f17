// Kernels written over a team, without ops around them, on one thread: bytes_per_second counts each array once for
// each time a kernel has to read or write it. Beside them memcpy on the same number of elements. The argument is the
// number of elements: 2^14 stand in the caches, 2^24 do not.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include <partita/core/math.hpp>
#include <partita/core/random.hpp>
#include <partita/device/cpu/team.hpp>

namespace pt = partita;
namespace math = partita::math;

namespace {
constexpr pt::on_cpu::team team;
constexpr std::size_t width = 1024;  // of a row

struct arrays {
  std::vector<float> a, b, c, d;
  explicit arrays(std::size_t n) : a(n), b(n), c(n), d(n) {
    pt::fill_uniform(a.data(), 1, 0, 0, n);
    pt::fill_uniform(b.data(), 2, 0, 0, n);
    pt::fill_uniform(c.data(), 3, 0, 0, n);
    pt::fill_uniform(d.data(), 4, 0, 0, n);
  }
};

// `streams` arrays of the argument's size are read or written by kernel(arrays&, n).
template <class Kernel> void measure(benchmark::State& state, int streams, Kernel kernel) {
  const auto n = static_cast<std::size_t>(state.range(0));
  arrays on(n);
  for (auto _ : state) {
    kernel(on, n);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(sizeof(float) * n) * streams * state.iterations());
}

void copy(benchmark::State& state) {
  measure(state, 2, [](arrays& on, std::size_t n) { std::memcpy(on.b.data(), on.a.data(), n * sizeof(float)); });
}
void sum(benchmark::State& state) {
  measure(state, 1, [](arrays& on, std::size_t n) {
    float const* in = on.a.data();
    benchmark::DoNotOptimize(team.sum(n, [=](std::size_t i) { return in[i]; }));
  });
}
void gelu(benchmark::State& state) {
  measure(state, 2, [](arrays& on, std::size_t n) {
    float const* in = on.a.data();
    float* out = on.b.data();
    team.each(n, [=](std::size_t i) {
      const float x = in[i];
      out[i] = 0.5f * x * (1.f + math::tanh(0.797884561f * (x + 0.044715f * x * x * x)));
    });
  });
}
void layer_norm(benchmark::State& state) {
  measure(state, 2, [](arrays& on, std::size_t n) {
    float const *gain = on.c.data(), *bias = on.d.data();
    for (std::size_t row = 0; row < n; row += width) {
      float const* in = on.a.data() + row;
      float* out = on.b.data() + row;
      const float mean = team.sum(width, [=](std::size_t i) { return in[i]; }) / width;
      const float variance = team.sum(width, [=](std::size_t i) { return (in[i] - mean) * (in[i] - mean); }) / width;
      const float scale = 1.f / math::sqrt(variance + 1e-5f);
      team.each(width, [=](std::size_t i) { out[i] = (in[i] - mean) * scale * gain[i] + bias[i]; });
    }
  });
}
void softmax(benchmark::State& state) {
  measure(state, 2, [](arrays& on, std::size_t n) {
    for (std::size_t row = 0; row < n; row += width) {
      float const* in = on.a.data() + row;
      float* out = on.b.data() + row;
      const float most = team.max(width, [=](std::size_t i) { return in[i]; });
      const float total = team.sum(width, [=](std::size_t i) { return out[i] = math::exp(in[i] - most); });
      const float scale = 1.f / total;
      team.each(width, [=](std::size_t i) { out[i] *= scale; });
    }
  });
}
void adamw(benchmark::State& state) {  // reads weight, gradient and two moments, writes all but the gradient
  measure(state, 7, [](arrays& on, std::size_t n) {
    float *weight = on.a.data(), *first = on.b.data(), *second = on.c.data();
    float const* gradient = on.d.data();
    team.each(n, [=](std::size_t i) {
      const float g = gradient[i], m = 0.9f * first[i] + 0.1f * g, v = 0.999f * second[i] + 0.001f * g * g;
      first[i] = m;
      second[i] = v;
      weight[i] -= 1e-4f * (m * 1.1f / (math::sqrt(v * 1.01f) + 1e-8f) + 0.1f * weight[i]);
    });
  });
}
void uniform(benchmark::State& state) {
  measure(state, 1, [](arrays& on, std::size_t n) { pt::fill_uniform(on.a.data(), 1, 2, 0, n); });
}
void dropout_factors(benchmark::State& state) {
  measure(state, 1, [](arrays& on, std::size_t n) { pt::fill_dropout(on.a.data(), 1, 2, 0, n, 0.1f, 1.f / 0.9f); });
}
void normal(benchmark::State& state) {
  measure(state, 1, [](arrays& on, std::size_t n) { pt::fill_normal(on.a.data(), 1, 2, 0, n); });
}
}  // namespace

#define PARTITA_MEASURE(kernel) BENCHMARK(kernel)->Arg(1 << 14)->Arg(1 << 24)->Unit(benchmark::kMicrosecond)
PARTITA_MEASURE(copy);
PARTITA_MEASURE(sum);
PARTITA_MEASURE(gelu);
PARTITA_MEASURE(layer_norm);
PARTITA_MEASURE(softmax);
PARTITA_MEASURE(adamw);
PARTITA_MEASURE(uniform);
PARTITA_MEASURE(dropout_factors);
BENCHMARK(normal)->Arg(1 << 14)->Unit(benchmark::kMicrosecond);
