// Trains a small GPT and a mixture of experts on CUDA devices, on one and under policies on as many as there are, and on the CPU,
// and compares, after a look at what graphs do; on a machine without a GPU it checks that this is said. `one`: on one GPU alone,
// for what makes it slow.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <partita/cuda.hpp>
#include <partita/partita.hpp>

#include "../support/graph_events.hpp"
#include "../support/models/gpt.hpp"
#include "../support/models/mixture.hpp"

namespace pt = partita;
using namespace partita::testing;
using training = pt::training<models::gpt, pt::adamw, pt::clip_norm>;
using narrow_training = pt::training<pt::in_precision<models::gpt, pt::bf16>, pt::adamw, pt::clip_norm>;
using training_of_experts = pt::training<models::mixture, pt::adamw, pt::clip_norm>;
using namespace pt::policy;

namespace {
const models::sizes sizes;
struct batch {
  std::vector<std::int32_t> tokens, targets;
  batch() {
    for (std::size_t i = 0; i < sizes.samples * sizes.positions; ++i) {
      tokens.push_back(static_cast<std::int32_t>(i * 7 % sizes.vocabulary));
      targets.push_back(static_cast<std::int32_t>((i * 5 + 1) % sizes.vocabulary));
    }
  }
};
template <class Training, class Policy> pt::plan<Training> planned(Policy const& policy) {
  pt::plan<Training> made(Training{}, sizes.extents());
  policy(made);
  return made;
}
constexpr int steps = 4;
template <class Training, class Devices> std::vector<float> losses(pt::plan<Training> const& plan, Devices const& devices) {
  const batch data;
  pt::trainer<Training> trainer(plan, devices);
  std::vector<float> all;
  for (int step = 0; step < steps; ++step) all.push_back(trainer.step({{"tokens", data.tokens}, {"targets", data.targets}}));
  return all;
}
bool agree(char const* what, std::vector<float> const& wanted, std::vector<float> const& have, float tolerance) {
  bool all = true;
  for (int step = 0; step < steps; ++step) {
    const auto at = static_cast<std::size_t>(step);
    std::printf("%s, step %d: loss %.7f on the CPU, %.7f\n", what, step, static_cast<double>(wanted[at]),
                static_cast<double>(have[at]));
    all = all && std::abs(have[at] - wanted[at]) <= tolerance * std::abs(wanted[at]);
  }
  return all;
}
// Under a policy, where there are as many GPUs as its plan is for.
template <class Training, class Policy>
bool agrees(char const* what, int devices, int there, std::vector<float> const& wanted, Policy const& policy) {
  if (there < devices) {
    std::printf("%s: left out, for want of %d GPUs\n", what, devices);
    return true;
  }
  return agree(what, wanted, losses(planned<Training>(policy), pt::cuda{}), 1e-4f);
}
}  // namespace

int main(int argc, char** argv) try {
  const bool one = argc > 1 && std::string_view(argv[1]) == "one";
  const int there = std::min(pt::on_cuda::count_devices<pt::on_cuda::runtime>(), one ? 1 : 64);
  const auto on_one = planned<training>(single_device{});
  if (there == 0) try {
      pt::trainer<training> gpu(on_one, pt::cuda{});
      std::puts("a trainer was made on a machine without a GPU");
      return 1;
    } catch (pt::error const& e) {
      const std::string words = e.what();
      std::printf("no GPU here, nothing was trained: %s\n", words.c_str());
      return words == "the plan is for 1 CUDA devices, this machine has 0" ? 0 : 1;
    }

  if (const std::string fault = fault_of_graph_events<pt::on_cuda::runtime>(std::size_t{256} << 20); !fault.empty()) {
    std::puts(fault.c_str());
    return 1;
  }
  std::puts("events of graphs answer as captured steps need it");

  const std::vector<float> wanted = losses(on_one, pt::cpu{}),
                           of_experts = losses(planned<training_of_experts>(single_device{}), pt::cpu{});
  bool all = agree("GPT", wanted, losses(on_one, pt::cuda{}), 1e-4f);
  all = agree("GPT in bf16", wanted, losses(planned<narrow_training>(single_device{}), pt::cuda{}), 2e-2f) && all;
  const auto gpt = [&](char const* what, int devices, auto const& policy) {
    all = agrees<training>(what, devices, there, wanted, policy) && all;
  };
  const auto experts = [&](char const* what, int devices, auto const& policy) {
    all = agrees<training_of_experts>(what, devices, there, of_experts, policy) && all;
  };
  constexpr pt::axis_info const* expert = &pt::axis_of<models::expert>::info;
  experts("experts", 1, single_device{});
  gpt("GPT, data 2, ZeRO 3", 2, [](auto& plan) {
    data_parallel_of{2}(plan);
    zero_of{3, 2}(plan);
  });
  gpt("GPT, tensor 2", 2, tensor_parallel_of{2});
  gpt("GPT, pipeline 2 x 3", 2, pipeline_of{2, 3});
  gpt("GPT, data 2, tensor 2, pipeline 2 x 3", 8, [](auto& plan) {
    data_parallel_of{2}(plan);
    tensor_parallel_of{2}(plan);
    pipeline_of{2, 3}(plan);
  });
  experts("experts 2", 2, [](auto& plan) { expert_parallel_of{2, expert}(plan); });
  experts("data 2, experts 3", 6, [](auto& plan) {
    data_parallel_of{2}(plan);
    expert_parallel_of{3, expert}(plan);
  });
  return all ? 0 : 1;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
