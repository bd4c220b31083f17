// Every policy on a Llama-like model.
#include "../../support/models/llama.hpp"
#include "../../support/matrix.hpp"

using namespace partita::testing;

TEST_CASE("a Llama-like model under every policy does what one device does") {
  for (models::sizes const& sizes :
       {models::sizes{},
        models::sizes{
            .samples = 7, .positions = 8, .vocabulary = 13, .hidden = 9, .heads = 2, .share = 3, .width = 2, .inner = 12}})
    tried<models::llama>(sizes, {}, sizes.heads == 2).check(common_plans<models::position, models::head, models::inner>(sizes));
}

TEST_CASE("the same under random plans") { tried<models::llama>({}).check_random(1, 8); }

TEST_CASE("heads that share keys are cut where there are too few heads of keys") {
  using namespace partita::policy;
  partita::axis_info const *positions = &partita::axis_of<models::position>::info,
                           *share = &partita::axis_of<models::share>::info;
  for (std::size_t heads : {std::size_t{1}, std::size_t{2}})
    tried<models::llama>({.heads = heads, .share = 5})
        .check({composed("tensor 3", tensor_parallel_of{3}),
                composed("tensor 3, sequence", tensor_parallel_of{3}, sequence_parallel_of{3, positions}),
                composed("context 4 along the heads that share", context_parallel_of{4, positions, share}),
                composed("data 2, context 2, 2 micro-batches", data_parallel_of{2}, context_parallel_of{2, positions, share},
                         micro_batches_of{2})});
  CHECK(tried<models::llama>({.heads = 1, .share = 5}).fault([&](partita::plan_base& plan) {
    tensor_parallel_of{3}(plan);
    int cut = 0;
    for (auto op : plan.ops("block.*"))
      if (op.has(share)) cut += detail::is_cut_by(plan, op.id, "tensor");
    CHECK(cut == 2 * 6);  // two weights, two linears, a rotation, an attention a block
  }) == "");
}
