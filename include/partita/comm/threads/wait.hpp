// Waiting of one rank's thread for a word that another thread changes: a short spin where a core is free for it, then
// a sleep in the kernel.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>

namespace partita::detail::comm {

inline constexpr std::size_t cache_line = 64;  // bytes; keeps what different ranks write apart

inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Belongs to one rank. The spin adapts: it doubles when it was long enough and halves when it was not, since a rank
// that waits for computation gains nothing from spinning and takes the core from somebody who computes.
class waiting {
public:
  // `threads`: how many threads want a core at the same time; with more threads than cores nobody spins.
  explicit waiting(unsigned threads = 1) : most_(threads <= std::thread::hardware_concurrency() ? longest_spin : 0) {
    now_ = most_;
  }

  // Returns when `word` no longer holds `seen`; may return earlier.
  void wait(std::atomic<std::uint32_t> const& word, std::uint32_t seen) noexcept {
    for (std::uint32_t turn = 0; turn < now_; ++turn) {
      if (word.load(std::memory_order_acquire) != seen) {
        now_ = std::min(most_, now_ * 2);
        return;
      }
      relax();
    }
    now_ = most_ == 0 ? 0 : std::max(shortest_spin, now_ / 2);
    word.wait(seen, std::memory_order_acquire);
  }

private:
  static constexpr std::uint32_t longest_spin = 512, shortest_spin = 16;  // pauses
  std::uint32_t most_ = 0, now_ = 0;
};

}  // namespace partita::detail::comm
