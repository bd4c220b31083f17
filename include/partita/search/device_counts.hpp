// How many devices a stage may have, on which grids, with how much memory, and into how many micro-batches a batch may be cut.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include <partita/cost/costs.hpp>
#include <partita/search/constraints.hpp>

namespace partita::spaces {

constexpr std::vector<int> device_counts(constraints const& given, int available) {
  std::vector<int> counts = given.devices_per_stage;
  if (counts.empty())
    for (int n = 1; n <= available; n *= 2) {
      counts.push_back(n);
      counts.push_back(3 * n);
    }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::erase_if(counts, [&](int n) { return n < 1 || n > available; });
  return counts;
}
// Outer and inner dimension.
constexpr std::vector<std::pair<int, int>> grids_of(int devices) {
  std::vector<std::pair<int, int>> all;
  for (int inner = 1; inner <= devices; ++inner)
    if (devices % inner == 0 && (inner > 1 || devices == 1)) all.push_back({devices / inner, inner});
  return all;
}
// Bytes of the largest of the first so many devices.
inline double most_memory(costs const& prices, int devices) {
  double bytes = prices.memory(0);
  for (int d = 1; d < devices; ++d) bytes = std::max(bytes, prices.memory(d));
  return bytes;
}
constexpr std::vector<int> micro_batch_counts(constraints const& given, std::size_t samples) {
  if (!given.micro_batches.empty()) return given.micro_batches;
  std::vector<int> all;
  for (std::size_t m = 1; m <= samples; ++m)
    if (samples % m == 0) all.push_back(static_cast<int>(m));
  return all;
}

}  // namespace partita::spaces
