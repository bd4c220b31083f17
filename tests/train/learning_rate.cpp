#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include <partita/train/learning_rate.hpp>

using partita::learning_rate;

TEST_CASE("a constant rate, with and without warm-up") {
  constexpr learning_rate rate = learning_rate::constant(3e-4);
  for (std::uint64_t step : {0u, 1u, 1000u, 4'000'000'000u}) CHECK(rate.rate(step) == 3e-4);
  const learning_rate warm = learning_rate::constant(1, 4);
  CHECK(warm.rate(0) == 0.25);
  CHECK(warm.rate(3) == 1);
  CHECK(warm.rate(400) == 1);
}

TEST_CASE("warm-up, then a fall to the floor that never turns up again") {
  for (std::uint64_t warm_up : {0u, 1u, 10u, 99u})
    for (double floor : {0.0, 0.1, 1.0})
      for (const learning_rate& rate :
           {learning_rate::cosine(1, warm_up, 100, floor), learning_rate::linear(1, warm_up, 100, floor)}) {
        for (std::uint64_t step = 0; step < warm_up; ++step)
          CHECK(rate.rate(step) == doctest::Approx(static_cast<double>(step + 1) / static_cast<double>(warm_up)));
        CHECK(rate.rate(warm_up) == doctest::Approx(1));
        for (std::uint64_t step = warm_up; step < 120; ++step) {
          CHECK(rate.rate(step + 1) <= rate.rate(step));
          CHECK(rate.rate(step) >= floor);
        }
        CHECK(rate.rate(100) == floor);
        CHECK(rate.rate(1'000'000) == floor);
      }
}

TEST_CASE("the middle of the fall is half way, a quarter is where the curve says") {
  CHECK(learning_rate::cosine(1, 10, 110, 0.2).rate(60) == doctest::Approx(0.6));
  CHECK(learning_rate::linear(1, 10, 110, 0.2).rate(60) == doctest::Approx(0.6));
  CHECK(learning_rate::linear(1, 0, 100).rate(25) == doctest::Approx(0.75));
  CHECK(learning_rate::cosine(1, 0, 100).rate(25) == doctest::Approx((1 + std::sqrt(0.5)) / 2));
}

TEST_CASE("settings that make no sense are refused") {
  CHECK_THROWS_AS(learning_rate::constant(-1), partita::error);
  CHECK_THROWS_AS(learning_rate::constant(std::nan("")), partita::error);
  CHECK_THROWS_AS(learning_rate::constant(std::numeric_limits<double>::infinity()), partita::error);
  CHECK_THROWS_AS(learning_rate::cosine(1, 0, 0), partita::error);
  CHECK_THROWS_AS(learning_rate::cosine(1, 10, 100, 2), partita::error);
  CHECK_THROWS_AS(learning_rate::linear(1, 10, 100, -0.1), partita::error);
  CHECK_THROWS_WITH_AS(learning_rate::linear(1, 100, 100),
                       "learning rate: a warm-up of 100 steps leaves nothing of 100 steps; give more steps or a "
                       "shorter warm-up",
                       partita::error);
}

TEST_CASE("rates compare and print") {
  static_assert(learning_rate::cosine(1, 2, 3) == learning_rate::cosine(1, 2, 3));
  CHECK(learning_rate::cosine(1, 2, 3) != learning_rate::linear(1, 2, 3));
  std::ostringstream out;
  out << learning_rate::cosine(3e-4, 100, 2000, 3e-5) << "; " << learning_rate::constant(0.1);
  CHECK(out.str() == "cosine from 0.0003 to 3e-05, 2000 steps, warm-up 100; constant 0.1");
}
