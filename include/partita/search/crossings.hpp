// What it takes to go from stage to stage.
#pragma once
#include <algorithm>
#include <vector>

#include <partita/cost/costs.hpp>
#include <partita/search/segmented_model.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

// `shape::crossings` of stages of so many devices. A stage sends what a device holds of every tensor to the device with the same
// place in the next stage, and gets the gradient back; where the layouts differ the larger piece is sent. Chunks cross as often
// as there are of them. `shares`: at [grid * kinds + kind], per layout of a boundary, bytes of each tensor that enters a segment.
// `are_neighbours(from, to)`: may stages on these grids follow one another?
template <class Neighbours>
std::vector<std::vector<double>> crossings_between(segmented_model const& m, costs const& prices, int devices, int chunks,
                                                   std::vector<std::vector<std::vector<double>>> const& shares,
                                                   Neighbours&& are_neighbours) {
  const std::size_t kinds = m.first_of_kind.size(), grids = shares.size() / kinds;
  const double flows = std::min(devices, prices.of().links.front().devices);
  std::vector<std::vector<double>> all;
  for (std::size_t from = 0; from < grids; ++from)
    for (std::size_t to = 0; to < grids; ++to)
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        const int first = m.first_of_kind[kind];
        all.emplace_back();
        if (first == 0 || !are_neighbours(from, to)) continue;
        std::vector<int> const& tensors = m.segments[static_cast<std::size_t>(first)].enters;
        for (auto const& x : shares[from * kinds + kind])
          for (auto const& y : shares[to * kinds + kind]) {
            double seconds = 0;
            for (std::size_t t = 0; t < tensors.size(); ++t) {
              const bool back = m.tensors[static_cast<std::size_t>(tensors[t])].differentiable;
              seconds += (back ? 2 : 1) * prices.send(0, devices, std::max(x[t], y[t]), flows);
            }
            all.back().push_back(chunks * seconds);
          }
      }
  return all;
}

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
