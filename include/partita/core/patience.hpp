// Waiting for another thread: looking for a while where a core is free for it, then asleep in the kernel.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace partita::detail {

// Belongs to one thread. It looks for about as long as waking takes: who sleeps loses that time, whoever waits for this
// thread then loses it too, and so falls asleep in turn. After a wait that took longer it looks half as long as before, since who
// waits for computation gains nothing from looking, and takes the core from others.
class patience {
 public:
  explicit patience(bool cores_to_spare = true) : longest_(cores_to_spare ? worth_looking : clock::duration{0}), now_(longest_) {}

  // Looks until ready() or until that takes too long; then calls sleep(), which returns when there is something to see.
  template <class Ready, class Sleep> void wait(Ready ready, Sleep sleep) {
    if (ready()) return;
    if (longest_ == clock::duration{0}) return sleep();
    const clock::time_point begin = clock::now();
    do {
      for (int look = 0; look < 16; ++look) {
        if (ready()) return;
        relax();
      }
    } while (clock::now() - begin < now_);
    sleep();
    now_ = clock::now() - begin <= longest_ ? longest_ : now_ / 2;
  }
  // Returns when `word` no longer holds `seen`; may return earlier.
  void wait_while(std::atomic<std::uint32_t> const& word, std::uint32_t seen) {
    wait([&] { return word.load(std::memory_order_acquire) != seen; }, [&] { word.wait(seen, std::memory_order_acquire); });
  }

 private:
  using clock = std::chrono::steady_clock;

  static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  static constexpr clock::duration worth_looking = std::chrono::microseconds(50);
  clock::duration longest_, now_;
};

}  // namespace partita::detail
