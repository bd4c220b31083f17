#include <partita/device/cuda/kernels.hpp>

#include "cuda_model.hpp"

template struct partita::cuda_kernels<linear_training>;
