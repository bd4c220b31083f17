// What a member asks of a collective, whether the members ask the same, and what each has of the work.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <partita/comm/communicator.hpp>
#include <partita/core/words.hpp>

namespace partita::detail::comm {

inline constexpr std::size_t cache_line = 64;  // bytes; keeps what different ranks write apart

struct call {
  communication kind = communication::barrier;
  dtype type = dtype::f32;
  reduction how = reduction::sum;
  int root = 0;
  std::size_t count = 0;       // all_reduce, broadcast
  void const* from = nullptr;  // what is read; all_reduce, broadcast: the same as `to`
  void* to = nullptr;
  std::span<const std::size_t> counts{};    // per member; all_to_all: what is sent
  std::span<const std::size_t> receives{};  // all_to_all only
  std::span<const joined_call> joined{};    // several, instead of `count`, `from`, `to` and `counts`
  std::size_t parts() const { return joined.empty() ? 1 : joined.size(); }
};
// One of those that are made as one.
inline call part_of(call const& made, std::size_t part) {
  if (made.joined.empty()) return made;
  joined_call const& j = made.joined[part];
  call one = made;
  one.joined = {};
  one.from = j.from;
  one.to = j.to;
  if (made.kind == communication::all_reduce) {
    one.count = j.counts.empty() ? 0 : j.counts[0];
    one.from = j.to;
  } else one.counts = j.counts;
  return one;
}

inline std::size_t sum(std::span<const std::size_t> counts) {
  std::size_t total = 0;
  for (std::size_t count : counts) total += count;
  return total;
}

struct element_range {
  std::size_t begin = 0, end = 0;
};

// The elements of one call that member `index` of so many does the work of, so that members share it evenly.
inline element_range share_of(call const& own, std::size_t index, std::size_t members) {
  switch (own.kind) {
    case communication::all_reduce:
    case communication::broadcast: {
      const std::size_t line = cache_line / size_of(own.type), lines = (own.count + line - 1) / line;
      auto bound = [&](std::size_t m) { return std::min(own.count, lines * m / members * line); };
      return {bound(index), bound(index + 1)};
    }
    case communication::all_gather:
    case communication::reduce_scatter: return {0, own.counts[index]};
    case communication::all_to_all: return {0, sum(own.receives)};
    default: return {};
  }
}

inline void copy(void* to, void const* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace partita::detail::comm

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

inline std::string words(std::span<const std::size_t> counts) {
  std::string text = "{";
  for (std::size_t m = 0; m < counts.size(); ++m) text += partita::words({m == 0 ? "" : ", ", counts[m]});
  return text + "}";
}

inline std::string words(call const& made) {
  if (made.joined.size() > 1) {
    std::string text = partita::words({made.joined.size(), " calls as one: "});
    for (std::size_t part = 0; part < made.joined.size(); ++part) text += (part == 0 ? "" : ", ") + words(part_of(made, part));
    return text;
  }
  const std::string_view kind = name_of(made.kind), type = name_of(made.type), how = name_of(made.how);
  switch (made.kind) {
    case communication::all_reduce: return partita::words({kind, " of ", made.count, ' ', type, " by ", how});
    case communication::broadcast: return partita::words({kind, " of ", made.count, ' ', type, " from member ", made.root});
    case communication::all_gather: return partita::words({kind, " of pieces ", words(made.counts), ' ', type});
    case communication::reduce_scatter: return partita::words({kind, " of pieces ", words(made.counts), ' ', type, " by ", how});
    case communication::all_to_all:
      return partita::words({kind, " of ", type, " that sends ", words(made.counts), " and receives ", words(made.receives)});
    default: return std::string(kind);
  }
}

inline bool same_counts(std::span<const std::size_t> a, std::span<const std::size_t> b) {
  return a.size() == b.size() && (a.data() == b.data() || std::equal(a.begin(), a.end(), b.begin()));
}

// Whether two members ask the same, as far as one member's call tells.
inline bool agree(call const& a, call const& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == communication::barrier) return true;
  if (a.type != b.type || a.how != b.how || a.root != b.root || a.joined.size() != b.joined.size()) return false;
  for (std::size_t part = 0; part < a.joined.size(); ++part)
    if (!same_counts(a.joined[part].counts, b.joined[part].counts)) return false;
  if (!a.joined.empty()) return true;
  if (a.count != b.count) return false;
  return a.kind == communication::all_to_all || same_counts(a.counts, b.counts);
}

// What is wrong with the calls of the members, call_of(member), whose ranks are `ranks`; empty when nothing is.
template <class CallOf> std::string fault_of(CallOf call_of, std::span<int const> ranks) {
  const std::size_t members = ranks.size();
  call const& first = call_of(0);
  for (std::size_t m = 1; m < members; ++m)
    if (!agree(first, call_of(m)))
      return partita::words({"rank ", ranks[0], " calls ", words(first), ", but rank ", ranks[m], " calls ", words(call_of(m)),
                             "; every member must make the same calls in the same order"});
  bool const pieces = first.kind == communication::all_gather || first.kind == communication::reduce_scatter ||
                      first.kind == communication::all_to_all;
  for (std::size_t part = 0; part < first.joined.size(); ++part) {
    const std::size_t wanted = pieces ? members : 1;
    if (first.joined[part].counts.size() != wanted)
      return partita::words({"rank ", ranks[0], " calls ", words(first), ", with ", first.joined[part].counts.size(),
                             " counts where ", wanted, " are wanted"});
  }
  for (std::size_t m = 0; pieces && first.joined.empty() && m < members; ++m) {
    call const& made = call_of(m);
    if (made.counts.size() != members || (made.kind == communication::all_to_all && made.receives.size() != members))
      return partita::words({"rank ", ranks[m], " calls ", words(made), ", but the group has ", members, " members"});
  }
  if (first.kind == communication::all_to_all)
    for (std::size_t a = 0; a < members; ++a)
      for (std::size_t b = 0; b < members; ++b)
        if (call_of(a).counts[b] != call_of(b).receives[a])
          return partita::words({"in all_to_all of ", name_of(first.type), " rank ", ranks[a], " sends ", call_of(a).counts[b],
                                 " elements to rank ", ranks[b], ", which receives ", call_of(b).receives[a]});
  if (first.kind == communication::broadcast && (first.root < 0 || static_cast<std::size_t>(first.root) >= members))
    return partita::words({words(first), ", but the group has ", members, " members"});
  return {};
}

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
