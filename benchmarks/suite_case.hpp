// One full-size case of a search against the expert's grid (search/expert_grid.hpp), by the simulator.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <partita/cost/presets.hpp>
#include <partita/search/ablation.hpp>
#include <partita/search/expert_grid.hpp>
#include <partita/search/near_best.hpp>

namespace benchmark_model {

namespace pt = partita;

struct suite_result {
  pt::search_report why;
  double search_seconds = 0, cost = 0, bound = 0;  // by the planner's cost
  double memory = 0;                               // bytes, by the planner's cost
  double simulated = 0, simulated_memory = 0;      // the found plan, as simulated
  bool fits = false;
  pt::expert_plan expert{};                         // the grid's best
  long experts = 0;                                 // plans of the grid
  long too_slow = 0, too_large = 0, looked_at = 0;  // by a bound: slower than the best, or without room; the rest was simulated
  double grid_seconds = 0;                          // to simulate them
  double best = 0;                                  // what rescoring takes, as simulated
  std::string difference;                           // of the found plan from the grid's best, as simulated
  std::vector<pt::ablation> ablations;              // what each freedom is worth, where it is asked for
  std::vector<std::string> near_best;               // plans that cost little more, as simulated, where they are asked for
  double gap() const { return cost / bound - 1; }
  double ratio() const { return expert.seconds > 0 ? simulated / expert.seconds : 0; }  // 0: none that was simulated fits
};
struct suite_extras {
  bool ablates = false;
  double near = 0;  // plans that cost so much more, as a share, are simulated too
};
struct suite_case {
  std::string name;
  pt::cluster on;
  std::function<suite_result(pt::cluster const&, pt::expert_options const&, suite_extras const&)> run;
  pt::expert_options grid{};
};

template <class Model, class Sizes> suite_case a_case(std::string name, pt::cluster on, Model const& model, Sizes const& sizes,
                                                      pt::expert_options grid = {}, pt::constraints given = {}) {
  using training = pt::training<Model, pt::adamw, pt::clip_norm>;
  auto run = [=](pt::cluster const& c, pt::expert_options const& how, suite_extras const& extras) {
    auto now = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
    const training trained{model, {}, {}, {}};
    suite_result r;
    double begin = now();
    const auto found = pt::search<training>(c, given, trained, sizes.bindings());
    r.search_seconds = now() - begin;
    r.why = found.why;
    r.cost = found.seconds;
    r.bound = found.lower_bound;
    r.memory = found.memory;
    if (extras.ablates) r.ablations = pt::ablate(found, c, given);
    if (extras.near > 0)
      for (auto const& x : pt::near_best(found, c, given, {.within = extras.near})) {
        char line[160];
        std::snprintf(line, sizeof line, "%d x %d, %s, %d micro-batches: %.4g s by cost, %.4g s simulated, %.1f GiB%s",
                      x.found.why.stages, x.found.why.devices_per_stage,
                      x.found.why.schedule.empty() ? "one stage" : x.found.why.schedule.c_str(), x.found.why.micro_batches,
                      x.found.seconds, x.seconds, x.memory / (1 << 30), x.fits ? "" : " (does not fit)");
        r.near_best.push_back(line);
      }
    {
      const pt::simulation s = pt::simulate<training>(found.plan, c);
      r.simulated = s.seconds;
      r.simulated_memory = static_cast<double>(s.peak_bytes());
      r.fits = s.fits();
    }
    begin = now();
    pt::expert_options looked_for = how;
    if (how.faster_than <= 0) looked_for.faster_than = r.simulated;  // than what was found
    const std::vector<pt::expert_plan> experts = pt::expert_grid<training>(c, trained, sizes.bindings(), looked_for);
    r.grid_seconds = now() - begin;
    r.experts = static_cast<long>(experts.size());
    const double memory = pt::costs(c).memory(0);
    for (pt::expert_plan const& x : experts) ++(x.simulated ? r.looked_at : x.memory > memory ? r.too_large : r.too_slow);
    if (!experts.empty() && experts.front().fits) r.expert = experts.front();
    const auto rescored = pt::rescore<training>(found, experts, c);
    r.best = rescored.seconds;
    r.difference = rescored.difference;
    return r;
  };
  return {std::move(name), std::move(on), run, std::move(grid)};
}

inline pt::cluster a100(int devices) {
  pt::cluster c = pt::preset::dgx_a100((devices + 7) / 8);
  c.devices.front().count = devices;
  return c;
}
// Workstations of one GPU each.
inline pt::cluster l40s_on_ethernet(int devices) {
  pt::cluster c = a100(devices);
  c.name = std::to_string(devices) + " x L40S";
  pt::device_kind& l40s = c.kinds.front();
  l40s.name = "L40S";
  l40s.flops = {{"f32", 91.6e12}, {"bf16", 362e12}, {"f16", 362e12}};
  l40s.memory = 48e9;
  l40s.memory_bandwidth = 864e9;
  l40s.source = "NVIDIA L40S data sheet, 2023, without sparsity: 362 TFLOP/s bf16, 91.6 f32, 48 GB GDDR6 at 864 GB/s";
  c.devices = {{l40s.name, devices}};
  c.links = {{"100 Gigabit Ethernet", devices, 20e-6, 1 / 12.5e9, {}, "100 Gb/s a port; latency assumed"}};
  c.check();
  return c;
}
}  // namespace benchmark_model
