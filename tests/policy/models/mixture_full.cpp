// Every policy on a mixture of experts, in double: a choice may not turn on rounding.
#include "../../support/matrix.hpp"
#include "../../support/models/mixture.hpp"

using namespace partita::testing;

namespace {
std::vector<named_plan> plans_with_experts() { return expert_plans<models::expert, models::position, models::inner>(); }
const models::sizes other{.samples = 9,
                          .positions = 8,
                          .vocabulary = 13,
                          .hidden = 9,
                          .heads = 2,
                          .share = 3,
                          .width = 2,
                          .inner = 12,
                          .experts = 5,
                          .slots = 2};
}  // namespace

TEST_CASE("a mixture of experts under every policy does what one device does") {
  for (models::sizes const& sizes : {models::sizes{.samples = 8}, other})
    tried<models::mixture>(sizes, {.normalised = sizes.heads == 2}, sizes.heads == 2)
        .check(common_plans<models::position, models::head, models::inner>(sizes));
}

TEST_CASE("the same with the experts in space") {
  for (models::sizes const& sizes : {models::sizes{.samples = 8}, other})
    tried<models::mixture>(sizes, {.normalised = sizes.heads == 2}, sizes.heads == 2).check(plans_with_experts());
}

TEST_CASE("the same under random plans") { tried<models::mixture>({}).check_random(1, 8); }

TEST_CASE("groups of tokens that are stretches of a sequence may be in parts with it") {
  using namespace partita::policy;
  auto along = [](int n) {
    return [n](partita::plan_base& plan) {
      partita::axis_info const* stretch = &partita::axis_of<models::stretch>::info;
      context_parallel_of{n, &partita::axis_of<models::position>::info, &partita::axis_of<models::head>::info}(plan);
      for (auto op : plan.ops())
        if (detail::only_letter(*op.entry().info, stretch) >= 0)
          plan.op_trans(op, partita::cut_axis{stretch, n, partita::mode_name("context")});
    };
  };
  const models::sizes sizes{.samples = 3, .positions = 8, .heads = 3, .slots = 2};
  tried<models::mixture_of<true>>(sizes).check(
      {composed("one device", single_device{}), composed("data 3", data_parallel_of{3}), composed("stretches 2", along(2)),
       composed("stretches 3", along(3)), composed("data 2, stretches 2, zero 1", data_parallel_of{2}, along(2), zero_of{1, 2}),
       composed("experts 2, stretches 2", expert_parallel_of{2, &partita::axis_of<models::expert>::info}, along(2))});
}

TEST_CASE("the executor makes the same bits, also where tokens go to experts elsewhere") {
  tried<models::mixture>({.samples = 8}).check(plans_with_experts(), {.steps = 1, .on_threads = true});
}
