// Ops that do little arithmetic per byte, as a program runs them: bytes_per_second counts every element of every
// input and output once. Beside them memcpy, which is what they are to come near to, over more bytes than the caches
// hold. The argument is the number of threads.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <partita/device/cpu/backend.hpp>
#include <partita/grad/differentiate.hpp>
#include <partita/ops/add.hpp>
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/dropout.hpp>
#include <partita/ops/gelu.hpp>
#include <partita/ops/layer_norm.hpp>
#include <partita/ops/multiply.hpp>
#include <partita/ops/relu.hpp>
#include <partita/ops/rms_norm.hpp>
#include <partita/ops/silu.hpp>
#include <partita/ops/softmax.hpp>
#include <partita/ops/sum.hpp>

namespace pt = partita;

namespace {
struct token : pt::axis<"token", 16384> {};
struct hidden : pt::axis<"hidden", 768> {};
struct few : pt::axis<"few", 1024> {};
struct vocabulary : pt::axis<"vocabulary", 50257> {};
using activation = pt::like<pt::f32, token, hidden>;
using gain = pt::like<pt::f32, hidden>;
using per_token = pt::like<pt::f32, token>;
using logits = pt::like<pt::f32, few, vocabulary>;
using per_few = pt::like<pt::f32, few>;
using targets = pt::like<pt::i32, few>;

struct buffer {
  struct free {
    void operator()(void* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<void, free> at;
  explicit buffer(std::size_t bytes) : at(::operator new (bytes + 64, std::align_val_t{64})) {}
};

template <class Op, class... In> void run(benchmark::State& state) {
  using typing = pt::typing<Op, In...>;
  pt::op_info const& info = typing::result.info;
  pt::on_cpu::workers team(static_cast<int>(state.range(0)));
  pt::step_context step;
  pt::on_cpu::launch_arguments a;
  for (int d = 0; d < info.dim_count; ++d) a.extents[d] = a.wholes[d] = info.dims[d].axis->extent;
  std::vector<buffer> all;
  void const* inputs[pt::max_inputs]{};
  void* outputs[pt::max_outputs]{};
  std::size_t bytes = 0;
  auto add = [&](pt::operand const& x) {
    const std::size_t n = pt::on_cpu::detail::elements(x, a.extents);
    bytes += n * pt::size_of(x.type);
    all.emplace_back(n * pt::size_of(x.type));
    if (x.type == pt::i32)
      for (std::size_t i = 0; i < n; ++i) static_cast<std::int32_t*>(all.back().at.get())[i] = static_cast<int>(i * 31);
    else
      for (std::size_t i = 0; i < n; ++i) static_cast<float*>(all.back().at.get())[i] = 1.f + 0.01f * static_cast<float>(i % 251);
    return all.back().at.get();
  };
  for (int i = 0; i < info.input_count; ++i) inputs[i] = add(info.inputs[i]);
  for (int o = 0; o < info.output_count; ++o) outputs[o] = add(info.outputs[o]);
  constexpr auto launcher = pt::on_cpu::backend::launch<Op, In::type...>();
  const buffer scratch(launcher.workspace(info, a.extents, team.size()));
  a.inputs = inputs;
  a.outputs = outputs;
  a.input_count = info.input_count;
  a.info = &info;
  a.given = {{0.1}};
  a.key = 7;
  a.scratch = scratch.at.get();
  a.step = &step;
  a.team = &team;
  for (auto _ : state) {
    launcher.run(a);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

void copy(benchmark::State& state) {
  constexpr std::size_t bytes = token::extent * hidden::extent * sizeof(float);
  const buffer from(bytes), to(bytes);
  std::memset(from.at.get(), 1, bytes);
  std::memset(to.at.get(), 1, bytes);
  pt::on_cpu::workers team(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    team.parallel(bytes, 4096, [&](std::size_t begin, std::size_t end) {
      std::memcpy(static_cast<char*>(to.at.get()) + begin, static_cast<char const*>(from.at.get()) + begin, end - begin);
    });
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(2 * bytes) * state.iterations());
}
}  // namespace

#define PARTITA_MEASURE(name, ...) \
  BENCHMARK(run<__VA_ARGS__>)->Name(name)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime()

BENCHMARK(copy)->Name("memcpy")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
PARTITA_MEASURE("add", pt::add_op, activation, activation);
PARTITA_MEASURE("multiply", pt::multiply_op, activation, activation);
PARTITA_MEASURE("relu", pt::relu_op, activation);
PARTITA_MEASURE("gelu", pt::gelu_op, activation);
PARTITA_MEASURE("gelu.grad", pt::gelu_gradient_op, activation, activation);
PARTITA_MEASURE("gelu_exact", pt::gelu_exact_op, activation);
PARTITA_MEASURE("gelu_exact.grad", pt::gelu_exact_gradient_op, activation, activation);
PARTITA_MEASURE("silu", pt::silu_op, activation);
PARTITA_MEASURE("silu.grad", pt::silu_gradient_op, activation, activation);
PARTITA_MEASURE("layer_norm", pt::layer_norm_op<true>, activation, gain, gain);
PARTITA_MEASURE("layer_norm.grad", pt::layer_norm_gradient_op<true>, activation, activation, gain, per_token, per_token);
PARTITA_MEASURE("rms_norm", pt::rms_norm_op, activation, gain);
PARTITA_MEASURE("rms_norm.grad", pt::rms_norm_gradient_op, activation, activation, gain, per_token);
PARTITA_MEASURE("softmax", pt::softmax_op<0>, activation);
PARTITA_MEASURE("softmax.grad", pt::softmax_gradient_op<0>, activation, activation);
PARTITA_MEASURE("dropout", pt::dropout_op, activation);
PARTITA_MEASURE("sum", pt::sum_all_op<false>, activation);
PARTITA_MEASURE("sum over tokens", pt::sum_axis_op<1, false>, activation);
PARTITA_MEASURE("row_max", pt::row_max_op, logits);
PARTITA_MEASURE("softmax_terms", pt::softmax_terms_op, logits, per_few, targets);
PARTITA_MEASURE("softmax_terms.grad", pt::softmax_terms_gradient_op, logits, per_few, per_few, per_few, targets);
