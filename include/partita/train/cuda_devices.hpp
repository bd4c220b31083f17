// The CUDA devices of one process: a thread drives each, NCCL moves what goes between them.
//
// `Api` and `Library` stand for CUDA and NCCL (device/cuda/runtime.hpp, comm/nccl/library.hpp). Tests put others in their
// place, so that all of this runs on machines without a GPU.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <partita/comm/nccl/communicator.hpp>
#include <partita/comm/processes.hpp>
#include <partita/core/list.hpp>
#include <partita/core/words.hpp>
#include <partita/device/cpu/outside.hpp>
#include <partita/device/cuda/arrange.hpp>
#include <partita/device/cuda/executor.hpp>
#include <partita/train/device_threads.hpp>
#include <partita/train/devices.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::on_cuda {

// What a trainer is given for CUDA devices; pt::cuda is one.
struct cuda_options {
  int devices = 0;               // of this process; 0: as many as it has ranks
  int first_device = 0;          // as CUDA counts: where the devices begin that the processes of this machine share
  int place = 0;                 // of this process among those of its machine: the devices are shared out in their order
  bool capture = true;           // a step is captured as a graph, once, and launched whole: where each process has one device
  double timeout_seconds = 300;  // for which no communication may make progress before the step is given up, or NCCL not return
};

// Bytes that a device's free memory has lost, by what took them: state and arena as planned, NCCL's communicators, and what
// executors hold (the workspace of products, a few numbers, CUDA's modules as far as they are loaded).
struct held_memory {
  std::size_t planned = 0, communicators = 0, executors = 0;
  std::size_t all() const { return planned + communicators + executors; }
};

template <class Api, class Library> class cuda_devices final : public local_devices {
 public:
  using communicator_type = nccl_communicator<Library>;
  using executor = device_executor<Api, communicator_type>;

  // sets[s][i]: the program of the i-th rank of `here`. The first set is of training, the others of evaluation. All processes
  // make their devices together. What is given by reference or span outlives the object.
  cuda_devices(cuda_options const& wanted, graph_data const& graph, kernels_of_training const& kernels,
               std::span<std::uint64_t const> keys, list<list<program>> sets, list<int> here, int world_size, processes& together)
      : sets_(std::move(sets)), ranks_(std::move(here)), together_(&together), devices_(ranks_.size()), threads_(ranks_.size()) {
    for (list<program> const& set : sets_)
      worlds_.push_back(std::make_shared<nccl_world>(world_size, set[0].groups, ranks_, wanted.timeout_seconds));
    for (auto const& world : worlds_) nccl_world::join(world, together);
    // NCCL wants a call captured on all its ranks or on none, and only in processes of one device.
    captures_ = !any(together, !wanted.capture || ranks_.size() > 1);
    if (world_size > 1) set_nccl_variables();  // while this thread is alone with the environment
    try {
      // A rank that fails before another waits for it in NCCL is missed by all.
      together_on_each("memory", [&](std::size_t i) { allocate(i, wanted); });
      if (world_size > 1) together_on_each("NCCL", [](std::size_t) { prepare_nccl<Library>(); });
      list<list<unique_id_bytes>> ids;
      for (auto const& world : worlds_) ids.push_back(make_unique_ids<Library>(*world, ranks_, together));
      together_on_each("communicators", [&](std::size_t i) {
        try {
          connect(i, ids, graph);
        } catch (std::exception const& e) {  // ranks of other processes may wait for this one
          together.abort(e.what());
          throw;
        }
      });
      together_on_each("kernels", [&](std::size_t i) { make_ready(i, wanted, graph, kernels, keys); });
    } catch (...) {
      end();
      throw;
    }
  }
  cuda_devices(cuda_devices const&) = delete;
  cuda_devices& operator=(cuda_devices const&) = delete;
  // Where an exception takes them away other processes may wait for their ranks, and hear that they do so in vain.
  ~cuda_devices() override {
    if (std::uncaught_exceptions() > exceptions_before_ && together_->size() > 1)
      for (auto const& world : worlds_) world->abort("an exception ended it");
    end();
  }

  std::span<int const> here() const override { return ranks_; }
  program const& what(std::size_t set, int rank) const override { return sets_[set][index(rank)]; }

  void run(std::size_t set, step_context const& step) override {
    if (!failed_.empty()) throw_error({"the devices run no more, because a step failed: ", failed_});
    run_on_each(set, [&](executor& mine, std::size_t) { mine.run(step); });
  }
  non_finite first_non_finite(std::size_t set, step_context const& step) override {
    list<non_finite> found(ranks_.size());
    run_on_each(set, [&](executor& mine, std::size_t rank) { found[rank] = mine.first_non_finite(step); });
    non_finite first;
    for (non_finite& each : found)
      if (!each.where.empty() && (first.where.empty() || each.when < first.when)) first = std::move(each);
    return first;
  }

  void on_each(std::function<void(int)> const& f) override {
    threads_.on_each([&](std::size_t i) { f(ranks_[i]); });
    threads_.rethrow_lowest();
  }
  void write(std::size_t set, int rank, outside const& o, dtype type, void const* whole) override {
    threads_.on(index(rank), [&] {
      device& d = *devices_[index(rank)];
      std::byte* const piece = d.room(elements(o) * size_of(type));
      on_cpu::copy_in(o, type, whole, piece);
      d.put(address(set, rank, o.at), piece, elements(o) * size_of(type));
    });
  }
  void read(std::size_t set, int rank, outside const& o, dtype type, void* whole) const override {
    threads_.on(index(rank), [&] {
      device& d = *devices_[index(rank)];
      const std::size_t bytes = elements(o) * size_of(type);
      std::byte* const piece = d.room(bytes);
      d.get(piece, address(set, rank, o.at), bytes);
      on_cpu::copy_out(o, type, piece, whole);
    });
  }
  void make(std::size_t set, int rank, outside const& o, dtype type, row_maker const& rows) override {
    threads_.on(index(rank), [&] {
      device& d = *devices_[index(rank)];
      const std::size_t bytes = elements(o) * size_of(type);
      std::byte* const piece = d.room(bytes);
      rows(0, o.rank == 0 ? 1 : o.extents[0], piece);
      d.put(address(set, rank, o.at), piece, bytes);
    });
  }

  partita::device_memory memory_of(int rank) const override {
    device const& d = *devices_[index(rank)];
    return {d.state.size(), d.arena.size(), d.state.size(), d.held.all() - std::min(d.held.all(), d.state.size())};
  }
  // When the devices were ready.
  held_memory held(int rank) const { return devices_[index(rank)]->held; }
  traffic_counts traffic(int rank, std::size_t set) const override {
    return devices_[index(rank)]->communicators[set]->traffic();
  }
  std::span<timing const> times(int, std::size_t) const override { return {}; }
  // Of kernels, in a step.
  std::size_t launches(std::size_t set, int rank) const { return devices_[index(rank)]->executors[set]->launches(); }
  // Instructions that matrix products and chains take in.
  std::size_t taken_in(std::size_t set, int rank) const { return devices_[index(rank)]->executors[set]->taken_in(); }
  std::span<chain_finder::chain const> chains(std::size_t set, int rank) const {
    return devices_[index(rank)]->executors[set]->chains();
  }

 private:
  // What one thread makes, uses and ends.
  struct device {
    device_memory<Api> state, arena;
    products<Api> multiplies;
    host_memory<Api> staging;
    std::size_t free = 0;  // bytes, when last looked at
    held_memory held;
    list<std::unique_ptr<communicator_type>> communicators;
    list<std::unique_ptr<executor>> executors;

    std::byte* room(std::size_t bytes) {
      if (staging.size() < bytes) staging = host_memory<Api>(bytes);
      return staging.data();
    }
    // In the stream of steps, so that it comes after the one before.
    void put(void* to, void const* from, std::size_t bytes) {
      const auto stream = executors[0]->stream_of(lane::compute);
      check<Api>(Api::copy_to_device(to, from, bytes, stream), "a copy to the device");
      check<Api>(Api::synchronize(stream), "a copy to the device");
    }
    void get(void* to, void const* from, std::size_t bytes) {
      const auto stream = executors[0]->stream_of(lane::compute);
      check<Api>(Api::copy_to_host(to, from, bytes, stream), "a copy from the device");
      check<Api>(Api::synchronize(stream), "a copy from the device");
    }
  };

  template <class F> void run_on_each(std::size_t set, F f) {
    threads_.on_each([&](std::size_t rank) { f(*devices_[rank]->executors[set], rank); });
    std::exception_ptr first;
    bool first_is_aborted = true;
    auto when = std::chrono::steady_clock::time_point::max();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::exception_ptr failure = threads_.failure(rank);
      if (!failure) continue;
      executor const& each = *devices_[rank]->executors[set];
      const bool stopped = stopped_by_another(each.failure());
      if (first && (stopped > first_is_aborted || (stopped == first_is_aborted && each.failed_at() >= when))) continue;
      first = failure;
      first_is_aborted = stopped;
      when = each.failed_at();
    }
    if (!first) return;
    try {
      std::rethrow_exception(first);
    } catch (std::exception const& e) {
      failed_ = e.what();
      if (!first_is_aborted) together_->abort(failed_);
      throw;
    }
  }

  std::size_t index(int rank) const {
    return static_cast<std::size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
  }
  static std::size_t elements(outside const& o) {
    std::size_t n = 1;
    for (int a = 0; a < o.rank; ++a) n *= o.extents[a];
    return n;
  }
  std::byte* address(std::size_t set, int rank, reference const& at) const {
    device const& d = *devices_[index(rank)];
    return on_cpu::address(what(set, rank), at, d.state.data(), d.arena.data());
  }

  // f on every thread of every process. Throws on all where one has failed.
  template <class F> void together_on_each(std::string_view what, F f) {
    threads_.on_each(f);
    bool failed = false;
    for (std::size_t i = 0; i < ranks_.size(); ++i) failed = failed || threads_.failure(i) != nullptr;
    const bool any_failed = any(*together_, failed);
    threads_.rethrow_lowest();
    if (any_failed) throw_error({"another process could not make its devices ready (", what, "); it says why"});
  }
  void allocate(std::size_t i, cuda_options const& wanted) {
    const std::string me = words({"rank ", ranks_[i]});
    check<Api>(Api::set_device(wanted.first_device + static_cast<int>(i)), me + ", its device");
    devices_[i] = std::make_unique<device>();
    device& d = *devices_[i];
    std::size_t state = 0, arena = 0;
    (void)lost(i);
    for (list<program> const& set : sets_) {
      state = std::max(state, set[i].state_bytes);
      arena = std::max(arena, set[i].arena_bytes);
    }
    d.state = device_memory<Api>(state, me + "'s parameters and optimizer state");
    d.arena = device_memory<Api>(arena, me + "'s arena, which the plan needs beside parameters and state");
    d.held.planned = lost(i);
  }
  void connect(std::size_t i, list<list<unique_id_bytes>> const& ids, graph_data const& graph) {
    for (std::size_t s = 0; s < sets_.size(); ++s)
      devices_[i]->communicators.push_back(
          std::make_unique<communicator_type>(*worlds_[s], ids[s], ranks_[i], [this, i, s, of = &graph](int group) {
            for (instruction const& each : sets_[s][i].instructions)
              if (is_communication(each.kind) && group_of(sets_[s][i], each) == group) return words_of(sets_[s][i], *of, each);
            return std::string();
          }));
    devices_[i]->held.communicators = lost(i);
  }
  void make_ready(std::size_t i, cuda_options const& wanted, graph_data const& graph, kernels_of_training const& kernels,
                  std::span<std::uint64_t const> keys) {
    device& d = *devices_[i];
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      const executor_options how{.capture = captures_, .timeout_seconds = wanted.timeout_seconds};
      try {
        d.executors.push_back(std::make_unique<executor>(sets_[s][i], graph, kernels, keys, d.state.data(), d.arena.data(),
                                                         *d.communicators[s], d.multiplies, s == 0, how));
      } catch (error const& e) {  // what belongs to an op has said whose
        const std::string rank = words({"rank ", ranks_[i], ", "});
        if (std::string_view(e.what()).starts_with(rank)) throw;
        throw_error({rank, "making its program ready: ", e.what()});
      }
    }
    d.held.executors = lost(i);
  }
  // Bytes of the device's free memory, since the last call.
  std::size_t lost(std::size_t i) {
    std::size_t now = 0, all = 0;
    check<Api>(Api::memory(now, all), words({"rank ", ranks_[i], ", its memory"}));
    const std::size_t before = std::exchange(devices_[i]->free, now);
    return before - std::min(before, now);
  }
  // Everything of a device ends on its thread, executors before the memory they use.
  void end() {
    threads_.on_each([this](std::size_t rank) {
      if (!devices_[rank]) return;
      devices_[rank]->executors.clear();
      devices_[rank]->communicators.clear();
      devices_[rank].reset();
    });
  }
  static bool stopped_by_another(std::exception_ptr const& failure) {
    if (!failure) return false;
    try {
      std::rethrow_exception(failure);
    } catch (aborted const&) { return true; } catch (...) {
      return false;
    }
  }

  list<list<program>> sets_;
  list<int> ranks_;  // of this process
  processes* together_;
  bool captures_ = false;
  list<std::shared_ptr<nccl_world>> worlds_;  // by set
  list<std::unique_ptr<device>> devices_;     // by rank of this process
  std::string failed_;
  int exceptions_before_ = std::uncaught_exceptions();
  mutable device_threads threads_;
};

template <class Api, class Library> class cuda_source : public device_source {
 public:
  // `kernels` are those of the graph that is trained, as traced_training has them. The ranks of a plan are shared out evenly
  // among the processes; without any, all are this one's.
  cuda_source(cuda_options wanted, kernels_of_training const& kernels, std::shared_ptr<processes> together = {})
      : wanted_(wanted), kernels_(kernels), together_(together ? std::move(together) : std::make_shared<one_process>()) {
    auto refuse = [](std::string_view what, word value, std::string_view instead) {
      throw_error({"pt::cuda{.", what, " = ", value, "}: give ", instead});
    };
    if (wanted.devices < 0) refuse("devices", wanted.devices, "0 for as many as the plan needs, or more");
    if (wanted.first_device < 0) refuse("first_device", wanted.first_device, "a device's number, from 0");
    if (wanted.place < 0) refuse("place", wanted.place, "the number of this process among those of its machine, from 0");
    if (!(wanted.timeout_seconds > 0)) refuse("timeout_seconds", wanted.timeout_seconds, "a number of seconds above 0");
  }
  processes& together() override { return *together_; }
  void fit(int count) override {
    const int there = std::max(0, count_devices<Api>() - wanted_.first_device);
    const int sharing = together_->size(), mine = count / sharing;
    if (count % sharing != 0)
      throw_error({"the plan is for ", count, " CUDA devices, which ", sharing, " processes cannot share evenly"});
    const int may = wanted_.devices > 0 ? std::min(there, wanted_.devices) : there;
    const std::string share = sharing > 1 ? words({", ", mine, " for each process"}) : std::string();
    if (mine > may)
      throw_error({"the plan is for ", count, " CUDA devices", share, ", ",
                   there < mine ? "this machine has " : "the trainer may use ", may});
    // A process that CUDA shows no more devices than its share has them for itself, as one that Slurm gives its own.
    const int before = there > mine ? wanted_.place * mine : 0;
    if (before + mine > there)
      throw_error({"the plan is for ", count, " CUDA devices", share, ", this machine has ", there, ", of which ", wanted_.place,
                   " processes before this one take ", before});
    first_of_share_ = wanted_.first_device + before;
    ranks_.resize(static_cast<std::size_t>(mine));
    std::iota(ranks_.begin(), ranks_.end(), together_->rank() * mine);
    world_size_ = count;
  }
  list<int> here() const override { return ranks_; }
  int workers() const override { return 1; }
  bool fuses(bool wanted) override {
    if (!wanted) kernels_.chains = {};
    return false;
  }
  void arrange(program& p, graph_data const& graph) const override { gather_followers(p, graph, kernels_.launchers); }
  std::size_t workspace(op_entry const& e, int op, std::size_t const* extents) const override {
    return scratch_bytes(kernels_.launchers[static_cast<std::size_t>(op)], *e.info, extents);
  }
  std::unique_ptr<local_devices> make(graph_data const& graph, std::span<std::uint64_t const> keys,
                                      list<list<program>> sets) override {
    cuda_options mine = wanted_;
    mine.first_device = first_of_share_;
    return std::make_unique<cuda_devices<Api, Library>>(mine, graph, kernels_, keys, std::move(sets), ranks_, world_size_,
                                                        *together_);
  }

 private:
  cuda_options wanted_;
  kernels_of_training kernels_;
  std::shared_ptr<processes> together_;
  list<int> ranks_;
  int world_size_ = 1, first_of_share_ = 0;
};

}  // namespace partita::on_cuda

#include <partita/core/end_planning_code.hpp>
