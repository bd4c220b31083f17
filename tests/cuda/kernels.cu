// The kernels of a training, as a user's .cu instantiates them; that they compile for every architecture is the test.
#include <partita/device/cuda/kernels.hpp>

#include "../support/models/gpt.hpp"

template struct partita::cuda_kernels<partita::training<partita::testing::models::gpt, partita::adamw, partita::clip_norm>>;
