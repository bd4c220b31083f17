// The device of a process that is one rank of many, with MPI between them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <partita/comm/mpi/world.hpp>
#include <partita/core/list.hpp>
#include <partita/core/words.hpp>
#include <partita/train/cpu_device.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// A CPU device in every process of `world`: `pt::mpi_cpu{world}`. The other fields are those of pt::cpu.
struct mpi_cpu {
  mpi& world;
  int devices = 0;  // in the first so many processes, of which the plan may leave some idle; 0: in every process, none idle
  int threads = 0;  // that compute; 0: the cores of the machine shared out among its processes, at least one each
  int lanes = 0;
  bool record_times = false;
};

namespace on_cpu {

class mpi_devices final : public local_devices {
 public:
  mpi_devices(mpi_cpu const& wanted, int threads, graph_data const& graph, std::span<launcher const> launchers,
              std::span<std::uint64_t const> keys, list<list<program>> sets)
      : sets_(std::move(sets)), record_times_(wanted.record_times) {
    if (sets_.empty() || sets_[0].empty()) {  // an idle process: it takes part in making communicators
      for (std::size_t s = 0; s < sets_.size(); ++s) communicators_.push_back(wanted.world.communicator({}));
      return;
    }
    here_.push_back(wanted.world.rank());
    list<program const*> programs;
    list<executor_options> options;
    list<mpi_communicator*> communicators;
    for (list<program> const& set : sets_) {
      programs.push_back(&set[0]);
      const int lanes = wanted.world.size() == 1
                            ? 1
                            : choose_lanes(wanted.lanes, wanted.world.neighbours(), threads, wanted.world.cores(), set);
      options.push_back({lanes == 2, wanted.world.cores_to_spare(), record_times_});
      communicators_.push_back(wanted.world.communicator(set[0].groups));
      communicators.push_back(communicators_.back().get());
    }
    device_ = std::make_unique<cpu_device<mpi_communicator>>(programs, graph, launchers, keys, communicators, threads, options);
  }

  std::span<int const> here() const override { return here_; }
  program const& what(std::size_t set, int) const override { return sets_[set][0]; }

  void run(std::size_t set, step_context const& step) override {
    guarded(set, [&](auto& executor) { executor.run(step); });
  }
  non_finite first_non_finite(std::size_t set, step_context const& step) override {
    non_finite found;
    guarded(set, [&](auto& executor) { found = executor.first_non_finite(step); });
    return found;
  }
  void on_each(std::function<void(int)> const& f) override {
    for (int rank : here_) f(rank);
  }
  void write(std::size_t set, int, outside const& o, dtype type, void const* whole) override {
    device_->write(set, o, type, whole);
  }
  void read(std::size_t set, int, outside const& o, dtype type, void* whole) const override {
    device_->read(set, o, type, whole);
  }
  void make(std::size_t set, int, outside const& o, dtype type, row_maker const& rows) override {
    device_->make(set, o, type, rows);
  }
  device_memory memory_of(int) const override { return device_->memory(); }
  traffic_counts traffic(int, std::size_t set) const override { return communicators_[set]->traffic(); }
  std::span<timing const> times(int, std::size_t set) const override { return device_->of(set).times(); }

 private:
  // A rank that others stopped says what they said: they name who failed first.
  template <class F> void guarded(std::size_t set, F f) {
    if (!failed_.empty()) throw_error({"the devices run no more, because a step failed: ", failed_});
    if (here_.empty()) return;
    auto& executor = device_->of(set);
    if (record_times_) executor.set_origin(std::chrono::steady_clock::now());
    try {
      f(executor);
    } catch (std::exception const& e) {
      failed_ = e.what();
      try {
        if (executor.failure()) std::rethrow_exception(executor.failure());
      } catch (aborted const& stopped) {
        failed_ = stopped.what();
        throw;
      } catch (...) {}
      throw;
    }
  }

  list<list<program>> sets_;  // each of one program, or of none
  list<int> here_;            // the rank of this process, or none
  bool record_times_;
  list<std::unique_ptr<mpi_communicator>> communicators_;  // by set
  std::unique_ptr<cpu_device<mpi_communicator>> device_;
  std::string failed_;
};

class mpi_source final : public device_source {
 public:
  mpi_source(mpi_cpu const& wanted, std::span<launcher const> launchers) : wanted_(wanted), launchers_(launchers) {
    check_cpu("pt::mpi_cpu", wanted.threads, wanted.lanes);
    if (wanted.devices < 0)
      throw_error({"pt::mpi_cpu{.devices = ", wanted.devices, "}: give 0 for one in every process, or more"});
    const int mine = wanted.threads > 0 ? wanted.threads : std::max(1, wanted.world.cores() / wanted.world.neighbours());
    // Scratch is planned alike on all hosts, whose cores may differ.
    const list<int> all = gather(wanted_.world, mine);
    threads_ = *std::min_element(all.begin(), all.end());
  }
  processes& together() override { return wanted_.world; }
  void fit(int count) override {
    used_ = count;
    if (wanted_.devices > wanted_.world.size())
      throw_error({"pt::mpi_cpu{.devices = ", wanted_.devices, "} is more than the processes that MPI has started, ",
                   wanted_.world.size()});
    if (count <= wanted_.devices) return;
    if (wanted_.devices > 0)
      throw_error(
          {"the plan is for ", count, " devices, there are ", wanted_.devices, ": give pt::mpi_cpu{.devices = ", count, "}"});
    if (count != wanted_.world.size())
      throw_error({"the plan is for ", count, count == 1 ? " device" : " devices", " and MPI has started ", wanted_.world.size(),
                   wanted_.world.size() == 1 ? " process" : " processes", ", one for each device: start it with mpirun -n ",
                   count});
  }
  list<int> here() const override { return wanted_.world.rank() < used_ ? list<int>{wanted_.world.rank()} : list<int>{}; }
  int workers() const override { return threads_; }
  std::size_t workspace(op_entry const& e, int op, std::size_t const* extents) const override {
    return launchers_[static_cast<std::size_t>(op)].workspace(*e.info, extents, static_cast<std::size_t>(threads_));
  }
  std::unique_ptr<local_devices> make(graph_data const& graph, std::span<std::uint64_t const> keys,
                                      list<list<program>> sets) override {
    return std::make_unique<mpi_devices>(wanted_, threads_, graph, launchers_, keys, std::move(sets));
  }

 private:
  mpi_cpu wanted_;
  std::span<launcher const> launchers_;
  int threads_ = 1, used_ = 0;
};

}  // namespace on_cpu

inline std::unique_ptr<device_source> device_source_of(mpi_cpu const& wanted, std::span<on_cpu::launcher const> launchers) {
  return std::make_unique<on_cpu::mpi_source>(wanted, launchers);
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
