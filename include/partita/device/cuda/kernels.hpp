// The kernels of a training, instantiated where nvcc compiles: in one .cu of a program, which includes the model and this,
//
//     template struct partita::cuda_kernels<my_training>;
//
// while its .cpp files include cuda_kernels.hpp alone. Compile it with --expt-relaxed-constexpr, which partita::cuda adds.
#pragma once
#if !defined(__CUDACC__)
#error \
    "partita/device/cuda/kernels.hpp is for the .cu file that instantiates pt::cuda_kernels; elsewhere include cuda_kernels.hpp"
#endif
#include <cuda_runtime.h>

#include <partita/device/cuda/cuda_kernels.hpp>
#include <partita/device/cuda/team.hpp>

namespace partita::on_cuda {

// All threads of a block leave a kernel together, and come to each of its barriers.
template <class Op, dtype... In> __global__ void __launch_bounds__(most_threads)
    kernel(const __grid_constant__ kernel_arguments a, int step) {
  run_block<Op, block_team, In...>(a, step, blockIdx.x, gridDim.x);
}

template <class Team> __global__ void __launch_bounds__(most_threads) box_kernel(const __grid_constant__ box_arguments a) {
  run_box<Team>(a, blockIdx.x, gridDim.x);
}

template <std::size_t Width, class... Links> __global__ void __launch_bounds__(most_threads)
    kernel_of_chain(const __grid_constant__ chain_arguments a) {
  run_chain<Width, block_team, Links...>(a, blockIdx.x, gridDim.x);
}

struct global_launch {
  template <class Op, dtype... In> static void run(kernel_arguments const& a, int step, launch_size const& s, void* stream) {
    // More than 48 KiB must be asked for. Where the device has less, the launch fails, and the executor says where.
    if (s.memory > (std::size_t{48} << 10))
      (void)cudaFuncSetAttribute(kernel<Op, In...>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(s.memory));
    kernel<Op, In...><<<s.blocks, s.threads, s.memory, static_cast<cudaStream_t>(stream)>>>(a, step);
  }
  template <std::size_t Width, class... Links>
  static void run_chain(chain_arguments const& a, unsigned blocks, unsigned threads, void* stream) {
    kernel_of_chain<Width, Links...><<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(a);
  }
  static void run_box(box_arguments const& a, unsigned blocks, unsigned threads, void* stream) {
    box_kernel<block_team><<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(a);
  }
};

}  // namespace partita::on_cuda

namespace partita {

template <class Training>
std::unique_ptr<on_cuda::traced_training> cuda_kernels<Training>::trace(Training const& t, std::span<binding const> extents) {
  return std::make_unique<on_cuda::detail::traced_with<on_cuda::global_launch, Training>>(t, extents);
}

}  // namespace partita
