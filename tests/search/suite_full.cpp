// A quick case of the suite (benchmarks/suite.hpp): what is found, rescored with the expert's grid, is no slower than the
// grid's best.
#include <doctest/doctest.h>

#include <utility>

#include "../../benchmarks/models/gpt.hpp"
#include "../../benchmarks/suite_case.hpp"

using namespace benchmark_model;

TEST_CASE("GPT-3 1.3B on 4 and 8 A100 against the expert's grid, by the simulator") {
  for (int devices : {4, 8}) {
    partita::expert_options grid;
    grid.micro_batches = {1, 4, 8};
    const suite_case c = a_case("", a100(devices), gpt<partita::bf16>{24}, gpt_sizes{24, 51200, 2048, 16, 64, 2048}, grid);
    const suite_result r = c.run(c.on, c.grid, {});
    CAPTURE(devices);
    REQUIRE(r.experts > 20);
    REQUIRE(r.fits);
    CHECK(r.cost <= r.bound * 1.001);
    CHECK(r.simulated_memory <= r.memory);
    CHECK(r.best <= r.expert.seconds);
    CHECK(r.ratio() < 1.005);  // before rescoring
    grid.simulate_all = true;  // what a bound leaves out is not the best
    grid.micro_batches = {8};
    if (devices == 4) {
      const suite_result all = c.run(c.on, grid, {});
      grid.simulate_all = false;
      CHECK(all.expert.seconds == c.run(c.on, grid, {}).expert.seconds);
    }
  }
}

// Terms of gradients made in bf16 are converted for every micro-batch, on a device whose weights are cut into few pieces for most
// of what a step has over its products.
TEST_CASE("the planner's cost of a step is the simulator's, where terms of gradients are converted by micro-batch too") {
  partita::expert_options none;
  none.most_tensor = 0;
  for (auto const& [stages, micro_batches] : {std::pair{1, 4}, {1, 16}, {2, 16}, {4, 32}}) {
    partita::constraints given;
    given.stages = {stages};
    given.devices_per_stage = {8 / stages};
    given.micro_batches = {micro_batches};
    const suite_case c = a_case("", a100(8), gpt<partita::bf16>{24}, gpt_sizes{24, 51200, 2048, 16, 64, 2048}, none, given);
    const suite_result r = c.run(c.on, c.grid, {});
    CAPTURE(stages);
    CAPTURE(micro_batches);
    CAPTURE(r.cost);
    CAPTURE(r.simulated);
    CHECK(r.cost <= r.simulated * 1.04);
    CHECK(r.cost >= r.simulated * 0.98);
  }
}
