// --backend and --comm: what the devices of train_gpt are, and where: in this process or each in a process of its own.
#pragma once
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <partita/partita.hpp>
#ifdef PARTITA_EXAMPLE_MPI  // the build has found MPI
#include <partita/mpi.hpp>
#endif

#include "gpt.hpp"
#include "gpt_cuda/gpt_cuda.hpp"
#include "gpt_options.hpp"

// Lives as long as there are trainers. With MPI all processes do the same; the first one speaks for them.
class gpt_processes {
 public:
  // `timeout`: in seconds, for GPUs to make progress and for processes of MPI to be there.
  gpt_processes(std::string const& backend, std::string const& comm, bool capture, double timeout) {
    if (comm == "mpi") {
#ifdef PARTITA_EXAMPLE_MPI
      world_ = std::make_shared<pt::mpi>(pt::mpi_options{.timeout_seconds = timeout});
#else
      throw pt::error("--comm " + comm +
                      ": this program was built without MPI; on Debian, install libopenmpi-dev and configure again");
#endif
    }
    // NCCL between the GPUs; MPI, or TCP, for what processes tell each other, NCCL's ids among it.
    if (backend == "cuda") {
#ifdef PARTITA_EXAMPLE_MPI
      if (world_) cuda_.emplace(world_, world_->local_rank(), capture, timeout);
#endif
      if (!cuda_) cuda_.emplace(nullptr, 0, capture, timeout);
    }
    // What the others would print is the same.
    if (!first() && std::freopen("/dev/null", "w", stdout) == nullptr) throw pt::error("/dev/null cannot be opened");
  }

  bool first() { return together().rank() == 0; }
  bool are_many() { return together().size() > 1; }
  // Where `devices` are, behind their number.
  std::string place(int devices) {
    const int count = together().size();
    return count == 1 ? "" : count == devices ? ", a process each" : " in " + std::to_string(count) + " processes";
  }
  pt::processes& together() {
#ifdef PARTITA_EXAMPLE_MPI
    if (world_) return *world_;
#endif
    if (cuda_ && cuda_->together()) return *cuda_->together();
    return alone_;
  }
  // f(devices that a trainer is given), of a plan for so many.
  // [devices]
  template <class F> auto with_devices(int devices, int threads, F f) {
    if (cuda_) return f(*cuda_);
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
  std::optional<gpt_cuda> cuda_;
  pt::one_process alone_;
};
