// How many devices a stage may have, on which grids, with how much memory, and into how many micro-batches a batch may be cut.
#pragma once
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <partita/cost/costs.hpp>
#include <partita/search/constraints.hpp>

namespace partita::spaces {

inline std::vector<int> device_counts(constraints const& given, int available) {
  std::set<int> all;
  if (!given.devices_per_stage.empty()) all.insert(given.devices_per_stage.begin(), given.devices_per_stage.end());
  else
    for (int n = 1; n <= available; n *= 2) {
      all.insert(n);
      if (3 * n <= available) all.insert(3 * n);
    }
  std::vector<int> counts;
  for (int n : all)
    if (n >= 1 && n <= available) counts.push_back(n);
  return counts;
}
// Outer and inner dimension.
inline std::vector<std::pair<int, int>> grids_of(int devices) {
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
inline std::vector<int> micro_batch_counts(constraints const& given, std::size_t samples) {
  if (!given.micro_batches.empty()) return given.micro_batches;
  std::vector<int> all;
  for (std::size_t m = 1; m <= samples; ++m)
    if (samples % m == 0) all.push_back(static_cast<int>(m));
  return all;
}

}  // namespace partita::spaces
