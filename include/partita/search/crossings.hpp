// What it takes to go from stage to stage.
#pragma once
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <partita/cost/costs.hpp>
#include <partita/search/segmented_model.hpp>
#include <partita/search/shape_info.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

// So many stages of so many devices: of each level of links over which one sends to the next, the first device that does.
inline std::vector<int> one_sender_per_level(cluster const& c, int stages, int devices) {
  std::vector<int> senders;
  std::vector<bool> seen(c.links.size());
  for (int d = 0; d < (stages - 1) * devices; ++d) {
    const std::size_t level = static_cast<std::size_t>(c.level_between(d, d + devices));
    if (!seen[level]) senders.push_back(d);
    seen[level] = true;
  }
  return senders;
}

// Seconds per micro-batch. A stage sends what a device holds of every tensor, `from` bytes of it, to the device with the same
// place in the next stage, which wants `to` bytes, and gets the gradient back; where the layouts differ the larger piece is sent.
// `send(bytes)`: seconds of one.
constexpr double crossing_seconds(segmented_model const& m, std::vector<int> const& tensors, std::vector<double> const& from,
                                  std::vector<double> const& to, auto&& send) {
  double seconds = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const bool back = m.tensors[static_cast<std::size_t>(tensors[t])].differentiable;
    seconds += (back ? 2 : 1) * send(std::max(from[t], to[t]));
  }
  return seconds;
}
// `shape::crossings` of stages of so many devices. Chunks cross as often as there are of them. Every stage pays the dearest link
// that joins a device of one of so many stages to that of the next: a pipeline is as slow as its slowest stage. `shares`: at
// [grid * kinds + kind], per layout of a boundary, bytes of each tensor that enters a segment. `are_neighbours(from, to)`: may
// stages on these grids follow one another?
template <class Neighbours>
std::vector<std::vector<double>> crossings_between(segmented_model const& m, costs const& prices, int stages, int devices,
                                                   int chunks, std::vector<std::vector<std::vector<double>>> const& shares,
                                                   Neighbours&& are_neighbours) {
  const std::size_t kinds = m.first_of_kind.size(), grids = shares.size() / kinds;
  const double flows = std::min(devices, prices.of().links.front().devices);
  const std::vector<int> senders = one_sender_per_level(prices.of(), stages, devices);
  const auto dearest = [&](double bytes) {
    double seconds = 0;
    for (int d : senders) seconds = std::max(seconds, prices.send(d, d + devices, bytes, flows));
    return seconds;
  };
  std::vector<std::vector<double>> all;
  for (std::size_t from = 0; from < grids; ++from)
    for (std::size_t to = 0; to < grids; ++to)
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        const int first = m.first_of_kind[kind];
        all.emplace_back();
        if (first == 0 || !are_neighbours(from, to)) continue;
        std::vector<int> const& tensors = m.segments[static_cast<std::size_t>(first)].enters;
        for (auto const& x : shares[from * kinds + kind])
          for (auto const& y : shares[to * kinds + kind])
            all.back().push_back(chunks * crossing_seconds(m, tensors, x, y, dearest));
      }
  return all;
}

// Of a shape: stages whose places follow one another may be neighbours.
inline std::vector<std::vector<double>> crossings_between(segmented_model const& m, costs const& prices, int stages,
                                                          shape_info const& s,
                                                          std::vector<std::vector<std::vector<double>>> const& shares) {
  std::set<std::pair<int, int>> neighbours;  // places
  for (std::size_t k = 1; k < s.of_stage.size(); ++k) neighbours.insert({s.of_stage[k - 1], s.of_stage[k]});
  return crossings_between(m, prices, stages, s.devices, s.schedule.chunks, shares, [&](std::size_t from, std::size_t to) {
    return neighbours.count({s.place_of(static_cast<int>(from)), s.place_of(static_cast<int>(to))}) > 0;
  });
}

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
