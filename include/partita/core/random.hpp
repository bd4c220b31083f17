// Random numbers that depend on nothing but a key, a step and an element's index in the whole tensor, so that every
// cut of a tensor, and every recomputation, draws the same ones.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <partita/core/host_device.hpp>

namespace partita {

// Four independent uniform 32-bit words.
struct philox_block {
  std::uint32_t word[4];
};

// Philox4x32-10. J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: Parallel random numbers: as easy as 1, 2, 3
// (SC 2011). The counter's low half is words 0 and 1 of the paper's, least significant first; the high half 2 and 3.
namespace detail {
inline constexpr std::uint32_t philox_multiplier_0 = 0xD2511F53, philox_multiplier_1 = 0xCD9E8D57;
inline constexpr std::uint32_t philox_weyl_0 = 0x9E3779B9, philox_weyl_1 = 0xBB67AE85;
inline constexpr int philox_rounds = 10;

PARTITA_HOST_DEVICE constexpr void philox_round(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c, std::uint32_t& d,
                                                std::uint32_t key_0, std::uint32_t key_1) {
  const std::uint64_t left = std::uint64_t{philox_multiplier_0} * a, right = std::uint64_t{philox_multiplier_1} * c;
  a = static_cast<std::uint32_t>(right >> 32) ^ b ^ key_0;
  c = static_cast<std::uint32_t>(left >> 32) ^ d ^ key_1;
  b = static_cast<std::uint32_t>(right);
  d = static_cast<std::uint32_t>(left);
}
}  // namespace detail

PARTITA_HOST_DEVICE constexpr philox_block philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high) {
  philox_block out{{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
                    static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)}};
  std::uint32_t key_0 = static_cast<std::uint32_t>(key), key_1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < detail::philox_rounds; ++round) {
    detail::philox_round(out.word[0], out.word[1], out.word[2], out.word[3], key_0, key_1);
    key_0 += detail::philox_weyl_0;
    key_1 += detail::philox_weyl_1;
  }
  return out;
}

// The word of element `index` of the stream (key, step): word index % 4 of block index / 4.
PARTITA_HOST_DEVICE constexpr std::uint32_t random_word(std::uint64_t key, std::uint64_t step, std::uint64_t index) {
  const philox_block block = philox(key, index / 4, step);
  const std::uint64_t at = index % 4;  // chosen without an address, which a GPU's registers have none of
  return at < 2 ? (at == 0 ? block.word[0] : block.word[1]) : (at == 2 ? block.word[2] : block.word[3]);
}

// In [0, 1): a multiple of 2^-24, so that it is exact in float.
PARTITA_HOST_DEVICE constexpr float uniform_of(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
}
PARTITA_HOST_DEVICE constexpr float random_uniform(std::uint64_t key, std::uint64_t step, std::uint64_t index) {
  return uniform_of(random_word(key, step, index));
}

// Whether a dropout of this probability keeps an element; `random_uniform(...) >= probability` says the same.
PARTITA_HOST_DEVICE constexpr bool keeps(std::uint32_t word, float probability) { return uniform_of(word) >= probability; }
PARTITA_HOST_DEVICE constexpr bool keeps(std::uint64_t key, std::uint64_t step, std::uint64_t index, float probability) {
  return keeps(random_word(key, step, index), probability);
}

// Whether each of N elements that follow each other is kept: one block of words for four of them, where `index` is a multiple
// of 4.
template <std::size_t N> PARTITA_HOST_DEVICE constexpr void keeps_each(bool (&kept)[N], std::uint64_t key, std::uint64_t step,
                                                                       std::uint64_t index, float probability) {
  if (N % 4 == 0 && index % 4 == 0) {
    for (std::size_t first = 0; first < N; first += 4) {
      const philox_block block = philox(key, (index + first) / 4, step);
      for (std::size_t j = 0; j < 4; ++j) kept[first + j] = keeps(block.word[j], probability);
    }
  } else
    for (std::size_t j = 0; j < N; ++j) kept[j] = keeps(key, step, index + j, probability);
}

// Standard normal, by G. E. P. Box and M. E. Muller (1958) in double on the two words of the element's pair: the even
// element takes the cosine, the odd one the sine. Never larger than 6.77.
PARTITA_HOST_DEVICE inline double normal_of(philox_block const& block, unsigned lane) {
  const double radius_word = block.word[lane & 2u], angle_word = block.word[(lane & 2u) + 1];
  const double radius = std::sqrt(-2.0 * std::log((radius_word + 0.5) * 0x1p-32));
  const double angle = 6.283185307179586476925 * (angle_word * 0x1p-32);
  return radius * ((lane & 1u) == 0 ? std::cos(angle) : std::sin(angle));
}
PARTITA_HOST_DEVICE inline float random_normal(std::uint64_t key, std::uint64_t step, std::uint64_t index) {
  return static_cast<float>(normal_of(philox(key, index / 4, step), static_cast<unsigned>(index % 4)));
}

namespace detail {
// 32 blocks at once, in loops of fixed length that compilers turn into vectors. `out` holds the words of the elements
// from 4 first_block on.
inline constexpr std::size_t philox_batch = 32;
inline void philox_blocks(std::uint64_t key, std::uint64_t step, std::uint64_t first_block,
                          std::uint32_t (&out)[4 * philox_batch]) {
  std::uint32_t a[philox_batch], b[philox_batch], c[philox_batch], d[philox_batch];
  for (std::size_t i = 0; i < philox_batch; ++i) {
    const std::uint64_t block = first_block + i;
    a[i] = static_cast<std::uint32_t>(block);
    b[i] = static_cast<std::uint32_t>(block >> 32);
    c[i] = static_cast<std::uint32_t>(step);
    d[i] = static_cast<std::uint32_t>(step >> 32);
  }
  std::uint32_t key_0 = static_cast<std::uint32_t>(key), key_1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < philox_rounds; ++round) {
    // at -O3 g++ would unroll this loop before it looks for vectors, and be three times slower
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#pragma GCC unroll 1
#endif
    for (std::size_t i = 0; i < philox_batch; ++i) philox_round(a[i], b[i], c[i], d[i], key_0, key_1);
    key_0 += philox_weyl_0;
    key_1 += philox_weyl_1;
  }
  for (std::size_t i = 0; i < philox_batch; ++i) {
    out[4 * i] = a[i];
    out[4 * i + 1] = b[i];
    out[4 * i + 2] = c[i];
    out[4 * i + 3] = d[i];
  }
}

// Calls take(words, from, count, at) for runs of at most 128: words[from + j] belongs to element first + at + j.
template <class Take> void each_run(std::uint64_t key, std::uint64_t step, std::uint64_t first, std::size_t count, Take take) {
  std::uint32_t words[4 * philox_batch];
  std::size_t at = 0, from = static_cast<std::size_t>(first % 4);
  while (at < count) {
    philox_blocks(key, step, (first + at) / 4, words);
    const std::size_t room = 4 * philox_batch - from, left = count - at, run = left < room ? left : room;
    take(words, from, run, at);
    at += run;
    from = 0;
  }
}
}  // namespace detail

// out[j] = random_uniform(key, step, first + j) for j < count; bit for bit.
inline void fill_uniform(float* out, std::uint64_t key, std::uint64_t step, std::uint64_t first, std::size_t count) {
  detail::each_run(key, step, first, count, [out](std::uint32_t const* words, std::size_t from, std::size_t run, std::size_t at) {
    if (run == 4 * detail::philox_batch)
      for (std::size_t j = 0; j < 4 * detail::philox_batch; ++j) out[at + j] = uniform_of(words[j]);
    else
      for (std::size_t j = 0; j < run; ++j) out[at + j] = uniform_of(words[from + j]);
  });
}

// out[j] = keeps(key, step, first + j, probability) ? kept : 0, the factor that inverted dropout multiplies with when
// `kept` is 1 / (1 - probability).
template <class T> void fill_dropout(T* out, std::uint64_t key, std::uint64_t step, std::uint64_t first, std::size_t count,
                                     float probability, T kept) {
  detail::each_run(key, step, first, count, [=](std::uint32_t const* words, std::size_t from, std::size_t run, std::size_t at) {
    if (run == 4 * detail::philox_batch)
      for (std::size_t j = 0; j < 4 * detail::philox_batch; ++j) out[at + j] = keeps(words[j], probability) ? kept : T(0);
    else
      for (std::size_t j = 0; j < run; ++j) out[at + j] = keeps(words[from + j], probability) ? kept : T(0);
  });
}

// Bit j % 64 of out[j / 64] is keeps(key, step, first + j, probability); the last word's spare bits are 0.
inline void fill_keep_bits(std::uint64_t* out, std::uint64_t key, std::uint64_t step, std::uint64_t first, std::size_t count,
                           float probability) {
  for (std::size_t word = 0; word * 64 < count; ++word) out[word] = 0;
  detail::each_run(key, step, first, count, [=](std::uint32_t const* words, std::size_t from, std::size_t run, std::size_t at) {
    constexpr std::size_t most = 4 * detail::philox_batch;
    std::uint64_t kept[most / 8];  // eight bytes each, of 0 or 1, the first element's lowest
    for (std::size_t j = 0; j < most / 8; ++j) {
      kept[j] = 0;
      for (std::size_t b = 0; b < 8; ++b) kept[j] |= std::uint64_t{keeps(words[8 * j + b], probability)} << (8 * b);
    }
    // the product brings byte b's bit to bit 56 + b
    for (std::size_t j = 0; j < most / 8; ++j) kept[j] = kept[j] * 0x0102040810204080u >> 56;
    for (std::size_t j = 0; j < run;) {
      const std::size_t bit = (from + j) % 8, to = (at + j) % 64;
      std::size_t take = 8 - bit < run - j ? 8 - bit : run - j;
      take = take < 64 - to ? take : 64 - to;
      const std::uint64_t mask = (std::uint64_t{1} << take) - 1;
      out[(at + j) / 64] |= (kept[(from + j) / 8] >> bit & mask) << to;
      j += take;
    }
  });
}

// out[j] = random_normal(key, step, first + j), times `deviation`; bit for bit whatever the range.
template <class T>
void fill_normal(T* out, std::uint64_t key, std::uint64_t step, std::uint64_t first, std::size_t count, double deviation = 1) {
  std::size_t at = 0;
  while (at < count) {
    const std::uint64_t index = first + at;
    const philox_block block = philox(key, index / 4, step);
    for (unsigned lane = static_cast<unsigned>(index % 4); lane < 4 && at < count; ++lane, ++at)
      out[at] = static_cast<T>(normal_of(block, lane) * deviation);
  }
}

}  // namespace partita
