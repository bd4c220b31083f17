// The ops of a mixture of experts: choice, slots, tokens to experts and back, the balance.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <partita/ops/einsum.hpp>
#include <partita/ops/experts.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/routing.hpp>
#include <partita/ops/silu.hpp>
#include <partita/ops/sum.hpp>
#include <partita/ops/top_k.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct group : pt::axis<"group", 3> {};
struct token : pt::axis<"token", 6> {};
struct expert : pt::axis<"expert", 4> {};
struct slot : pt::axis<"slot"> {};
struct hidden : pt::axis<"hidden", 5> {};
struct inner : pt::axis<"inner", 3> {};
struct one : pt::axis<"one", 1> {};
const std::vector<pt::binding> bound{pt::bind<slot>(2)};

using gates_like = pt::like<pt::f32, group, token, expert>;
using slots_like = pt::like<pt::i32, group, expert, slot>;
template <pt::dtype D> using tokens_like = pt::like<D, group, token, hidden>;
template <pt::dtype D> using made_like = pt::like<D, group, expert, slot, hidden>;

std::vector<double> slots_of(std::vector<double> const& gates, std::size_t slots) {  // of one group of six tokens
  auto op = lone_op::make<pt::assign_slots_op<slot, 1>, pt::like<pt::f32, token, expert>>(
      {}, {pt::bind<slot>(slots)}, [&](int, std::size_t i) { return gates.at(i); });
  return op.run_whole()[0].values();
}
// Tables of slots with empty ones, tokens that are in two slots and tokens that are in none.
double some_slot(std::size_t i) {
  const double tokens[]{3, -1, 0, 5, 1, 3, -1, -1, 2, 0, 5, 4, 0, 1, -1, 2, 5, 5, 3, -1, -1, -1, 4, 0};
  return tokens[i % 24];
}
}  // namespace

TEST_CASE("the k largest stay") {
  auto run = [](std::vector<double> const& x, double k, double otherwise) {
    auto op =
        lone_op::make<pt::top_k_op<0>, pt::like<pt::f32, expert>>({{k, otherwise}}, {}, [&](int, std::size_t i) { return x[i]; });
    return op.run_whole()[0].values();
  };
  CHECK(run({1, 4, 2, 3}, 2, 0) == std::vector<double>{0, 4, 0, 3});
  CHECK(run({1, 4, 2, 3}, 1, -7) == std::vector<double>{-7, 4, -7, -7});
  // Of equal ones the first. One by one: g++ 12 -O2 for AVX-512 makes {2, 2, 2, 2} of the vector {2, 2, 0, 0} here.
  const std::vector<double> equal = run({2, 2, 2, 2}, 2, 0);
  for (std::size_t i = 0; i < 4; ++i) CHECK(equal[i] == (i < 2 ? 2 : 0));
  CHECK(run({1, 4, 2, 3}, 4, 0) == std::vector<double>{1, 4, 2, 3});
  CHECK(run({1, 4, 2, 3}, 9, 0) == std::vector<double>{1, 4, 2, 3});
  const double none = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  CHECK(run({1, 4, 2, 3}, 1, -infinite) == std::vector<double>{-infinite, 4, -infinite, -infinite});
  CHECK(std::isnan(run({1, none, 2, 3}, 1, 0)[1]));  // not hidden
}

TEST_CASE("first choices first, in the order of tokens, until the slots are full") {
  // Tokens 0 to 5; choices by gate: 0: b a, 1: b, 2: a b, 3: none, 4: d b, 5: b d.
  const std::vector<double> gates{.4, .6, 0, 0, 0, 1, 0, 0, .7, .3, 0, 0, 0, 0, 0, 0, 0, .2, 0, .8, 0, .9, 0, .1};
  CHECK(slots_of(gates, 2) == std::vector<double>{2, 0, 0, 1, -1, -1, 4, 5});
  CHECK(slots_of(gates, 1) == std::vector<double>{2, 0, -1, 4});
  CHECK(slots_of(gates, 5) == std::vector<double>{2, 0, -1, -1, -1, 0, 1, 5, 2, 4, -1, -1, -1, -1, -1, 4, 5, -1, -1, -1});
  CHECK(slots_of(std::vector<double>(24, 0), 1) == std::vector<double>{-1, -1, -1, -1});
  // Equal gates: the first expert is the first choice.
  CHECK(slots_of(std::vector<double>(24, .25), 3) == std::vector<double>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
}

TEST_CASE("tokens to their slots and back") {
  auto fill = [](int input, std::size_t i) { return input == 1 ? some_slot(i) : number(input, i); };
  const auto there = lone_op::make<pt::dispatch_op, tokens_like<pt::f64>, slots_like>({}, bound, fill);
  const std::vector<buffer> y = there.run_whole();
  const auto back = lone_op::make<pt::combine_op, made_like<pt::f64>, pt::like<pt::f64, group, token, expert>, slots_like>(
      {}, bound, [&](int input, std::size_t i) { return input == 2 ? some_slot(i) : number(input, i); });
  const std::vector<buffer> x = back.run_whole();
  std::vector<double> wanted(3 * 6 * 5, 0);
  for (std::size_t g = 0; g < 3; ++g)
    for (std::size_t e = 0; e < 4; ++e)
      for (std::size_t c = 0; c < 2; ++c)
        for (std::size_t h = 0; h < 5; ++h) {
          const std::size_t at = (g * 4 + e) * 2 + c, element = at * 5 + h;
          const double t = some_slot(at);
          CHECK(y[0].get(element) == (t < 0 ? 0 : there.inputs[0].get((g * 6 + static_cast<std::size_t>(t)) * 5 + h)));
          if (t < 0) continue;
          const std::size_t row = g * 6 + static_cast<std::size_t>(t);
          wanted[row * 5 + h] += back.inputs[1].get(row * 4 + e) * back.inputs[0].get(element);
        }
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(x[0].get(i) == doctest::Approx(wanted[i]).epsilon(1e-12));
}

TEST_CASE("the balance is k when k experts a token are chosen evenly") {
  auto run = [](auto const& gates, auto const& probabilities) {
    auto op = lone_op::make<pt::load_balance_op, pt::like<pt::f32, token, expert>, pt::like<pt::f32, token, expert>>(
        {}, {}, [&](int input, std::size_t i) { return input == 0 ? probabilities(i) : gates(i); });
    return op.run_whole()[0].get(0);
  };
  auto even = [](std::size_t) { return 0.25; };
  CHECK(run([](std::size_t i) { return i / 4 % 4 == i % 4 ? .25 : 0.; }, even) == doctest::Approx(1));
  CHECK(run([](std::size_t i) { return i % 4 == i / 4 % 4 || i % 4 == (i / 4 + 1) % 4 ? .25 : 0.; }, even) == doctest::Approx(2));
  auto all_to_first = [](std::size_t i) { return i % 4 == 0 ? 1. : 0.; };
  CHECK(run(all_to_first, all_to_first) == doctest::Approx(4));
}

TEST_CASE("pieces of choices and of the balance") {
  check_pieces<pt::top_k_op<0>, gates_like>({{2, 0}});
  check_pieces<pt::top_k_op<1>, gates_like>({{2, -1}});
  check_pieces<pt::top_k_gradient_op<0>, gates_like, gates_like>({{2}});
  auto some_gates = [](int input, std::size_t i) { return input == 1 && i % 3 == 0 ? 0 : number(input, i); };
  check_pieces<pt::load_balance_op, gates_like, gates_like>({}, {}, some_gates);
  check_pieces<pt::load_balance_gradient_op, pt::like<pt::f32, group>, gates_like>({}, {}, some_gates);
  check_pieces<pt::assign_slots_op<slot, 2>, gates_like>({}, bound,
                                                         [](int, std::size_t i) { return i % 3 == 0 ? 0 : number(0, i); });
}

TEST_CASE("pieces of experts, of their slots and of tokens") {
  auto with_slots = [](int at) {
    return [at](int input, std::size_t i) { return input == at ? some_slot(i) : number(input, i); };
  };
  check_pieces<pt::dispatch_op, tokens_like<pt::f32>, slots_like>({}, bound, with_slots(1));
  check_pieces<pt::dispatch_gradient_op, made_like<pt::f32>, slots_like, tokens_like<pt::f32>>({}, bound, with_slots(1));
  check_pieces<pt::combine_op, made_like<pt::f32>, gates_like, slots_like>({}, bound, with_slots(2));
  check_pieces<pt::combine_gradient_op, tokens_like<pt::f32>, gates_like, slots_like>({}, bound, with_slots(2));
  check_pieces<pt::combine_gates_gradient_op, tokens_like<pt::f64>, made_like<pt::f64>, slots_like>({}, bound, with_slots(2),
                                                                                                    1e-12);
  // one token, one expert, no group
  check_pieces<pt::dispatch_op, pt::like<pt::f32, one, hidden>, pt::like<pt::i32, one, slot>>(
      {}, bound, [](int input, std::size_t i) { return input == 1 ? static_cast<double>(i) - 1 : number(input, i); });
}

TEST_CASE("a slot that holds no token of the group") {
  const auto op = lone_op::make<pt::dispatch_op, tokens_like<pt::f32>, slots_like>(
      {}, bound, [](int input, std::size_t i) { return input == 1 ? 6 : number(input, i); });
  CHECK_THROWS_WITH_AS(op.run_whole(), "a slot of an expert holds token 6, a group has 6 tokens", pt::error);
}

namespace {
struct there_and_back {
  constexpr auto operator()(auto& g) const {
    auto slots = pt::input<pt::i32, group, expert, slot>(g, "slots");
    auto x = pt::param<pt::f32, group, token, hidden>(g, "x", pt::uniform{-1, 1});
    auto gates = pt::param<pt::f32, group, token, expert>(g, "gates", pt::uniform{-1, 1});
    auto w = pt::param<pt::f32, expert, hidden, inner>(g, "w", pt::uniform{-1, 1});
    auto y = pt::einsum<"... e c h, e h f -> ... e c f">(pt::dispatch(x, slots), w);
    return weighted_sum(pt::combine(pt::silu(y), gates, slots));
  }
};
// A whole layer, routed by the tokens themselves. `Switch`: one expert and its probability, else two whose gates sum to 1.
template <bool Switch> struct mixture {
  constexpr auto operator()(auto& g) const {
    auto x = pt::param<pt::f32, group, token, hidden>(g, "x", pt::uniform{-2, 2});
    auto logits = pt::linear(x, pt::param<pt::f32, hidden, expert>(g, "router", pt::uniform{-2, 2}));
    auto probabilities = pt::softmax<expert>(logits);
    auto gates = Switch ? pt::top_k<expert>(probabilities, 1)
                        : pt::softmax<expert>(pt::top_k<expert>(logits, 2, -std::numeric_limits<double>::infinity()));
    auto slots = pt::assign_slots<slot>(gates);
    auto h = pt::silu(pt::einsum<"... e c h, e h f -> ... e c f">(
        pt::dispatch(x, slots), pt::param<pt::f32, expert, hidden, inner>(g, "w1", pt::uniform{-1, 1})));
    auto z =
        pt::einsum<"... e c f, e f h -> ... e c h">(h, pt::param<pt::f32, expert, inner, hidden>(g, "w2", pt::uniform{-1, 1}));
    auto y = pt::combine(z, gates, slots);
    return pt::outputs(pt::loss("loss", weighted_sum(y)),
                       pt::loss("balance", weighted_sum(pt::load_balance(probabilities, gates)), 0.3));
  }
};
}  // namespace

TEST_CASE("gradients of a mixture of experts against differences") {
  std::vector<double> slots;
  for (std::size_t i = 0; i < 24; ++i) slots.push_back(some_slot(i));
  check_gradients<there_and_back>({{"slots", slots}}, bound);
  // Tokens over capacity, and experts that get none, with two slots an expert; all are kept with six.
  for (std::size_t n : {std::size_t{2}, std::size_t{6}}) {
    check_gradients<mixture<true>>({}, {pt::bind<slot>(n)}, {}, 1e-6, 1e-6);
    check_gradients<mixture<false>>({}, {pt::bind<slot>(n)}, {}, 1e-6, 1e-6);
  }
}
