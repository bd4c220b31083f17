// A number that one thread raises and others wait for.
#pragma once
#include <atomic>
#include <cstdint>

#include <partita/core/patience.hpp>

namespace partita::on_cpu {

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
  void wait_for(std::uint32_t least, partita::detail::patience& patience) noexcept {
    patience.wait([&] { return value_.load(std::memory_order_acquire) >= least; },
                  [&] {
                    sleepers_.fetch_add(1, std::memory_order_seq_cst);
                    for (std::uint32_t seen; (seen = value_.load(std::memory_order_seq_cst)) < least;)
                      value_.wait(seen, std::memory_order_acquire);
                    sleepers_.fetch_sub(1, std::memory_order_relaxed);
                  });
  }

 private:
  std::atomic<std::uint32_t> value_{0}, sleepers_{0};
};

}  // namespace partita::on_cpu
