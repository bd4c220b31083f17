// Marks functions that a kernel may call on any device.
#pragma once

// `__host__ __device__` where nvcc compiles, nothing elsewhere. What is marked uses no standard container.
#if defined(__CUDACC__)
#define PARTITA_HOST_DEVICE __host__ __device__
#else
#define PARTITA_HOST_DEVICE
#endif
