// Every policy on a GPT.
#include "../../support/matrix.hpp"
#include "../../support/models/gpt.hpp"

using namespace partita::testing;

TEST_CASE("a GPT under every policy does what one device does") {
  for (models::sizes const& sizes :
       {models::sizes{}, models::sizes{.samples = 7, .positions = 8, .vocabulary = 13, .hidden = 9, .heads = 5, .width = 3, .inner = 12}})
    tried<models::gpt>(sizes).check(common_plans<models::position, models::head, models::inner>(sizes));
}

TEST_CASE("the same under random plans") {
  tried<models::gpt>({}).check_random(1, 8);
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
  tried<models::gpt>(sizes).check(plans);
}
