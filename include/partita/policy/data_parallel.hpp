// Data parallelism: the batch is cut in space, parameters are replicated, gradients are summed by what `complete` makes
// of that.
#pragma once
#include <partita/plan/plan.hpp>

namespace partita::policy {

// All on device 0.
struct single_device {
  constexpr void operator()(auto& plan) const { plan.op_assign(plan.ops(), grid{}); }
};

// The batch axis is by convention the first axis of the first input.
struct data_parallel_of {
  int pieces = 1;
  constexpr void operator()(auto& plan) const {
    if (auto const* batch = plan.batch_axis()) plan.op_trans(plan.ops(), cut_axis{batch, pieces, mode_name("data")});
    plan.op_assign(plan.ops(), grid{{"data", pieces}});
  }
};
template <int Pieces> struct data_parallel {
  constexpr void operator()(auto& plan) const { data_parallel_of{Pieces}(plan); }
};

// The batch cut in time over the whole graph: gradients accumulate.
struct micro_batches_of {
  int pieces = 1;
  constexpr void operator()(auto& plan) const {
    if (auto const* batch = plan.batch_axis()) plan.op_trans(plan.ops(), cut_axis{batch, pieces, mode_name("micro")});
    plan.op_assign(plan.ops(), grid{});
  }
};
template <int Pieces> struct micro_batches {
  constexpr void operator()(auto& plan) const { micro_batches_of{Pieces}(plan); }
};

}  // namespace partita::policy
