// Attention in bf16 and f16 on the matrix units of a GPU: a team takes a tile of queries (in the second half of the gradient, of
// keys) and goes through the tiles of keys (queries), with the running maximum and sum of Milakov and Gimelshein (2018) as Dao
// et al. (2022) have them. Tiles lie in memory that the members of a team have in common; products of tiles are the team's
// `multiply_tiles`, with sums in f32. Probabilities are rounded to the operands' type before they are multiplied. Additions
// have one order: no atomics.
#pragma once
#include <cstddef>
#include <limits>
#include <type_traits>

#include <partita/core/host_device.hpp>
#include <partita/core/math.hpp>
#include <partita/core/packs.hpp>
#include <partita/ops/attention_shape.hpp>

namespace partita::detail {

inline constexpr std::size_t widest_tiled_head = 128;
inline constexpr unsigned members_of_row = 4;  // that go through a row of scores together, each taking every fourth column

template <class Call> inline constexpr bool takes_tiles = sizeof(typename Call::template input_type<0>) == 2;

// Rows of tiles are padded by 16 bytes: so their columns do not fall onto the same bank of memory.
PARTITA_HOST_DEVICE constexpr unsigned narrow_row(unsigned columns) { return columns + 8; }
PARTITA_HOST_DEVICE constexpr unsigned wide_row(unsigned columns) { return columns + 4; }

// How a team's memory is shared out. `width` is that of a head, in whole tiles of 16. Places in tiles are numbers of 32
// bits: of 64, the gradient would need more registers than two teams of a multiprocessor have, and spill them.
struct attention_tiles {
  unsigned queries, keys, width;
  PARTITA_HOST_DEVICE static attention_tiles of(std::size_t width, unsigned queries, unsigned keys) {
    return {queries, keys, static_cast<unsigned>(width + 15) / 16 * 16};
  }
  PARTITA_HOST_DEVICE static attention_tiles forward(std::size_t width) { return of(width, 64, width <= 64 ? 64 : 32); }
  PARTITA_HOST_DEVICE static attention_tiles of_queries(std::size_t width) { return of(width, width <= 64 ? 64 : 32, 32); }
  PARTITA_HOST_DEVICE static attention_tiles of_keys(std::size_t width) { return of(width, 32, width <= 64 ? 64 : 32); }

  PARTITA_HOST_DEVICE unsigned of_query() const { return queries * narrow_row(width); }  // elements of tiles
  PARTITA_HOST_DEVICE unsigned of_key() const { return keys * narrow_row(width); }
  PARTITA_HOST_DEVICE unsigned of_scores() const { return queries * wide_row(keys); }
  PARTITA_HOST_DEVICE unsigned of_probabilities() const { return queries * narrow_row(keys); }
  PARTITA_HOST_DEVICE unsigned of_query_sums() const { return queries * wide_row(width); }
  PARTITA_HOST_DEVICE unsigned of_key_sums() const { return keys * wide_row(width); }

  PARTITA_HOST_DEVICE std::size_t forward_bytes() const {
    return 2 * (of_query() + 2 * of_key() + of_probabilities()) +
           4 * (of_scores() + of_query_sums() + 3 * members_of_row * queries);
  }
  PARTITA_HOST_DEVICE std::size_t of_queries_bytes() const {
    return 2 * (2 * of_query() + 2 * of_key() + of_probabilities()) +
           4 * (2 * of_scores() + of_query_sums() + members_of_row * queries);
  }
  PARTITA_HOST_DEVICE std::size_t of_keys_bytes() const {
    return 2 * (2 * of_query() + 2 * of_key() + 2 * of_probabilities()) +
           4 * (2 * of_scores() + 2 * of_key_sums() + members_of_row * queries);
  }
};

// Parts of a team's memory, one after the other. Every tile is a multiple of 32 bytes, which the matrix units want.
struct tile_memory {
  std::byte* next;
  template <class T> PARTITA_HOST_DEVICE T* take(std::size_t count) {
    T* const here = reinterpret_cast<T*>(next);
    next += count * sizeof(T);
    return here;
  }
};

// tile[i, e] = from[i * row + e] for i < rows and e < columns, 0 in what is left of the tile.
template <class Team, class T> PARTITA_HOST_DEVICE void load_tile(Team const& team, T* tile, unsigned tile_rows,
                                                                  unsigned tile_columns, T const* from, std::size_t row,
                                                                  unsigned rows, unsigned columns) {
  constexpr unsigned pack = elements_of_pack<T>();
  const unsigned packs = tile_columns / pack, stride = narrow_row(tile_columns);
  const bool whole = begins_pack(from) && row % pack == 0 && columns == tile_columns;
  team.each(tile_rows * packs, [=](std::size_t m) {
    const unsigned i = static_cast<unsigned>(m) / packs, e = static_cast<unsigned>(m) % packs * pack;
    T* const to = tile + i * stride + e;
    if (whole && i < rows) store_pack<pack>(to, load_pack<pack>(from + i * row + e));
    else
      for (unsigned j = 0; j < pack; ++j) to[j] = i < rows && e + j < columns ? from[i * row + e + j] : T(0.f);
  });
}
template <class Team, class T> PARTITA_HOST_DEVICE void clear_tile(Team const& team, T* tile, std::size_t n) {
  team.each(n, [=](std::size_t i) { tile[i] = T(0); });
}

// How many of a tile's keys, `count` from `first` on, query i sees.
PARTITA_HOST_DEVICE inline unsigned seen_of_tile(attention_shape const& at, std::size_t i, std::size_t first, unsigned count,
                                                 std::size_t first_key) {
  const std::size_t seen = at.seen(i, first_key);
  return seen <= first ? 0 : static_cast<unsigned>(least(seen - first, count));
}

// Inputs q, k, v; outputs y and the log of each query's sum, which are merged with what is there when the call accumulates.
template <class Call> PARTITA_HOST_DEVICE void attention_by_tiles(Call& call, attention_shape const at) {
  auto const* q = call.template input<0>();
  auto const* k = call.template input<1>();
  auto const* v = call.template input<2>();
  auto* y = call.template output<0>();
  auto* log_sum = call.template output<1>();
  using element = std::remove_pointer_t<decltype(y)>;
  using sum_value = std::remove_pointer_t<decltype(log_sum)>;
  const attention_tiles t = attention_tiles::forward(at.width);
  const std::size_t row = at.row(), key_row = at.key_row(), first_key = call.offset('t'),
                    blocks = (at.queries + t.queries - 1) / t.queries;
  const float scale = 1.f / math::sqrt(static_cast<float>(at.width));
  const bool add = call.accumulate();
  call.tiles(at.sequences * at.heads * blocks, t.forward_bytes(), [=](std::size_t item, auto const& team) {
    constexpr float none = -std::numeric_limits<float>::max();  // the log of no keys' sum
    const std::size_t begin = item % blocks * t.queries, head = item / blocks % at.heads, sequence = item / blocks / at.heads;
    const unsigned rows = static_cast<unsigned>(least(at.queries - begin, t.queries)), width = static_cast<unsigned>(at.width);
    const std::size_t here = at.query_at(sequence, head, begin), keys_at = at.key_at(sequence, head / at.share),
                      sums_at = at.sum_at(sequence, head, begin), seen = at.seen(begin + rows - 1, first_key);
    tile_memory memory{team.memory(t.forward_bytes())};
    element *const q_tile = memory.take<element>(t.of_query()), *const k_tile = memory.take<element>(t.of_key()),
                   *const v_tile = memory.take<element>(t.of_key()), *const p_tile = memory.take<element>(t.of_probabilities());
    float *const scores = memory.take<float>(t.of_scores()), *const sums = memory.take<float>(t.of_query_sums());
    // Each member of a row has a maximum, which is the row's, and a sum of its own columns.
    float *const maxima = memory.take<float>(members_of_row * t.queries),
                 *const totals = memory.take<float>(members_of_row * t.queries),
                 *const of_tile = memory.take<float>(members_of_row * t.queries);
    const unsigned members = members_of_row * t.queries, score_row = wide_row(t.keys), p_row = narrow_row(t.keys),
                   sum_row = wide_row(t.width);

    load_tile(team, q_tile, t.queries, t.width, q + here, row, rows, width);
    team.each(members, [=](std::size_t m) {
      const unsigned i = static_cast<unsigned>(m) / members_of_row, part = static_cast<unsigned>(m) % members_of_row;
      const bool merges = add && i < rows && log_sum[sums_at + i] != static_cast<sum_value>(none);
      maxima[m] = merges ? static_cast<float>(log_sum[sums_at + i]) : none;
      totals[m] = merges && part == 0 ? 1.f : 0.f;
      for (unsigned e = part; e < t.width; e += members_of_row)
        sums[i * sum_row + e] = merges && e < at.width ? static_cast<float>(y[here + i * row + e]) : 0.f;
    });
    for (std::size_t first = 0; first < seen; first += t.keys) {
      const unsigned count = static_cast<unsigned>(least(seen - first, t.keys));
      load_tile(team, k_tile, t.keys, t.width, k + keys_at + first * key_row, key_row, count, width);
      load_tile(team, v_tile, t.keys, t.width, v + keys_at + first * key_row, key_row, count, width);
      team.template multiply_tiles<false, true>(t.queries, t.keys, t.width, q_tile, narrow_row(t.width), k_tile,
                                                narrow_row(t.width), scores, score_row, false);
      const auto seen_here = [=](unsigned i) { return i < rows ? seen_of_tile(at, begin + i, first, count, first_key) : 0; };
      team.each(members, [=](std::size_t m) {
        const unsigned i = static_cast<unsigned>(m) / members_of_row, columns = seen_here(i);
        float most = none;
        for (unsigned j = static_cast<unsigned>(m) % members_of_row; j < columns; j += members_of_row) {
          const float s = scale * scores[i * score_row + j];
          most = s > most || s != s ? s : most;  // a NaN stays
        }
        of_tile[m] = most;
      });
      team.each(members, [=](std::size_t m) {
        const unsigned i = static_cast<unsigned>(m) / members_of_row, part = static_cast<unsigned>(m) % members_of_row,
                       columns = seen_here(i);
        float most = maxima[m];
        const float before = most;
        for (unsigned other = 0; other < members_of_row; ++other) {
          const float s = of_tile[i * members_of_row + other];
          most = s > most || s != s ? s : most;
        }
        const float kept = before == none ? 0.f : math::exp(before - most);
        float total = totals[m] * kept;
        for (unsigned j = part; j < t.keys; j += members_of_row) {
          const float p = j < columns ? math::exp(scale * scores[i * score_row + j] - most) : 0.f;
          total += p;
          p_tile[i * p_row + j] = element(p);
        }
        maxima[m] = most;
        totals[m] = total;
        for (unsigned e = part; e < t.width; e += members_of_row) sums[i * sum_row + e] *= kept;
      });
      team.template multiply_tiles<false, false>(t.queries, t.width, t.keys, p_tile, p_row, v_tile, narrow_row(t.width), sums,
                                                 sum_row, true);
    }
    team.each(members, [=](std::size_t m) {
      const unsigned i = static_cast<unsigned>(m) / members_of_row, part = static_cast<unsigned>(m) % members_of_row;
      if (i >= rows) return;
      float total = 0;
      for (unsigned other = 0; other < members_of_row; ++other) total += totals[i * members_of_row + other];
      const float inverse = total == 0.f ? 0.f : 1.f / total;
      for (unsigned e = part; e < at.width; e += members_of_row) y[here + i * row + e] = element(sums[i * sum_row + e] * inverse);
      if (part == 0) log_sum[sums_at + i] = static_cast<sum_value>(total == 0.f ? none : maxima[m] + math::log(total));
    });
  });
}

// Inputs dy, q, k, v, y, log of sums; outputs dq, dk, dv, added to what is there when the call accumulates.
template <class T, class A> struct attention_gradient_operands {
  T const *dy, *q, *k, *v, *y;
  A const* log_sum;
  T *dq, *dk, *dv;
  float scale;
  bool add;
};

// From scores q k^T and dp = dy v^T of a tile: p and ds = p (dp - dy y) as tiles. `p_tile` may be null. `begin`, `first`: the
// tile's first query and key.
template <class Team, class T, class A>
PARTITA_HOST_DEVICE void probabilities_and_slopes(Team const& team, attention_shape const at, attention_tiles const t,
                                                  attention_gradient_operands<T, A> const x, std::size_t begin, unsigned rows,
                                                  std::size_t first, unsigned count, std::size_t first_key, std::size_t sums_at,
                                                  float const* scores, float const* dp, float const* weighted, T* p_tile,
                                                  T* ds_tile) {
  team.each(members_of_row * t.queries, [=](std::size_t m) {
    const unsigned i = static_cast<unsigned>(m) / members_of_row,
                   columns = i < rows ? seen_of_tile(at, begin + i, first, count, first_key) : 0;
    float slope = 0;
    for (unsigned part = 0; part < members_of_row; ++part) slope += weighted[i * members_of_row + part];
    const float log_total = i < rows ? static_cast<float>(x.log_sum[sums_at + i]) : 0.f;
    for (unsigned j = static_cast<unsigned>(m) % members_of_row; j < t.keys; j += members_of_row) {
      const float p = j < columns ? math::exp(x.scale * scores[i * wide_row(t.keys) + j] - log_total) : 0.f;
      if (p_tile != nullptr) p_tile[i * narrow_row(t.keys) + j] = T(p);
      ds_tile[i * narrow_row(t.keys) + j] = T(j < columns ? p * (dp[i * wide_row(t.keys) + j] - slope) : 0.f);
    }
  });
}
// Parts of dy y of each query of a tile, by the members of its row.
template <class Team, class T, class A> PARTITA_HOST_DEVICE void weigh_queries(Team const& team, attention_shape const at,
                                                                               attention_tiles const t,
                                                                               attention_gradient_operands<T, A> const x,
                                                                               std::size_t here, unsigned rows, float* weighted) {
  const std::size_t row = at.row();
  team.each(members_of_row * t.queries, [=](std::size_t m) {
    const unsigned i = static_cast<unsigned>(m) / members_of_row;
    float sum = 0;
    if (i < rows)
      for (unsigned e = static_cast<unsigned>(m) % members_of_row; e < at.width; e += members_of_row)
        sum += static_cast<float>(x.dy[here + i * row + e]) * static_cast<float>(x.y[here + i * row + e]);
    weighted[m] = sum;
  });
}
template <class Team, class T> PARTITA_HOST_DEVICE void store_sums(Team const& team, float const* sums, unsigned sum_row,
                                                                   unsigned rows, unsigned width, float scale, bool add, T* to,
                                                                   std::size_t row) {
  team.each(rows * width, [=](std::size_t m) {
    const unsigned i = static_cast<unsigned>(m) / width, e = static_cast<unsigned>(m) % width;
    T& out = to[i * row + e];
    out = T((add ? static_cast<float>(out) : 0.f) + scale * sums[i * sum_row + e]);
  });
}

template <class Call> PARTITA_HOST_DEVICE void attention_gradients_by_tiles(Call& call, attention_shape const at) {
  auto* dq = call.template output<0>();
  using T = std::remove_pointer_t<decltype(dq)>;
  auto const* log_sum = call.template input<5>();
  using A = std::remove_const_t<std::remove_pointer_t<decltype(log_sum)>>;
  const attention_gradient_operands<T, A> x{call.template input<0>(),
                                            call.template input<1>(),
                                            call.template input<2>(),
                                            call.template input<3>(),
                                            call.template input<4>(),
                                            log_sum,
                                            dq,
                                            call.template output<1>(),
                                            call.template output<2>(),
                                            1.f / math::sqrt(static_cast<float>(at.width)),
                                            call.accumulate()};
  const std::size_t row = at.row(), key_row = at.key_row(), first_key = call.offset('t');

  // dq = sum over keys of ds k / sqrt(d)
  const attention_tiles t = attention_tiles::of_queries(at.width);
  const std::size_t blocks = (at.queries + t.queries - 1) / t.queries;
  call.tiles(at.sequences * at.heads * blocks, t.of_queries_bytes(), [=](std::size_t item, auto const& team) {
    const std::size_t begin = item % blocks * t.queries, head = item / blocks % at.heads, sequence = item / blocks / at.heads;
    const unsigned rows = static_cast<unsigned>(least(at.queries - begin, t.queries)), width = static_cast<unsigned>(at.width);
    const std::size_t here = at.query_at(sequence, head, begin), keys_at = at.key_at(sequence, head / at.share),
                      sums_at = at.sum_at(sequence, head, begin), seen = at.seen(begin + rows - 1, first_key);
    const unsigned stride = narrow_row(t.width);
    tile_memory memory{team.memory(t.of_queries_bytes())};
    T *const q_tile = memory.take<T>(t.of_query()), *const dy_tile = memory.take<T>(t.of_query()),
             *const k_tile = memory.take<T>(t.of_key()), *const v_tile = memory.take<T>(t.of_key()),
             *const ds_tile = memory.take<T>(t.of_probabilities());
    float *const scores = memory.take<float>(t.of_scores()), *const dp = memory.take<float>(t.of_scores()),
                 *const sums = memory.take<float>(t.of_query_sums()),
                 *const weighted = memory.take<float>(members_of_row * t.queries);
    T* const no_tile = nullptr;
    load_tile(team, q_tile, t.queries, t.width, x.q + here, row, rows, width);
    load_tile(team, dy_tile, t.queries, t.width, x.dy + here, row, rows, width);
    weigh_queries(team, at, t, x, here, rows, weighted);
    clear_tile(team, sums, t.of_query_sums());
    for (std::size_t first = 0; first < seen; first += t.keys) {
      const unsigned count = static_cast<unsigned>(least(seen - first, t.keys));
      load_tile(team, k_tile, t.keys, t.width, x.k + keys_at + first * key_row, key_row, count, width);
      load_tile(team, v_tile, t.keys, t.width, x.v + keys_at + first * key_row, key_row, count, width);
      team.template multiply_tiles<false, true>(t.queries, t.keys, t.width, q_tile, stride, k_tile, stride, scores,
                                                wide_row(t.keys), false);
      team.template multiply_tiles<false, true>(t.queries, t.keys, t.width, dy_tile, stride, v_tile, stride, dp, wide_row(t.keys),
                                                false);
      probabilities_and_slopes(team, at, t, x, begin, rows, first, count, first_key, sums_at, scores, dp, weighted, no_tile,
                               ds_tile);
      team.template multiply_tiles<false, false>(t.queries, t.width, t.keys, ds_tile, narrow_row(t.keys), k_tile, stride, sums,
                                                 wide_row(t.width), true);
    }
    store_sums(team, sums, wide_row(t.width), rows, width, x.scale, x.add, x.dq + here, row);
  });

  // dv = sum over queries of p dy,  dk = sum over queries of ds q / sqrt(d)
  const attention_tiles u = attention_tiles::of_keys(at.width);
  const std::size_t key_blocks = (at.keys + u.keys - 1) / u.keys;
  call.tiles(at.sequences * at.key_heads() * key_blocks, u.of_keys_bytes(), [=](std::size_t item, auto const& team) {
    const std::size_t first = item % key_blocks * u.keys, key_head = item / key_blocks % at.key_heads(),
                      sequence = item / key_blocks / at.key_heads();
    const unsigned count = static_cast<unsigned>(least(at.keys - first, u.keys)), width = static_cast<unsigned>(at.width);
    const std::size_t keys_at = at.key_at(sequence, key_head) + first * key_row, number = first + first_key,
                      begin_seeing = !at.causal || number <= at.first ? 0 : number - at.first;
    const unsigned stride = narrow_row(u.width), sum_row = wide_row(u.width);
    tile_memory memory{team.memory(u.of_keys_bytes())};
    T *const q_tile = memory.take<T>(u.of_query()), *const dy_tile = memory.take<T>(u.of_query()),
             *const k_tile = memory.take<T>(u.of_key()), *const v_tile = memory.take<T>(u.of_key()),
             *const p_tile = memory.take<T>(u.of_probabilities()), *const ds_tile = memory.take<T>(u.of_probabilities());
    float *const scores = memory.take<float>(u.of_scores()), *const dp = memory.take<float>(u.of_scores()),
                 *const dk_sums = memory.take<float>(u.of_key_sums()), *const dv_sums = memory.take<float>(u.of_key_sums()),
                 *const weighted = memory.take<float>(members_of_row * u.queries);
    load_tile(team, k_tile, u.keys, u.width, x.k + keys_at, key_row, count, width);
    load_tile(team, v_tile, u.keys, u.width, x.v + keys_at, key_row, count, width);
    clear_tile(team, dk_sums, u.of_key_sums());
    clear_tile(team, dv_sums, u.of_key_sums());
    for (std::size_t head = key_head * at.share; head < (key_head + 1) * at.share; ++head)
      for (std::size_t begin = begin_seeing / u.queries * u.queries; begin < at.queries; begin += u.queries) {
        const unsigned rows = static_cast<unsigned>(least(at.queries - begin, u.queries));
        const std::size_t here = at.query_at(sequence, head, begin), sums_at = at.sum_at(sequence, head, begin);
        load_tile(team, q_tile, u.queries, u.width, x.q + here, row, rows, width);
        load_tile(team, dy_tile, u.queries, u.width, x.dy + here, row, rows, width);
        weigh_queries(team, at, u, x, here, rows, weighted);
        team.template multiply_tiles<false, true>(u.queries, u.keys, u.width, q_tile, stride, k_tile, stride, scores,
                                                  wide_row(u.keys), false);
        team.template multiply_tiles<false, true>(u.queries, u.keys, u.width, dy_tile, stride, v_tile, stride, dp,
                                                  wide_row(u.keys), false);
        probabilities_and_slopes(team, at, u, x, begin, rows, first, count, first_key, sums_at, scores, dp, weighted, p_tile,
                                 ds_tile);
        team.template multiply_tiles<true, false>(u.keys, u.width, u.queries, p_tile, narrow_row(u.keys), dy_tile, stride,
                                                  dv_sums, sum_row, true);
        team.template multiply_tiles<true, false>(u.keys, u.width, u.queries, ds_tile, narrow_row(u.keys), q_tile, stride,
                                                  dk_sums, sum_row, true);
      }
    store_sums(team, dk_sums, sum_row, count, width, x.scale, x.add, x.dk + keys_at, key_row);
    store_sums(team, dv_sums, sum_row, count, width, 1.f, x.add, x.dv + keys_at, key_row);
  });
}

}  // namespace partita::detail
