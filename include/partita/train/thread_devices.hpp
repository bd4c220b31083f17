// The devices of one process on the CPU: every device is a thread, with workers, memory and the programs of its rank.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <partita/comm/threads/world.hpp>
#include <partita/core/words.hpp>
#include <partita/device/cpu/cpu.hpp>
#include <partita/device/cpu/executor.hpp>
#include <partita/device/cpu/memory.hpp>
#include <partita/device/cpu/outside.hpp>
#include <partita/device/cpu/signal.hpp>
#include <partita/train/machine.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::on_cpu {

// Bytes of one device, in whole pages.
struct device_memory {
  std::size_t planned_state = 0, planned_arena = 0;    // arena: of the program that needs most
  std::size_t resident_state = 0, resident_arena = 0;  // of pages that were touched
};

// Device r runs the r-th program of every set (training, forward only, ...), one set at a time; the sets share the
// device's state and its arena: what one set leaves there, the next overwrites. Device 0 is the thread that calls, so
// that one device alone starts no thread; the others keep theirs from step to step. One thread at a time uses the
// object.
class thread_devices {
 public:
  using executor = device_executor<thread_communicator>;

  // sets[s][r]: the program of rank r. What is given by reference or span outlives the object. Throws error where a
  // program does not fit its rank, or an op lacks a kernel or scratch for the devices' workers.
  thread_devices(cpu wanted, graph_data const& graph, std::span<launcher const> launchers,
                 std::span<std::uint64_t const> keys, std::vector<std::vector<program>> sets)
      : sets_(std::move(sets)), options_(completed(wanted)) {
    const auto count = static_cast<std::size_t>(options_.devices);
    for (std::vector<program> const& set : sets_)
      if (set.size() != count)
        throw_error({"a set of ", set.size(), " programs for ", count, " devices"});
    int most_lanes = 1;
    for (std::vector<program> const& set : sets_) {
      lanes_.push_back(choose_lanes(set));
      most_lanes = std::max(most_lanes, lanes_.back());
    }
    // What wants a core at a time. With fewer cores than that, who waits sleeps.
    const int busy = options_.devices * (options_.threads + most_lanes - 1);
    spare_ = busy <= available_cores();
    for (std::vector<program> const& set : sets_) {
      thread_world_options how{.threads = static_cast<unsigned>(busy)};
      for (program const& p : set)
        for (exchange_call const& e : p.exchanges) how.messages = std::max(how.messages, e.sends.size() + e.receives.size());
      worlds_.push_back(std::make_unique<thread_world>(options_.devices, set.empty() ? groups{} : set[0].groups, how));
    }
    devices_.resize(count);
    failures_.resize(count);
    threads_.reserve(count - 1);
    try {
      for (std::size_t rank = 1; rank < count; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
      on_each([&](int rank) { build(rank, graph, launchers, keys); });
    } catch (...) {
      stop();
      throw;
    }
  }
  thread_devices(thread_devices const&) = delete;
  thread_devices& operator=(thread_devices const&) = delete;
  ~thread_devices() { stop(); }

  int size() const { return options_.devices; }
  int threads_per_device() const { return options_.threads; }
  int lanes_of(std::size_t set) const { return lanes_[set]; }
  std::size_t sets() const { return sets_.size(); }

  // Runs one set of programs on all devices. Throws error with the message of the instruction that failed first; the
  // devices run nothing after that.
  void run(std::size_t set, step_context const& step) {
    step_on_each(set, [&](executor& mine, std::size_t) { mine.run(step); });
  }

  // Runs a set, slowly, and says where the first number arose that is not finite; empty when all are.
  std::string first_non_finite(std::size_t set, step_context const& step) {
    std::vector<non_finite> found(devices_.size());
    step_on_each(set, [&](executor& mine, std::size_t rank) { found[rank] = mine.first_non_finite(step); });
    non_finite* first = nullptr;
    for (non_finite& each : found)
      if (!each.where.empty() && (first == nullptr || each.when < first->when)) first = &each;
    return first == nullptr ? std::string{} : std::move(first->where);
  }

  // f(rank) on every device's thread at once; returns when all have, and throws what the lowest rank threw.
  template <class F> void on_each(F&& f) {
    dispatch(f);
    for (std::exception_ptr& failure : failures_)
      if (failure) std::rethrow_exception(failure);
  }

  program const& what(std::size_t set, int rank) const { return sets_[set][index(rank)]; }
  std::byte* state(int rank) const { return devices_[index(rank)]->state.data(); }
  std::byte* arena(int rank) const { return devices_[index(rank)]->arena.data(); }
  std::byte* address(int rank, std::size_t set, reference const& at) const {
    return on_cpu::address(what(set, rank), at, state(rank), arena(rank));
  }
  workers& team(int rank) const { return devices_[index(rank)]->team; }

  device_memory memory_of(int rank) const {
    device const& d = *devices_[index(rank)];
    return {d.state.reserved(), d.arena.reserved(), d.state.resident(), d.arena.resident()};
  }
  traffic_counts traffic(int rank, std::size_t set) const { return worlds_[set]->traffic(rank); }

  // By instruction, of the last step of the set, in seconds since it began on all devices; if they are recorded.
  std::span<timing const> times(int rank, std::size_t set) const {
    return devices_[index(rank)]->executors[set]->times();
  }

 private:
  using groups = std::vector<std::vector<int>>;

  struct device {
    device(int threads, std::size_t state_bytes, std::size_t arena_bytes)
        : team(threads), state(state_bytes), arena(arena_bytes) {}
    workers team;
    memory state;
    memory arena;
    std::vector<thread_communicator> communicators;
    std::vector<std::unique_ptr<executor>> executors;
  };

  static cpu completed(cpu wanted) {
    if (wanted.devices < 1) throw_error({"at least one device, not ", wanted.devices});
    const int cores = available_cores();
    if (wanted.threads < 1) wanted.threads = std::max(1, cores / wanted.devices);
    return wanted;
  }

  // A second lane pays where a core is free for it. Where none is, it costs two switches of threads around each
  // communication: measured on 2 cores, an all-reduce of 64 bytes between 2 devices takes 2.5 microseconds in one lane
  // and 5 in two, 20 to 40 when others want the cores; with ops of 0.5 ms a step takes the same. A send, however, lasts
  // until its receiver comes: a pipeline of 2 stages (1F1B, 8 micro-batches) is 37% over its ideal time in one lane and
  // 7% in two.
  int choose_lanes(std::vector<program> const& set) const {
    if (options_.devices == 1) return 1;  // nobody to wait for
    if (options_.lanes > 0) return options_.lanes;
    if (options_.devices * options_.threads < available_cores()) return 2;
    for (program const& p : set)
      for (exchange_call const& e : p.exchanges)
        if (e.sends.empty() != e.receives.empty()) return 2;
    return 1;
  }

  std::size_t index(int rank) const { return static_cast<std::size_t>(rank); }

  void build(int rank, graph_data const& graph, std::span<launcher const> launchers,
             std::span<std::uint64_t const> keys) {
    const std::size_t me = index(rank);
    std::size_t state_bytes = 0, arena_bytes = 0;
    for (std::vector<program> const& set : sets_) {
      state_bytes = std::max(state_bytes, set[me].state_bytes);
      arena_bytes = std::max(arena_bytes, set[me].arena_bytes);
    }
    auto made = std::make_unique<device>(options_.threads, state_bytes, arena_bytes);
    made->communicators.reserve(sets_.size());
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      program const& p = sets_[s][me];
      made->communicators.push_back(worlds_[s]->communicator(rank));
      made->executors.push_back(std::make_unique<executor>(
          p, graph, launchers, keys, made->state.bytes(), made->arena.bytes(), made->communicators[s], made->team,
          executor_options{lanes_[s] == 2, spare_, options_.record_times}));
    }
    devices_[me] = std::move(made);
  }

  template <class F> void step_on_each(std::size_t set, F f) {
    if (!failed_.empty()) throw_error({"the devices run no more, because a step failed: ", failed_});
    if (options_.record_times)
      for (const auto now = executor::clock::now(); auto& each : devices_) each->executors[set]->set_origin(now);
    auto mine = [&](int rank) { f(*devices_[index(rank)]->executors[set], index(rank)); };
    dispatch(mine);
    std::exception_ptr first;
    auto when = executor::clock::time_point::max();
    for (std::size_t rank = 0; rank < failures_.size(); ++rank) {
      if (!failures_[rank]) continue;
      executor const& each = *devices_[rank]->executors[set];
      if (!first) first = failures_[rank];
      if (!each.failed() || stopped_by_another(each.failure()) || each.failed_at() >= when) continue;
      first = failures_[rank];
      when = each.failed_at();
    }
    if (!first) return;
    try {
      std::rethrow_exception(first);
    } catch (std::exception const& e) {
      failed_ = e.what();
    } catch (...) {
      failed_ = "an exception that is no std::exception";
    }
    std::rethrow_exception(first);
  }

  static bool stopped_by_another(std::exception_ptr const& failure) {
    if (!failure) return false;
    try {
      std::rethrow_exception(failure);
    } catch (aborted const&) {
      return true;
    } catch (...) {
      return false;
    }
  }

  // f(rank) everywhere; what it throws is in failures_.
  template <class F> void dispatch(F& f) {
    call_ = [](void* what, int rank) { (*static_cast<std::remove_reference_t<F>*>(what))(rank); };
    what_ = &f;
    if (!threads_.empty()) {
      left_.store(static_cast<std::uint32_t>(threads_.size()), std::memory_order_relaxed);
      start_.raise(++turn_);
    }
    work(0);
    if (!threads_.empty()) done_.wait_for(turn_, patience_);
  }

  void work(std::size_t rank) noexcept {
    failures_[rank] = nullptr;
    try {
      call_(what_, static_cast<int>(rank));
    } catch (...) {
      failures_[rank] = std::current_exception();
    }
  }

  void serve(std::size_t rank) noexcept {
    looking patience(spare_);
    for (std::uint32_t turn = 1;; ++turn) {
      start_.wait_for(turn, patience);
      if (call_ == nullptr) break;
      work(rank);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.raise(turn);
    }
  }

  // Executors end before their memory; a device's on the thread that stops, which is theirs no more.
  void stop() noexcept {
    call_ = nullptr;
    start_.raise(++turn_);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    devices_.clear();
  }

  std::vector<std::vector<program>> sets_;
  cpu options_;
  std::vector<int> lanes_;  // by set
  bool spare_ = false;
  std::vector<std::unique_ptr<thread_world>> worlds_;  // by set
  std::vector<std::unique_ptr<device>> devices_;       // by rank
  std::vector<std::exception_ptr> failures_;           // by rank, of the last call
  std::string failed_;                                 // of the step that did
  // what the calling thread hands out: written before start_ is raised, read after
  void (*call_)(void*, int) = nullptr;
  void* what_ = nullptr;
  std::uint32_t turn_ = 0;
  looking patience_{};
  signal start_, done_;
  alignas(64) std::atomic<std::uint32_t> left_{0};  // threads that have not ended the present work
  std::vector<std::thread> threads_;
};

}  // namespace partita::on_cpu

#include <partita/core/end_planning_code.hpp>
