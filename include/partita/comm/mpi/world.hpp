// The processes that mpirun or srun has started, one for each device.
//
//   int main(int argc, char** argv) {
//     partita::mpi world(argc, argv);
//     partita::trainer<training> t{plan, partita::mpi_cpu{world}, ...};
//
// Every process runs the same program and makes the same calls. Where an exception leaves the scope of `world` on one
// process, or ends it, the whole job ends: the others' calls throw `aborted` with the reason, and at the exit of the
// first one that ends MPI_Abort takes the rest with it. A process that is killed takes the job down through mpirun.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <partita/comm/mpi/communicator.hpp>
#include <partita/comm/processes.hpp>
#include <partita/core/hash.hpp>
#include <partita/core/list.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct mpi_options {
  // After which those that a call waits for are asked whether they are there: a process that computes answers, one that was
  // stopped does not, and is named.
  double timeout_seconds = 300;
};

class mpi final : public processes {
 public:
  // Makes MPI ready, unless the program has done so itself with MPI_THREAD_SERIALIZED or more; then it also ends it. While it
  // lives a thread of it calls MPI: a program that makes calls of its own makes MPI ready with MPI_THREAD_MULTIPLE. One
  // lives in a process at a time. Throws error where MPI allows no threads, or an option is out of range.
  explicit mpi(mpi_options how = {}) : mpi(nullptr, nullptr, how) {}
  mpi(int& argc, char**& argv, mpi_options how = {}) : mpi(&argc, &argv, how) {}
  mpi(mpi const&) = delete;
  mpi& operator=(mpi const&) = delete;

  ~mpi() override {
    is_leaving_.store(true, std::memory_order_release);
    if (watcher_.joinable()) watcher_.join();
    std::set_terminate(terminate_before_);
    const bool unwinding = std::uncaught_exceptions() > exceptions_before_;
    if (size() == 1 || (!unwinding && !state_->is_aborted() && all_end())) {
      everybody_.reset();
      state_->close();
      if (mine_to_end_) MPI_Finalize();
      return;
    }
    // The program may say what went wrong before it exits, which is when the job ends. Who only heard of it leaves the
    // first word to who failed.
    if (unwinding && !state_->is_aborted()) state_->stop(words({"rank ", rank(), " failed first: an exception ended it"}));
    state_->flush();
    if (!state_->failed_here()) std::this_thread::sleep_for(detail::comm::mpi_waits.words);
    std::atexit([] {
      int over = 0;  // by a program that has made MPI ready itself
      MPI_Finalized(&over);
      if (!over) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    });
    (void)everybody_.release();  // at exit MPI is still at work
    (void)state_.release();
  }

  int rank() const override { return state_->rank(); }
  int size() const override { return state_->size(); }
  void all_gather(void const* mine, void* all, std::span<std::size_t const> bytes, std::string_view what) override {
    constexpr std::size_t width = 4;  // in whole words, which a communicator counts in
    list<std::size_t> words;
    bool whole = true;
    for (std::size_t b : bytes) {
      words.push_back((b + width - 1) / width);
      whole = whole && b % width == 0;
    }
    if (whole) return gather_words(mine, all, words, what);
    const auto me = static_cast<std::size_t>(rank());
    list<std::byte> padded(words[me] * width), together(std::accumulate(words.begin(), words.end(), std::size_t{0}) * width);
    if (bytes[me] > 0) std::memcpy(padded.data(), mine, bytes[me]);
    gather_words(padded.data(), together.data(), words, what);
    std::byte* to = static_cast<std::byte*>(all);
    std::byte const* from = together.data();
    for (std::size_t p = 0; p < bytes.size(); ++p) {
      if (bytes[p] > 0) std::memcpy(to, from, bytes[p]);
      to += bytes[p];
      from += words[p] * width;
    }
  }
  void abort(std::string reason) override {
    everybody_->abort(std::move(reason));
    state_->flush();  // who aborts may end its process at once
  }
  // A thread looks for the news a hundred times a second: MPI wakes nobody.
  void on_abort(std::function<void(std::string const&)> then) override {
    const std::scoped_lock lock(listeners_mutex_);
    listeners_.push_back(std::move(then));
  }
  // The same thread answers.
  int on_question(std::function<std::string(std::string const&)> answer) override {
    return state_->asked().answer_by(std::move(answer));
  }
  list<std::optional<std::string>> ask(int which, std::string const& question, list<int> const& whom, double seconds) override {
    const std::int32_t number = [&] {
      const std::scoped_lock lock(state_->calls());
      return state_->ask(which, question, whom);
    }();
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!state_->asked().wait(number, detail::comm::mpi_waits.news) && std::chrono::steady_clock::now() < end &&
           !state_->is_aborted()) {
      const std::scoped_lock lock(state_->calls());
      state_->poll();
    }
    return state_->asked().end(number);
  }

  int local_rank() const { return state_->local_rank(); }  // among the processes on this machine
  int neighbours() const { return state_->neighbours(); }  // processes on this machine, this one included
  int cores() const { return state_->cores(); }            // that these share
  bool cores_to_spare() const { return state_->cores_to_spare(); }
  // A communicator over these groups. All processes ask for theirs at the same point; it ends before this does.
  std::unique_ptr<mpi_communicator> communicator(list<list<int>> const& groups, detail::comm::transfer_limits limits = {}) {
    return std::make_unique<mpi_communicator>(*state_, groups, limits);
  }

 private:
  void gather_words(void const* mine, void* all, std::span<std::size_t const> words, std::string_view what) {
    try {
      everybody_->all_gather_for(0, mine, all, words, dtype::i32, hash(what));
    } catch (aborted const&) { throw; } catch (error const& e) {
      throw_error({"asking for ", what, ": ", e.what()});
    }
  }
  // Who still makes calls of all learns by this one that it would wait for ever; and so does this one.
  bool all_end() noexcept {
    try {
      state_->say_end();
      everybody_->barrier(0);
      return true;
    } catch (std::exception const& e) {
      state_->stop(partita::words({"rank ", rank(), " has ended before the others: ", e.what()}));
      return false;
    }
  }
  void watch() {
    while (!state_->is_aborted()) {
      if (is_leaving_.load(std::memory_order_acquire)) return;
      std::this_thread::sleep_for(detail::comm::mpi_waits.news);
      try {
        const std::scoped_lock lock(state_->calls());
        state_->poll();
      } catch (error const& e) { state_->stop(words({"rank ", rank(), " failed first: ", e.what()})); }
    }
    list<std::function<void(std::string const&)>> listeners;
    while (!is_leaving_.load(std::memory_order_acquire)) {  // who comes late is told, too
      {
        const std::scoped_lock lock(listeners_mutex_);
        listeners = std::exchange(listeners_, {});
      }
      for (auto const& each : listeners) each(state_->reason());
      std::this_thread::sleep_for(detail::comm::mpi_waits.news);
    }
  }
  mpi(int* argc, char*** argv, mpi_options how) : exceptions_before_(std::uncaught_exceptions()) {
    if (!(how.timeout_seconds > 0))
      throw_error({"pt::mpi: timeout_seconds is ", how.timeout_seconds, "; give a number of seconds above 0"});
    int ready = 0, threads = MPI_THREAD_SINGLE;
    MPI_Initialized(&ready);
    if (ready) MPI_Query_thread(&threads);
    else {
      detail::comm::check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &threads), "MPI_Init_thread");
      mine_to_end_ = true;
    }
    if (threads < MPI_THREAD_SERIALIZED)
      throw_error({"MPI ", ready ? "was made ready without threads: call MPI_Init_thread with MPI_THREAD_SERIALIZED"
                                 : "allows no threads: use an MPI that was built with MPI_THREAD_SERIALIZED"});
    state_ = std::make_unique<detail::comm::mpi_state>(how.timeout_seconds);
    list<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    everybody_ = std::make_unique<mpi_communicator>(*state_, list<list<int>>{all});
    terminate_before_ = std::set_terminate(end_job);
    if (size() > 1) watcher_ = std::thread([this] { watch(); });
  }
  // An exception that nobody catches ends the process without unwinding.
  [[noreturn]] static void end_job() {
    std::fprintf(stderr, "partita: %s\n", detail::comm::reason_of(std::current_exception()).c_str());
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    std::abort();
  }

  bool mine_to_end_ = false;
  int exceptions_before_;
  std::unique_ptr<detail::comm::mpi_state> state_;
  std::unique_ptr<mpi_communicator> everybody_;
  std::terminate_handler terminate_before_ = nullptr;
  std::mutex listeners_mutex_;
  list<std::function<void(std::string const&)>> listeners_;
  std::atomic<bool> is_leaving_{false};
  std::thread watcher_;
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
