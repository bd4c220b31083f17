// Sums over rows, in parallel: blocks of rows that depend on the number of rows alone, so that the result does not
// depend on how many threads there are. Each block is summed by one thread, then the blocks are added in their order. A GPU
// takes more blocks, as each is a team's.
#pragma once
#include <cstddef>

#include <partita/core/host_device.hpp>

namespace partita::detail {

struct row_blocks {
  static constexpr std::size_t most = 64, least_rows = 32;
  std::size_t rows, block;
  PARTITA_HOST_DEVICE explicit row_blocks(std::size_t n, std::size_t most_blocks = most, std::size_t least = least_rows)
      : rows(n), block((n + most_blocks - 1) / most_blocks < least ? least : (n + most_blocks - 1) / most_blocks) {}
  PARTITA_HOST_DEVICE static row_blocks for_gpu(std::size_t n) { return row_blocks(n, 512, 16); }
  PARTITA_HOST_DEVICE std::size_t count() const { return (rows + block - 1) / block; }
  PARTITA_HOST_DEVICE std::size_t end(std::size_t b) const { return (b + 1) * block < rows ? (b + 1) * block : rows; }
};

}  // namespace partita::detail
