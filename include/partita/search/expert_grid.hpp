// What an expert tries: every Megatron-style plan, data x tensor x pipeline parallelism with the usual options, simulated
// unless a bound says that it is slower than the best, or does not fit. The measure for a search: `rescore` takes the best of
// both by the simulator.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include <partita/policy/data_parallel.hpp>
#include <partita/policy/pipeline.hpp>
#include <partita/policy/recompute.hpp>
#include <partita/policy/sequence_parallel.hpp>
#include <partita/policy/tensor_parallel.hpp>
#include <partita/policy/zero.hpp>
#include <partita/search/search.hpp>
#include <partita/simulate/comparison.hpp>
#include <partita/simulate/order_bound.hpp>
#include <partita/simulate/plan_bound.hpp>
#include <partita/simulate/simulate.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct expert_cuts {
  int stages = 1, data = 1, tensor = 1, micro_batches = 1, zero = 0;
  bool sequence = false, recompute = false;
  int devices() const { return stages * data * tensor; }
  void operator()(plan_base& plan) const {
    policy::pipeline_of{stages, micro_batches}(plan);
    policy::data_parallel_of{data}(plan);
    policy::tensor_parallel_of{tensor}(plan);
    if (sequence) policy::sequence_parallel_of{tensor}(plan);
    if (recompute) policy::recompute_of{"block.*"}(plan);
    if (zero > 0) policy::zero_of{zero, data}(plan);
  }
  std::string name() const {
    return words({"pipeline ", stages, " x data ", data, " x tensor ", tensor, ", ", micro_batches, " micro-batches, ZeRO ", zero,
                  sequence ? ", sequence" : "", recompute ? ", recompute" : ""});
  }
};
struct expert_plan {
  expert_cuts cuts;
  double seconds = 0, memory = 0;  // simulated; memory in bytes, of the fullest device. Else what it takes at the least
  bool fits = false;               // simulated, and it fits
  bool simulated = false;
};
struct expert_options {
  int most_tensor = 8;             // tensor parallelism stays within a node
  std::vector<int> micro_batches;  // empty: powers of two that divide the batch of a replica
  std::vector<int> zero{0, 1};
  // Seconds of a plan that is known: what a bound says is no faster is not simulated either.
  double faster_than = spaces::infinite;
  bool simulate_all = false;  // also those of which a bound (simulate/plan_bound.hpp) says that they are not the best
  int part = 0, parts = 1;    // a grid that takes long is looked at in so many parts: this one
};

// Every way to share so many devices and samples.
inline std::vector<expert_cuts> expert_cuts_of(int devices, int samples, expert_options const& how = {}) {
  std::vector<expert_cuts> all;
  for (int tensor = 1; tensor <= std::min(how.most_tensor, devices); tensor *= 2)
    for (int stages = 1; stages * tensor <= devices; stages *= 2) {
      if (devices % (stages * tensor) != 0) continue;
      const int data = devices / (stages * tensor);
      if (samples % data != 0) continue;
      std::vector<int> micro = how.micro_batches;
      if (micro.empty())
        for (int m = 1; m <= samples / data; m *= 2)
          if (samples / data % m == 0) micro.push_back(m);
      for (int m : micro)
        for (int zero : how.zero)
          for (int options = 0; options < 4; ++options) {
            const expert_cuts cuts{stages, data, tensor, m, zero, (options & 1) != 0, (options & 2) != 0};
            if ((zero > 0 && data == 1) || (cuts.sequence && tensor == 1) || (stages > 1 && m < stages)) continue;
            all.push_back(cuts);
          }
    }
  return all;
}

// Every expert plan of all devices of a cluster, the fastest that fits first. Plans that the model has no axes or blocks
// for are left out. Throws error where there is no such part.
template <class Model> std::vector<expert_plan> expert_grid(cluster const& c, as_training<Model> const& model = {},
                                                            std::vector<binding> const& extents = {},
                                                            expert_options const& how = {}) {
  if (how.parts < 1 || how.part < 0 || how.part >= how.parts)
    throw_error({"expert grid: there is no part ", how.part, " of ", how.parts, "; they count from 0"});
  std::vector<expert_plan> all;
  const costs k(c);
  const plan<Model> empty(model, extents);
  graph_data const& g = empty.traced();
  axis_info const* batch = empty.batch_axis();
  const int samples = batch == nullptr ? 1 : static_cast<int>(g.extent(batch));
  const int devices = k.devices();
  double most_memory = 0;
  for (int d = 0; d < devices; ++d) most_memory = std::max(most_memory, k.memory(d));
  auto made_by = [&](expert_cuts const& cuts) {
    plan<Model> p(model, extents);
    cuts(p);
    return p;
  };
  int count = 0;
  auto is_of_part = [&] {  // dealt out, so that no part has all that run blocks again
    const int at = count++;
    return (at + at / 8) % how.parts == how.part;
  };
  auto add = [&](expert_cuts const& cuts) {
    const plan<Model> p = made_by(cuts);
    completed done;
    if (verify_plan(p.traced(), p, done, false)) return;
    plan_bound least = bound_of(p.traced(), done, k, std::min(cuts.stages, cuts.micro_batches));  // 1F1B
    if (least.seconds < how.faster_than && least.bytes <= most_memory)
      least.seconds = std::max(least.seconds, least_in_order(p.traced(), p, done, k));
    all.push_back({cuts, least.seconds, least.bytes, false, false});
  };
  for (expert_cuts const& cuts : expert_cuts_of(devices, samples, how))
    if (is_of_part()) add(cuts);
  auto sort = [&] {  // what is known to fit first; by time or its bound
    std::stable_sort(all.begin(), all.end(), [](expert_plan const& a, expert_plan const& b) {
      return a.fits != b.fits ? a.fits : a.seconds < b.seconds;
    });
  };
  sort();
  double best = how.faster_than;
  simulate_options about;
  about.keep_programs = false;
  about.fitting_only = !how.simulate_all;
  for (expert_plan& x : all) {
    if (!how.simulate_all && (x.seconds >= best || x.memory > most_memory)) continue;
    const simulation s = simulate<Model>(made_by(x.cuts), k, about);
    x = {x.cuts, s.seconds, static_cast<double>(s.peak_bytes()), s.fits(), true};
    if (x.fits) best = std::min(best, x.seconds);
  }
  sort();
  return all;
}

// The better of a found plan and the best expert plan by the simulator, where both fit.
template <class Model> struct rescored {
  partita::plan<Model> plan;
  double seconds = 0;     // simulated
  bool by_search = true;  // or an expert's
  double found_seconds = 0, expert_seconds = 0;
  std::string difference{};  // of the found plan from the expert's, as simulated: what it does less and what more
};
template <class Model>
rescored<Model> rescore(search_result<Model> const& found, std::vector<expert_plan> const& experts, cluster const& c) {
  const costs k(c);
  simulate_options about;
  about.keep_programs = false;
  const simulation s = simulate<Model>(found.plan, k, about);
  rescored<Model> r{found.plan, s.seconds, true, s.fits() ? s.seconds : spaces::infinite, spaces::infinite, {}};
  if (experts.empty() || !experts.front().fits) return r;
  r.expert_seconds = experts.front().seconds;
  plan<Model> best = found.plan;
  static_cast<plan_base&>(best) = plan_base(best.traced());
  experts.front().cuts(best);
  r.difference = compared(s, simulate<Model>(best, k, about));
  if (r.expert_seconds >= r.found_seconds) return r;
  r.plan = best;
  r.seconds = r.expert_seconds;
  r.by_search = false;
  return r;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
