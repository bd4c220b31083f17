// Every policy on an encoder and a decoder that share their table.
#include "../../support/matrix.hpp"
#include "../../support/models/encoder_decoder.hpp"

using namespace partita::testing;

TEST_CASE("an encoder and a decoder under every policy do what one device does") {
  for (models::sizes const& sizes :
       {models::sizes{}, models::sizes{.samples = 7, .positions = 8, .sources = 3, .vocabulary = 13, .hidden = 9, .heads = 4, .width = 3, .inner = 12}})
    tried<models::encoder_decoder>(sizes, {}, sizes.heads == 4)
        .check(common_plans<models::position, models::head, models::inner>(sizes));
}

TEST_CASE("the same under random plans") {
  tried<models::encoder_decoder>({}).check_random(1, 8);
}

TEST_CASE("the executor makes the same bits") {
  const models::sizes sizes;
  tried<models::encoder_decoder>(sizes).check(common_plans<models::position, models::head, models::inner>(sizes),
                                              {.steps = 2, .on_threads = true});
}

TEST_CASE("its vocabulary spread over the stages of an interlaced pipeline") {
  using namespace partita;
  using namespace partita::policy;
  constexpr axis_info const* words = &axis_of<models::vocabulary>::info;
  const models::sizes sizes{.samples = 7};
  const std::vector<named_plan> plans{
      composed("interlaced 2 x 3", interlaced_pipeline_of{2, 3, words}),
      composed("interlaced 3 x 5", interlaced_pipeline_of{3, 5, words}),
      composed("interlaced 4 x 2, in step", interlaced_pipeline_of{4, 2, words, true}),
      composed("data 2, interlaced 3 x 2, zero 3", data_parallel_of{2}, interlaced_pipeline_of{3, 2, words}, zero_of{3, 2}),
      composed("tensor 2, interlaced 2 x 3", tensor_parallel_of{2}, interlaced_pipeline_of{2, 3, words}),
      composed("interlaced 3 x 4, in step, recompute", interlaced_pipeline_of{3, 4, words, true}, recompute_of{"block.*"})};
  tried<models::encoder_decoder>(sizes).check(plans);
}
