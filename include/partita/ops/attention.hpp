// Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), for every sequence and head:
//   y = softmax(q k^T / sqrt(d)) v
// Probabilities are never kept. On the CPU they are made for a block of queries at a time: the memory of a worker grows with
// the number of keys. A GPU makes them for a tile of keys at a time (attention_tiles.hpp, attention_rows.hpp). The backward pass
// makes them again from the log of each query's sum of exponentials (Dao et al. 2022). With grouped queries (Ainslie et al. 2023)
// g heads of q share one head of k and v: q has one axis more, behind that of the heads of k and v.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>

#include <partita/core/math.hpp>
#include <partita/model/apply.hpp>
#include <partita/ops/attention_rows.hpp>
#include <partita/ops/attention_tiles.hpp>
#include <partita/ops/first_output.hpp>

namespace partita {

// The gradients of q, k and v. Keys may be cut as well as queries: what a piece of keys gives is a part of dq, what a
// piece of queries (or of the heads that share keys) gives is a part of dk and dv. Workers take whole heads of k, so that
// the additions keep their order.
template <bool Causal, bool Grouped = false> struct attention_grad_op {
  static constexpr std::string_view name = "attention.grad",
                                    annotation = Grouped ? "... s+ n g+ d^, ... s n g d, ... t+ n d, ... t n d, ... s n g d, "
                                                           "... n g s -> ... s n g d, ... t n d, ... t n d"
                                                         : "... s+ n d^, ... s n d, ... t+ n d, ... t n d, ... s n d, ... n s -> "
                                                           "... s n d, ... t n d, ... t n d",
                                    dtypes = "T, T, T, T, T, A -> T, T, T";
  static constexpr bool accumulates = true;
  static constexpr double flops_per_point = Causal ? 5 : 10;
  template <class Shape> static std::size_t workspace(Shape const& shape) {
    return shape.workers * 2 * detail::query_block * shape.extent('t') * shape.element_size;
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    if constexpr (Call::on_host) by_products(call);
    else {
      const auto at = detail::attention_shape::of(call, Causal, Grouped);
      if constexpr (detail::takes_tiles<Call>)
        if (at.width <= detail::widest_tiled_head) return detail::attention_gradients_by_tiles(call, at);
      detail::attention_gradients_by_rows(call, at);
    }
  }

 private:
  template <class Call> static void by_products(Call& call) {
    auto const* dy = call.template input<0>();
    auto const* q = call.template input<1>();
    auto const* k = call.template input<2>();
    auto const* v = call.template input<3>();
    auto const* y = call.template input<4>();
    auto const* log_sum = call.template input<5>();
    auto* dq = call.template output<0>();
    auto* dk = call.template output<1>();
    auto* dv = call.template output<2>();
    using value = std::remove_pointer_t<decltype(dq)>;
    const auto at = detail::attention_shape::of(call, Causal, Grouped);
    const std::size_t row = at.row(), key_row = at.key_row(), width = at.width, first_key = call.offset('t');
    const value scale = 1 / std::sqrt(static_cast<value>(width));
    value* const scratch = call.template scratch<value>();
    const bool add = call.accumulate();

    auto head_of_sequence = [=](std::size_t sequence, std::size_t head, std::size_t keys_at, value* p, value* dp) {
      for (std::size_t block = 0; block < at.blocks(); ++block) {
        const std::size_t begin = block * detail::query_block, rows = std::min(detail::query_block, at.queries - begin);
        const std::size_t keys = at.seen(begin + rows - 1, first_key), here = at.query_at(sequence, head, begin);
        // p [rows, keys] = q k^T; dp = dy v^T
        Call::template gemm_on_this_thread<value>(false, true, rows, keys, width, 1, q + here, row, k + keys_at, key_row, 0, p,
                                                  keys);
        Call::template gemm_on_this_thread<value>(false, true, rows, keys, width, 1, dy + here, row, v + keys_at, key_row, 0, dp,
                                                  keys);
        for (std::size_t i = 0; i < rows; ++i) {
          const typename Call::team_type team;
          value const *dy_row = dy + here + i * row, *y_row = y + here + i * row;
          const value weighted = team.sum(width, [=](std::size_t e) { return dy_row[e] * y_row[e]; });
          const value log_total = static_cast<value>(log_sum[at.sum_at(sequence, head, begin + i)]);
          const std::size_t seen = std::min(keys, at.seen(begin + i, first_key));
          value *p_row = p + i * keys, *dp_row = dp + i * keys;
          team.each(seen, [=](std::size_t j) {
            const value probability = math::exp(p_row[j] * scale - log_total);
            p_row[j] = probability;
            dp_row[j] = probability * (dp_row[j] - weighted);
          });
          std::fill(p_row + seen, p_row + keys, value(0));
          std::fill(dp_row + seen, dp_row + keys, value(0));
        }
        // dv += p^T dy; dk += dp^T q / sqrt(d); dq = dp k / sqrt(d)
        Call::template gemm_on_this_thread<value>(true, false, keys, width, rows, 1, p, keys, dy + here, row, 1, dv + keys_at,
                                                  key_row);
        Call::template gemm_on_this_thread<value>(true, false, keys, width, rows, scale, dp, keys, q + here, row, 1, dk + keys_at,
                                                  key_row);
        Call::template gemm_on_this_thread<value>(false, false, rows, width, keys, scale, dp, keys, k + keys_at, key_row,
                                                  add ? value(1) : value(0), dq + here, row);
      }
    };
    call.parallel(at.sequences * at.key_heads(), 1, [=](std::size_t begin, std::size_t end, std::size_t worker) {
      value* const p = scratch + worker * 2 * detail::query_block * at.keys;
      for (std::size_t item = begin; item < end; ++item) {
        const std::size_t sequence = item / at.key_heads(), key_head = item % at.key_heads(),
                          keys_at = at.key_at(sequence, key_head);
        if (!add)
          for (std::size_t j = 0; j < at.keys; ++j) {
            std::fill_n(dk + keys_at + j * key_row, width, value(0));
            std::fill_n(dv + keys_at + j * key_row, width, value(0));
          }
        for (std::size_t head = key_head * at.share; head < (key_head + 1) * at.share; ++head)
          head_of_sequence(sequence, head, keys_at, p, p + detail::query_block * at.keys);
      }
    });
  }
};

// y [..., s, n, (g,) d] and for the backward pass the log of the sums, [..., n, (g,) s].
template <bool Causal, bool Grouped = false> struct attention_op {
  static constexpr std::string_view name = "attention",
                                    annotation = Grouped ? "... s n g d^, ... t^ n d, ... t n d -> ... s n g d, ... n g s"
                                                         : "... s n d^, ... t^ n d, ... t n d -> ... s n d, ... n s",
                                    dtypes = "T, T, T -> T, A";
  static constexpr bool accumulates = true;  // merges what it makes of more keys with what is there (Dao et al. 2022)
  static constexpr char merges = 't';
  static constexpr double flops_per_point = Causal ? 2 : 4;
  static constexpr auto gradient(auto dy, auto y, auto q, auto k, auto v) {
    return apply<attention_grad_op<Causal, Grouped>>(std::get<0>(dy), q, k, v, std::get<0>(y), std::get<1>(y));
  }
  template <class Shape> static std::size_t workspace(Shape const& shape) {
    return shape.workers * detail::query_block * shape.extent('t') * shape.element_size;
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    if constexpr (Call::on_host) by_products(call);
    else {
      const auto at = detail::attention_shape::of(call, Causal, Grouped);
      if constexpr (detail::takes_tiles<Call>)
        if (at.width <= detail::widest_tiled_head) return detail::attention_by_tiles(call, at);
      detail::attention_by_rows(call, at);
    }
  }

 private:
  template <class Call> static void by_products(Call& call) {
    auto const* q = call.template input<0>();
    auto const* k = call.template input<1>();
    auto const* v = call.template input<2>();
    auto* y = call.template output<0>();
    auto* log_sum = call.template output<1>();
    using value = std::remove_pointer_t<decltype(y)>;
    using sum_value = std::remove_pointer_t<decltype(log_sum)>;
    const auto at = detail::attention_shape::of(call, Causal, Grouped);
    const std::size_t row = at.row(), key_row = at.key_row(), width = at.width, first_key = call.offset('t');
    const value scale = 1 / std::sqrt(static_cast<value>(width));
    value* const scratch = call.template scratch<value>();
    const bool add = call.accumulate();
    constexpr sum_value none = std::numeric_limits<sum_value>::lowest();  // the log of no keys' sum

    auto block_of_head = [=](std::size_t sequence, std::size_t head, std::size_t block, value* p) {
      const std::size_t begin = block * detail::query_block, rows = std::min(detail::query_block, at.queries - begin);
      const std::size_t keys = at.seen(begin + rows - 1, first_key), here = at.query_at(sequence, head, begin),
                        keys_at = at.key_at(sequence, head / at.share);
      if (keys == 0) {
        if (add) return;
        for (std::size_t i = 0; i < rows; ++i) {
          std::fill_n(y + here + i * row, width, value(0));
          log_sum[at.sum_at(sequence, head, begin + i)] = none;
        }
        return;
      }
      Call::template gemm_on_this_thread<value>(false, true, rows, keys, width, scale, q + here, row, k + keys_at, key_row, 0, p,
                                                keys);
      for (std::size_t i = 0; i < rows; ++i) {
        const typename Call::team_type team;
        value* const p_row = p + i * keys;
        const std::size_t seen = std::min(keys, at.seen(begin + i, first_key));
        sum_value& log_total = log_sum[at.sum_at(sequence, head, begin + i)];
        sum_value fresh = none;
        value factor = 0;
        if (seen > 0) {
          const value most = team.max(seen, [=](std::size_t j) { return p_row[j]; });
          team.each(seen, [=](std::size_t j) { p_row[j] = math::exp(p_row[j] - most); });
          const value total = team.sum(seen, [=](std::size_t j) { return p_row[j]; });
          factor = 1 / total;
          fresh = static_cast<sum_value>(most + math::log(total));
        }
        if (add) {  // both halves by their share of the sum of exponentials
          // Not by way of the merged log, which is rounded: the shares would not add up to one, and the backward pass takes
          // differences in which that stays.
          const sum_value before = log_total, most = std::max(before, fresh), old_part = math::exp(before - most),
                          new_part = math::exp(fresh - most), total = old_part + new_part;
          value* const y_row = y + here + i * row;
          team.each(width, [kept = static_cast<value>(old_part / total), y_row](std::size_t e) { y_row[e] *= kept; });
          factor *= static_cast<value>(new_part / total);
          fresh = most + math::log(total);
        }
        team.each(seen, [=](std::size_t j) { p_row[j] *= factor; });
        std::fill(p_row + seen, p_row + keys, value(0));
        log_total = fresh;
      }
      Call::template gemm_on_this_thread<value>(false, false, rows, width, keys, 1, p, keys, v + keys_at, key_row,
                                                add ? value(1) : value(0), y + here, row);
    };
    call.parallel(at.sequences * at.heads * at.blocks(), 1, [=](std::size_t begin, std::size_t end, std::size_t worker) {
      value* const p = scratch + worker * detail::query_block * at.keys;
      for (std::size_t item = begin; item < end; ++item) {
        const std::size_t head = item / at.blocks();
        block_of_head(head / at.heads, head % at.heads, item % at.blocks(), p);
      }
    });
  }
};

namespace detail {
// q has an axis more than k: which of the heads that share keys.
template <class Q, class K> constexpr bool shares_keys() {
  if constexpr (is_poison<Q> || is_poison<K>) return false;
  else return Q::rank == K::rank + 1;
}
}  // namespace detail

namespace ops {
// q [..., queries, heads, width], k and v [..., keys, heads, width]; the two sequences may be axes of different names.
// Grouped queries: q [..., queries, heads, share, width], `share` heads for one of k and v. A q that has all its heads in
// one axis is brought into that form by `split_axis<head, key_head, share>(q)`.
template <handle Q, handle K, handle V> constexpr auto attention(Q q, K k, V v) {
  return detail::first_of(apply<attention_op<false, detail::shares_keys<Q, K>()>>(q, k, v));
}
// Position i sees the keys of positions 0 to i.
template <handle Q, handle K, handle V> constexpr auto causal_attention(Q q, K k, V v) {
  return detail::first_of(apply<attention_op<true, detail::shares_keys<Q, K>()>>(q, k, v));
}
}  // namespace ops
using namespace ops;

}  // namespace partita
