// CUDA's runtime and cuBLASLt as devices call them: the `Api` of on_cuda's templates. A test's has the same functions.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <partita/device/cuda/products.hpp>
#include <partita/device/cuda/tasks.hpp>

namespace partita::on_cuda {

// What a call answers: CUDA's number, or cuBLAS's above 100000.
struct runtime_result {
  int number = 0;
  bool operator==(runtime_result const&) const = default;
};

struct runtime {
  using result = runtime_result;
  using stream_type = cudaStream_t;
  using event_type = cudaEvent_t;
  using graph_type = cudaGraphExec_t;
  static constexpr result success{cudaSuccess}, not_ready{cudaErrorNotReady}, no_device{cudaErrorNoDevice},
      old_driver{cudaErrorInsufficientDriver};

  static std::string text(result r) {
    if (r.number >= of_cublas)
      return std::string("cuBLAS: ") + cublasLtGetStatusString(static_cast<cublasStatus_t>(r.number - of_cublas));
    const auto code = static_cast<cudaError_t>(r.number);
    return std::string(cudaGetErrorString(code)) + " (" + cudaGetErrorName(code) + ")";
  }

  // --- devices and memory
  static result count_devices(int& n) { return forgotten({cudaGetDeviceCount(&n)}); }
  // As 13000 for 13.0; of a driver that is not there 0.
  static result versions(int& driver, int& toolkit) {
    const result answer = forgotten({cudaDriverGetVersion(&driver)});
    return answer == success ? forgotten({cudaRuntimeGetVersion(&toolkit)}) : answer;
  }
  static result set_device(int d) { return {cudaSetDevice(d)}; }
  static result allocate(void*& at, std::size_t bytes) { return forgotten({cudaMalloc(&at, bytes)}); }
  static void release(void* at) { (void)cudaFree(at); }
  static result memory(std::size_t& free, std::size_t& all) { return {cudaMemGetInfo(&free, &all)}; }
  static result allocate_host(void*& at, std::size_t bytes) { return forgotten({cudaMallocHost(&at, bytes)}); }
  static void release_host(void* at) { (void)cudaFreeHost(at); }

  // --- streams and events. Streams do not wait for the default one.
  static result create_stream(stream_type& s) { return {cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)}; }
  static void destroy_stream(stream_type s) { (void)cudaStreamDestroy(s); }
  static result create_event(event_type& e) { return {cudaEventCreateWithFlags(&e, cudaEventDisableTiming)}; }
  static void destroy_event(event_type e) { (void)cudaEventDestroy(e); }
  static result record(event_type e, stream_type s) { return {cudaEventRecord(e, s)}; }
  // In a capture: a node of the graph. Each launch of the graph records the event anew, and the host may ask for it.
  static result record_for_host(event_type e, stream_type s) { return {cudaEventRecordWithFlags(e, s, cudaEventRecordExternal)}; }
  static result wait(stream_type s, event_type e) { return {cudaStreamWaitEvent(s, e, 0)}; }
  static result query(stream_type s) { return forgotten({cudaStreamQuery(s)}); }
  static result query_event(event_type e) { return forgotten({cudaEventQuery(e)}); }
  static result synchronize(stream_type s) { return {cudaStreamSynchronize(s)}; }

  static result copy_to_device(void* to, void const* from, std::size_t bytes, stream_type s) {
    return {cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s)};
  }
  static result copy_to_host(void* to, void const* from, std::size_t bytes, stream_type s) {
    return {cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s)};
  }
  static result copy_now(void* to, void const* from, std::size_t bytes) {
    // From pageable memory it may return before the device has the bytes, and streams do not wait for the default one.
    const cudaError_t answer = cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
    return {answer == cudaSuccess ? cudaStreamSynchronize(nullptr) : answer};
  }

  // --- graphs. By this thread alone: those of other devices go on calling CUDA.
  static result begin_capture(stream_type s) { return {cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal)}; }
  static result end_capture(stream_type s, graph_type& made) {
    cudaGraph_t captured = nullptr;
    if (const cudaError_t answer = cudaStreamEndCapture(s, &captured); answer != cudaSuccess) return {answer};
    const cudaError_t answer = cudaGraphInstantiate(&made, captured, 0);
    (void)cudaGraphDestroy(captured);
    return {answer};
  }
  // Of a capture that something has ended early: its streams then take work again.
  static void abandon_capture(stream_type s) {
    cudaGraph_t captured = nullptr;
    (void)forgotten({cudaStreamEndCapture(s, &captured)});
    if (captured != nullptr) (void)cudaGraphDestroy(captured);
  }
  static result launch_graph(graph_type g, stream_type s) { return {cudaGraphLaunch(g, s)}; }
  // One that runs is freed when it has ended.
  static void destroy_graph(graph_type g) { (void)cudaGraphExecDestroy(g); }

  // --- ranges that a profiler shows, where the toolkit has NVTX. Without a profiler a call is a branch.
#if __has_include(<nvtx3/nvToolsExt.h>)
  static void begin_range(char const* name) { (void)nvtxRangePushA(name); }
  static void end_range() { (void)nvtxRangePop(); }
#else
  static void begin_range(char const*) {}
  static void end_range() {}
#endif

  // --- launches
  static void* handle(stream_type s) { return s; }
  static result launched() { return {cudaGetLastError()}; }
  static void touches(stream_type, std::span<memory_range const>, std::span<memory_range const>) {}  // for tests

  // --- products, with what cuBLASLt takes for the fastest algorithm. f32 is computed in f32, not in
  // TF32, which keeps 10 bits; bf16 and f16 are summed in f32.
  using multiplier_type = cublasLtHandle_t;
  static result create_multiplier(multiplier_type& m) { return of(cublasLtCreate(&m)); }
  static void destroy_multiplier(multiplier_type m) { (void)cublasLtDestroy(m); }
  struct product_type {
    cublasLtMatmulDesc_t what = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    dtype type = f32;
  };
  static result create_product(multiplier_type m, product_type& p, product_shape const& s, std::size_t workspace_bytes) {
    const cudaDataType_t type = s.type == f64    ? CUDA_R_64F
                                : s.type == bf16 ? CUDA_R_16BF
                                : s.type == f16  ? CUDA_R_16F
                                                 : CUDA_R_32F;
    const cudaDataType_t scale = s.type == f64 ? CUDA_R_64F : CUDA_R_32F;
    const cublasComputeType_t compute = s.type == f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    const cublasOperation_t turn_a = s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                            turn_b = s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    p.type = s.type;
    cublasLtMatmulPreference_t limits = nullptr;
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    cublasStatus_t answer = CUBLAS_STATUS_SUCCESS;
    auto then = [&](auto call) {
      if (answer == CUBLAS_STATUS_SUCCESS) answer = call();
    };
    then([&] { return cublasLtMatmulDescCreate(&p.what, compute, scale); });
    then([&] { return cublasLtMatmulDescSetAttribute(p.what, CUBLASLT_MATMUL_DESC_TRANSA, &turn_a, sizeof turn_a); });
    then([&] { return cublasLtMatmulDescSetAttribute(p.what, CUBLASLT_MATMUL_DESC_TRANSB, &turn_b, sizeof turn_b); });
    then([&] { return layout(p.a, type, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.lda, s.batch, s.next_a); });
    then([&] { return layout(p.b, type, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.ldb, s.batch, s.next_b); });
    then([&] { return layout(p.c, type, s.m, s.n, s.ldc, s.batch, s.next_c); });
    if (!s.is_plain()) then([&] { return set_epilogue(p.what, s); });
    then([&] { return cublasLtMatmulPreferenceCreate(&limits); });
    then([&] {
      return cublasLtMatmulPreferenceSetAttribute(limits, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                                  sizeof workspace_bytes);
    });
    // Partial sums over k are f32 and added in one order.
    const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    then([&] {
      return cublasLtMatmulPreferenceSetAttribute(limits, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                                  sizeof reductions);
    });
    // Pieces may begin anywhere in an arena: the algorithm is chosen for where these do.
    auto aligned = [&](cublasLtMatmulPreferenceAttributes_t which, std::size_t bytes) {
      const std::uint32_t promised = static_cast<std::uint32_t>(bytes);
      then([&] { return cublasLtMatmulPreferenceSetAttribute(limits, which, &promised, sizeof promised); });
    };
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.aligned_a);
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.aligned_b);
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.aligned_c);
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.aligned_c);
    then([&] { return cublasLtMatmulAlgoGetHeuristic(m, p.what, p.a, p.b, p.c, p.c, limits, 1, &found, &count); });
    if (answer == CUBLAS_STATUS_SUCCESS && count == 0) answer = CUBLAS_STATUS_NOT_SUPPORTED;
    if (limits != nullptr) cublasLtMatmulPreferenceDestroy(limits);
    p.algorithm = found.algo;
    if (answer != CUBLAS_STATUS_SUCCESS) destroy_product(p);
    return of(answer);
  }
  static void destroy_product(product_type const& p) {
    for (cublasLtMatrixLayout_t each : {p.a, p.b, p.c})
      if (each != nullptr) cublasLtMatrixLayoutDestroy(each);
    if (p.what != nullptr) cublasLtMatmulDescDestroy(p.what);
  }
  // The operands of a row-major product change places, as shape_of says.
  static result run_product(multiplier_type m, product_type const& ready, product const& p, void* workspace, std::size_t bytes,
                            stream_type s) {
    const double alpha_double = p.alpha, beta_double = p.accumulate || p.addend != nullptr ? 1 : 0;
    const float alpha = static_cast<float>(alpha_double), beta = static_cast<float>(beta_double);
    // The addresses are read when the product is put.
    void const *const vector = p.bias != nullptr ? p.bias : p.row_sums, *const of_gelu =
                                                                            p.before_gelu != nullptr ? p.before_gelu : p.gelu_of;
    if (vector != nullptr)
      if (const auto answer =
              cublasLtMatmulDescSetAttribute(ready.what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
          answer != CUBLAS_STATUS_SUCCESS)
        return of(answer);
    if (of_gelu != nullptr)
      if (const auto answer =
              cublasLtMatmulDescSetAttribute(ready.what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &of_gelu, sizeof of_gelu);
          answer != CUBLAS_STATUS_SUCCESS)
        return of(answer);
    const bool wide = ready.type == f64;
    void const* const a = wide ? static_cast<void const*>(&alpha_double) : &alpha;
    void const* const b = wide ? static_cast<void const*>(&beta_double) : &beta;
    return of(cublasLtMatmul(m, ready.what, a, p.b, ready.a, p.a, ready.b, b, p.addend != nullptr ? p.addend : p.c, ready.c, p.c,
                             ready.c, &ready.algorithm, workspace, bytes, s));
  }

 private:
  static constexpr int of_cublas = 100000;
  // An answer that is dealt with here must not be found by `launched`, which asks for the last one that was not a success.
  static result forgotten(result answer) {
    if (answer != success) (void)cudaGetLastError();
    return answer;
  }
  static result of(cublasStatus_t answer) {
    return answer == CUBLAS_STATUS_SUCCESS ? success : result{of_cublas + static_cast<int>(answer)};
  }
  // Column-major, a bias is added along the columns: one number a row, as it is for us a column. gelu is the form with tanh, as
  // ops/gelu.hpp has it; it keeps what it is applied to, and its slope is taken at that.
  static cublasStatus_t set_epilogue(cublasLtMatmulDesc_t what, product_shape const& s) {
    const bool bends = s.gelu || s.gelu_gradient;
    if (!s.has_possible_epilogue()) return CUBLAS_STATUS_NOT_SUPPORTED;
    const cublasLtEpilogue_t epilogue = s.sums_rows       ? CUBLASLT_EPILOGUE_DGELU_BGRAD
                                        : s.gelu_gradient ? CUBLASLT_EPILOGUE_DGELU
                                        : !s.gelu         ? CUBLASLT_EPILOGUE_BIAS
                                        : s.adds_bias     ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                                          : CUBLASLT_EPILOGUE_GELU_AUX;
    const std::int64_t ld = static_cast<std::int64_t>(s.ldc);
    cublasStatus_t answer = cublasLtMatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    auto then = [&](cublasLtMatmulDescAttributes_t which, auto const& value) {
      if (answer == CUBLAS_STATUS_SUCCESS) answer = cublasLtMatmulDescSetAttribute(what, which, &value, sizeof value);
    };
    // The choice of an algorithm may look at addresses and their alignment; the real ones come when the product is put.
    const auto somewhere = [](std::size_t aligned) { return reinterpret_cast<void const*>(std::uintptr_t{aligned}); };
    if (s.adds_bias || s.sums_rows) then(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere(s.aligned_vector));
    if (bends) then(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
    if (bends) then(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere(s.aligned_gelu));
    return answer;
  }
  static cublasStatus_t layout(cublasLtMatrixLayout_t& made, cudaDataType_t type, std::size_t rows, std::size_t columns,
                               std::size_t ld, std::size_t batch, std::size_t next) {
    cublasStatus_t answer = cublasLtMatrixLayoutCreate(&made, type, rows, columns, static_cast<std::int64_t>(ld));
    if (batch == 1 || answer != CUBLAS_STATUS_SUCCESS) return answer;
    const std::int32_t count = static_cast<std::int32_t>(batch);
    const std::int64_t apart = static_cast<std::int64_t>(next);
    answer = cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (answer != CUBLAS_STATUS_SUCCESS) return answer;
    return cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart);
  }
};

}  // namespace partita::on_cuda
