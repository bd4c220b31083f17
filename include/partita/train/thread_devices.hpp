// The devices of one process on the CPU: every device is a thread, with workers, memory and the programs of its rank.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <partita/comm/threads/world.hpp>
#include <partita/core/list.hpp>
#include <partita/core/patience.hpp>
#include <partita/core/words.hpp>
#include <partita/device/cpu/signal.hpp>
#include <partita/train/cpu_device.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::on_cpu {

using partita::device_memory;

// Device r runs the r-th program of every set (training, forward only, ...), one set at a time; the sets share the
// device's state and its arena: what one set leaves there, the next overwrites. Device 0 is the thread that calls, so
// that one device alone starts no thread; the others keep theirs from step to step. One thread at a time uses the
// object.
class thread_devices final : public local_devices {
 public:
  using executor = device_executor<thread_communicator>;

  // sets[s][r]: the program of rank r. What is given by reference or span outlives the object. Throws error where a
  // program does not fit its rank, or an op lacks a kernel or scratch for the devices' workers.
  thread_devices(cpu wanted, graph_data const& graph, std::span<launcher const> launchers, std::span<std::uint64_t const> keys,
                 list<list<program>> sets)
      : sets_(std::move(sets)), options_(completed(wanted)) {
    const auto count = static_cast<std::size_t>(options_.devices);
    for (list<program> const& set : sets_)
      if (set.size() != count) throw_error({"a set of ", set.size(), " programs for ", count, " devices"});
    ranks_.resize(count);
    std::iota(ranks_.begin(), ranks_.end(), 0);
    int most_lanes = 1;
    for (list<program> const& set : sets_) {
      lanes_.push_back(count == 1 ? 1  // nobody to wait for
                                  : choose_lanes(options_.lanes, options_.devices, options_.threads, available_cores(), set));
      most_lanes = std::max(most_lanes, lanes_.back());
    }
    // What wants a core at a time. With fewer cores than that, who waits sleeps.
    const int busy = options_.devices * (options_.threads + most_lanes - 1);
    spare_ = busy <= available_cores();
    patience_ = partita::detail::patience(spare_);
    for (list<program> const& set : sets_) {
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
  ~thread_devices() override { stop(); }

  int size() const { return options_.devices; }
  int threads_per_device() const { return options_.threads; }
  int lanes_of(std::size_t set) const { return lanes_[set]; }
  std::size_t sets() const { return sets_.size(); }

  void run(std::size_t set, step_context const& step) override {
    step_on_each(set, [&](executor& mine, std::size_t) { mine.run(step); });
  }

  non_finite first_non_finite(std::size_t set, step_context const& step) override {
    list<non_finite> found(devices_.size());
    step_on_each(set, [&](executor& mine, std::size_t rank) { found[rank] = mine.first_non_finite(step); });
    non_finite* first = nullptr;
    for (non_finite& each : found)
      if (!each.where.empty() && (first == nullptr || each.when < first->when)) first = &each;
    return first == nullptr ? non_finite{} : std::move(*first);
  }

  void on_each(std::function<void(int)> const& f) override {
    dispatch(f);
    for (std::exception_ptr& failure : failures_)
      if (failure) std::rethrow_exception(failure);
  }

  std::span<int const> here() const override { return ranks_; }
  program const& what(std::size_t set, int rank) const override { return sets_[set][index(rank)]; }
  std::byte* state(int rank) const { return of(rank).state(); }
  std::byte* arena(int rank) const { return of(rank).arena(); }
  std::byte* address(int rank, std::size_t set, reference const& at) const { return of(rank).address(set, at); }
  workers& team(int rank) const { return of(rank).team(); }

  void write(std::size_t set, int rank, outside const& o, dtype type, void const* whole) override {
    of(rank).write(set, o, type, whole);
  }
  void read(std::size_t set, int rank, outside const& o, dtype type, void* whole) const override {
    of(rank).read(set, o, type, whole);
  }
  void make(std::size_t set, int rank, outside const& o, dtype type, row_maker const& rows) override {
    of(rank).make(set, o, type, rows);
  }

  device_memory memory_of(int rank) const override { return of(rank).memory(); }
  traffic_counts traffic(int rank, std::size_t set) const override { return worlds_[set]->traffic(rank); }
  std::span<timing const> times(int rank, std::size_t set) const override { return of(rank).of(set).times(); }

 private:
  using groups = list<list<int>>;

  struct device {
    list<thread_communicator> communicators;  // by set
    std::unique_ptr<cpu_device<thread_communicator>> runs;
  };
  cpu_device<thread_communicator>& of(int rank) const { return *devices_[index(rank)].runs; }

  static cpu completed(cpu wanted) {
    if (wanted.devices < 1) throw_error({"at least one device, not ", wanted.devices});
    const int cores = available_cores();
    if (wanted.threads < 1) wanted.threads = std::max(1, cores / wanted.devices);
    return wanted;
  }

  std::size_t index(int rank) const { return static_cast<std::size_t>(rank); }

  void build(int rank, graph_data const& graph, std::span<launcher const> launchers, std::span<std::uint64_t const> keys) {
    device& mine = devices_[index(rank)];
    list<program const*> programs;
    list<executor_options> options;
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      programs.push_back(&sets_[s][index(rank)]);
      mine.communicators.push_back(worlds_[s]->communicator(rank));
      options.push_back({lanes_[s] == 2, spare_, options_.record_times});
    }
    list<thread_communicator*> communicators;
    for (thread_communicator& c : mine.communicators) communicators.push_back(&c);
    mine.runs = std::make_unique<cpu_device<thread_communicator>>(programs, graph, launchers, keys, communicators,
                                                                  options_.threads, options);
  }

  template <class F> void step_on_each(std::size_t set, F f) {
    if (!failed_.empty()) throw_error({"the devices run no more, because a step failed: ", failed_});
    if (options_.record_times) {
      const auto now = executor::clock::now();
      for (device& each : devices_) each.runs->of(set).set_origin(now);
    }
    auto mine = [&](int rank) { f(of(rank).of(set), index(rank)); };
    dispatch(mine);
    std::exception_ptr first;
    auto when = executor::clock::time_point::max();
    for (std::size_t rank = 0; rank < failures_.size(); ++rank) {
      if (!failures_[rank]) continue;
      executor const& each = devices_[rank].runs->of(set);
      if (!first) first = failures_[rank];
      if (!each.failed() || stopped_by_another(each.failure()) || each.failed_at() >= when) continue;
      first = failures_[rank];
      when = each.failed_at();
    }
    if (!first) return;
    try {
      std::rethrow_exception(first);
    } catch (std::exception const& e) { failed_ = e.what(); } catch (...) {
      failed_ = "an exception that is no std::exception";
    }
    std::rethrow_exception(first);
  }

  static bool stopped_by_another(std::exception_ptr const& failure) {
    if (!failure) return false;
    try {
      std::rethrow_exception(failure);
    } catch (aborted const&) { return true; } catch (...) {
      return false;
    }
  }

  // f(rank) everywhere; what it throws is in failures_.
  template <class F> void dispatch(F& f) {
    call_ = [](void const* what, int rank) { (*static_cast<F const*>(what))(rank); };
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
    } catch (...) { failures_[rank] = std::current_exception(); }
  }

  void serve(std::size_t rank) noexcept {
    partita::detail::patience patience(spare_);
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

  list<list<program>> sets_;
  cpu options_;
  list<int> lanes_;  // by set
  bool spare_ = false;
  list<std::unique_ptr<thread_world>> worlds_;  // by set
  list<device> devices_;                        // by rank
  list<int> ranks_;
  list<std::exception_ptr> failures_;  // by rank, of the last call
  std::string failed_;                 // of the step that did
  // what the calling thread hands out: written before start_ is raised, read after
  void (*call_)(void const*, int) = nullptr;
  void const* what_ = nullptr;
  std::uint32_t turn_ = 0;
  partita::detail::patience patience_;  // the calling thread's
  signal start_, done_;
  alignas(64) std::atomic<std::uint32_t> left_{0};  // threads that have not ended the present work
  list<std::thread> threads_;
};

// The devices of pt::cpu.
class thread_source final : public device_source {
 public:
  thread_source(cpu wanted, std::span<launcher const> launchers) : wanted_(wanted), launchers_(launchers) {
    check_cpu("pt::cpu", wanted.threads, wanted.lanes);
  }
  processes& together() override { return alone_; }
  void fit(int count) override {
    if (count > wanted_.devices)
      throw_error({"the plan is for ", count, " devices, there are ", wanted_.devices, ": give pt::cpu{.devices = ", count, "}"});
    wanted_.devices = count;  // idle devices hold nothing
    if (wanted_.threads < 1) wanted_.threads = std::max(1, available_cores() / count);
  }
  list<int> here() const override {
    list<int> ranks(static_cast<std::size_t>(wanted_.devices));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  int workers() const override { return wanted_.threads; }
  std::size_t workspace(op_entry const& e, int op, std::size_t const* extents) const override {
    return launchers_[static_cast<std::size_t>(op)].workspace(*e.info, extents, static_cast<std::size_t>(wanted_.threads));
  }
  std::unique_ptr<local_devices> make(graph_data const& graph, std::span<std::uint64_t const> keys,
                                      list<list<program>> sets) override {
    return std::make_unique<thread_devices>(wanted_, graph, launchers_, keys, std::move(sets));
  }

 private:
  cpu wanted_;
  std::span<launcher const> launchers_;
  one_process alone_;
};

}  // namespace partita::on_cpu

namespace partita {
inline std::unique_ptr<device_source> device_source_of(cpu const& wanted, std::span<on_cpu::launcher const> launchers) {
  return std::make_unique<on_cpu::thread_source>(wanted, launchers);
}
}  // namespace partita

#include <partita/core/end_planning_code.hpp>
