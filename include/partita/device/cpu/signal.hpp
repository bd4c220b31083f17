// A number that one thread raises and others wait for.
#pragma once
#include <atomic>
#include <cstdint>

#include <partita/device/cpu/workers.hpp>

namespace partita::on_cpu {

// How long a waiting thread looks before it sleeps. Without a core to spare it does not look at all: it would keep the
// one it waits for from running. Belongs to one thread; adapts as detail::patience does.
class looking {
 public:
  explicit looking(bool cores_to_spare = false) : most_(cores_to_spare ? 2048 : 0), now_(most_ / 8) {}

  template <class F> bool until(F ready) {
    for (int look = 0; look < now_; ++look) {
      if (ready()) {
        now_ = now_ < most_ / 2 ? now_ * 2 : most_;
        return true;
      }
      detail::pause();
    }
    if (now_ > 32) now_ /= 2;
    return false;
  }

 private:
  int most_, now_;  // looks, some 20 ns each
};

class alignas(64) signal {
 public:
  // While nobody raises or waits.
  void reset() noexcept { value_.store(0, std::memory_order_relaxed); }

  // By one thread at a time. What it wrote before, who waited reads. Costs no system call while nobody sleeps.
  void raise(std::uint32_t value) noexcept {
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) value_.notify_all();
  }

  // Returns when the value is at least `least`.
  void wait_for(std::uint32_t least, looking& patience) noexcept {
    auto ready = [&] { return value_.load(std::memory_order_acquire) >= least; };
    if (ready() || patience.until(ready)) return;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    for (std::uint32_t seen; (seen = value_.load(std::memory_order_seq_cst)) < least;)
      value_.wait(seen, std::memory_order_acquire);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> value_{0}, sleepers_{0};
};

}  // namespace partita::on_cpu
