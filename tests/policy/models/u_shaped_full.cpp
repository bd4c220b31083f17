// Every policy on a model with long skip connections.
#include "../../support/matrix.hpp"
#include "../../support/models/u_shaped.hpp"

using namespace partita::testing;

TEST_CASE("a model in the shape of a U under every policy does what one device does") {
  for (models::sizes const& sizes :
       {models::sizes{.positions = 6},
        models::sizes{.samples = 7, .positions = 10, .hidden = 6, .heads = 4, .width = 3, .inner = 12, .features = 3}})
    tried<models::u_shaped>(sizes, {}, sizes.heads == 4)
        .check(common_plans<models::position, models::head, models::inner>(sizes, "down.*"));
}

TEST_CASE("its inner level cut along the positions") {
  const models::sizes sizes{.positions = 6};
  tried<models::u_shaped>(sizes).check(common_plans<models::coarse, models::head, models::inner>(sizes));
}

TEST_CASE("the same under random plans") { tried<models::u_shaped>({.positions = 6}).check_random(1, 8); }
