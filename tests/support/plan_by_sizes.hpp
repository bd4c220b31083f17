// Plans by their sizes, in the words of ready-made policies.
#pragma once
#include <partita/policy/data_parallel.hpp>
#include <partita/policy/pipeline.hpp>
#include <partita/policy/tensor_parallel.hpp>
#include <partita/policy/zero.hpp>

namespace partita::testing {

struct plan_by_sizes {
  int data = 1, tensor = 1, stages = 1, micro_batches = 1, zero = 0;
  int devices() const { return data * tensor * stages; }
  constexpr void operator()(auto& plan) const {
    policy::data_parallel_of{data}(plan);
    policy::tensor_parallel_of{tensor}(plan);
    policy::pipeline_of{stages, micro_batches}(plan);
    if (zero > 0) policy::zero_of{zero, data}(plan);
  }
};

}  // namespace partita::testing
