// Ends a training cleanly when its user or the machine asks for it.
#pragma once
#include <signal.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include <partita/core/error.hpp>

namespace partita {

namespace detail {

inline constexpr std::array<int, 2> watched_signals{SIGINT, SIGTERM};
inline std::atomic<int> received_signal{0};
inline std::atomic<bool> signals_watched{false};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may use lock-free atomics only");

// Calls nothing but what POSIX allows in a signal handler.
inline void note_signal(int number) {
  const int kept = errno;
  received_signal.store(number);
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (int watched : watched_signals) {
    struct sigaction now {};
    if (sigaction(watched, nullptr, &now) == 0 && now.sa_handler == &note_signal) sigaction(watched, &usual, nullptr);
  }
  errno = kept;
}

}  // namespace detail

// While it lives, the first SIGINT or SIGTERM only sets a flag, which a training loop reads after each step; the
// second one has its default effect and ends the process, should a step hang. A signal that was ignored before stays
// ignored. The destructor puts the handlers back that were there before. The flag is this process's own: processes
// of one training must agree on it (an all-reduce) before any of them stops.
//
//   partita::interrupt stop;
//   for (step = 0; step < steps && !stop.requested(); ++step) ...
class interrupt {
 public:
  // Throws `error` when another one lives in this process, or when the system refuses a handler.
  interrupt() {
    if (detail::signals_watched.exchange(true))
      throw error("interrupt: signals are being watched already; have one interrupt in a process");
    detail::received_signal.store(0);
    struct sigaction watch {};
    watch.sa_handler = &detail::note_signal;
    watch.sa_flags = SA_RESTART;  // a read or wait in progress is not cut short by the first signal
    sigemptyset(&watch.sa_mask);
    for (int number : detail::watched_signals) sigaddset(&watch.sa_mask, number);
    for (; installed_ < detail::watched_signals.size(); ++installed_) {
      const int number = detail::watched_signals[installed_];
      struct sigaction& old = before_[installed_];
      if (sigaction(number, nullptr, &old) == 0 &&
          (((old.sa_flags & SA_SIGINFO) == 0 && old.sa_handler == SIG_IGN) || sigaction(number, &watch, nullptr) == 0))
        continue;
      const std::string reason = std::strerror(errno);
      restore();
      throw error("interrupt: signal " + std::to_string(number) + " cannot be watched: " + reason);
    }
  }
  ~interrupt() { restore(); }
  interrupt(const interrupt&) = delete;
  interrupt& operator=(const interrupt&) = delete;

  // Whether the process was asked to end.
  bool requested() const { return signal_number() != 0; }
  // The number of the signal that asked, or 0.
  int signal_number() const { return detail::received_signal.load(); }

 private:
  void restore() {
    while (installed_ > 0) {
      --installed_;
      sigaction(detail::watched_signals[installed_], &before_[installed_], nullptr);
    }
    detail::received_signal.store(0);
    detail::signals_watched.store(false);
  }

  std::array<struct sigaction, 2> before_{};
  std::size_t installed_ = 0;
};

}  // namespace partita
