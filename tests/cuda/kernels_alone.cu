// The tests of kernels, as CUDA: on a GPU, beside the CPU's.
#include "../device/cuda_kernels.cpp"
