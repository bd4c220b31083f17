// CUDA devices, with NCCL between them, for trainers: `pt::trainer<training> t{plan, pt::cuda{}, ...}`. A program's .cpp
// includes this; its kernels are instantiated in one .cu (device/cuda/kernels.hpp). Links partita::cuda.
#pragma once
#include <memory>
#include <span>
#include <utility>

#include <partita/comm/nccl/library.hpp>
#include <partita/comm/sockets/processes.hpp>
#include <partita/device/cuda/cuda_kernels.hpp>
#include <partita/device/cuda/runtime.hpp>
#include <partita/train/cuda_devices.hpp>
#include <partita/train/trainer.hpp>

namespace partita {

// In one process rank r of a plan is the r-th device that CUDA names (CUDA_VISIBLE_DEVICES says which).
struct cuda : on_cuda::cuda_options {
  std::shared_ptr<processes> together{};  // other processes that train with this one; a pt::mpi is one

  // One of WORLD_SIZE processes, as torchrun and Slurm start them; LOCAL_RANK is its place on its machine. Throws error that
  // names the variable which is missing or wrong.
  static cuda from_environment() {
    cuda made;
    made.together = std::make_shared<socket_processes>(meeting_place::from_environment());
    made.place = meeting_place::local_rank_from_environment();
    return made;
  }

  template <class Training> traced_for_devices trace(Training const& t, std::span<binding const> extents) const {
    std::shared_ptr<on_cuda::traced_training> traced = cuda_kernels<Training>::trace(t, extents);
    traced_for_devices made;
    made.losses = traced->losses;
    made.source = std::make_unique<on_cuda::cuda_source<on_cuda::runtime, on_cuda::nccl_library>>(*this, *traced, together);
    made.graph = std::shared_ptr<graph_data const>(traced, traced->graph);
    return made;
  }
};

}  // namespace partita
