// Looks after calls of NCCL that wait for other ranks: ncclCommInitRank, and the first calls of a communicator, which connect it.
// When a rank never comes they do not return, and nothing can interrupt them.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <partita/comm/nccl/world.hpp>
#include <partita/core/words.hpp>

namespace partita {

// Of one rank, whose thread makes the calls. Its own thread ends the process by Library::end_process, with words that say which
// call, of which communicator, and that other processes are told before: after the world's time-out, or `grace` seconds into a
// call once any rank has failed.
template <class Library> class watchdog {
 public:
  static constexpr double least_seconds = 1, grace_seconds = 10;  // a shorter time-out is no time to connect in

  struct call {
    std::string_view what;
    int group;               // as nccl_world counts: -1 is all ranks
    bool may_wait = false;   // for ranks that are late, as long as none has failed
    bool is_of_all = false;  // communicators of the rank
  };
  // words_of: the words of a call, asked for on the watchdog's thread; may take a while.
  watchdog(nccl_world& world, std::function<std::string(call const&, double waited)> words_of)
      : world_(&world), words_of_(std::move(words_of)), limit_(std::max(world.timeout_seconds(), least_seconds)) {}
  watchdog(watchdog const&) = delete;
  watchdog& operator=(watchdog const&) = delete;
  ~watchdog() {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  // As long as it lives a call is under way. Of those in one another the innermost is looked after.
  class watched {
   public:
    watched(watchdog& by, call const& what) : by_(&by), outer_(by.begin(what)) {}
    watched(watched const&) = delete;
    watched& operator=(watched const&) = delete;
    ~watched() { by_->end(outer_); }

   private:
    watchdog* by_;
    std::optional<call> outer_;
  };

 private:
  using clock = std::chrono::steady_clock;

  // Returns what was under way before.
  std::optional<call> begin(call const& what) {
    const std::scoped_lock lock(mutex_);
    const std::optional<call> outer = std::exchange(now_, what);
    since_ = clock::now();
    if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
    return outer;
  }
  void end(std::optional<call> const& outer) {
    const std::scoped_lock lock(mutex_);
    now_ = outer;
    since_ = clock::now();  // a call that has returned is progress
  }
  void watch() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      if (!now_) continue;
      const double waited = std::chrono::duration<double>(clock::now() - since_).count();
      const bool failed = world_->is_aborted();
      if (waited <= (failed ? std::min(limit_, grace_seconds) : limit_) || (now_->may_wait && !failed)) continue;
      const call what = *now_;
      const clock::time_point since = since_;
      lock.unlock();
      const std::string why = failed ? words({"; all ranks stop: ", world_->reason()}) : std::string();
      const std::string all = words({words_of_(what, waited), why, ". No call of NCCL can be interrupted, so this process ends"});
      lock.lock();
      if (!now_ || since_ != since) continue;  // it has come back after all
      now_.reset();
      lock.unlock();
      world_->abort(all);
      Library::end_process(all);
      lock.lock();
    }
  }

  nccl_world* world_;
  std::function<std::string(call const&, double waited)> words_of_;
  double limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<call> now_;
  clock::time_point since_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace partita
