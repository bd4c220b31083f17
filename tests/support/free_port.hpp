// A port of this machine that nobody listens at.
#pragma once
#include <unistd.h>

#include <partita/comm/sockets/connection.hpp>
#include <partita/core/error.hpp>

namespace partita::testing {

// Below those that systems give away, and from another number in each process: tests run beside each other. One that is taken all
// the same is passed over, and none is given twice.
inline int free_port() {
  static int next = 10000 + static_cast<int>(getpid()) % 600 * 32;
  for (int tries = 0;; ++tries) {
    const int port = next++;
    try {
      (void)partita::detail::sockets::listen(port, 1);
      return port;
    } catch (error const&) {
      if (tries == 100) throw;
    }
  }
}

}  // namespace partita::testing
