// Threads that each drive one device, which stays the thread's own: a GPU's libraries ask for that.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

class device_threads {
 public:
  explicit device_threads(std::size_t count) : begins_(count), failures_(count), wanted_(count, false) {
    for (std::size_t d = 0; d < count; ++d) threads_.emplace_back([this, d] { serve(d); });
  }
  device_threads(device_threads const&) = delete;
  device_threads& operator=(device_threads const&) = delete;
  ~device_threads() {
    {
      const std::scoped_lock lock(mutex_);
      leaving_ = true;
    }
    for (std::condition_variable& each : begins_) each.notify_one();
    for (std::thread& t : threads_) t.join();
  }
  std::size_t size() const { return threads_.size(); }

  // f(device) on every thread at once; returns when all have. What a call throws is in `failure`.
  void on_each(std::function<void(std::size_t)> const& f) { run(f, threads_.size()); }
  // f on one thread, which may be the calling one. Throws what f throws.
  void on(std::size_t device, std::function<void()> const& f) {
    if (std::this_thread::get_id() == threads_[device].get_id()) return f();
    run([&](std::size_t) { f(); }, device);
    if (failures_[device]) std::rethrow_exception(failures_[device]);
  }
  std::exception_ptr failure(std::size_t device) const { return failures_[device]; }
  void rethrow_lowest() const {
    for (std::exception_ptr const& failure : failures_)
      if (failure) std::rethrow_exception(failure);
  }

 private:
  void run(std::function<void(std::size_t)> const& f, std::size_t only) {
    std::unique_lock lock(mutex_);
    what_ = &f;
    for (std::size_t d = 0; d < threads_.size(); ++d)
      if (only == threads_.size() || d == only) {
        wanted_[d] = true;
        failures_[d] = nullptr;
        ++left_;
        begins_[d].notify_one();
      }
    ends_.wait(lock, [this] { return left_ == 0; });
  }
  void serve(std::size_t device) {
    std::unique_lock lock(mutex_);
    while (true) {
      begins_[device].wait(lock, [&] { return leaving_ || wanted_[device]; });
      if (leaving_) return;
      wanted_[device] = false;
      auto const* const f = what_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        (*f)(device);
      } catch (...) { failure = std::current_exception(); }
      lock.lock();
      failures_[device] = failure;
      if (--left_ == 0) ends_.notify_all();
    }
  }

  std::mutex mutex_;
  std::deque<std::condition_variable> begins_;  // by device
  std::condition_variable ends_;
  std::function<void(std::size_t)> const* what_ = nullptr;
  std::vector<std::exception_ptr> failures_;
  std::vector<bool> wanted_;
  std::size_t left_ = 0;
  bool leaving_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
