// The GPUs of train_gpt --backend cuda: gpus.cpp is built where CUDA is found, none.cpp where it is not.
#pragma once
#include <memory>
#include <optional>
#include <span>

#include <partita/partita.hpp>

#include "../gpt.hpp"

// What a trainer is given for devices.
class gpt_cuda {
 public:
  // One of the processes of `together`, the `place`-th of its machine. Without any: one of those that torchrun or Slurm
  // start, where they say so in the environment, else alone. `capture`: a step as a CUDA graph, where each process has one
  // GPU. Throws pt::error where the program was built without CUDA.
  gpt_cuda(std::shared_ptr<pt::processes> together, int place, bool capture, double timeout);

  std::shared_ptr<pt::processes> const& together() const { return together_; }
  pt::traced_for_devices trace(gpt_training const& t, std::span<pt::binding const> extents) const;

 private:
  std::shared_ptr<pt::processes> together_;  // null: this process alone
  int place_ = 0;                            // among the processes of this machine
  bool capture_ = true;
  double timeout_ = 300;  // seconds in which communication has to make progress
};
