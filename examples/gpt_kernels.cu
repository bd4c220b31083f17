// The kernels of train_gpt --backend cuda.
#include <partita/device/cuda/kernels.hpp>

#include "gpt.hpp"

template struct partita::cuda_kernels<gpt_training>;
