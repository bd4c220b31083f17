// A GPU's team: a thread block.
#pragma once
#include <cstddef>
#include <limits>
#include <type_traits>

#include <partita/core/host_device.hpp>
#include <partita/core/narrow_float.hpp>
#include <partita/core/team.hpp>
#include <partita/device/cuda/call.hpp>
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#endif

namespace partita::on_cuda {

// Members take elements next to each other, so that a warp's accesses are of whole lines. Every call ends with a barrier:
// what it wrote, the next one reads. Sums are made by member, then across a warp, then over warps in their order, so that
// their bits depend on n and the size of the block alone.
class block_team {
 public:
  static constexpr bool packs = true;  // members take 16 bytes at a time (core/packs.hpp)

#if defined(__CUDA_ARCH__)
  __device__ static bool first() { return threadIdx.x == 0; }

  template <class F> __device__ void each(std::size_t n, F f) const {
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
    __syncthreads();
  }
  // f(i) for the share of one of `blocks` teams, where nobody reads in this launch what is written: without a barrier.
  template <class F> __device__ void share(std::size_t n, std::size_t block, std::size_t blocks, F f) const {
    for (std::size_t i = block * blockDim.x + threadIdx.x; i < n; i += blocks * blockDim.x) f(i);
  }
  template <class F> __device__ auto sum(std::size_t n, F f) const {
    using value = std::decay_t<decltype(f(n))>;
    value total = 0;
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) total += f(i);
    return across(total, [](value a, value b) { return a + b; });
  }
  template <class F> __device__ auto max(std::size_t n, F f) const {
    using value = std::decay_t<decltype(f(n))>;
    auto larger = [](value a, value b) { return a > b || a != a ? a : b; };  // a NaN stays
    value most = -std::numeric_limits<value>::infinity();
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) most = larger(most, f(i));
    return across(most, larger);
  }
  // N elements that the members have in common, uninitialised; the same for every call with the same arguments.
  template <class T, std::size_t N, int Which> __device__ T* shared() const {
    alignas(16) __shared__ T elements[N];
    return elements;
  }
  // What the launch gave the block, from its beginning.
  __device__ std::byte* memory(std::size_t) const {
    extern __shared__ __align__(128) std::byte of_block[];
    return of_block;
  }
  // c [m, n] (+)= op(a) [m, k] op(b) [k, n] on the matrix units, of tiles in memory in common: m, n and k are multiples of 16,
  // rows of a and b of 8 elements, of c of 4; every 16 rows begin at a multiple of 32 bytes. A warp takes 16 x 16 of c at a time.
  template <bool TurnA, bool TurnB, class T> __device__ void multiply_tiles(unsigned m, unsigned n, unsigned k, T const* a,
                                                                            unsigned lda, T const* b, unsigned ldb, float* c,
                                                                            unsigned ldc, bool add) const {
    namespace wmma = nvcuda::wmma;
    using unit = std::conditional_t<std::is_same_v<T, bfloat16>, __nv_bfloat16, __half>;
    using order_a = std::conditional_t<TurnA, wmma::col_major, wmma::row_major>;
    using order_b = std::conditional_t<TurnB, wmma::col_major, wmma::row_major>;
    const unsigned columns = n / 16, tiles = m / 16 * columns;
    for (unsigned tile = threadIdx.x / warp; tile < tiles; tile += blockDim.x / warp) {
      const unsigned i = tile / columns * 16, j = tile % columns * 16;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
      if (add) wmma::load_matrix_sync(sum, c + i * ldc + j, ldc, wmma::mem_row_major);
      else wmma::fill_fragment(sum, 0.f);
      for (unsigned e = 0; e < k; e += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, unit, order_a> of_a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, unit, order_b> of_b;
        wmma::load_matrix_sync(of_a, reinterpret_cast<unit const*>(TurnA ? a + e * lda + i : a + i * lda + e), lda);
        wmma::load_matrix_sync(of_b, reinterpret_cast<unit const*>(TurnB ? b + j * ldb + e : b + e * ldb + j), ldb);
        wmma::mma_sync(sum, of_a, of_b, sum);
      }
      wmma::store_matrix_sync(c + i * ldc + j, sum, ldc, wmma::mem_row_major);
    }
    __syncthreads();
  }

 private:
  template <class V, class Combine> __device__ static V across(V mine, Combine combine) {
    __shared__ V of_warps[most_threads / warp];
    for (unsigned distance = warp / 2; distance > 0; distance /= 2)
      mine = combine(mine, __shfl_xor_sync(0xffffffffu, mine, distance));
    if (threadIdx.x % warp == 0) of_warps[threadIdx.x / warp] = mine;
    __syncthreads();
    V all = of_warps[0];
    for (unsigned w = 1; w < blockDim.x / warp; ++w) all = combine(all, of_warps[w]);
    __syncthreads();  // read before the next call writes
    return all;
  }
#else  // Kernels are read for the host too, and never run there with this team.
  PARTITA_HOST_DEVICE static bool first() { return false; }
  template <class F> PARTITA_HOST_DEVICE void each(std::size_t, F) const {}
  template <class F> PARTITA_HOST_DEVICE void share(std::size_t, std::size_t, std::size_t, F) const {}
  template <class F> PARTITA_HOST_DEVICE auto sum(std::size_t n, F f) const { return std::decay_t<decltype(f(n))>{}; }
  template <class F> PARTITA_HOST_DEVICE auto max(std::size_t n, F f) const { return std::decay_t<decltype(f(n))>{}; }
  template <class T, std::size_t N, int Which> PARTITA_HOST_DEVICE T* shared() const { return nullptr; }
  PARTITA_HOST_DEVICE std::byte* memory(std::size_t) const { return nullptr; }
  template <bool TurnA, bool TurnB, class T> PARTITA_HOST_DEVICE void multiply_tiles(unsigned, unsigned, unsigned, T const*,
                                                                                     unsigned, T const*, unsigned, float*,
                                                                                     unsigned, bool) const {}
#endif
};

static_assert(partita::team<block_team>);

}  // namespace partita::on_cuda
