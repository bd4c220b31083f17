// A device's threads.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include <partita/core/list.hpp>

#include <partita/core/patience.hpp>

namespace partita::on_cpu {

namespace detail {
inline thread_local bool inside_parallel = false;
}  // namespace detail

// `size` threads, of which the caller of `parallel` is one: workers(1) starts none. One object serves one device; all
// its threads end with it.
class workers {
 public:
  explicit workers(int size = 1) : size_(size < 1 ? 1 : static_cast<std::size_t>(size)), thrown_(size_) {
    threads_.reserve(size_ - 1);
    try {
      for (std::size_t member = 1; member < size_; ++member) threads_.emplace_back([this, member] { serve(member); });
    } catch (...) {
      stop();
      throw;
    }
  }
  workers(workers const&) = delete;
  workers& operator=(workers const&) = delete;
  ~workers() { stop(); }

  std::size_t size() const { return size_; }

  // Into how many parts `parallel` cuts [0, count): at most one a thread, none without a whole or last `grain`.
  std::size_t parts(std::size_t count, std::size_t grain = 1) const {
    const std::size_t grains = count_grains(count, grain);
    return grains < size_ ? grains : size_;
  }

  // Calls f(begin, end), or f(begin, end, part), for each part of [0, count), every part on a thread of its own, and
  // returns when all are done. The parts are contiguous, in order, and begin at multiples of `grain`; they depend on
  // count, grain and size() alone. If calls throw, the exception of the lowest part is thrown here, after all ended.
  // Inside a call of parallel (of any workers), and while another thread uses these, the parts run one after another
  // on the calling thread; in that case the first exception ends the call.
  template <class F> void parallel(std::size_t count, std::size_t grain, F&& f) {
    using function = std::remove_reference_t<F>;
    run(count, grain == 0 ? 1 : grain, const_cast<void*>(static_cast<void const*>(std::addressof(f))),
        [](void* what, std::size_t begin, std::size_t end, std::size_t part) {
          function& given = *static_cast<function*>(what);
          if constexpr (std::is_invocable_v<function&, std::size_t, std::size_t, std::size_t>) given(begin, end, part);
          else given(begin, end);
        });
  }

 private:
  static std::size_t count_grains(std::size_t count, std::size_t grain) {
    return grain <= 1 ? count : count / grain + (count % grain != 0);
  }

  using part_function = void (*)(void*, std::size_t begin, std::size_t end, std::size_t part);
  struct work_to_share {
    part_function function = nullptr;
    void* what = nullptr;
    std::size_t count = 0, grain = 1, pieces = 0;
    void run(std::size_t part) const {
      const std::size_t grains = count_grains(count, grain);
      const std::size_t begin = grains * part / pieces * grain, next = grains * (part + 1) / pieces * grain;
      function(what, begin, next < count ? next : count, part);
    }
  };

  [[gnu::noinline]] void run(std::size_t count, std::size_t grain, void* what, part_function function) {
    const work_to_share shared{function, what, count, grain, parts(count, grain)};
    if (shared.pieces <= 1 || detail::inside_parallel || busy_.test_and_set(std::memory_order_acquire)) {
      for (std::size_t part = 0; part < shared.pieces; ++part) shared.run(part);
      return;
    }
    shared_ = shared;
    left_.store(static_cast<std::uint32_t>(size_ - 1), std::memory_order_relaxed);
    start_.fetch_add(1, std::memory_order_release);
    start_.notify_all();
    work(0);
    for (std::uint32_t left; (left = left_.load(std::memory_order_acquire)) != 0;) patience_.wait_while(left_, left);
    std::exception_ptr first;
    for (std::size_t part = shared.pieces; part-- > 0;)
      if (thrown_[part]) first = std::exchange(thrown_[part], nullptr);
    busy_.clear(std::memory_order_release);
    if (first) std::rethrow_exception(std::move(first));
  }

  void work(std::size_t part) noexcept {
    if (part >= shared_.pieces) return;
    detail::inside_parallel = true;
    try {
      shared_.run(part);
    } catch (...) { thrown_[part] = std::current_exception(); }
    detail::inside_parallel = false;
  }

  void serve(std::size_t member) noexcept {
    partita::detail::patience patience;
    for (std::uint32_t seen = 0;; ++seen) {
      for (; start_.load(std::memory_order_acquire) == seen;) patience.wait_while(start_, seen);
      if (shared_.function == nullptr) return;
      work(member);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
    }
  }

  void stop() noexcept {
    shared_.function = nullptr;
    start_.fetch_add(1, std::memory_order_release);
    start_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const std::size_t size_;
  list<std::exception_ptr> thrown_;  // by part
  // what the calling thread hands out: written before start_ changes, read after
  work_to_share shared_;
  std::atomic_flag busy_;
  partita::detail::patience patience_;               // the calling thread's
  alignas(64) std::atomic<std::uint32_t> start_{0};  // how many times work was handed out
  alignas(64) std::atomic<std::uint32_t> left_{0};   // threads that have not ended the present work
  list<std::thread> threads_;
};

}  // namespace partita::on_cpu
