// --backend and --comm: what the devices of train_gpt are, and where: in this process or each in a process of its own.
#pragma once
#include <cstdio>
#include <cstdlib>
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
#ifdef PARTITA_EXAMPLE_CUDA
      if (comm != "threads") throw pt::error("--backend cuda: processes find each other as torchrun and Slurm start them; leave --comm out");
      cuda_ = std::getenv("WORLD_SIZE") != nullptr ? pt::cuda::from_environment() : pt::cuda{};
      if (!first() && std::freopen("/dev/null", "w", stdout) == nullptr) throw pt::error("/dev/null cannot be opened");
      return;
#else
      throw pt::error("--backend cuda: this program was built without CUDA; configure with -DPARTITA_CUDA=ON where nvcc and NCCL are");
#endif
    }
    if (comm == "threads") return;
#ifdef PARTITA_EXAMPLE_MPI
    world_.emplace();
    // What the others would print is the same.
    if (!first() && std::freopen("/dev/null", "w", stdout) == nullptr) throw pt::error("/dev/null cannot be opened");
#else
    throw pt::error("--comm " + comm + ": this program was built without MPI; on Debian, install libopenmpi-dev and configure again");
#endif
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
#ifdef PARTITA_EXAMPLE_MPI
    if (world_) return f(pt::mpi_cpu{.world = *world_, .threads = threads});
#endif
#ifdef PARTITA_EXAMPLE_CUDA
    if (cuda_) return f(*cuda_);
#endif
    return f(pt::cpu{.devices = devices, .threads = threads});
  }
  // [/devices]

 private:
#ifdef PARTITA_EXAMPLE_MPI
  std::optional<pt::mpi> world_;
#endif
#ifdef PARTITA_EXAMPLE_CUDA
  std::optional<pt::cuda> cuda_;
#endif
  pt::one_process alone_;
};
