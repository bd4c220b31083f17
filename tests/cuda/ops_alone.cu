// The tests of ops whose kernels are others on a GPU, as CUDA.
#include "../device/cuda_ops_full.cpp"
