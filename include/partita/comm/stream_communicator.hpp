// A communicator whose calls are put into a device's stream and do not wait for it.
//
// As partita::communicator, with these differences: a call returns at once, and its buffers, in device memory, may be used
// by what is put into the same stream after it. What goes wrong later `look` throws, which a waiting host calls again and
// again. One thread calls on behalf of a rank.
#pragma once
#include <concepts>
#include <cstddef>
#include <span>
#include <string>

#include <partita/core/dtype.hpp>
#include <partita/model/op_info.hpp>  // reduction
#include <partita/program/communication_error.hpp>
#include <partita/program/joined_call.hpp>
#include <partita/program/placed_transfer.hpp>

namespace partita {

// all_reduce, reduce_scatter  a maximum of f32 or f64 is one of integers of as many bits, keys of what they stand for
//                    (device/cuda/keys.hpp).
// exchange           all transfers progress together. Between two ranks they are matched by their order.
// look               throws `aborted` once any rank has called `abort`, and communication_error where a call has failed
//                    meanwhile.
// watch_launches     while what it returns lives the host puts a step into streams. With a full queue of launches that does not
//                    return while the device waits for other ranks; no time-out of the host's own would be reached.
// note_started       the next collective of a group, or exchange, has begun on this rank's device.
// words_of_missing   of the rank's last collective of the group, or exchange (-1), that was noted: "; rank 2 has not begun
//                    it". May take seconds, to ask.
// traffic            of what was put into streams, and what count_again adds: a graph that was captured is launched again.
// abort              the first call counts. No graph has calls of the communicator any more: NCCL would wait for its end.
template <class C, class Stream>
concept stream_communicator = requires(C& c, const C& reader, std::size_t group, void* buffer, void const* input,
                                       std::span<const std::size_t> counts, std::span<joined_call const> calls, dtype type,
                                       reduction how, std::span<placed_transfer const> transfers, std::string reason, int noted,
                                       Stream stream) {
  { reader.rank() } -> std::same_as<int>;
  { reader.size() } -> std::same_as<int>;
  c.all_reduce(group, calls, type, how, stream);
  c.all_gather(group, calls, type, stream);
  c.reduce_scatter(group, calls, type, how, stream);
  c.all_to_all(group, input, counts, buffer, counts, type, stream);
  c.exchange(transfers, transfers, stream);
  c.look();
  c.watch_launches();
  c.note_started(noted);
  c.note_started(transfers, transfers);
  { reader.words_of_missing(noted) } -> std::same_as<std::string>;
  c.count_again(reader.traffic());
  c.abort(reason);
};

}  // namespace partita
