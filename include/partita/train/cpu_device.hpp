// One device on the CPU: workers, memory, and an executor for its program of every set.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <partita/core/list.hpp>
#include <partita/core/words.hpp>
#include <partita/device/cpu/cpu.hpp>
#include <partita/device/cpu/executor.hpp>
#include <partita/device/cpu/memory.hpp>
#include <partita/device/cpu/outside.hpp>
#include <partita/train/devices.hpp>
#include <partita/train/machine.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::on_cpu {

// Throws error where no CPU device can be made of these numbers of `what`.
inline void check_cpu(std::string_view what, int threads, int lanes) {
  if (threads < 0)
    throw_error({what, "{.threads = ", threads, "}: give the threads that a device computes with, or 0 to share out the cores"});
  if (lanes < 0 || lanes > 2) throw_error({what, "{.lanes = ", lanes, "}: give 1 or 2, or 0 for what is faster here"});
}

// The lanes of a device that shares `cores` cores with `neighbours` devices in all, each with `threads` threads. `set`:
// the programs of those of them that this process drives.
//
// A second lane pays where a core is free for it. Where none is, it costs two switches of threads around each
// communication: measured on 2 cores, an all-reduce of 64 bytes between 2 devices takes 2.5 microseconds in one lane
// and 5 in two, 20 to 40 when others want the cores; with ops of 0.5 ms a step takes the same. A send, however, lasts
// until its receiver comes: a pipeline of 2 stages (1F1B, 8 micro-batches) is 37% over its ideal time in one lane and
// 7% in two.
inline int choose_lanes(int wanted, int neighbours, int threads, int cores, list<program> const& set) {
  if (wanted > 0) return wanted;
  if (neighbours * threads < cores) return 2;
  for (program const& p : set)
    for (exchange_call const& e : p.exchanges)
      if (e.sends.empty() != e.receives.empty()) return 2;
  return 1;
}

// What is given by reference or span outlives the device, and so does each of `communicators`, one a set. Executors end
// before the memory they run on.
template <class Communicator> class cpu_device {
 public:
  using executor = device_executor<Communicator>;

  cpu_device(std::span<program const* const> programs, graph_data const& graph, std::span<launcher const> launchers,
             std::span<std::uint64_t const> keys, std::span<Communicator* const> communicators, int threads,
             std::span<executor_options const> options)
      : programs_(programs),
        team_(threads),
        state_(largest(programs, &program::state_bytes)),
        arena_(largest(programs, &program::arena_bytes)) {
    for (std::size_t s = 0; s < programs.size(); ++s)
      executors_.push_back(std::make_unique<executor>(*programs[s], graph, launchers, keys, state_.bytes(), arena_.bytes(),
                                                      *communicators[s], team_, options[s]));
  }

  executor& of(std::size_t set) const { return *executors_[set]; }
  std::byte* state() const { return state_.data(); }
  std::byte* arena() const { return arena_.data(); }
  std::byte* address(std::size_t set, reference const& at) const {
    return on_cpu::address(*programs_[set], at, state(), arena());
  }
  workers& team() { return team_; }

  void write(std::size_t set, outside const& o, dtype type, void const* whole) const {
    copy_in(o, type, whole, address(set, o.at));
  }
  void read(std::size_t set, outside const& o, dtype type, void* whole) const { copy_out(o, type, address(set, o.at), whole); }
  // By the workers: a page lies near the thread that writes it first.
  void make(std::size_t set, outside const& o, dtype type, local_devices::row_maker const& rows) {
    std::byte* const to = address(set, o.at);
    if (o.rank == 0) return rows(0, 1, to);
    std::size_t row = 1;  // elements
    for (int a = 1; a < o.rank; ++a) row *= o.extents[a];
    team_.parallel(o.extents[0], 1 + 16384 / std::max<std::size_t>(row, 1),
                   [&](std::size_t begin, std::size_t end) { rows(begin, end, to + begin * row * size_of(type)); });
  }
  device_memory memory() const { return {state_.reserved(), arena_.reserved(), state_.resident(), arena_.resident()}; }

 private:
  static std::size_t largest(std::span<program const* const> programs, std::size_t program::*bytes) {
    std::size_t most = 0;
    for (program const* p : programs) most = std::max(most, p->*bytes);
    return most;
  }
  list<program const*> programs_;  // by set
  workers team_;
  on_cpu::memory state_, arena_;
  list<std::unique_ptr<executor>> executors_;  // by set
};

}  // namespace partita::on_cpu

#include <partita/core/end_planning_code.hpp>
