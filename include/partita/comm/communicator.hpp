// The communicator: what a program needs to move bytes between ranks. A rank holds one communicator; its models are
// threads of one process (comm/threads/world.hpp), MPI and NCCL. A program does not know which it runs on.
//
// Contract, for every model
// - A call blocks the calling thread until the caller's buffers may be used again. One thread at a time calls on
//   behalf of a rank.
// - A group is an index into the list of groups that the communicator was made with. A group is a sorted list of
//   ranks; a *member* is a position in it. Every member of a group makes the same calls of that group in the same
//   order. Calls of different groups may be ordered differently only where no cycle of waiting arises.
// - Counts are in elements, bytes in messages. Buffers are aligned for their dtype. A count of zero is legal, and
//   then so is a null pointer. Buffers of one call do not overlap, but where a call says so.
// - Reductions combine member 0, then 1, then 2, ... element by element in the dtype itself, and every member
//   receives the same bits, whatever the number of threads or cores.
// - A maximum is NaN where any member's element is: a NaN must not vanish on its way to where it is looked for.
// - If members of one call disagree (kind, count, dtype, reduction, root), every one of them throws `error`, which
//   names the group, the ranks and both calls. The contents of the buffers are then unspecified. Where the two sides of
//   a message disagree about its bytes, the receiver throws, and between threads the sender as well.
// - After `abort` every blocked and every later call of any rank throws `aborted`, which names who failed first. A
//   call throws only when no other rank touches its buffers any more, so unwinding may free them.
// - A step allocates nothing: state per group and rank is made with the communicator.
// - Several all_reduce, all_gather or reduce_scatter of one group and type may be made as one call, given as a span of
//   joined_call in place of the buffers: they do what they would one by one, for one latency. A model that lacks these
//   is asked one by one.
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include <partita/core/dtype.hpp>
#include <partita/core/error.hpp>
#include <partita/model/op_info.hpp>  // reduction
#include <partita/program/joined_call.hpp>

namespace partita {

// Thrown by every call once somebody has called `abort`.
struct aborted : error {
  using error::error;
};

constexpr std::string_view name_of(reduction how) { return how == reduction::sum ? "sum" : "max"; }

enum class communication : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, exchange, barrier };
inline constexpr std::size_t communication_kinds = 7;

constexpr std::string_view name_of(communication kind) {
  constexpr std::array<std::string_view, communication_kinds> names{"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                                    "broadcast",  "exchange",   "barrier"};
  return names[static_cast<std::size_t>(kind)];
}

// One side of a point-to-point transfer. A send and a receive belong together when source, destination and tag are
// equal; of several with one tag the first sent meets the first received. A send only reads `data`.
struct message {
  int peer = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  std::uint64_t tag = 0;
};

// What left one rank, by kind. Collectives count as the ring algorithm would send them, for n members and B bytes:
// all_reduce 2(n-1)/n B; all_gather (n-1) times the own piece; reduce_scatter B less the own piece; all_to_all and
// exchange what goes to other ranks; broadcast B for every member but the last of the chain that starts at the root.
struct traffic_counts {
  std::array<std::uint64_t, communication_kinds> bytes{};
  std::array<std::uint64_t, communication_kinds> calls{};

  constexpr std::uint64_t bytes_of(communication kind) const { return bytes[static_cast<std::size_t>(kind)]; }
  constexpr std::uint64_t calls_of(communication kind) const { return calls[static_cast<std::size_t>(kind)]; }
  constexpr std::uint64_t total_bytes() const {
    std::uint64_t sum = 0;
    for (std::uint64_t each : bytes) sum += each;
    return sum;
  }
  // The traffic between two readings: later - earlier.
  friend constexpr traffic_counts operator-(traffic_counts later, traffic_counts const& earlier) {
    for (std::size_t kind = 0; kind < communication_kinds; ++kind) {
      later.bytes[kind] -= earlier.bytes[kind];
      later.calls[kind] -= earlier.calls[kind];
    }
    return later;
  }
  constexpr traffic_counts& operator+=(traffic_counts const& more) {
    for (std::size_t kind = 0; kind < communication_kinds; ++kind) {
      bytes[kind] += more.bytes[kind];
      calls[kind] += more.calls[kind];
    }
    return *this;
  }
  friend constexpr bool operator==(traffic_counts const&, traffic_counts const&) = default;
};

// all_reduce      buffer[count], in place.
// all_gather      mine[counts[me]] -> all[sum of counts], pieces in member order.
// reduce_scatter  all[sum of counts] -> mine[counts[me]]. As for all_gather, `mine` may be the own piece of `all`.
// all_to_all      send: counts[m] elements for member m, one after the other; receive likewise. What
//                 member a sends to b is what b receives from a.
// broadcast       buffer[count] of member `root` -> every buffer.
// exchange        all messages progress together, so two ranks that both "send first" do not block each other.
//                 Returns when every send has been taken and every receive has arrived.
// barrier         returns when every member has called it.
// abort           from any thread, at any time; the first call counts, later ones do nothing.
template <class C>
concept communicator = requires(C& c, const C& reader, std::size_t group, void* buffer, void const* input, std::size_t count,
                                std::span<const std::size_t> counts, dtype type, reduction how, int root,
                                std::span<const message> messages, std::string reason, std::exception_ptr failure) {
  { reader.rank() } -> std::same_as<int>;
  { reader.size() } -> std::same_as<int>;
  { reader.members(group) } -> std::same_as<std::span<int const>>;
  { reader.traffic() } -> std::same_as<traffic_counts>;
  c.all_reduce(group, buffer, count, type, how);
  c.all_gather(group, input, buffer, counts, type);
  c.reduce_scatter(group, input, buffer, counts, type, how);
  c.all_to_all(group, input, counts, buffer, counts, type);
  c.broadcast(group, buffer, count, type, root);
  c.exchange(messages, messages);
  c.barrier(group);
  c.abort(reason);
  c.abort(failure);
};

}  // namespace partita
