// A shape of a plan space in the words of the space: what its number stands for.
#pragma once
#include <utility>
#include <vector>

#include <partita/search/schedules.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

struct shape_info {
  int devices = 1, micro_batches = 1;
  searched_schedule schedule{};
  std::vector<std::pair<int, int>> grids;  // outer, inner; those of a place stand together
  std::vector<int> places;                 // of place_prices: of the stages, in the order in which they first come
  std::vector<int> of_stage;               // by stage, into `places`
  int stages = 0;                          // where something is spread over the devices of all of them
  constexpr int place_of(int grid) const { return grid * static_cast<int>(places.size()) / static_cast<int>(grids.size()); }
  constexpr int prices_of(int grid) const { return places[static_cast<std::size_t>(place_of(grid))]; }
  constexpr bool may_have(int stage, int grid) const { return of_stage[static_cast<std::size_t>(stage)] == place_of(grid); }
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
