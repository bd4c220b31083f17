#include <cstdlib>
#include <utility>

#include <partita/cuda.hpp>

#include "gpt_cuda.hpp"

gpt_cuda::gpt_cuda(std::shared_ptr<pt::processes> together, int place, bool capture, double timeout)
    : together_(std::move(together)), place_(place), capture_(capture), timeout_(timeout) {
  // torchrun; srun. A shell that salloc opened has the allocation's SLURM_NTASKS, and is a step of one task itself.
  char const* const tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  const bool is_of_many = std::getenv("WORLD_SIZE") != nullptr || (tasks != nullptr && std::atoi(tasks) > 1);
  if (together_ || !is_of_many) return;
  const pt::cuda mine = pt::cuda::from_environment();
  together_ = mine.together;
  place_ = mine.place;
}

pt::traced_for_devices gpt_cuda::trace(gpt_training const& t, std::span<pt::binding const> extents) const {
  pt::cuda devices{};
  devices.together = together_;
  devices.place = place_;
  devices.timeout_seconds = timeout_;
  devices.capture = capture_;
  return devices.trace(t, extents);
}
