// A stretch of a device's memory.
#pragma once
#include <cstddef>

namespace partita::on_cuda {

struct memory_range {
  std::byte const* begin = nullptr;
  std::size_t bytes = 0;
};
inline bool overlap(memory_range const& a, memory_range const& b) {
  return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

}  // namespace partita::on_cuda
