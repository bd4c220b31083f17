// From one layout to another on grids of one shape: the cheapest chain of collectives. A collective is over one
// dimension of the grid or over several at once. Cuts in time are the same in both layouts and stay as they are.
#pragma once
#include <partita/layout/layout_search.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// Empty when the layouts are equal; `found` says whether there is a chain. Grids that are not equal have one shape: then one
// step is a send. `bytes`: of the whole tensor; `extents`, per axis: pieces may then be compared. A chain exists unless cuts
// in time differ, or one stands inside a cut in space that has to go (then pieces are not boxes of one another), or the goal
// has partial results that were not there.
template <class Cost = link_cost>
constexpr growing<transition_step> cheapest_chain(layout const& from, layout const& to, int rank, double bytes, bool& found,
                                                  Cost const& cost = {}, std::size_t const* extents = nullptr,
                                                  double* seconds = nullptr) {
  detail::layout_search<Cost> search(from, to, rank, bytes, cost, extents);
  const int at = search.run();
  found = at >= 0;
  if (!found) return {};
  if (seconds != nullptr) *seconds = search.states[at].seconds;
  return search.chain_to(at);
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
