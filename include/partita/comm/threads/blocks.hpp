// The work of a collective as independent blocks.
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
#include <span>
#include <type_traits>

#include <partita/comm/call.hpp>
#include <partita/comm/reduce.hpp>

namespace partita::detail::comm {

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

inline std::size_t blocks_of(element_range share, dtype type) {
  return ((share.end - share.begin) * size_of(type) + block_bytes - 1) / block_bytes;
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
    using byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(base)>>, const std::byte, std::byte>;
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

}  // namespace partita::detail::comm
