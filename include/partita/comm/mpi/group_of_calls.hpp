// Ranks that make collectives together, as one of them sees the call in progress.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <partita/comm/call.hpp>
#include <partita/comm/mpi/cards.hpp>
#include <partita/comm/mpi/words_of_call.hpp>
#include <partita/core/list.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

struct group_of_calls {
  group_of_calls(list<int> of, int rank) : ranks(std::move(of)), made(ranks.size()), described(ranks.size()) {
    for (list<card*>& each : arrived) each.resize(ranks.size(), nullptr);
    me = member(rank);
  }
  std::size_t member(int rank) const {  // size(): none
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
    return found != ranks.end() && *found != rank ? ranks.size() : static_cast<std::size_t>(found - ranks.begin());
  }
  std::size_t size() const { return ranks.size(); }

  list<int> ranks;
  std::size_t me = 0;                  // size(): no member
  std::uint64_t turn = 0;              // calls so far
  std::array<list<card*>, 2> arrived;  // of this turn and, from members that are ahead, the next; by member
  list<call> made;
  list<described_call> described;
};

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
