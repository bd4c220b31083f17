// A GPU's team: a thread block.
#pragma once
#include <cstddef>
#include <limits>
#include <type_traits>

#include <partita/core/host_device.hpp>
#include <partita/core/team.hpp>

namespace partita::on_cuda {

inline constexpr unsigned warp = 32, most_threads = 256;  // of a block: whole warps, so many at most

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
#endif
};

static_assert(partita::team<block_team>);

}  // namespace partita::on_cuda
