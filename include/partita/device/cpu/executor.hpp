// Runs the program of one rank on CPU threads.
//
// The thread that calls `run` works off the compute lane; a second one, asleep between steps, the communication lane.
// Each lane counts what it has completed wherever the other one waits for it. One thread can also do both lanes in
// the order of the program: every rank has the same order, so nobody waits in a circle.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <partita/core/list.hpp>
#include <partita/core/patience.hpp>
#include <partita/core/words.hpp>
#include <partita/device/cpu/instructions.hpp>
#include <partita/device/cpu/signal.hpp>
#include <partita/program/program.hpp>
#include <partita/program/step.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::on_cpu {

struct executor_options {
  bool two_lanes = true;        // false: the calling thread does everything
  bool cores_to_spare = false;  // who waits may look for a while before it sleeps
  bool record_times = false;
};

using partita::non_finite, partita::timing;

// `Communicator` is a model of partita::communicator, made with the program's groups. What the constructor is given by
// reference or span outlives the executor. A step allocates nothing.
template <class Communicator> class device_executor {
 public:
  using clock = std::chrono::steady_clock;

  // `launchers` and `keys` are by op of the graph; `state` and `arena` hold what the program says and are aligned to 64
  // bytes. Throws error where they are too small, or where an op has no kernel or too little scratch.
  device_executor(program const& what, graph_data const& graph, std::span<launcher const> launchers,
                  std::span<std::uint64_t const> keys, std::span<std::byte> state, std::span<std::byte> arena, Communicator& comm,
                  workers& team, executor_options options = {})
      : program_(&what),
        comm_(&comm),
        runner_(what, graph, launchers, keys, state, arena, comm, team),
        patience_{partita::detail::patience(options.cores_to_spare), partita::detail::patience(options.cores_to_spare)} {
    for (std::size_t at = 0; at < what.instructions.size(); ++at) {
      instruction const& i = what.instructions[at];
      if (is_communication(i.kind) && i.where != lane::communication)
        throw_error({runner_.place(i), ": communicates in the compute lane; one thread calls for a rank at a time"});
      lanes_[number_of(i.where)].push_back({static_cast<std::uint32_t>(at), false});
    }
    for (instruction const& i : what.instructions) {
      if (i.wait <= 0) continue;
      auto& other = lanes_[1 - number_of(i.where)];
      if (static_cast<std::size_t>(i.wait) > other.size())
        throw_error({runner_.place(i), ": waits for ", i.wait, " instructions of a lane that has ", other.size()});
      other[static_cast<std::size_t>(i.wait) - 1].awaited = true;
    }
    if (options.record_times) times_.resize(what.instructions.size());
    two_lanes_ = options.two_lanes && !lanes_[1].empty();
    if (two_lanes_) second_ = std::thread([this, patience = patience_[1]] { serve(patience); });
    else lanes_ = {};
  }
  device_executor(device_executor const&) = delete;
  device_executor& operator=(device_executor const&) = delete;
  ~device_executor() {
    if (!second_.joinable()) return;
    leaving_ = true;
    start_.raise(++turn_);
    second_.join();
  }

  // Runs the program once; all ranks of the communicator do so together. If an instruction fails on any rank, all of
  // them stop and this throws error, which names rank, op and pass: "rank 1, op block.0.fc1 (linear, backward): ...".
  // Afterwards the executor runs no more.
  void run(step_context const& step) {
    check_usable();
    step_ = step;
    if (!times_.empty() && !has_origin_) origin_ = clock::now();
    if (two_lanes_) {
      for (signal& each : completed_) each.reset();
      start_.raise(++turn_);
      run_lane(0);
      end_.wait_for(turn_, patience_[0]);
    } else if (times_.empty()) run_in_order(no_watch{});
    else run_in_order(timing_watch{this});
    if (failed()) throw error(message_);
  }

  // Runs the program once, on this thread, looking at every number. All ranks do so together.
  non_finite first_non_finite(step_context const& step) {
    check_usable();
    step_ = step;
    finite_watch watch{&runner_, {}, true};
    watch.found.where = runner_.first_non_finite_source();
    watch.found.when = clock::time_point::min();  // before all that runs, and of several ranks none is before the others
    run_in_order(watch);
    if (failed()) throw error(message_);
    return watch.found;
  }

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // What an instruction of this rank threw, and when, to find the first of several ranks. Null when none has.
  std::exception_ptr failure() const { return failed() ? failure_ : nullptr; }
  clock::time_point failed_at() const { return failed_at_; }

  // By instruction, of the last step, from when `run` was called or `set_origin` says; empty unless asked for.
  std::span<timing const> times() const { return times_; }
  void set_origin(clock::time_point origin) {
    origin_ = origin;
    has_origin_ = true;
  }

  bool has_two_lanes() const { return two_lanes_; }
  program const& what() const { return *program_; }

 private:
  struct member {
    std::uint32_t at;  // in program::instructions
    bool awaited;      // somebody in the other lane waits for it
  };

  // What happens around an instruction.
  struct no_watch {
    void before(instruction const&, std::size_t) {}
    void after(instruction const&, std::size_t) {}
  };
  struct timing_watch {
    device_executor* self;
    void before(instruction const&, std::size_t at) { self->times_[at].begin = now(); }
    void after(instruction const&, std::size_t at) { self->times_[at].end = now(); }
    double now() const { return std::chrono::duration<double>(clock::now() - self->origin_).count(); }
  };
  struct finite_watch {
    instruction_runner<Communicator> const* runner;
    non_finite found;
    bool clean;  // what the present instruction reads
    void before(instruction const& i, std::size_t) { clean = found.where.empty() && runner->reads_finite(i); }
    void after(instruction const& i, std::size_t) {
      if (clean && !runner->writes_finite(i)) found = {runner->place(i), clock::now()};
    }
  };

  static std::size_t number_of(lane where) { return where == lane::compute ? 0 : 1; }

  void check_usable() const {
    if (failed()) throw_error({"rank ", program_->rank, " runs no more, because a step failed: ", message_});
  }

  template <class Watch> void run_in_order(Watch&& watch) {
    std::size_t at = 0;
    try {
      for (; at < program_->instructions.size(); ++at) {
        instruction const& i = program_->instructions[at];
        watch.before(i, at);
        runner_.run(i, step_, false);
        watch.after(i, at);
      }
    } catch (...) { fail(program_->instructions[at]); }
  }

  void run_lane(std::size_t mine) {
    if (times_.empty()) run_lane(mine, no_watch{});
    else run_lane(mine, timing_watch{this});
  }

  template <class Watch> void run_lane(std::size_t mine, Watch watch) {
    std::uint32_t done = 0;
    std::size_t at = 0;
    try {
      for (member const& m : lanes_[mine]) {
        at = m.at;
        instruction const& i = program_->instructions[at];
        if (i.wait > 0) completed_[1 - mine].wait_for(static_cast<std::uint32_t>(i.wait), patience_[mine]);
        if (failed_.load(std::memory_order_relaxed)) break;
        watch.before(i, at);
        runner_.run(i, step_, mine == 1);
        watch.after(i, at);
        ++done;
        if (m.awaited) completed_[mine].raise(done);
      }
    } catch (...) { fail(program_->instructions[at]); }
    if (failed()) completed_[mine].raise(UINT32_MAX);  // nothing waits for this lane any more
  }

  // In a handler. The first failure of either lane counts; it stops the other lane and, by the communicator, the other
  // ranks.
  void fail(instruction const& i) {
    if (recorded_.test_and_set()) return;
    failure_ = std::current_exception();
    failed_at_ = clock::now();
    std::string what = "an exception that is no std::exception";
    try {
      throw;
    } catch (std::exception const& known) { what = known.what(); } catch (...) {
    }
    message_ = words({runner_.place(i), ": ", what});
    failed_.store(true, std::memory_order_release);
    comm_->abort(message_.substr(message_.find(", ") + 2));  // it names the rank itself
  }

  void serve(partita::detail::patience patience) noexcept {
    for (std::uint32_t turn = 1;; ++turn) {
      start_.wait_for(turn, patience);
      if (leaving_) return;
      run_lane(1);
      end_.raise(turn);
    }
  }

  program const* program_;
  Communicator* comm_;
  instruction_runner<Communicator> runner_;
  std::array<list<member>, 2> lanes_;                  // compute, communication; empty when one thread does both
  std::array<partita::detail::patience, 2> patience_;  // one a lane
  list<timing> times_;
  clock::time_point origin_{}, failed_at_{};
  bool has_origin_ = false, two_lanes_ = false;
  step_context step_{};
  std::uint32_t turn_ = 0;  // the step the calling thread is in
  bool leaving_ = false;    // written before `start_` is raised
  std::array<signal, 2> completed_;
  signal start_, end_;
  std::atomic<bool> failed_{false};
  std::atomic_flag recorded_ = ATOMIC_FLAG_INIT;
  std::exception_ptr failure_;
  std::string message_;
  std::thread second_;
};

}  // namespace partita::on_cpu

#include <partita/core/end_planning_code.hpp>
