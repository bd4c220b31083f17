#include <doctest/doctest.h>

#include <cmath>

#include <partita/ops/attention.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 2> {};
struct position : pt::axis<"position", 7> {};
struct far : pt::axis<"far"> {};
struct head : pt::axis<"head", 3> {};
struct width : pt::axis<"width", 5> {};
struct single : pt::axis<"single", 1> {};
struct long_position : pt::axis<"long_position", 131> {};
const std::vector<pt::binding> bound{pt::bind<far>(4)};

struct share : pt::axis<"share", 2> {};

template <pt::dtype D, class S> using of = pt::like<D, batch, S, head, width>;
template <pt::dtype D, class S> using shared = pt::like<D, batch, S, head, share, width>;  // queries

// By the formula, one query at a time; `G` heads of q share one of k and v.
void check_formula(lone_op const& op, bool causal, std::size_t G = 1) {
  const std::vector<buffer> out = op.run_whole();
  const std::size_t B = 2, K = 3, N = K * G, D = 5, S = op.inputs[0].size() / (B * N * D), T = op.inputs[1].size() / (B * K * D);
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t n = 0; n < N; ++n)
      for (std::size_t s = 0; s < S; ++s) {
        const std::size_t q = ((b * S + s) * N + n) * D, seen = causal ? std::min(T, s + 1) : T;
        std::vector<double> p(seen), y(D, 0);
        double total = 0;
        for (std::size_t t = 0; t < seen; ++t) {
          double dot = 0;
          for (std::size_t d = 0; d < D; ++d)
            dot += op.inputs[0].get(q + d) * op.inputs[1].get(((b * T + t) * K + n / G) * D + d);
          total += p[t] = std::exp(dot / std::sqrt(5.0));
        }
        for (std::size_t t = 0; t < seen; ++t)
          for (std::size_t d = 0; d < D; ++d) y[d] += p[t] / total * op.inputs[2].get(((b * T + t) * K + n / G) * D + d);
        for (std::size_t d = 0; d < D; ++d) CHECK(out[0].get(q + d) == doctest::Approx(y[d]).epsilon(2e-6));
        CHECK(out[1].get((b * N + n) * S + s) == doctest::Approx(std::log(total)).epsilon(2e-6));
      }
}

// Inputs of the gradient: dy, q, k, v and what the forward op made of them.
template <bool Causal, pt::dtype D, class S, class T> lone_op gradient_op(std::vector<pt::binding> const& bindings) {
  const auto forward = lone_op::make<pt::attention_op<Causal>, of<D, S>, of<D, T>, of<D, T>>(
      {}, bindings, [](int input, std::size_t i) { return number(input + 1, i); });
  auto op =
      lone_op::make<pt::attention_grad_op<Causal>, of<D, S>, of<D, S>, of<D, T>, of<D, T>, of<D, S>, pt::like<D, batch, head, S>>(
          {}, bindings, number);
  std::vector<buffer> made = forward.run_whole();
  op.inputs[4] = std::move(made[0]);
  op.inputs[5] = std::move(made[1]);
  return op;
}

template <bool Causal, pt::dtype D, class S, class T> lone_op shared_gradient_op(std::vector<pt::binding> const& bindings) {
  const auto forward = lone_op::make<pt::attention_op<Causal, true>, shared<D, S>, of<D, T>, of<D, T>>(
      {}, bindings, [](int input, std::size_t i) { return number(input + 1, i); });
  auto op = lone_op::make<pt::attention_grad_op<Causal, true>, shared<D, S>, shared<D, S>, of<D, T>, of<D, T>, shared<D, S>,
                          pt::like<D, batch, head, share, S>>({}, bindings, number);
  std::vector<buffer> made = forward.run_whole();
  op.inputs[4] = std::move(made[0]);
  op.inputs[5] = std::move(made[1]);
  return op;
}

template <bool Causal, class S, class T> struct attends {
  constexpr auto operator()(auto& g) const {
    auto q = pt::param<pt::f32, batch, S, head, width>(g, "q", pt::uniform{-1, 1});
    auto k = pt::param<pt::f32, batch, T, head, width>(g, "k", pt::uniform{-1, 1});
    auto v = pt::param<pt::f32, batch, T, head, width>(g, "v", pt::uniform{-1, 1});
    if constexpr (Causal) return weighted_sum(pt::causal_attention(q, k, v));
    else return weighted_sum(pt::attention(q, k, v));
  }
};
template <bool Causal, class S, class T> struct attends_by_groups {
  constexpr auto operator()(auto& g) const {
    auto q = pt::param<pt::f32, batch, S, head, share, width>(g, "q", pt::uniform{-1, 1});
    auto k = pt::param<pt::f32, batch, T, head, width>(g, "k", pt::uniform{-1, 1});
    auto v = pt::param<pt::f32, batch, T, head, width>(g, "v", pt::uniform{-1, 1});
    if constexpr (Causal) return weighted_sum(pt::causal_attention(q, k, v));
    else return weighted_sum(pt::attention(q, k, v));
  }
};
}  // namespace

TEST_CASE("attention is what its formula says") {
  check_formula(
      lone_op::make<pt::attention_op<false>, of<pt::f32, position>, of<pt::f32, far>, of<pt::f32, far>>({}, bound, number),
      false);
  check_formula(
      lone_op::make<pt::attention_op<true>, of<pt::f64, position>, of<pt::f64, position>, of<pt::f64, position>>({}, {}, number),
      true);
  check_formula(
      lone_op::make<pt::attention_op<true>, of<pt::f32, long_position>, of<pt::f32, long_position>, of<pt::f32, long_position>>(
          {}, {}, number),
      true);
  check_formula(
      lone_op::make<pt::attention_op<true>, of<pt::f32, position>, of<pt::f32, far>, of<pt::f32, far>>({}, bound, number), true);
}

TEST_CASE("scores far from zero neither overflow nor vanish") {
  auto op = lone_op::make<pt::attention_op<true>, pt::like<pt::f32, position, single, single>,
                          pt::like<pt::f32, position, single, single>, pt::like<pt::f32, position, single, single>>(
      {}, {}, [](int input, std::size_t i) { return input == 2   ? 1.0
                                                    : input == 0 ? 100.0
                                                                 : 10.0 * static_cast<double>(i); });
  const std::vector<buffer> out = op.run_whole();
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(out[0].get(i) == doctest::Approx(1));
    CHECK(out[1].get(i) == doctest::Approx(1000.0 * static_cast<double>(i)));
  }
}

TEST_CASE("pieces of attention: queries, heads and sequences") {
  check_pieces<pt::attention_op<false>, of<pt::f32, position>, of<pt::f32, far>, of<pt::f32, far>>({}, bound);
  check_pieces<pt::attention_op<true>, of<pt::f64, position>, of<pt::f64, position>, of<pt::f64, position>>();
  check_pieces<pt::attention_op<true>, of<pt::f32, long_position>, of<pt::f32, long_position>, of<pt::f32, long_position>>();
  check_pieces<pt::attention_op<true>, pt::like<pt::f32, single, single, single>, pt::like<pt::f32, single, single, single>,
               pt::like<pt::f32, single, single, single>>();
}

// One piece of keys after the other, added to what is there (Op::merges), in any order.
TEST_CASE("pieces of keys are merged") {
  auto check = [](lone_op const& op) {
    const std::vector<buffer> whole = op.run_whole();
    int t = 0;
    while (!op.info.dims[t].merged) ++t;
    const std::size_t keys = op.wholes[t];
    const std::vector<std::vector<std::size_t>> cuts{{1, keys - 1}, even_pieces(keys, 2), even_pieces(keys, 3)};
    for (std::vector<std::size_t> const& cut : cuts)
      for (bool backwards : {false, true}) {
        std::vector<buffer> made = op.make_outputs(op.wholes);
        std::size_t offsets[pt::max_dims]{}, extents[pt::max_dims]{};
        for (int d = 0; d < op.info.dim_count; ++d) extents[d] = op.wholes[d];
        for (std::size_t k = 0; k < cut.size(); ++k) {
          const std::size_t which = backwards ? cut.size() - 1 - k : k;
          offsets[t] = 0;
          for (std::size_t j = 0; j < which; ++j) offsets[t] += cut[j];
          extents[t] = cut[which];
          op.run(offsets, extents, made, k > 0);
        }
        check_same(whole, made, 4e-6, "attention over pieces of keys");
      }
  };
  check(lone_op::make<pt::attention_op<false>, of<pt::f32, position>, of<pt::f32, far>, of<pt::f32, far>>({}, bound, number));
  check(
      lone_op::make<pt::attention_op<true>, of<pt::f64, position>, of<pt::f64, position>, of<pt::f64, position>>({}, {}, number));
  check(lone_op::make<pt::attention_op<true>, of<pt::f32, long_position>, of<pt::f32, long_position>, of<pt::f32, long_position>>(
      {}, {}, number));
}

// The log of the sum is about 10,000, rounded to a thousandth: the shares of the pieces must add up to one nevertheless, since
// the gradients of q and k are differences of products with y.
TEST_CASE("pieces of keys whose scores are large are shares of one") {
  const auto op = lone_op::make<pt::attention_op<false>, of<pt::f32, position>, of<pt::f32, far>, of<pt::f32, far>>(
      {}, bound, [](int input, std::size_t i) { return input == 2 ? 1.0 : 67.0 + 1e-3 * number(input, i); });
  std::vector<buffer> made = op.make_outputs(op.wholes);
  int t = 0;
  while (!op.info.dims[t].merged) ++t;
  std::size_t offsets[pt::max_dims]{}, extents[pt::max_dims]{};
  for (int d = 0; d < op.info.dim_count; ++d) extents[d] = op.wholes[d];
  extents[t] = 1;
  for (; offsets[t] < op.wholes[t]; ++offsets[t]) op.run(offsets, extents, made, offsets[t] > 0);
  for (std::size_t i = 0; i < made[0].size(); ++i) CHECK(made[0].get(i) == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("pieces of its gradient: keys as well") {
  check_cuts(gradient_op<false, pt::f32, position, far>(bound));
  check_cuts(gradient_op<true, pt::f64, position, position>({}));
  check_cuts(gradient_op<true, pt::f32, long_position, long_position>({}), 4e-6);
  check_cuts(gradient_op<true, pt::f32, position, far>(bound));
}

TEST_CASE("gradients of attention against differences") {
  check_gradients<attends<false, position, far>>({}, bound);
  check_gradients<attends<true, position, position>>();
}

TEST_CASE("grouped queries: heads that share keys") {
  check_formula(lone_op::make<pt::attention_op<false, true>, shared<pt::f32, position>, of<pt::f32, far>, of<pt::f32, far>>(
                    {}, bound, number),
                false, 2);
  check_formula(lone_op::make<pt::attention_op<true, true>, shared<pt::f64, long_position>, of<pt::f64, long_position>,
                              of<pt::f64, long_position>>({}, {}, number),
                true, 2);
  check_pieces<pt::attention_op<true, true>, shared<pt::f32, position>, of<pt::f32, position>, of<pt::f32, position>>();
  check_pieces<pt::attention_op<false, true>, shared<pt::f64, position>, of<pt::f64, far>, of<pt::f64, far>>({}, bound);
  check_cuts(shared_gradient_op<true, pt::f32, position, position>({}));
  check_cuts(shared_gradient_op<false, pt::f64, position, far>(bound));
}

TEST_CASE("gradients of grouped queries against differences") {
  check_gradients<attends_by_groups<false, position, far>>({}, bound);
  check_gradients<attends_by_groups<true, position, position>>();
}
