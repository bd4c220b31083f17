// What a member asks of a collective, whether the members ask the same, and the work as independent blocks.
//
// A collective of threads is copying between buffers that all threads can see. Its work is cut into blocks of bytes
// that any thread may do in any order: no two blocks write the same byte, and no block reads a byte that another one
// writes. Each byte is read once: a block of a gather copies one piece of a source to every destination, and a block
// of an all-reduce stores the sum where it found the terms.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <partita/comm/communicator.hpp>
#include <partita/comm/threads/reduce.hpp>
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

// A member's place at a rendezvous.
struct alignas(cache_line) member {
  call made;                // of the call in progress; lives while all members are inside it
  std::size_t blocks = 0;   // in this member's share of the work
  std::uint64_t turns = 0;  // calls made so far; only its own thread uses it
  alignas(cache_line) std::atomic<std::size_t> next_block{0};
};

// Long enough that taking a block costs nothing beside doing it, short enough that a source stays in cache while it
// is copied to several destinations and that the last block delays nobody. Bytes.
inline constexpr std::size_t block_bytes = 32 * 1024;

inline std::size_t sum(std::span<const std::size_t> counts) {
  std::size_t total = 0;
  for (std::size_t count : counts) total += count;
  return total;
}

struct element_range {
  std::size_t begin = 0, end = 0;
};

// The elements of one call whose blocks member `index` of so many starts with, so that threads share the work evenly
// without taking from each other.
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

inline std::size_t blocks_of(element_range share, dtype type) {
  return ((share.end - share.begin) * size_of(type) + block_bytes - 1) / block_bytes;
}

inline void copy(void* to, void const* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

// Does block `block` of the share of `index` in one of the calls that are made as one.
inline void run_block_of(std::span<const member> members, std::size_t which, std::size_t index, std::size_t block) {
  const call own = part_of(members[index].made, which);
  const std::size_t width = size_of(own.type), step = block_bytes / width;
  auto from = [&](member const& m) {
    if (m.made.joined.empty()) return m.made.from;
    return own.kind == communication::all_reduce ? m.made.joined[which].to : m.made.joined[which].from;
  };
  auto to = [&](member const& m) { return m.made.joined.empty() ? m.made.to : m.made.joined[which].to; };
  element_range part = share_of(own, index, members.size());
  part.begin += block * step;
  part.end = std::min(part.end, part.begin + step);
  const std::size_t bytes = (part.end - part.begin) * width;
  auto at = [&](auto* base, std::size_t element) {
    using byte =
        std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(base)>>, const std::byte, std::byte>;
    return static_cast<byte*>(base) + element * width;
  };
  switch (own.kind) {
    case communication::all_reduce:
    case communication::reduce_scatter: {  // together, because every reduction is compiled for each type and way
      bool const scatters = own.kind == communication::reduce_scatter;
      const std::size_t offset = scatters ? sum(own.counts.first(index)) : 0;
      auto source = [&](std::size_t m) -> void const* { return at(from(members[m]), offset); };
      auto target = [&](std::size_t m) { return scatters ? own.to : to(members[m]); };
      reduce_range(own.type, own.how, members.size(), source, scatters ? 1 : members.size(), target, part.begin, part.end);
      break;
    }
    case communication::all_gather: {
      const std::size_t offset = sum(own.counts.first(index));
      for (member const& destination : members) copy(at(to(destination), offset + part.begin), at(own.from, part.begin), bytes);
      break;
    }
    case communication::broadcast: {
      void const* source = at(members[static_cast<std::size_t>(own.root)].made.from, part.begin);
      for (member const& destination : members) copy(at(destination.made.to, part.begin), source, bytes);
      break;
    }
    case communication::all_to_all: {  // the range of the receive buffer, which pieces of several senders fill
      std::size_t piece = 0;
      for (std::size_t m = 0; m < members.size() && piece < part.end; piece += own.receives[m++]) {
        const std::size_t begin = std::max(part.begin, piece), end = std::min(part.end, piece + own.receives[m]);
        if (begin >= end) continue;
        const std::size_t offset = sum(members[m].made.counts.first(index));
        copy(at(own.to, begin), at(members[m].made.from, offset + begin - piece), (end - begin) * width);
      }
      break;
    }
    default: break;
  }
}
// Does block `block` of the share of `index`, counted over all calls that are made as one.
inline void run_block(std::span<const member> members, std::size_t index, std::size_t block) {
  call const& made = members[index].made;
  if (made.joined.empty()) return run_block_of(members, 0, index, block);
  for (std::size_t part = 0; part < made.parts(); ++part) {
    const std::size_t blocks = blocks_of(share_of(part_of(made, part), index, members.size()), made.type);
    if (block < blocks) return run_block_of(members, part, index, block);
    block -= blocks;
  }
}

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
    case communication::broadcast:
      return partita::words({kind, " of ", made.count, ' ', type, " from member ", made.root});
    case communication::all_gather: return partita::words({kind, " of pieces ", words(made.counts), ' ', type});
    case communication::reduce_scatter:
      return partita::words({kind, " of pieces ", words(made.counts), ' ', type, " by ", how});
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

// What is wrong with the calls of the members, whose ranks are `ranks`; empty when nothing is.
inline std::string fault_of(std::span<const member> members, std::span<int const> ranks) {
  call const& first = members[0].made;
  for (std::size_t m = 1; m < members.size(); ++m)
    if (!agree(first, members[m].made))
      return partita::words({"rank ", ranks[0], " calls ", words(first), ", but rank ", ranks[m], " calls ",
                             words(members[m].made), "; every member must make the same calls in the same order"});
  bool const pieces = first.kind == communication::all_gather || first.kind == communication::reduce_scatter ||
                      first.kind == communication::all_to_all;
  for (std::size_t part = 0; part < first.joined.size(); ++part) {
    const std::size_t wanted = pieces ? members.size() : 1;
    if (first.joined[part].counts.size() != wanted)
      return partita::words({"rank ", ranks[0], " calls ", words(first), ", with ", first.joined[part].counts.size(),
                             " counts where ", wanted, " are wanted"});
  }
  for (std::size_t m = 0; pieces && first.joined.empty() && m < members.size(); ++m) {
    call const& made = members[m].made;
    if (made.counts.size() != members.size() ||
        (made.kind == communication::all_to_all && made.receives.size() != members.size()))
      return partita::words({"rank ", ranks[m], " calls ", words(made), ", but the group has ", members.size(), " members"});
  }
  if (first.kind == communication::all_to_all)
    for (std::size_t a = 0; a < members.size(); ++a)
      for (std::size_t b = 0; b < members.size(); ++b)
        if (members[a].made.counts[b] != members[b].made.receives[a])
          return partita::words({"in all_to_all of ", name_of(first.type), " rank ", ranks[a], " sends ",
                                 members[a].made.counts[b], " elements to rank ", ranks[b], ", which receives ",
                                 members[b].made.receives[a]});
  if (first.kind == communication::broadcast &&
      (first.root < 0 || static_cast<std::size_t>(first.root) >= members.size()))
    return partita::words({words(first), ", but the group has ", members.size(), " members"});
  return {};
}

}  // namespace partita::detail::comm
