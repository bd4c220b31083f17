// Trains a small GPT on one CUDA device and on the CPU, and compares, after a look at what graphs do; on a machine without a GPU
// it checks that this is said.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <partita/cuda.hpp>
#include <partita/partita.hpp>

#include "../support/graph_events.hpp"
#include "../support/models/gpt.hpp"

namespace pt = partita;
using namespace partita::testing;
using training = pt::training<models::gpt, pt::adamw, pt::clip_norm>;
using narrow_training = pt::training<pt::in_precision<models::gpt, pt::bf16>, pt::adamw, pt::clip_norm>;

int main() try {
  const models::sizes sizes;
  std::vector<std::int32_t> tokens, targets;
  for (std::size_t i = 0; i < sizes.samples * sizes.positions; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i * 7 % sizes.vocabulary));
    targets.push_back(static_cast<std::int32_t>((i * 5 + 1) % sizes.vocabulary));
  }
  auto plan = [&](training const& t) { return pt::plan<training>(t, sizes.extents()); };
  auto on_one = plan({});
  pt::policy::single_device{}(on_one);

  if (pt::on_cuda::count_devices<pt::on_cuda::runtime>() == 0) try {
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

  pt::plan<narrow_training> narrow_on_one(narrow_training{}, sizes.extents());
  pt::policy::single_device{}(narrow_on_one);
  pt::trainer<training> cpu(on_one, pt::cpu{});
  pt::trainer<training> gpu(on_one, pt::cuda{});
  pt::trainer<narrow_training> narrow(narrow_on_one, pt::cuda{});
  for (int step = 0; step < 4; ++step) {
    const float wanted = cpu.step({{"tokens", tokens}, {"targets", targets}}),
                have = gpu.step({{"tokens", tokens}, {"targets", targets}}),
                in_bf16 = narrow.step({{"tokens", tokens}, {"targets", targets}});
    std::printf("step %d: loss %.7f on the CPU, %.7f on the GPU, %.7f in bf16\n", step, static_cast<double>(wanted),
                static_cast<double>(have), static_cast<double>(in_bf16));
    if (!(std::abs(have - wanted) <= 1e-4f * std::abs(wanted) && std::abs(in_bf16 - wanted) <= 2e-2f * std::abs(wanted)))
      return 1;
  }
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
