// Trains on a GPU, or is told that there is none: the installed target brings CUDA, cuBLASLt and NCCL with it.
#include <cstdio>
#include <string_view>
#include <vector>

#include <partita/cuda.hpp>
#include <partita/policy/data_parallel.hpp>

#include "cuda_model.hpp"

int main() try {
  partita::plan<linear_training> plan;
  partita::policy::single_device{}(plan);
  partita::trainer<linear_training> t{plan, partita::cuda{}};
  std::printf("loss %.4f\n", static_cast<double>(t.step({{"x", std::vector<float>(32, 1.0f)}})));
} catch (partita::error const& e) {
  std::puts(e.what());
  return std::string_view(e.what()) == "the plan is for 1 CUDA devices, this machine has 0" ? 0 : 1;
}
