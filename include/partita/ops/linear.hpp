// y[..., m] = sum over k of x[..., k] w[k, m] (+ bias[m]), where k and m stand for one or more axes each.
#pragma once
#include <cstddef>
#include <string_view>
#include <utility>

#include <partita/core/after_product.hpp>
#include <partita/core/packs.hpp>
#include <partita/model/apply.hpp>
#include <partita/ops/annotation_text.hpp>
#include <partita/ops/column_sums.hpp>
#include <partita/ops/row_blocks.hpp>

namespace partita {

namespace mistake {
template <class...> struct weight_shares_no_axis_with_the_end_of_the_input;
template <class...> struct weight_of_linear_has_one_axis_which_leaves_none_to_make;
template <class...> struct bias_axes_are_not_the_last_axes_of_the_input;
}  // namespace mistake

namespace detail {
// Annotations made at compile time, so that one template serves hidden -> ffn, hidden -> head, head_dim and back.
// Summed axes are a, b, c.., made ones m, n, o...
constexpr void put_weight(annotation_text& t, int k, int m, bool turned, std::string_view mark) {
  if (turned) t.put_axes('m', m);
  t.put_axes('a', k, mark);
  if (!turned) t.put_axes('m', m);
}
template <int K, int M, bool Turned> struct linear_text {
  static constexpr annotation_text product = [] {  // "... a+, a+ m -> ... m"
    annotation_text t;
    t.put("...");
    t.put_axes('a', K, "+");
    t.put(",");
    put_weight(t, K, M, Turned, "+");
    t.put(" -> ...");
    t.put_axes('m', M);
    return t;
  }();
  static constexpr annotation_text weight = [] {  // "...+ a, ...+ m -> a m"
    annotation_text t;
    t.put("...+");
    t.put_axes('a', K);
    t.put(", ...+");
    t.put_axes('m', M);
    t.put(" ->");
    put_weight(t, K, M, Turned, "");
    return t;
  }();
};
template <int M> struct bias_text {
  static constexpr annotation_text forward = [] {  // "... m, m -> ... m"
    annotation_text t;
    t.put("...");
    t.put_axes('m', M);
    t.put(",");
    t.put_axes('m', M);
    t.put(" -> ...");
    t.put_axes('m', M);
    return t;
  }();
  static constexpr annotation_text backward = [] {  // "...+ m -> m"
    annotation_text t;
    t.put("...+");
    t.put_axes('m', M);
    t.put(" ->");
    t.put_axes('m', M);
    return t;
  }();
};
template <class Call> PARTITA_HOST_DEVICE std::size_t extent_of_run(Call const& call, char first, int count) {
  std::size_t n = 1;
  for (int i = 0; i < count; ++i) n *= call.extent(static_cast<char>(first + i));
  return n;
}
}  // namespace detail

// Gradient of the weight: [a, m] (Turned: [m, a]) = x[..., a]^T dy[..., m].
template <int K, int M, bool Turned> struct linear_weight_op {
  static constexpr std::string_view name = "linear.weight", annotation = detail::linear_text<K, M, Turned>::weight.view();
  static constexpr bool accumulates = true;
  static constexpr double flops_per_point = 2;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto const* dy = call.template input<1>();
    const std::size_t rows = call.rest(), k = detail::extent_of_run(call, 'a', K), m = detail::extent_of_run(call, 'm', M);
    if constexpr (Turned) call.gemm(true, false, m, k, rows, 1, dy, m, x, k, call.template output<0>(), k);
    else call.gemm(true, false, k, m, rows, 1, x, k, dy, m, call.template output<0>(), m);
  }
};

// The product of K summed and M made axes; Turned: the weight is [m, a], its summed axes last.
template <int K, int M, bool Turned> struct linear_op {
  static constexpr std::string_view name = "linear", annotation = detail::linear_text<K, M, Turned>::product.view();
  static constexpr double flops_per_point = 2;
  static constexpr auto gradient(auto dy, auto, auto x, auto w) {
    return gradients{[=] { return apply<linear_op<M, K, !Turned>>(dy, w); },
                     [=] { return apply<linear_weight_op<K, M, Turned>>(x, dy); }};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto const* w = call.template input<1>();
    const std::size_t rows = call.rest(), k = detail::extent_of_run(call, 'a', K), m = detail::extent_of_run(call, 'm', M);
    call.gemm(false, Turned, rows, m, k, 1, x, k, w, Turned ? k : m, call.template output<0>(), m);
  }
};

// Gradient of a bias: the sum over all rows.
template <int M> struct bias_grad_op {
  static constexpr after_product after = after_product::sums_rows;
  static constexpr std::string_view name = "bias.grad", annotation = detail::bias_text<M>::backward.view();
  static constexpr bool accumulates = true;
  template <class Shape> static std::size_t workspace(Shape const& s) {
    if (s.workers > 0) return 0;
    std::size_t m = 1;
    for (int i = 0; i < M; ++i) m *= s.extent(static_cast<char>('m' + i));
    return detail::row_blocks::for_gpu(s.rest()).count() * m * (s.element_size < sizeof(float) ? sizeof(float) : s.element_size);
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    if constexpr (Call::on_host) by_columns(call);
    else
      detail::column_sums(call, call.rest(), detail::extent_of_run(call, 'm', M), call.template input<0>(),
                          call.template output<0>(), call.accumulate(),
                          call.template scratch<typename Call::accumulation_type>());
  }

 private:
  // On the CPU: every worker takes columns, and goes through all rows.
  template <class Call> static void by_columns(Call& call) {
    auto const* dy = call.template input<0>();
    auto* out = call.template output<0>();
    using value = std::remove_pointer_t<decltype(out)>;
    constexpr std::size_t lanes = 64, run = 128;  // columns at once; rows added to one partial sum
    const std::size_t rows = call.rest(), m = detail::extent_of_run(call, 'm', M), blocks = (m + lanes - 1) / lanes;
    const bool add = call.accumulate();
    call.parallel(blocks, 1, [=](std::size_t begin, std::size_t end, std::size_t) {
      for (std::size_t block = begin; block < end; ++block) {
        const std::size_t column = block * lanes, width = m - column < lanes ? m - column : lanes;
        value total[lanes]{};
        for (std::size_t first = 0; first < rows; first += run) {
          value partial[lanes]{};
          for (std::size_t row = first; row < rows && row < first + run; ++row) {
            value const* from = dy + row * m + column;
            if (width == lanes)
              for (std::size_t j = 0; j < lanes; ++j) partial[j] += from[j];
            else
              for (std::size_t j = 0; j < width; ++j) partial[j] += from[j];
          }
          for (std::size_t j = 0; j < lanes; ++j) total[j] += partial[j];
        }
        for (std::size_t j = 0; j < width; ++j) out[column + j] = add ? out[column + j] + total[j] : total[j];
      }
    });
  }
};

// A bias is an op of its own: an op that sums over a cut axis and adds a bias would add it once per piece.
template <int M> struct bias_op {
  static constexpr std::string_view name = "bias", annotation = detail::bias_text<M>::forward.view();
  static constexpr after_product after = after_product::adds_bias;
  static constexpr auto gradient(auto dy, auto, auto, auto) {
    return gradients{dy, [=] { return apply<bias_grad_op<M>>(dy); }};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto const* b = call.template input<1>();
    auto* y = call.template output<0>();
    const std::size_t m = detail::extent_of_run(call, 'm', M);
    call.rows(call.rest(), [=](std::size_t row, auto team) {
      each_of(
          team, m, [](auto from, auto add) { return from + add; }, y + row * m, x + row * m, b);
    });
  }
};

namespace detail {
template <class A, class B> inline constexpr bool same_axis = axis_of<A>::info.id == axis_of<B>::info.id;

// How many axes, and which of the weight's ends: the most that the end of x and the weight's front, or else its back,
// have in common; > 0: at the front, < 0: at the back, 0: none. One axis of the weight at least is made.
template <class X, class W> struct linear_match {
  template <int K, int At, std::size_t... I> static constexpr bool equal(std::index_sequence<I...>) {
    return (same_axis<typename X::template axis_at<X::rank - K + I>, typename W::template axis_at<At + I>> && ...);
  }
  template <int K> static constexpr int match() {
    if constexpr (K <= 0) return 0;
    else if constexpr (equal<K, 0>(std::make_index_sequence<K>{})) return K;
    else if constexpr (equal<K, W::rank - K>(std::make_index_sequence<K>{})) return -K;
    else return match<K - 1>();
  }
  static constexpr int value = match<(W::rank - 1 < X::rank ? W::rank - 1 : X::rank)>();
};
template <class X, class W> struct linear_axes;
template <dtype D, class... A, dtype E, class... B> struct linear_axes<like<D, A...>, like<E, B...>> {
  using no_match =
      std::conditional_t<sizeof...(B) < 2,
                         mistake::weight_of_linear_has_one_axis_which_leaves_none_to_make<input_axes<A...>, weight_axes<B...>>,
                         mistake::weight_shares_no_axis_with_the_end_of_the_input<input_axes<A...>, weight_axes<B...>>>;
  using no_bias = mistake::bias_axes_are_not_the_last_axes_of_the_input<input_axes<A...>, weight_axes<B...>>;
};
template <class X, class B> constexpr bool bias_matches() {
  if constexpr (B::rank == 0 || B::rank > X::rank) return false;
  else return linear_match<X, B>::template equal<B::rank, 0>(std::make_index_sequence<B::rank>{});
}
}  // namespace detail

namespace ops {
// The weight's first axes, by position, are summed with the last ones of x, as many as are the same; if there are
// none, the weight's last axes are (so that an embedding table [vocab, hidden] also makes the logits). The weight's
// other axes take their place.
template <handle X, handle W> constexpr auto linear(X x, W w) {
  if constexpr (is_poison<X> || is_poison<W>) return poison<typename X::graph_type>{x.graph};
  else if constexpr (constexpr int k = detail::linear_match<X, W>::value; k != 0)
    return apply<linear_op<(k > 0 ? k : -k), W::rank - (k > 0 ? k : -k), (k < 0)>>(x, w);
  else return refuse<typename detail::linear_axes<typename X::like_type, typename W::like_type>::no_match>(x);
}
// x + b, where the axes of b are the last ones of x.
template <handle X, handle B> constexpr auto bias(X x, B b) {
  if constexpr (is_poison<X> || is_poison<B>) return poison<typename X::graph_type>{x.graph};
  else if constexpr (detail::bias_matches<X, B>()) return apply<bias_op<B::rank>>(x, b);
  else return refuse<typename detail::linear_axes<typename X::like_type, typename B::like_type>::no_bias>(x);
}
template <handle X, handle W, handle B> constexpr auto linear(X x, W w, B b) { return ops::bias(ops::linear(x, w), b); }
}  // namespace ops
using namespace ops;

}  // namespace partita
