// Where the heads of an attention lie in its operands.
#pragma once
#include <cstddef>

#include <partita/core/host_device.hpp>

namespace partita::detail {

inline constexpr std::size_t query_block = 64;

PARTITA_HOST_DEVICE inline std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }

// Where heads lie: q [..., s, n, (g,) d] and k, v [..., t, n, d]. Heads are those of q, n g of them; `share` of them
// read one of k and v. Query i of the piece is number i + first of its sequence; under a causal mask it sees the keys up
// to its own number.
struct attention_shape {
  std::size_t sequences, heads, share, queries, keys, width, first;
  bool causal;
  template <class Call> PARTITA_HOST_DEVICE static attention_shape of(Call const& call, bool causal, bool grouped) {
    const std::size_t share = grouped ? call.extent('g') : 1;
    return {call.rest(),      call.extent('n') * share, share, call.extent('s'), call.extent('t'),
            call.extent('d'), call.offset('s'),         causal};
  }
  PARTITA_HOST_DEVICE std::size_t key_heads() const { return share == 0 ? 0 : heads / share; }
  PARTITA_HOST_DEVICE std::size_t row() const { return heads * width; }  // from a row of one head to the next
  PARTITA_HOST_DEVICE std::size_t key_row() const { return key_heads() * width; }
  PARTITA_HOST_DEVICE std::size_t query_at(std::size_t sequence, std::size_t head, std::size_t i) const {
    return (sequence * queries + i) * row() + head * width;
  }
  PARTITA_HOST_DEVICE std::size_t key_at(std::size_t sequence, std::size_t key_head) const {
    return sequence * keys * key_row() + key_head * width;
  }
  PARTITA_HOST_DEVICE std::size_t sum_at(std::size_t sequence, std::size_t head, std::size_t i) const {
    return (sequence * heads + head) * queries + i;
  }
  PARTITA_HOST_DEVICE std::size_t blocks() const { return (queries + query_block - 1) / query_block; }
  // how many keys, of `offset` on, query i sees
  PARTITA_HOST_DEVICE std::size_t seen(std::size_t i, std::size_t offset = 0) const {
    if (!causal) return keys;
    const std::size_t end = first + i + 1;
    return end <= offset ? 0 : end - offset < keys ? end - offset : keys;
  }
};

}  // namespace partita::detail
