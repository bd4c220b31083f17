// Every policy on a GPT.
#include "../../support/models/gpt.hpp"
#include "../../support/matrix.hpp"

using namespace partita::testing;

TEST_CASE("a GPT under every policy does what one device does") {
  for (models::sizes const& sizes :
       {models::sizes{},
        models::sizes{.samples = 7, .positions = 8, .vocabulary = 13, .hidden = 9, .heads = 5, .width = 3, .inner = 12}})
    tried<models::gpt>(sizes).check(common_plans<models::position, models::head, models::inner>(sizes));
}

TEST_CASE("the same under random plans") { tried<models::gpt>({}).check_random(1, 8); }

TEST_CASE("its vocabulary spread over the stages of an interlaced pipeline") {
  const models::sizes sizes{.samples = 7};
  tried<models::gpt>(sizes).check(interlaced_plans<models::vocabulary>());
}
