// One table of what a GPU does with GPT-2: kernels beside a device copy, products beside cuBLASLt called without this
// library, whole steps, launch gaps, memory, what the simulator says, collectives. scripts/gpu-check runs it, and
// PyTorch beside it, whose command lines it prints ("compare: ...").
//
//   benchmark_cuda [--tiny]     --tiny: sizes that take seconds on any GPU, for a look whether all of it works
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <partita/cuda.hpp>
#include <partita/partita.hpp>

#include "gpt2.hpp"
#include "steps.hpp"

namespace {

namespace pt = partita;
using namespace benchmark_cuda;
using api = pt::on_cuda::runtime;
using library = pt::on_cuda::nccl_library;
constexpr double mib = 1 << 20;

void must(cudaError_t answer) {
  if (answer != cudaSuccess) throw pt::error(cudaGetErrorString(answer));
}
void must(cublasStatus_t answer) {
  if (answer != CUBLAS_STATUS_SUCCESS) throw pt::error(cublasLtGetStatusString(answer));
}

// cuBLASLt as its samples call it: column-major, the first algorithm that it proposes, 32 MiB of workspace.
class cublas {
 public:
  cublas() {
    must(cublasLtCreate(&handle_));
    must(cudaMalloc(&workspace_, workspace_bytes));
  }
  ~cublas() {
    (void)cudaFree(workspace_);
    (void)cublasLtDestroy(handle_);
  }
  cublas(cublas const&) = delete;
  // c [m, n] = op(a) [m, k] op(b) [k, n], column-major, added to c where `add`.
  std::function<void()> ready(bool turn_a, bool turn_b, std::size_t m, std::size_t n, std::size_t k, void const* a,
                              std::size_t lda, void const* b, std::size_t ldb, void* c, std::size_t ldc, cudaDataType_t type,
                              bool add, cudaStream_t stream) {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t of_a, of_b, of_c;
    cublasLtMatmulPreference_t limits;
    cublasLtMatmulHeuristicResult_t found{};
    const cublasOperation_t op_a = turn_a ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = turn_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    int count = 0;
    must(cublasLtMatmulDescCreate(&what, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    must(cublasLtMatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a));
    must(cublasLtMatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b));
    must(cublasLtMatrixLayoutCreate(&of_a, type, turn_a ? k : m, turn_a ? m : k, static_cast<std::int64_t>(lda)));
    must(cublasLtMatrixLayoutCreate(&of_b, type, turn_b ? n : k, turn_b ? k : n, static_cast<std::int64_t>(ldb)));
    must(cublasLtMatrixLayoutCreate(&of_c, type, m, n, static_cast<std::int64_t>(ldc)));
    must(cublasLtMatmulPreferenceCreate(&limits));
    must(cublasLtMatmulPreferenceSetAttribute(limits, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                              sizeof workspace_bytes));
    must(cublasLtMatmulAlgoGetHeuristic(handle_, what, of_a, of_b, of_c, of_c, limits, 1, &found, &count));
    must(cublasLtMatmulPreferenceDestroy(limits));
    return [=, this] {  // what it names lives as long as the program does
      const float one = 1, keep = add ? 1 : 0;
      must(cublasLtMatmul(handle_, what, &one, a, of_a, b, of_b, &keep, c, of_c, c, of_c, &found.algo, workspace_,
                          workspace_bytes, stream));
    };
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  cublasLtHandle_t handle_{};
  void* workspace_ = nullptr;
};

struct sizes {
  char const* name;
  benchmark_model::gpt_sizes of;
  std::size_t tokens() const { return of.samples * of.positions; }
  training what() const { return {.model = {.model = {.layers = of.layers}}}; }
  std::unique_ptr<pt::on_cuda::traced_training> trace() const { return pt::cuda_kernels<training>::trace(what(), of.bindings()); }
};

// With as many samples as fit, half as many each time.
struct fitted {
  std::unique_ptr<pt::on_cuda::traced_training> traced;
  std::unique_ptr<planned> made;
};
fitted fit(sizes& s) {
  for (;; s.of.samples /= 2) {
    fitted f;
    f.traced = s.trace();
    f.made = std::make_unique<planned>(*f.traced, pt::policy::single_device{});
    std::size_t free = 0, all = 0;
    pt::on_cuda::check<api>(api::memory(free, all), "the device's memory");
    if (static_cast<double>(f.made->bytes()) < 0.8 * static_cast<double>(free) || s.of.samples == 1) return f;
  }
}

// Peak of products in bf16 with sums in f32, without sparsity, from the makers' data sheets (half of what they give with it);
// 0: not known here, as of a part of a device. A name that another one contains stands after it.
double peak_of(std::string const& name) {
  struct known {
    char const* name;
    double flops;
  };
  static constexpr known all[]{{"MIG", 0},       {"A100", 312e12},     {"H100 NVL", 835e12}, {"H100 PCIe", 756e12},
                               {"H100", 989e12}, {"H200 NVL", 835e12}, {"H200", 989e12},     {"GB200", 2500e12},
                               {"B200", 2250e12}};
  for (known const& k : all)
    if (name.find(k.name) != std::string::npos) return k.flops;
  return 0;
}

double copy_rate(std::size_t bytes) {
  void *from = nullptr, *to = nullptr;
  cudaEvent_t begin, end;
  must(cudaMalloc(&from, bytes));
  must(cudaMalloc(&to, bytes));
  must(cudaMemset(from, 1, bytes));
  must(cudaEventCreate(&begin));
  must(cudaEventCreate(&end));
  constexpr int turns = 20;
  for (int turn = -2; turn < turns; ++turn) {
    if (turn == 0) must(cudaEventRecord(begin));
    must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice));
  }
  must(cudaEventRecord(end));
  must(cudaEventSynchronize(end));
  float milliseconds = 0;
  must(cudaEventElapsedTime(&milliseconds, begin, end));
  for (void* each : {from, to}) must(cudaFree(each));
  return 2.0 * static_cast<double>(bytes) * turns / (1e-3 * static_cast<double>(milliseconds));
}

void print_kernels(program_times const& times, double copied) {
  std::printf("%-58s %5s %10s %9s %8s %9s %8s\n", "instruction", "times", "us", "GB/s", "of copy", "TFLOP/s", "of direct");
  for (instruction_row const& r : times.rows) {
    const double rate = r.seconds > 0 ? r.work.bytes / r.seconds : 0;
    std::printf("%-58s %5d %10.1f %9.0f %7.0f%% ", r.what.substr(0, 58).c_str(), r.count, 1e6 * r.seconds, 1e-9 * rate,
                100 * rate / copied);
    if (r.work.product) std::printf("%9.1f ", 1e-12 * r.work.flops / r.seconds);
    if (r.is_product && r.direct > 0) std::printf("%7.0f%%%s", 100 * r.direct / r.seconds, r.makes_more ? " *" : "");
    std::printf("\n");
  }
  std::puts("* makes what follows the product, too (a bias, gelu or its gradient, a sum); direct is the bare product");
}

timed_program<api, library>::direct_product direct(cublas& of) {
  return [&of](pt::on_cuda::product const& p, cudaStream_t stream) {
    const cudaDataType_t type = p.type == pt::bf16 ? CUDA_R_16BF : p.type == pt::f16 ? CUDA_R_16F : CUDA_R_32F;
    return of.ready(p.transpose_b, p.transpose_a, p.n, p.m, p.k, p.b, p.ldb, p.a, p.lda, p.c, p.ldc, type, p.accumulate, stream);
  };
}

void report_kernels(bool tiny, double copied, cublas& of) {
  // Of one layer, with operands of 64 MiB and more.
  sizes s{"kernels", {.layers = 1, .vocabulary = 50304, .hidden = 768, .heads = 12, .samples = 48, .positions = 1024}};
  if (tiny) s.of = {.layers = 1, .vocabulary = 512, .hidden = 128, .heads = 2, .samples = 8, .positions = 128};
  fitted f = fit(s);
  std::printf(
      "\nkernels: one layer of GPT-2 124M, %zu x %zu tokens, each instruction alone and repeated; bytes are those of "
      "its operands, once\n",
      s.of.samples, s.of.positions);
  timed_program<api, library> timed(*f.traced, *f.made, static_cast<std::int32_t>(s.of.vocabulary), {.steps = 3});
  print_kernels(timed.run(direct(of)), copied);
}

void report_model(sizes s, double copied, double peak, double product_rate, cublas& of) {
  fitted f = fit(s);
  std::printf("\n%s: %d layers of %zu, %zu heads, vocabulary %zu (padded), bf16 with f32 weights, batch %zu x %zu, AdamW\n",
              s.name, s.of.layers, s.of.hidden, s.of.heads, s.of.vocabulary, s.of.samples, s.of.positions);
  std::printf("compare: --layers %d --hidden %zu --heads %zu --vocabulary %zu --samples %zu --positions %zu\n", s.of.layers,
              s.of.hidden, s.of.heads, s.of.vocabulary, s.of.samples, s.of.positions);
  const step_times steps = time_steps<api, library>(*f.traced, pt::policy::single_device{},
                                                    static_cast<std::int32_t>(s.of.vocabulary), s.tokens(), 10);
  const double rate = steps.flops / steps.seconds;
  std::printf("  step %.2f ms, %.0f tokens/s, %.1f TFLOP/s, %.0f%% of a square product's", 1e3 * steps.seconds,
              static_cast<double>(s.tokens()) / steps.seconds, 1e-12 * rate, 100 * rate / product_rate);
  if (peak > 0) std::printf(", MFU %.1f%% of %.0f TFLOP/s", 100 * rate / peak, 1e-12 * peak);
  else std::printf(", no MFU: the peak of this device is not known here");
  std::printf(
      "\n  memory: planned %.0f MiB, taken for it %.0f MiB (%+.1f%%); beside it NCCL %.0f MiB, executors %.0f MiB (of it %.0f MiB "
      "workspace of cuBLASLt); first steps load modules of CUDA and cuBLASLt, %.0f MiB\n",
      static_cast<double>(steps.planned) / mib, static_cast<double>(steps.held.planned) / mib,
      100 * (static_cast<double>(steps.held.planned) / static_cast<double>(steps.planned) - 1),
      static_cast<double>(steps.held.communicators) / mib, static_cast<double>(steps.held.executors) / mib,
      static_cast<double>(pt::on_cuda::products<api>::workspace_bytes) / mib,
      (static_cast<double>(steps.held_after) - static_cast<double>(steps.held.all())) / mib);
  timed_program<api, library> timed(*f.traced, *f.made, static_cast<std::int32_t>(s.of.vocabulary));
  const program_times times = timed.run(direct(of));
  std::printf(
      "  the captured step %.2f ms; its instructions alone %.2f ms: launch gaps %.1f%% of it; outside of it %.2f ms "
      "a step\n",
      1e3 * times.step, 1e3 * times.alone(), 100 * (1 - times.alone() / times.step), 1e3 * (steps.seconds - times.step));
  std::printf("  chains: %zu kernels do what %zu ops would, and move %.0f MiB less\n", times.chains, times.ops_of_chains,
              static_cast<double>(times.saved_bytes) / mib);
  const pt::costs costs = costs_of(*f.traced->graph, times, copied);
  const double simulated = pt::simulate(*f.made->shared, costs).seconds;
  std::printf("  simulated %.2f ms, measured %.2f ms: %+.1f%%\n", 1e3 * simulated, 1e3 * times.step,
              100 * (simulated / times.step - 1));
  std::printf("  where the step goes:\n");
  std::vector<instruction_row> most = times.rows;
  std::sort(most.begin(), most.end(), [](auto const& a, auto const& b) { return a.count * a.seconds > b.count * b.seconds; });
  for (std::size_t i = 0; i < most.size() && i < 16; ++i)
    std::printf("    %-58s %4d x %9.1f us %5.1f%%\n", most[i].what.substr(0, 58).c_str(), most[i].count, 1e6 * most[i].seconds,
                100 * most[i].count * most[i].seconds / times.alone());
}

void report_devices(int devices, sizes s) {
  std::printf("\ncollectives between %d GPUs, f32; bus: what nccl-tests calls so\n", devices);
  for (collective_times const& c :
       time_collectives<api, library>(devices, {std::size_t{1} << 20, std::size_t{16} << 20, std::size_t{256} << 20}, 20))
    std::printf("  %-15s %8.0f MiB %10.1f us %9.1f GB/s on the bus\n", c.what.c_str(), static_cast<double>(c.bytes) / mib,
                1e6 * c.seconds, 1e-9 * c.bus);
  s.of.samples *= static_cast<std::size_t>(devices);
  const auto traced = s.trace();
  const step_times steps = time_steps<api, library>(*traced, pt::policy::data_parallel_of{devices},
                                                    static_cast<std::int32_t>(s.of.vocabulary), s.tokens(), 10);
  std::printf("  %s, data parallel over %d GPUs, batch %zu x %zu: step %.2f ms, %.0f tokens/s\n", s.name, devices, s.of.samples,
              s.of.positions, 1e3 * steps.seconds, static_cast<double>(s.tokens()) / steps.seconds);
}

}  // namespace

int main(int count, char** arguments) try {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was measured is not lost where the rest is stopped, or crashes
  const bool tiny = count > 1 && std::strcmp(arguments[1], "--tiny") == 0;
  const int devices = pt::on_cuda::count_devices<api>();
  if (devices == 0) {
    std::puts("no GPU here, nothing was measured");
    return 0;
  }
  must(cudaSetDevice(0));
  cudaDeviceProp device{};
  must(cudaGetDeviceProperties(&device, 0));
  const double copied = copy_rate(tiny ? std::size_t{64} << 20 : std::size_t{512} << 20), peak = peak_of(device.name);
  std::printf("%s, compute capability %d.%d, %.0f MiB; a device copy reads and writes %.0f GB/s\n", device.name, device.major,
              device.minor, static_cast<double>(device.totalGlobalMem) / mib, 1e-9 * copied);
  cublas products;
  double product_rate = 0;
  {
    const std::size_t n = tiny ? 1024 : 8192;
    void* matrices[3]{};
    for (void*& m : matrices) {
      must(cudaMalloc(&m, 2 * n * n));
      must(cudaMemset(m, 0x3c, 2 * n * n));
    }
    const auto put =
        products.ready(true, false, n, n, n, matrices[0], n, matrices[1], n, matrices[2], n, CUDA_R_16BF, false, nullptr);
    for (int warm = 0; warm < 3; ++warm) put();
    must(cudaDeviceSynchronize());
    const auto begin = clock_type::now();
    for (int turn = 0; turn < 10; ++turn) put();
    must(cudaDeviceSynchronize());
    product_rate = 10 * 2.0 * static_cast<double>(n * n * n) / seconds_since(begin);
    for (void* m : matrices) must(cudaFree(m));
    std::printf("a product of bf16 squares of %zu by cuBLASLt: %.0f TFLOP/s\n", n, 1e-12 * product_rate);
  }
  report_kernels(tiny, copied, products);
  sizes small{"GPT-2 124M", {.layers = 12, .vocabulary = 50304, .hidden = 768, .heads = 12, .samples = 16, .positions = 1024}},
      medium{"GPT-2 350M", {.layers = 24, .vocabulary = 50304, .hidden = 1024, .heads = 16, .samples = 8, .positions = 1024}};
  if (tiny) {
    small.of = {.layers = 2, .vocabulary = 512, .hidden = 128, .heads = 2, .samples = 4, .positions = 64};
    medium.of = {.layers = 3, .vocabulary = 512, .hidden = 256, .heads = 4, .samples = 4, .positions = 64};
  }
  report_model(small, copied, peak, product_rate, products);
  report_model(medium, copied, peak, product_rate, products);
  if (devices > 1) report_devices(devices, small);
  else std::puts("\ncollectives: this machine has one GPU; nothing was measured between GPUs");
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
