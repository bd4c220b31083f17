// For programs that are compiled with this folder before include/: CUDA's runtime is the pretended machine's.
#pragma once
#include <support/pretend/cuda.hpp>

namespace partita::on_cuda {
using runtime = testing::pretend::cuda;
}  // namespace partita::on_cuda
