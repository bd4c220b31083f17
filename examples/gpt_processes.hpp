// --backend and --comm: what the devices of train_gpt are, and where: in this process or each in a process of its own.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include <partita/partita.hpp>
#ifdef PARTITA_EXAMPLE_MPI  // the build has found MPI
#include <partita/mpi.hpp>
#endif
#ifdef PARTITA_EXAMPLE_CUDA  // the build has found CUDA; gpt_kernels.cu has the kernels
#include <partita/cuda.hpp>
#endif

#include "gpt.hpp"
#include "gpt_options.hpp"

// Lives as long as there are trainers. With MPI all processes do the same; the first one speaks for them.
class gpt_processes {
 public:
  gpt_processes(std::string const& backend, std::string const& comm) {
    if (backend == "cuda") {
#ifndef PARTITA_EXAMPLE_CUDA
      throw pt::error(
          "--backend cuda: this program was built without CUDA; configure with -DPARTITA_CUDA=ON where nvcc and NCCL are");
#endif
    }
    if (comm == "mpi") {
#ifdef PARTITA_EXAMPLE_MPI
      world_ = std::make_shared<pt::mpi>();
#else
      throw pt::error("--comm " + comm +
                      ": this program was built without MPI; on Debian, install libopenmpi-dev and configure again");
#endif
    }
#ifdef PARTITA_EXAMPLE_CUDA
    if (backend == "cuda") {
      cuda_ = comm != "mpi" && std::getenv("WORLD_SIZE") != nullptr ? pt::cuda::from_environment() : pt::cuda{};
#ifdef PARTITA_EXAMPLE_MPI
      if (world_) {  // NCCL between the GPUs; MPI for what processes tell each other, NCCL's ids among it
        cuda_->together = world_;
        cuda_->first_device = world_->local_rank();
      }
#endif
    }
#endif
    // What the others would print is the same.
    if (!first() && std::freopen("/dev/null", "w", stdout) == nullptr) throw pt::error("/dev/null cannot be opened");
  }

  bool first() { return together().rank() == 0; }
  bool are_many() { return together().size() > 1; }
  pt::processes& together() {
#ifdef PARTITA_EXAMPLE_MPI
    if (world_) return *world_;
#endif
#ifdef PARTITA_EXAMPLE_CUDA
    if (cuda_ && cuda_->together) return *cuda_->together;
#endif
    return alone_;
  }
  // f(devices that a trainer is given), of a plan for so many.
  // [devices]
  template <class F> auto with_devices(int devices, int threads, F f) {
#ifdef PARTITA_EXAMPLE_CUDA
    if (cuda_) return f(*cuda_);
#endif
#ifdef PARTITA_EXAMPLE_MPI
    if (world_) return f(pt::mpi_cpu{.world = *world_, .threads = threads});
#endif
    return f(pt::cpu{.devices = devices, .threads = threads});
  }
  // [/devices]

 private:
#ifdef PARTITA_EXAMPLE_MPI
  std::shared_ptr<pt::mpi> world_;
#endif
#ifdef PARTITA_EXAMPLE_CUDA
  std::optional<pt::cuda> cuda_;
#endif
  pt::one_process alone_;
};
