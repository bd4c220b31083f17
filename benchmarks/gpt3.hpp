// GPT-3 in bf16, to be planned and never run. Brown et al. 2020, table 2.1; 175B: 96 layers, hidden 12288, 96 heads.
#pragma once
#include "models/gpt.hpp"

namespace benchmark_model {

using gpt3 = gpt<pt::bf16>;
struct large_sizes : gpt_sizes {
  large_sizes() : gpt_sizes{96, 51200, 12288, 96, 1536, 2048} {}
};
// Stages outside, tensor parallelism with sequence parallelism innermost: on neighbouring devices.
struct large_cuts {
  int tensor = 8, stages = 16, data = 8, micro_batches = 64, zero = 1;
  bool recompute = false;
  void operator()(auto& plan) const {
    pt::policy::pipeline_of{stages, micro_batches}(plan);
    pt::policy::data_parallel_of{data}(plan);
    pt::policy::tensor_parallel_of{tensor}(plan);
    pt::policy::sequence_parallel_of{tensor}(plan);
    if (zero > 0) pt::policy::zero_of{zero, data}(plan);
  }
};
inline pt::plan<gpt3> plan_large(large_sizes const& s, large_cuts const& c) {
  pt::plan<gpt3> p(pt::training<gpt3>{{s.layers}}, s.bindings());
  c(p);
  return p;
}

}  // namespace benchmark_model
