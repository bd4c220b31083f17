// What all communicators of a process share: MPI, which one thread calls at a time, and the news that somebody failed.
#pragma once
#define OMPI_SKIP_MPICXX 1  // the C++ bindings, which MPI has given up
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include <partita/comm/communicator.hpp>
#include <partita/comm/groups.hpp>
#include <partita/comm/mpi/silence.hpp>
#include <partita/comm/questions.hpp>
#include <partita/core/list.hpp>
#include <partita/core/words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

// Throws error where MPI reports one.
inline void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw_error({"MPI: ", call, ": ", std::string_view(text, static_cast<std::size_t>(length))});
}

// How long processes of MPI wait for what.
struct mpi_times {
  // Between two looks for what has arrived. MPI itself looks without end, which keeps those from running that it waits for when
  // there are more processes than cores; so this library looks, gives way, and sleeps.
  int looks = 2000;  // without a pause, where cores are to spare
  int yields = 100;
  int short_sleeps = 100;
  std::chrono::microseconds short_sleep{20}, long_sleep{200};
  std::chrono::milliseconds news{10};    // between two looks for a failure, by who makes no call
  std::chrono::milliseconds words{500};  // for the reason of a failure to reach the others, before the job ends
  std::chrono::seconds after_an_end{2};  // for what a process sent before it ended
  std::chrono::seconds answer{10};       // at most, from a process that is asked whether it is there
  std::chrono::seconds least_answer{1};  // at least: who computes looks now and then
};
inline constexpr mpi_times mpi_waits{};

class mpi_patience {
 public:
  explicit mpi_patience(bool cores_to_spare) : looks_(cores_to_spare ? mpi_waits.looks : 0) {}
  void pause() {
    ++turn_;
    if (turn_ <= looks_) return;
    const int later = turn_ - looks_ - mpi_waits.yields;
    if (later <= 0) sched_yield();
    else std::this_thread::sleep_for(later <= mpi_waits.short_sleeps ? mpi_waits.short_sleep : mpi_waits.long_sleep);
  }
  bool sleeps() const { return turn_ > looks_ + mpi_waits.yields; }

 private:
  int looks_, turn_ = 0;
};

class mpi_state {
 public:
  // After `timeout_seconds` of one wait, those that it is for are asked whether they are there.
  explicit mpi_state(double timeout_seconds) : timeout_(timeout_seconds) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(control_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(control_, &size_), "MPI_Comm_size");
    find_neighbours();
    if (size_ > 1) listen();
  }
  mpi_state(mpi_state const&) = delete;
  mpi_state& operator=(mpi_state const&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int neighbours() const { return neighbours_; }  // processes on this machine, this one included
  int local_rank() const { return local_rank_; }  // among them
  int cores() const { return cores_; }            // that they have together
  // Whether who waits may look without giving way: each process has a core for its compute lane and one for the other.
  bool cores_to_spare() const { return cores_ >= 2 * neighbours_; }
  MPI_Comm control() const { return control_; }

  std::mutex& calls() { return calls_; }  // held around every call of MPI

  bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }
  // Whether this process was the first to fail, as far as it knows.
  bool failed_here() const { return failed_here_; }
  std::string reason() {
    const std::scoped_lock lock(reason_mutex_);
    return reason_;
  }
  [[noreturn]] void throw_aborted() { throw aborted("all ranks stop, because " + reason()); }

  // From any thread that does not hold `calls`. Tells every process.
  void stop(std::string_view reason) {
    if (!set_reason(reason)) return;
    failed_here_ = true;
    notice_ = reason.substr(0, notice_bytes);
    const std::scoped_lock lock(calls_);
    for (int other = 0; other < size_; ++other)
      if (other != rank_) {
        notices_.emplace_back();
        MPI_Isend(notice_.data(), static_cast<int>(notice_.size()), MPI_CHAR, other, tag_of_failure, control_, &notices_.back());
      }
  }

  // Tells every process that this one makes no more calls.
  void say_end() {
    const std::scoped_lock lock(calls_);
    for (int other = 0; other < size_; ++other)
      if (other != rank_) {
        notices_.emplace_back();
        MPI_Isend(nullptr, 0, MPI_CHAR, other, tag_of_end, control_, &notices_.back());
      }
    ended_.clear();
    is_ending_ = true;
  }

  // With `calls` held: looks for news, until there are none. Of a thousand ranks many may ask the one that is late.
  void poll() {
    while (size_ > 1 && !is_aborted()) {
      int arrived = 0;
      MPI_Status status;
      check_mpi(MPI_Test(&listening_, &arrived, &status), "MPI_Test");
      if (!arrived) return;
      int length = 0;
      MPI_Get_count(&status, MPI_CHAR, &length);
      const std::string_view heard(heard_.data(), static_cast<std::size_t>(length));
      if (status.MPI_TAG == tag_of_failure) return (void)set_reason(heard);
      if (status.MPI_TAG == tag_of_end && !is_ending_) ended_.push_back({status.MPI_SOURCE, clock::now()});
      if (status.MPI_TAG >= tag_of_question) hear(status.MPI_TAG, status.MPI_SOURCE, heard);
      listen();
    }
  }

  // Questions, and what this process answers while anything here polls.
  questions& asked() { return questions_; }
  // With `calls` held: a question to all of these but this process; returns its number.
  std::int32_t ask(std::int32_t which, std::string_view question, list<int> const& whom) {
    const auto others = std::count_if(whom.begin(), whom.end(), [&](int p) { return p != rank_; });
    const letter head{questions_.begin(size_, static_cast<int>(others)), which};
    for (int other : whom)
      if (other != rank_) send(other, tag_of_question, head, question);
    return head.number;
  }

  // Returns when `ready`, asked with `calls` held, says so. Throws `aborted`, after `leave` with `calls` held, when
  // somebody has failed; and error where `missing(rank)` tells that a rank is waited for that has ended, or that does not answer.
  template <class Ready, class Leave, class Missing> void wait(Ready ready, Leave leave, Missing missing) {
    const silence::seconds to_answer = std::clamp<silence::seconds>(timeout_, mpi_waits.least_answer, mpi_waits.answer);
    silence silent(questions_, timeout_, to_answer);
    const auto ask_them = [&](list<int> const& whom) { return ask(is_there, {}, whom); };
    for (mpi_patience patience(cores_to_spare());; patience.pause()) {
      bool stops = false;  // looked at once: another thread of this process may stop the world at any time
      {
        const std::scoped_lock lock(calls_);
        poll();
        if (ready()) return;
        stops = is_aborted();
        if (stops) leave();
        for (end_of const& each : ended_)  // what it sent before may arrive after the news of its end
          if (missing(each.rank) && clock::now() - each.heard > mpi_waits.after_an_end) {
            leave();
            throw_error(
                {"rank ", each.rank, " has ended, and rank ", rank_, " waits for it; every process must make the same calls"});
          }
        if (!stops && patience.sleeps())
          if (const list<int> gone = silent.look([&] { return those(missing); }, ask_them); !gone.empty()) {
            leave();
            throw_error({words_of(gone), " not answered within ", to_answer.count(), " s, and rank ", rank_, " waits for ",
                         gone.size() == 1 ? "it" : "them", "; a process was stopped, or its host cannot be reached"});
          }
      }
      if (stops) throw_aborted();
    }
  }
  // A communicator of all ranks, made by all of them at the same point.
  MPI_Comm duplicate() {
    auto made = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const std::scoped_lock lock(calls_);
      check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, made.get(), &request), "MPI_Comm_idup");
    }
    wait(
        [&] {
          int done = 0;
          check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
          return done != 0;
        },
        [&] { (void)made.release(); },  // MPI may still write there
        [](int) { return true; });
    const std::scoped_lock lock(calls_);
    check_mpi(MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return *made;
  }

  // Before MPI is left in order.
  void close() {
    const std::scoped_lock lock(calls_);
    if (size_ > 1) {
      MPI_Waitall(static_cast<int>(notices_.size()), notices_.data(), MPI_STATUSES_IGNORE);
      MPI_Cancel(&listening_);
      MPI_Wait(&listening_, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&control_);
  }
  // Gives what was told the time to arrive, for as long as this takes and not longer.
  void flush() {
    const auto end = std::chrono::steady_clock::now() + mpi_waits.words;
    for (int done = 0; done == 0 && std::chrono::steady_clock::now() < end;) {
      {
        const std::scoped_lock lock(calls_);
        MPI_Testall(static_cast<int>(notices_.size()), notices_.data(), &done, MPI_STATUSES_IGNORE);
      }
      if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t notice_bytes = 4096;
  static constexpr int tag_of_failure = 0, tag_of_end = 1, tag_of_question = 2, tag_of_answer = 3;
  static constexpr std::int32_t is_there = -1;  // a question to which any answer will do
  struct letter {                               // a question and its answer begin with
    std::int32_t number, which;                 // the asker's number of the question; the answer that it wants
  };
  struct end_of {
    int rank;
    clock::time_point heard;
  };

  bool set_reason(std::string_view reason) {
    const std::scoped_lock lock(reason_mutex_);
    if (is_aborted()) return false;
    reason_ = reason;
    aborted_.store(true, std::memory_order_release);
    return true;
  }
  // Those that are waited for; all others where nothing is known of whom MPI itself waits for.
  template <class Missing> list<int> those(Missing missing) const {
    list<int> others, some;
    for (int other = 0; other < size_; ++other)
      if (other != rank_) others.push_back(other);
    for (int other : others)
      if (missing(other)) some.push_back(other);
    return some.empty() ? others : some;
  }
  static std::string words_of(list<int> const& gone) {
    return gone.size() == 1 ? partita::words({"rank ", gone[0], " has"}) : partita::words({"ranks ", names_of(gone), " have"});
  }
  // With `calls` held.
  void send(int to, int tag, letter const& head, std::string_view text) {
    int gone = 0;
    if (!notices_.empty()) MPI_Testall(static_cast<int>(notices_.size()), notices_.data(), &gone, MPI_STATUSES_IGNORE);
    if (gone != 0) {
      notices_.clear();
      letters_.clear();
    }
    letters_.push_back(std::make_unique<std::string>(reinterpret_cast<char const*>(&head), sizeof head));
    std::string& whole = letters_.back()->append(text.substr(0, notice_bytes - sizeof head));
    notices_.emplace_back();
    MPI_Isend(whole.data(), static_cast<int>(whole.size()), MPI_CHAR, to, tag, control_, &notices_.back());
  }
  void hear(int tag, int from, std::string_view heard) {
    letter head;
    if (heard.size() < sizeof head) return;
    std::memcpy(&head, heard.data(), sizeof head);
    const std::string text(heard.substr(sizeof head));
    if (tag == tag_of_answer) questions_.hear(head.number, from, text);
    else send(from, tag_of_answer, head, questions_.answer(head.which, text));
  }
  void listen() {
    check_mpi(
        MPI_Irecv(heard_.data(), static_cast<int>(heard_.size()), MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &listening_),
        "MPI_Irecv");
  }
  // The union of the cores that the processes of this machine may run on: with or without binding to cores, what there
  // is to share among them.
  void find_neighbours() {
    MPI_Comm near = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(control_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near), "MPI_Comm_split_type");
    check_mpi(MPI_Comm_size(near, &neighbours_), "MPI_Comm_size");
    check_mpi(MPI_Comm_rank(near, &local_rank_), "MPI_Comm_rank");
    std::array<unsigned char, 1024> mine{}, all{};  // a bit a core
#ifdef __linux__
    cpu_set_t* const set = CPU_ALLOC(8 * mine.size());
    if (set != nullptr && sched_getaffinity(0, CPU_ALLOC_SIZE(8 * mine.size()), set) == 0)
      for (std::size_t core = 0; core < 8 * mine.size(); ++core)
        if (CPU_ISSET_S(core, CPU_ALLOC_SIZE(8 * mine.size()), set)) mine[core / 8] |= static_cast<unsigned char>(1u << core % 8);
    if (set != nullptr) CPU_FREE(set);
#endif
    check_mpi(MPI_Allreduce(mine.data(), all.data(), static_cast<int>(all.size()), MPI_UNSIGNED_CHAR, MPI_BOR, near),
              "MPI_Allreduce");
    for (unsigned char byte : all) cores_ += __builtin_popcount(byte);
    if (cores_ == 0) cores_ = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    MPI_Comm_free(&near);
  }

  silence::seconds timeout_;
  MPI_Comm control_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, local_rank_ = 0, neighbours_ = 1, cores_ = 0;
  std::mutex calls_, reason_mutex_;
  std::atomic<bool> aborted_{false};
  bool failed_here_ = false;
  std::string reason_, notice_;
  list<MPI_Request> notices_;
  list<std::unique_ptr<std::string>> letters_;  // which MPI may still read
  questions questions_;
  list<end_of> ended_;
  bool is_ending_ = false;
  MPI_Request listening_ = MPI_REQUEST_NULL;
  std::array<char, notice_bytes> heard_{};
};

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
