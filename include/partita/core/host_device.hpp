// Marks functions that a kernel may call on any device.
#pragma once

// `__host__ __device__` where nvcc compiles, nothing elsewhere. What is marked uses no standard container.
#if defined(__CUDACC__)
#define PARTITA_HOST_DEVICE __host__ __device__
#else
#define PARTITA_HOST_DEVICE
#endif
// Before a loop that runs seldom, or few times.
#if defined(__CUDA_ARCH__)
#define PARTITA_DEVICE_LOOP_NOT_UNROLLED _Pragma("unroll 1")
#else
#define PARTITA_DEVICE_LOOP_NOT_UNROLLED
#endif
