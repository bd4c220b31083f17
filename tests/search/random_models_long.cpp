// Searches over random models on random clusters under random constraints: a thousand of them.
#include "../support/number_of.hpp"
#include "../support/search_of_random.hpp"

using namespace partita;

TEST_CASE("a plan that is found verifies, holds what is counted, and is read back; laws hold") {
  testing::check_searches(100, 100 + testing::number_of("SEARCHED_MODELS", 1000));
}
