// The devices that a trainer runs programs on, as the trainer sees them: those that this process drives, of a world
// that may have more. CPU threads, CPU processes and GPUs are models of it.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include <partita/comm/communicator.hpp>
#include <partita/comm/processes.hpp>
#include <partita/core/list.hpp>
#include <partita/grad/training.hpp>
#include <partita/model/graph_entries.hpp>
#include <partita/program/program.hpp>
#include <partita/program/step.hpp>

namespace partita {

// Bytes of one device.
struct device_memory {
  std::size_t planned_state = 0, planned_arena = 0;    // arena: of the program that needs most
  std::size_t resident_state = 0, resident_arena = 0;  // what the system has given of it
};

// A rank is a device of the world. `here` names the ranks of this process; every other function that takes a rank takes
// one of these. A set is the programs of all ranks for one purpose (training, forward only); its sets share a device's
// memory, one runs at a time.
class local_devices {
 public:
  virtual ~local_devices() = default;
  virtual std::span<int const> here() const = 0;  // ascending
  virtual program const& what(std::size_t set, int rank) const = 0;

  // Runs one set of programs on all devices of all processes. Throws error with the message of the instruction that
  // failed first; the devices run nothing after that.
  virtual void run(std::size_t set, step_context const& step) = 0;
  // Runs a set, slowly, and says where the first number arose that is not finite, of this process's ranks.
  virtual non_finite first_non_finite(std::size_t set, step_context const& step) = 0;

  // f(rank) for every rank of this process, at once where each has a thread. Throws what the lowest rank threw.
  virtual void on_each(std::function<void(int rank)> const& f) = 0;
  // The piece `o` of a program, from and to a whole row-major tensor in the memory of this process.
  virtual void write(std::size_t set, int rank, outside const& o, dtype type, void const* whole) = 0;
  virtual void read(std::size_t set, int rank, outside const& o, dtype type, void* whole) const = 0;
  // The piece `o`, dense and row-major, as `rows(begin, end, at)` makes it: rows [begin, end) of its first axis from `at`
  // on. Several calls run at once. A scalar has one row.
  using row_maker = std::function<void(std::size_t begin, std::size_t end, std::byte* at)>;
  virtual void make(std::size_t set, int rank, outside const& o, dtype type, row_maker const& rows) = 0;

  virtual device_memory memory_of(int rank) const = 0;
  // Sent since the beginning.
  virtual traffic_counts traffic(int rank, std::size_t set) const = 0;
  // By instruction, of the last step of the set; empty unless they are recorded.
  virtual std::span<timing const> times(int rank, std::size_t set) const = 0;
};

// A training traced for devices whose kernels are compiled elsewhere, and where its devices come from.
class device_source;
struct traced_for_devices {
  std::shared_ptr<graph_data const> graph;
  growing<loss_entry> losses;
  std::unique_ptr<device_source> source;
};

// Where a trainer gets its devices from, once it knows what its plan needs: `pt::cpu`, `pt::mpi_cpu`, ... are turned
// into one by device_source_of.
class device_source {
 public:
  virtual ~device_source() = default;
  virtual processes& together() = 0;
  // The plan is for so many devices. Throws error where there are not as many, saying what to give. Called first.
  virtual void fit(int devices) = 0;
  virtual list<int> here() const = 0;  // the ranks of this process, ascending
  // Threads that a device computes with, for which scratch is planned: the same in all processes.
  virtual int workers() const = 0;
  // Whether chains of ops are lowered to run tile by tile; what makes chains of its own, as CUDA devices do, keeps to `wanted`.
  virtual bool fuses(bool wanted) { return wanted; }
  // Puts instructions next to each other that the devices run together. Compute alone moves, and what it depends on stays ahead.
  virtual void arrange(program&, graph_data const&) const {}
  // Bytes of scratch that a piece of an op with these extents needs.
  virtual std::size_t workspace(op_entry const& e, int op, std::size_t const* extents) const = 0;
  // sets[s][i]: the program of the i-th rank of `here`. Graph and keys outlive the devices.
  virtual std::unique_ptr<local_devices> make(graph_data const& graph, std::span<std::uint64_t const> keys,
                                              list<list<program>> sets) = 0;
};

}  // namespace partita
