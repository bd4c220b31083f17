// Attention as an algorithm over teams, one for each query, or for each key in the second half of the gradient. Scores are
// made for a tile of keys (or queries) at a time, with the running maximum and sum of Milakov and Gimelshein (2018) that
// Dao et al. (2022) build on, so that memory does not grow with the sequence. Additions have one order: no atomics. A wider head
// is made in parts of 256 elements, each of which makes the scores again.
#pragma once
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include <partita/core/host_device.hpp>
#include <partita/core/math.hpp>
#include <partita/ops/attention_shape.hpp>
#include <partita/ops/pointwise.hpp>

namespace partita::detail {

inline constexpr std::size_t attention_tile = 128, head_part = 256;  // elements that a team holds in common

template <class V, class T> PARTITA_HOST_DEVICE V dot(T const* a, T const* b, std::size_t n) {
  V total = 0;
  for (std::size_t e = 0; e < n; ++e) total += V(a[e]) * V(b[e]);
  return total;
}

// Inputs q, k, v; outputs y and the log of each query's sum, which are merged with what is there when the call accumulates.
template <class Call> PARTITA_HOST_DEVICE void attention_by_rows(Call& call, attention_shape const at) {
  auto const* q = call.template input<0>();
  auto const* k = call.template input<1>();
  auto const* v = call.template input<2>();
  auto* y = call.template output<0>();
  auto* log_sum = call.template output<1>();
  using element = std::remove_pointer_t<decltype(y)>;
  using sum_value = std::remove_pointer_t<decltype(log_sum)>;
  using value = compute_type<element>;
  const std::size_t width = at.width, key_row = at.key_row(), first_key = call.offset('t');
  const value scale = value(1) / math::sqrt(static_cast<value>(width));
  const bool add = call.accumulate();
  call.rows(at.sequences * at.heads * at.queries, [=](std::size_t item, auto const& team) {
    constexpr sum_value none = -std::numeric_limits<sum_value>::max();  // the log of no keys' sum
    const std::size_t i = item % at.queries, head = item / at.queries % at.heads, sequence = item / at.queries / at.heads;
    const std::size_t seen = at.seen(i, first_key), keys_at = at.key_at(sequence, head / at.share);
    element const* const q_row = q + at.query_at(sequence, head, i);
    element* const y_row = y + at.query_at(sequence, head, i);
    sum_value* const log_total = log_sum + at.sum_at(sequence, head, i);
    value* const p = team.template shared<value, attention_tile, 0>();
    value* const sums = team.template shared<value, head_part, 1>();
    value most = 0, total = 0;
    for (std::size_t from = 0; from == 0 || from < width; from += head_part) {
      const std::size_t part = least(head_part, width - from);
      most = static_cast<value>(add ? *log_total : none);
      total = add && *log_total != none ? value(1) : value(0);
      team.each(part, [=](std::size_t e) { sums[e] = add ? value(y_row[from + e]) : value(0); });
      for (std::size_t begin = 0; begin < seen; begin += attention_tile) {
        const std::size_t count = least(attention_tile, seen - begin);
        element const* const k_here = k + keys_at + begin * key_row;
        element const* const v_here = v + keys_at + begin * key_row + from;
        team.each(count, [=](std::size_t j) { p[j] = scale * dot<value>(q_row, k_here + j * key_row, width); });
        const value here = team.max(count, [=](std::size_t j) { return p[j]; });
        const value larger = here > most ? here : most, kept = math::exp(most - larger);
        team.each(count, [=](std::size_t j) { p[j] = math::exp(p[j] - larger); });
        total = total * kept + team.sum(count, [=](std::size_t j) { return p[j]; });
        team.each(part, [=](std::size_t e) {
          value sum = sums[e] * kept;
          for (std::size_t j = 0; j < count; ++j) sum += p[j] * value(v_here[j * key_row + e]);
          sums[e] = sum;
        });
        most = larger;
      }
      const value inverse = total == value(0) ? value(0) : value(1) / total;
      team.each(part, [=](std::size_t e) { y_row[from + e] = static_cast<element>(sums[e] * inverse); });
    }
    if (team.first()) *log_total = total == value(0) ? none : static_cast<sum_value>(most + math::log(total));
  });
}

// Inputs dy, q, k, v, y, log of sums; outputs dq, dk, dv, added to what is there when the call accumulates.
template <class Call> PARTITA_HOST_DEVICE void attention_gradients_by_rows(Call& call, attention_shape const at) {
  auto const* dy = call.template input<0>();
  auto const* q = call.template input<1>();
  auto const* k = call.template input<2>();
  auto const* v = call.template input<3>();
  auto const* y = call.template input<4>();
  auto const* log_sum = call.template input<5>();
  auto* dq = call.template output<0>();
  auto* dk = call.template output<1>();
  auto* dv = call.template output<2>();
  using element = std::remove_pointer_t<decltype(dq)>;
  using value = compute_type<element>;
  const std::size_t width = at.width, row = at.row(), key_row = at.key_row(), first_key = call.offset('t');
  const value scale = value(1) / math::sqrt(static_cast<value>(width));
  const bool add = call.accumulate();

  // dq = sum over keys of p (dp - dy y) k / sqrt(d),  dp = dy v
  call.rows(at.sequences * at.heads * at.queries, [=](std::size_t item, auto const& team) {
    const std::size_t i = item % at.queries, head = item / at.queries % at.heads, sequence = item / at.queries / at.heads;
    const std::size_t seen = at.seen(i, first_key), here = at.query_at(sequence, head, i),
                      keys_at = at.key_at(sequence, head / at.share);
    element const *const q_row = q + here, *const dy_row = dy + here, *const y_row = y + here;
    element* const dq_row = dq + here;
    const value log_total = static_cast<value>(log_sum[at.sum_at(sequence, head, i)]);
    const value weighted = team.sum(width, [=](std::size_t e) { return value(dy_row[e]) * value(y_row[e]); });
    value* const ds = team.template shared<value, attention_tile, 0>();
    value* const sums = team.template shared<value, head_part, 1>();
    for (std::size_t from = 0; from == 0 || from < width; from += head_part) {
      const std::size_t part = least(head_part, width - from);
      team.each(part, [=](std::size_t e) { sums[e] = 0; });
      for (std::size_t begin = 0; begin < seen; begin += attention_tile) {
        const std::size_t count = least(attention_tile, seen - begin);
        element const* const k_here = k + keys_at + begin * key_row;
        element const* const v_here = v + keys_at + begin * key_row;
        team.each(count, [=](std::size_t j) {
          const value p = math::exp(scale * dot<value>(q_row, k_here + j * key_row, width) - log_total);
          ds[j] = p * (dot<value>(dy_row, v_here + j * key_row, width) - weighted);
        });
        team.each(part, [=](std::size_t e) {
          value sum = sums[e];
          for (std::size_t j = 0; j < count; ++j) sum += ds[j] * value(k_here[j * key_row + from + e]);
          sums[e] = sum;
        });
      }
      team.each(part, [=](std::size_t e) {
        element& out = dq_row[from + e];
        out = static_cast<element>((add ? value(out) : value(0)) + scale * sums[e]);
      });
    }
  });

  // dv = sum over queries of p dy,  dk = sum over queries of p (dp - dy y) q / sqrt(d)
  call.rows(at.sequences * at.key_heads() * at.keys, [=](std::size_t item, auto const& team) {
    const std::size_t j = item % at.keys, key_head = item / at.keys % at.key_heads(), sequence = item / at.keys / at.key_heads();
    const std::size_t here = at.key_at(sequence, key_head) + j * key_row, number = j + first_key,
                      begin_seeing = !at.causal || number <= at.first ? 0 : number - at.first;
    element const *const k_row = k + here, *const v_row = v + here;
    element *const dk_row = dk + here, *const dv_row = dv + here;
    value* const p = team.template shared<value, attention_tile, 0>();
    value* const dk_sums = team.template shared<value, head_part, 1>();
    value* const ds = team.template shared<value, attention_tile, 2>();
    value* const dv_sums = team.template shared<value, head_part, 3>();
    for (std::size_t from = 0; from == 0 || from < width; from += head_part) {
      const std::size_t part = least(head_part, width - from);
      team.each(part, [=](std::size_t e) { dk_sums[e] = dv_sums[e] = 0; });
      for (std::size_t head = key_head * at.share; head < (key_head + 1) * at.share; ++head)
        for (std::size_t begin = begin_seeing; begin < at.queries; begin += attention_tile) {
          const std::size_t count = least(attention_tile, at.queries - begin), first = at.query_at(sequence, head, begin);
          element const *const q_here = q + first, *const dy_here = dy + first, *const y_here = y + first;
          auto const* const log_here = log_sum + at.sum_at(sequence, head, begin);
          team.each(count, [=](std::size_t i) {
            p[i] = math::exp(scale * dot<value>(q_here + i * row, k_row, width) - static_cast<value>(log_here[i]));
            ds[i] = p[i] * (dot<value>(dy_here + i * row, v_row, width) - dot<value>(dy_here + i * row, y_here + i * row, width));
          });
          team.each(part, [=](std::size_t e) {
            value dk_sum = dk_sums[e], dv_sum = dv_sums[e];
            for (std::size_t i = 0; i < count; ++i) {
              dv_sum += p[i] * value(dy_here[i * row + from + e]);
              dk_sum += ds[i] * value(q_here[i * row + from + e]);
            }
            dk_sums[e] = dk_sum;
            dv_sums[e] = dv_sum;
          });
        }
      team.each(part, [=](std::size_t e) {
        element &dk_out = dk_row[from + e], &dv_out = dv_row[from + e];
        dk_out = static_cast<element>((add ? value(dk_out) : value(0)) + scale * dk_sums[e]);
        dv_out = static_cast<element>((add ? value(dv_out) : value(0)) + dv_sums[e]);
      });
    }
  });
}

}  // namespace partita::detail
