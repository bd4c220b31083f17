// Every policy on a Llama-like model.
#include "../../support/matrix.hpp"
#include "../../support/models/llama.hpp"

using namespace partita::testing;

TEST_CASE("a Llama-like model under every policy does what one device does") {
  for (models::sizes const& sizes :
       {models::sizes{}, models::sizes{.samples = 7, .positions = 8, .vocabulary = 13, .hidden = 9, .heads = 2, .share = 3, .width = 2, .inner = 12}})
    tried<models::llama>(sizes, {}, sizes.heads == 2)
        .check(common_plans<models::position, models::head, models::inner>(sizes));
}

TEST_CASE("the same under random plans") {
  tried<models::llama>({}).check_random(1, 8);
}
