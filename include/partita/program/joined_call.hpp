// One of several collectives that a group makes as one, with its addresses.
#pragma once
#include <cstddef>
#include <span>

namespace partita {

// As in a call of its own. all_reduce: `to` alone, and one count. The counts outlive the call.
struct joined_call {
  void const* from = nullptr;
  void* to = nullptr;
  std::span<const std::size_t> counts{};
};

}  // namespace partita
