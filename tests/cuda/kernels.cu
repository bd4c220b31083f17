// The kernels of a training, as a user's .cu instantiates them; that they compile is the test.
#include <partita/device/cuda/kernels.hpp>

#include "../support/models/gpt.hpp"
#include "../support/models/llama.hpp"

namespace pt = partita;
using pt::testing::models::gpt;

template struct pt::cuda_kernels<pt::training<gpt, pt::adamw, pt::clip_norm>>;
template struct pt::cuda_kernels<pt::training<pt::testing::models::llama, pt::adamw, pt::clip_norm>>;
template struct pt::cuda_kernels<pt::training<pt::in_precision<gpt, pt::bf16>, pt::adamw, pt::clip_norm>>;
