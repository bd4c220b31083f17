#include <doctest/doctest.h>

#include <partita/core/random.hpp>
#include <partita/ops/dropout.hpp>
#include <partita/ops/multiply.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 5> {};
struct position : pt::axis<"position", 7> {};
struct hidden : pt::axis<"hidden", 37> {};
struct single : pt::axis<"single", 1> {};
struct many : pt::axis<"many", 20000> {};
double one(int, std::size_t) { return 1; }

struct drops {
  constexpr auto operator()(auto& g) const {
    auto x = pt::param<pt::f32, batch, hidden>(g, "x", pt::uniform{-1, 1});
    return weighted_sum(pt::dropout(x * x, 0.4));
  }
};
}  // namespace

TEST_CASE("the mask of an element depends on its index in the whole tensor") {
  auto op = lone_op::make<pt::dropout_op, pt::like<pt::f32, batch, position, hidden>>({{0.3}}, {}, number);
  buffer const y = op.run_whole()[0];
  const std::uint64_t stream = pt::hash(op.context.seed, op.key);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const bool kept = pt::keeps(stream, static_cast<std::uint64_t>(op.context.step), i, 0.3f);
    CHECK(y.get(i) == doctest::Approx(kept ? op.inputs[0].get(i) / 0.7 : 0.));
  }
  check_cuts(op, 0);
  check_pieces<pt::dropout_op, pt::like<pt::f64, single, hidden>>({{0.3}}, {}, number, 0);
  check_pieces<pt::dropout_op, pt::like<pt::f32>>({{0.3}}, {}, number, 0);
  check_pieces<pt::dropout_op, pt::like<pt::f32, many>>({{0.3}}, {}, number, 0);
}

TEST_CASE("dropout keeps the mean, and draws anew for another step, seed or op") {
  auto op = lone_op::make<pt::dropout_op, pt::like<pt::f32, many>>({{0.25}}, {}, one);
  auto kept = [&] { return op.run_whole()[0].values(); };
  const std::vector<double> first = kept();
  double total = 0;
  for (double x : first) total += x;
  CHECK(total / 20000 == doctest::Approx(1).epsilon(0.02));
  ++op.context.step;
  CHECK(kept() != first);
  --op.context.step;
  ++op.context.seed;
  CHECK(kept() != first);
  --op.context.seed;
  ++op.key;
  CHECK(kept() != first);
  --op.key;
  CHECK(kept() == first);
}

TEST_CASE("dropout passes everything when it does not train, and refuses a probability of 1") {
  auto op = lone_op::make<pt::dropout_op, pt::like<pt::f32, batch, hidden>>({{0.5}}, {}, number);
  op.context.training = false;
  CHECK(op.run_whole()[0].values() == op.inputs[0].values());
  op.context.training = true;
  op.given = {{0}};
  CHECK(op.run_whole()[0].values() == op.inputs[0].values());
  op.given = {{1}};
  CHECK_THROWS_AS(op.run_whole(), pt::error);
}

TEST_CASE("the gradient of dropout has the mask of the forward op") {
  check_gradients<drops>();
  check_pieces<pt::dropout_gradient_op, pt::like<pt::f32, batch, position, hidden>>({{0.3}}, {}, number, 0);
}
