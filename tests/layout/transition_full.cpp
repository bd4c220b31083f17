// The sweep of transition.cpp over three-dimensional grids and tensors of rank 3.
#include <doctest/doctest.h>

#include "simulated_chain.hpp"

using namespace partita::testing;

TEST_CASE("every layout is reached from every other on three-dimensional grids") {
  auto check = [](std::vector<int> const& grid, std::vector<std::size_t> const& shape, int stride) {
    const sweep_result r = sweep(grid_of(grid), shape, stride);
    CAPTURE(r.pairs);
    CHECK(r.fault == "");
    CHECK(r.pairs > 50);
  };
  for (int n = 2; n <= 4; ++n)
    for (int m = 2; m <= 4; ++m) {
      check({n, m}, {16, 13}, 1);
      check({n, m}, {7, 6, 5}, 5);
      for (int k = 2; k <= 3 && n * m * k <= 24; ++k) {
        check({n, m, k}, {37}, 1);
        check({n, m, k}, {17, 19}, 53);
      }
    }
  check({2, 2, 2}, {8, 9, 5}, 101);
  check({3, 2, 4}, {9, 8, 5}, 401);
}
