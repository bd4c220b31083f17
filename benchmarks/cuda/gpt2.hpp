// GPT-2 as it is trained here on GPUs: computed in bf16, parameters and optimizer state in f32.
#pragma once
#include <partita/ops/ops.hpp>
#include <partita/planning.hpp>

#include "../models/gpt.hpp"

namespace benchmark_cuda {

namespace pt = partita;
using model = benchmark_model::gpt<pt::f32>;
using training = pt::training<pt::in_precision<model, pt::bf16>, pt::adamw, pt::clip_norm>;

}  // namespace benchmark_cuda
