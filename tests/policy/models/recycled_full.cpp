// Every policy on a model of several passes.
#include "../../support/matrix.hpp"
#include "../../support/models/recycled.hpp"

namespace partita::testing {
namespace {

std::vector<named_plan> plans_of_passes(int passes = 3) {
  using namespace policy;
  const data_parallel_of two{2};
  const tensor_parallel_of tensor2{2};
  static std::vector<std::string> patterns{"pass.0.block.*", "pass.1.block.*", "pass.2.block.*", "pass.3.block.*"};
  const recompute_of last{patterns[static_cast<std::size_t>(passes - 1)]};
  return {composed("3f1b 1 x 3", three_f_one_b(1, 3)),
          composed("3f1b 2 x 4", three_f_one_b(2, 4)),
          composed("3f1b 3 x 5", three_f_one_b(3, 5)),
          composed("3f1b 4 x 2", three_f_one_b(4, 2)),
          composed("3f1b 3 x 1", three_f_one_b(3, 1)),
          composed("data 2, 3f1b 2 x 3, zero 2", two, three_f_one_b(2, 3), zero_of{2, 2}),
          composed("tensor 2, 3f1b 2 x 3", tensor2, three_f_one_b(2, 3)),
          composed("data 2, 3f1b 2 x 3, recompute, zero 3", two, three_f_one_b(2, 3), last, zero_of{3, 2}),
          composed("data 2, tensor 2, 3f1b 2 x 2, zero 1", two, tensor2, three_f_one_b(2, 2), zero_of{1, 2})};
}

TEST_CASE("a model of three passes under every policy does what one device does") {
  const models::sizes sizes;
  tried<models::recycled> model(sizes);
  model.check(common_plans<models::position, models::head, models::inner>(sizes, "pass.2.block.*"));
  model.check(plans_of_passes());
  model.check_random(1, 20);
}

TEST_CASE("one pass, two, four, at other sizes") {
  const models::sizes sizes{.samples = 8, .positions = 4, .vocabulary = 9, .hidden = 6, .heads = 2, .width = 3, .inner = 10};
  for (models::recycled model : {models::recycled{1, 3}, {2, 1}, {4, 2, false}})
    tried<models::recycled>(sizes, model, false).check(plans_of_passes(model.passes));
}

}  // namespace
}  // namespace partita::testing
