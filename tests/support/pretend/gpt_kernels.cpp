// The kernels of train_gpt --backend cuda for a pretended machine, and the machine: of 8 GPUs.
#include <cstdio>

#include <partita/device/cuda/cuda_kernels.hpp>

#include "../../../examples/gpt.hpp"
#include "cuda.hpp"

namespace partita {

template <> std::unique_ptr<on_cuda::traced_training> cuda_kernels<gpt_training>::trace(gpt_training const& t,
                                                                                        std::span<binding const> extents) {
  return std::make_unique<on_cuda::detail::traced_with<testing::pretend::launch, gpt_training>>(t, extents);
}

}  // namespace partita

namespace {
// Says in the end what trains_alike looks for.
struct telling_machine : partita::testing::pretend::machine {
  telling_machine() : machine({.devices = 8}) {}
  ~telling_machine() {
    int graphs = 0;
    for (int d = 0; d < size(); ++d) graphs += at(d).graphs_launched();
    std::fprintf(stderr, "pretended GPUs: %d steps as graphs\n", graphs);
  }
};
telling_machine gpus;
}  // namespace
