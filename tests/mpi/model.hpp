// The models of the tests over MPI, in double so that a choice of expert does not turn on rounding. They are compiled once, in
// model.cpp.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <partita/mpi.hpp>
#include <partita/train/engine.hpp>
#include <partita/train/thread_devices.hpp>

#include "../support/models/axes.hpp"

namespace partita::testing {

// Attention and a mixture of experts; a GPT; one that runs several times before it is differentiated.
enum class which_model { mixture, gpt, recycled };

class model_of_processes {
 public:
  explicit model_of_processes(models::sizes const& sizes = {.samples = 8}, which_model which = which_model::mixture);
  ~model_of_processes();
  graph_data const& graph() const;

  using plan_maker = std::function<void(plan_base&)>;
  // On devices of pt::cpu or pt::mpi_cpu.
  template <class Devices> std::unique_ptr<detail::engine> train(plan_maker const& policy, Devices const& devices,
                                                                 trainer_options const& options = {}) const {
    return train(policy, device_source_of(devices, launchers()), options);
  }

 private:
  std::unique_ptr<detail::engine> train(plan_maker const&, std::unique_ptr<device_source>, trainer_options const&) const;
  std::span<on_cpu::launcher const> launchers() const;
  struct traced;
  template <class Model> struct traced_as;
  std::unique_ptr<traced> traced_;
};

// Words and targets of a step; one target in four counts nowhere, so that pieces of a batch hold different numbers.
struct batch_of_words {
  std::vector<std::int32_t> tokens, targets;
  batch_of_words(graph_data const& g, unsigned seed);
  std::vector<feed> feeds() const { return {{"tokens", tokens}, {"targets", targets}}; }
};

// What went wrong in a process, by name; called with the arguments behind --fault. Returns the process's exit code.
int run_fault(mpi& world, std::string const& name);

}  // namespace partita::testing
