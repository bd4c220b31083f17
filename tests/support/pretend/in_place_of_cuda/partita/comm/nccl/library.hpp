// For programs that are compiled with this folder before include/: NCCL is the pretended machine's.
#pragma once
#include <support/pretend/nccl.hpp>

namespace partita::on_cuda {
using nccl_library = testing::pretend::nccl;
}  // namespace partita::on_cuda
