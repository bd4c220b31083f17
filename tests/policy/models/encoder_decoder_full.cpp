// Every policy on an encoder and a decoder that share their table.
#include "../../support/matrix.hpp"
#include "../../support/models/encoder_decoder.hpp"

using namespace partita::testing;

TEST_CASE("an encoder and a decoder under every policy do what one device does") {
  for (models::sizes const& sizes :
       {models::sizes{},
        models::sizes{
            .samples = 7, .positions = 8, .sources = 3, .vocabulary = 13, .hidden = 9, .heads = 4, .width = 3, .inner = 12}})
    tried<models::encoder_decoder>(sizes, {}, sizes.heads == 4)
        .check(common_plans<models::position, models::head, models::inner>(sizes));
}

TEST_CASE("the same under random plans") { tried<models::encoder_decoder>({}).check_random(1, 8); }

TEST_CASE("the executor makes the same bits") {
  const models::sizes sizes;
  tried<models::encoder_decoder>(sizes).check(common_plans<models::position, models::head, models::inner>(sizes),
                                              {.steps = 2, .on_threads = true});
}

TEST_CASE("its vocabulary spread over the stages of an interlaced pipeline") {
  const models::sizes sizes{.samples = 7};
  tried<models::encoder_decoder>(sizes).check(interlaced_plans<models::vocabulary>());
}
