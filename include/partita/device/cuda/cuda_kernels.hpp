// The kernels of a training, as a program's .cpp files see them: defined where kernels.hpp instantiates them.
#pragma once
#include <memory>
#include <span>

#include <partita/device/cuda/launcher.hpp>

namespace partita {

template <class Training> struct cuda_kernels {
  // Traces the training: forward, backward, update, with the launcher of each op.
  static std::unique_ptr<on_cuda::traced_training> trace(Training const& t, std::span<binding const> extents);
};

}  // namespace partita
