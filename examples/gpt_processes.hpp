// --comm: where the devices of train_gpt are, as threads of this process or each in a process of its own.
#pragma once
#include <cstdio>
#include <optional>
#include <string>

#include <partita/partita.hpp>
#ifdef PARTITA_EXAMPLE_MPI  // the build has found MPI
#include <partita/mpi.hpp>
#endif

#include "gpt.hpp"
#include "gpt_options.hpp"

// Lives as long as there are trainers. With MPI all processes do the same; the first one speaks for them.
class gpt_processes {
 public:
  explicit gpt_processes(std::string const& comm) {
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
    return alone_;
  }
  // f(devices that a trainer is given), of a plan for so many.
  // [devices]
  template <class F> auto with_devices(int devices, int threads, F f) {
#ifdef PARTITA_EXAMPLE_MPI
    if (world_) return f(pt::mpi_cpu{.world = *world_, .threads = threads});
#endif
    return f(pt::cpu{.devices = devices, .threads = threads});
  }
  // [/devices]

 private:
#ifdef PARTITA_EXAMPLE_MPI
  std::optional<pt::mpi> world_;
#endif
  pt::one_process alone_;
};
