#include <doctest/doctest.h>

#include <partita/ops/linear.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 5> {};
struct position : pt::axis<"position"> {};
struct hidden : pt::axis<"hidden", 6> {};
struct head : pt::axis<"head", 3> {};
struct width : pt::axis<"width", 7> {};
struct vocab : pt::axis<"vocab", 9> {};
struct single : pt::axis<"single", 1> {};
const std::vector<pt::binding> bound{pt::bind<position>(3)};

// y[r, m] = sum_k x[r, k] w[k, m], or w[m, k]
void check_product(lone_op const& op, bool turned, std::size_t rows, std::size_t k, std::size_t m) {
  const buffer y = op.run_whole()[0];
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t j = 0; j < m; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < k; ++i) sum += op.inputs[0].get(r * k + i) * op.inputs[1].get(turned ? j * k + i : i * m + j);
      CHECK(y.get(r * m + j) == doctest::Approx(sum).epsilon(1e-5));
    }
}

struct all_kinds {
  constexpr auto operator()(auto& g) const {
    auto x = pt::param<pt::f32, batch, position, hidden>(g, "x", pt::uniform{-1, 1});
    auto w = pt::param<pt::f32, hidden, head, width>(g, "w", pt::uniform{-1, 1});
    auto b = pt::param<pt::f32, head, width>(g, "b", pt::uniform{-1, 1});
    auto out = pt::param<pt::f32, head, width, vocab>(g, "out", pt::uniform{-1, 1});
    auto table = pt::param<pt::f32, single, vocab>(g, "table", pt::uniform{-1, 1});
    return weighted_sum(pt::linear(pt::linear(pt::linear(x, w, b), out), table));
  }
};
}  // namespace

TEST_CASE("linear is a product over one or several axes, at the weight's front or back") {
  auto one =
      lone_op::make<pt::linear_op<1, 1, false>, pt::like<pt::f32, batch, position, hidden>, pt::like<pt::f32, hidden, width>>(
          {}, bound, number);
  check_product(one, false, 15, 6, 7);
  auto several =
      lone_op::make<pt::linear_op<2, 1, false>, pt::like<pt::f64, batch, head, width>, pt::like<pt::f64, head, width, hidden>>(
          {}, {}, number);
  check_product(several, false, 5, 21, 6);
  auto turned =
      lone_op::make<pt::linear_op<1, 2, true>, pt::like<pt::f32, batch, hidden>, pt::like<pt::f32, head, width, hidden>>({}, {},
                                                                                                                         number);
  check_product(turned, true, 5, 6, 21);
}

TEST_CASE("linear chooses the axes it sums by the weight's position") {
  using x = pt::like<pt::f32, batch, head, width>;
  CHECK(pt::detail::linear_match<x, pt::like<pt::f32, head, width, hidden>>::value == 2);
  CHECK(pt::detail::linear_match<x, pt::like<pt::f32, width, hidden>>::value == 1);
  CHECK(pt::detail::linear_match<x, pt::like<pt::f32, vocab, head, width>>::value == -2);
  CHECK(pt::detail::linear_match<x, pt::like<pt::f32, width, width>>::value == 1);
  CHECK(pt::detail::linear_match<x, pt::like<pt::f32, head, hidden>>::value == 0);
  CHECK(pt::detail::linear_match<x, pt::like<pt::f32, head, width>>::value == -1);
}

TEST_CASE("pieces of linear") {
  check_pieces<pt::linear_op<1, 1, false>, pt::like<pt::f32, batch, position, hidden>, pt::like<pt::f32, hidden, width>>({},
                                                                                                                         bound);
  check_pieces<pt::linear_op<2, 2, false>, pt::like<pt::f64, batch, head, width>,
               pt::like<pt::f64, head, width, hidden, vocab>>();
  check_pieces<pt::linear_op<1, 2, true>, pt::like<pt::f32, batch, hidden>, pt::like<pt::f32, head, width, hidden>>();
  check_pieces<pt::linear_op<1, 1, false>, pt::like<pt::f32, single>, pt::like<pt::f32, single, single>>();
}

TEST_CASE("pieces of the gradients of linear") {
  check_pieces<pt::linear_weight_op<1, 1, false>, pt::like<pt::f32, batch, position, hidden>,
               pt::like<pt::f32, batch, position, width>>({}, bound);
  check_pieces<pt::linear_weight_op<2, 1, true>, pt::like<pt::f64, batch, head, width>, pt::like<pt::f64, batch, vocab>>();
  check_pieces<pt::bias_op<1>, pt::like<pt::f32, batch, position, hidden>, pt::like<pt::f32, hidden>>({}, bound);
  check_pieces<pt::bias_grad_op<1>, pt::like<pt::f32, batch, position, hidden>>({}, bound);
  check_pieces<pt::bias_grad_op<2>, pt::like<pt::f64, position, batch, head, width>>({}, {pt::bind<position>(301)});
}

TEST_CASE("gradients of linear against differences") { check_gradients<all_kinds>({}, bound); }
