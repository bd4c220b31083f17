// The search finds what a search over all chains finds.
#include <doctest/doctest.h>

#include "brute_force.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
void compare(std::vector<int> const& grid, std::vector<std::size_t> const& shape) {
  const all_chains all(grid_of(grid), shape);
  int pairs = 0, reached = 0;
  for (std::size_t a = 0; a < all.layouts.size(); ++a)
    for (std::size_t b = 0; b < all.layouts.size(); ++b) {
      bool found = false;
      double seconds = 0;
      const auto chain = pt::cheapest_chain(all.layouts[a], all.layouts[b], static_cast<int>(shape.size()), all.bytes(), found,
                                            pt::link_cost{}, shape.data(), &seconds);
      ++pairs;
      reached += found;
      const bool same =
          found == (all.seconds[a][b] < INFINITY) && (!found || seconds == doctest::Approx(all.seconds[a][b]).epsilon(1e-9));
      if (same) continue;
      FAIL_CHECK(words_of(all.layouts[a]), " -> ", words_of(all.layouts[b]), ": ", words_of(chain), " takes ", seconds,
                 " s, the best ", all.seconds[a][b]);
    }
  CAPTURE(pairs);
  CHECK(reached > pairs / 4);
}
}  // namespace

TEST_CASE("chains are as cheap as the cheapest of all chains") {
  compare({2}, {8});
  compare({3}, {6, 9});
  compare({2, 2}, {16});
  compare({2, 2}, {8, 8});
  compare({2, 3}, {36});
  compare({2, 3}, {12, 18});
  compare({2, 2, 2}, {64});
}
TEST_CASE("also where pieces are uneven") {
  compare({2, 2}, {7});
  compare({2, 3}, {11});
  compare({2, 2}, {5, 7});
}
