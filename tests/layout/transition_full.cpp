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
      check({n, m}, {7, 6, 5}, 1);
      for (int k = 2; k <= 3; ++k) {
        check({n, m, k}, {61}, 1);
        check({n, m, k}, {25, 27}, 53);
      }
    }
  check({2, 2, 2}, {8, 9, 11}, 11);
  check({3, 2, 4}, {9, 8, 7}, 101);
}
