// What members have of a call, part by part where several are made as one, and how small data lie on cards.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <partita/comm/call.hpp>
#include <partita/comm/mpi/cards.hpp>
#include <partita/comm/reduce.hpp>
#include <partita/core/list.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

// What each part of a call has, by member: the elements that it owns. Of an all-reduce its share of the sums.
inline element_range range_of(call const& part, std::size_t member, std::size_t members) {
  if (part.kind == communication::all_reduce) return share_of(part, member, members);
  const std::size_t begin = sum(part.counts.first(member));
  return {begin, begin + part.counts[member]};
}
inline std::size_t elements_of(call const& part) {
  switch (part.kind) {
    case communication::all_reduce:
    case communication::broadcast: return part.count;
    case communication::all_gather:
    case communication::reduce_scatter: return sum(part.counts);
    default: return 0;
  }
}
// Calls f(part) for each.
template <class F> void each_part(call const& made, F f) {
  for (std::size_t p = 0; p < made.parts(); ++p) f(part_of(made, p));
}

// Whether there are as many counts as the call needs. Where there are not, `fault_of` says so.
inline bool counts_fit(call const& made, std::size_t members) {
  const bool pieces = made.kind == communication::all_gather || made.kind == communication::reduce_scatter;
  for (joined_call const& j : made.joined)
    if (j.counts.size() != (pieces ? members : 1)) return false;
  return !pieces || !made.joined.empty() || made.counts.size() == members;
}

inline std::byte* at(void const* base, std::size_t element, dtype type) {
  return static_cast<std::byte*>(const_cast<void*>(base)) + element * size_of(type);
}

// What member `to` needs of this one's data, onto a card.
inline void pack(call const& made, std::size_t me, std::size_t members, std::size_t to, card& c) {
  std::size_t used = 0;
  each_part(made, [&](call const& part) {
    element_range r{0, part.count};
    std::size_t from = 0;
    switch (part.kind) {
      case communication::all_reduce: break;
      case communication::all_gather: r = {0, part.counts[me]}; break;
      case communication::reduce_scatter: r = range_of(part, to, members), from = r.begin; break;
      case communication::broadcast:
        if (static_cast<std::size_t>(part.root) != me) r = {};
        break;
      default: r = {};
    }
    const std::size_t bytes = (r.end - r.begin) * size_of(part.type);
    if (bytes > 0) std::memcpy(c.data + used, at(part.from, from, part.type), bytes);
    used += bytes;
  });
  c.head.carried = static_cast<std::uint32_t>(used);
}
// The result, from the cards of all others. `offsets` is for use inside: where the reading of each card is.
inline void unpack(call const& made, std::size_t me, std::span<card* const> cards, list<std::size_t>& offsets) {
  const std::size_t members = cards.size();
  offsets.assign(members, 0);
  each_part(made, [&](call const& part) {
    const std::size_t width = size_of(part.type);
    switch (part.kind) {
      case communication::all_reduce:
      case communication::reduce_scatter: {
        const bool scatters = part.kind == communication::reduce_scatter;
        const element_range r = scatters ? range_of(part, me, members) : element_range{0, part.count};
        const std::size_t count = r.end - r.begin;
        auto source = [&](std::size_t m) -> void const* {
          return m == me ? at(part.from, r.begin, part.type) : cards[m]->data + offsets[m];
        };
        reduce_range(
            part.type, part.how, members, source, 1, [&](std::size_t) { return part.to; }, 0, count);
        for (std::size_t& each : offsets) each += count * width;
        break;
      }
      case communication::all_gather:
        for (std::size_t m = 0; m < members; ++m) {
          const element_range r = range_of(part, m, members);
          const std::size_t bytes = (r.end - r.begin) * width;
          copy(at(part.to, r.begin, part.type), m == me ? part.from : cards[m]->data + offsets[m], bytes);
          offsets[m] += bytes;
        }
        break;
      case communication::broadcast:
        if (const auto root = static_cast<std::size_t>(part.root); root != me)
          copy(part.to, cards[root]->data, part.count * width);
        break;
      default: break;
    }
  });
}

// As thread_communicator counts: see traffic_counts.
inline std::size_t traffic_of(call const& made, std::size_t me, std::size_t n) {
  const std::size_t width = size_of(made.type);
  if (made.kind == communication::all_to_all) return (sum(made.counts) - made.counts[me]) * width;
  if (made.kind == communication::broadcast) return (me + 1) % n == static_cast<std::size_t>(made.root) ? 0 : made.count * width;
  std::size_t elements = 0;
  each_part(made, [&](call const& part) {
    if (part.kind == communication::all_reduce) elements += part.count;
    if (part.kind == communication::all_gather) elements += (n - 1) * part.counts[me];
    if (part.kind == communication::reduce_scatter) elements += sum(part.counts) - part.counts[me];
  });
  return made.kind == communication::all_reduce ? 2 * (n - 1) * elements * width / n : elements * width;
}

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
