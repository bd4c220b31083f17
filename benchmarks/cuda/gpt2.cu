// The kernels of GPT-2 in bf16, as a user's .cu has them.
#include <partita/device/cuda/kernels.hpp>

#include "gpt2.hpp"

template struct partita::cuda_kernels<benchmark_cuda::training>;
