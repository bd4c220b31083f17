// One side of a transfer between ranks, with its address.
#pragma once
#include <cstddef>

namespace partita {

// What goes from one rank to another arrives in the order in which it was sent.
struct placed_transfer {
  int peer = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
};

}  // namespace partita
