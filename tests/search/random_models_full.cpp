// Searches over random models on random clusters under random constraints.
#include "../support/number_of.hpp"
#include "../support/search_of_random.hpp"

using namespace partita;

TEST_CASE("a plan that is found verifies, holds what is counted, and is read back; laws hold") {
  testing::check_searches(3, 3 + testing::drawn(2, 20));
}
