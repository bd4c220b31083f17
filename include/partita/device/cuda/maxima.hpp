// Which collectives of a program reduce keys (device/cuda/keys.hpp), and what of them goes where.
#pragma once
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>

#include <partita/device/cuda/boxes.hpp>
#include <partita/device/cuda/keys.hpp>
#include <partita/program/program.hpp>

namespace partita::on_cuda {

inline bool reduces_keys(program const& p, instruction const& i) {
  if (i.kind != instruction_kind::all_reduce && i.kind != instruction_kind::reduce_scatter) return false;
  return p.collectives[static_cast<std::size_t>(i.payload)].reduce == reduction::max && has_keys(i.type);
}

// Of one call: how many numbers are reduced, and which of them this rank is given.
struct reduced_numbers {
  std::size_t all = 0, first = 0, kept = 0;
  std::size_t bytes(dtype type) const {
    return (all * size_of(type_of_keys(type)) + 255) / 256 * 256;
  }  // of the keys, as memory is aligned
};
inline reduced_numbers numbers_of(program const& p, instruction const& i, collective_call const& c) {
  if (i.kind == instruction_kind::all_reduce) return {c.counts[0], 0, c.counts[0]};
  list<int> const& members = p.groups[static_cast<std::size_t>(c.group)];
  const auto me = std::lower_bound(members.begin(), members.end(), p.rank) - members.begin();
  return {std::accumulate(c.counts.begin(), c.counts.end(), std::size_t{0}),
          std::accumulate(c.counts.begin(), c.counts.begin() + me, std::size_t{0}), c.counts[static_cast<std::size_t>(me)]};
}
// Memory for the keys of any one instruction.
inline std::size_t bytes_of_keys(program const& p) {
  std::size_t most = 0;
  for (instruction const& i : p.instructions) {
    if (!reduces_keys(p, i)) continue;
    std::size_t bytes = 0;
    for (int k = 0; k < i.call_count; ++k)
      bytes += numbers_of(p, i, p.collectives[static_cast<std::size_t>(i.payload + k)]).bytes(i.type);
    most = std::max(most, bytes);
  }
  return most;
}

inline box_arguments keys_box(box_kind kind, dtype type, std::size_t elements, void const* from, void* to) {
  box_arguments a;
  a.kind = kind;
  a.type = type;
  a.from = from;
  a.to = to;
  a.elements = elements;
  return a;
}

}  // namespace partita::on_cuda
