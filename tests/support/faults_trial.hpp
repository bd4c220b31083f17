// Many faults of one kind in programs of random plans: each is seen by the check, or shown to be harmless without it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <partita/program/lower.hpp>

#include "faults_of_memory.hpp"
#include "in_bounds.hpp"
#include "memory_rule.hpp"
#include "program_interpreter.hpp"
#include "random_model.hpp"
#include "random_plan.hpp"
#include "same_training.hpp"

namespace partita::testing {

// Adam makes much of a gradient that is nothing but rounding: two orders of a sum, in double, may differ by so much in a
// parameter after two steps.
inline constexpr double rounding = 1e-6;

// A random model under a random plan, its programs, and what they compute.
class damaged_plan {
 public:
  using training_type = training<in_precision<random_model, f64>, either_optimizer, clip_norm>;
  using graph_type = recorder<on_cpu::backend, training_type>;

  explicit damaged_plan(unsigned seed) : seed_(seed) {
    std::mt19937 random(seed);
    const random_case drawn = make_random_case(random, true);
    training_type t{};
    t.model.model = drawn.model;
    t.frozen = drawn.frozen;
    t.optimizer.is_adamw = seed / 2 % 2 == 0;
    t.optimizer.second.momentum = seed / 4 % 2 == 0 ? 0.9 : 0;
    t.clip.max = drawn.clip;
    for (binding const& b : drawn.extents) g.bindings.push(b);
    trace(g, t);
    plan_base plan(g);
    words = "seed " + std::to_string(seed) + ": " + random_plan(plan, random, 8).make();
    completed c;
    if (const finding f = verify_plan(g, plan, c)) throw error("the plan is rejected: " + describe(f));
    lowering_options how;
    how.keep_gradients = true;
    how.bucket_bytes = random_bucket_bytes(seed);
    how.workspace = workspace();
    const lowering shared(g, plan, c, how);
    for (int rank = 0; rank < c.devices; ++rank) good.push_back(lower(shared, rank));
    inputs_ = drawn.inputs(random);
  }
  // Do two steps compute the same, but for the rounding of sums in another order, in memory without overlap, and do the
  // memory plan and the waits hold?
  bool is_harmless(injection const& x) {
    if (!x.graphs.empty() || !x.keys.empty()) return false;
    for (std::size_t r = 0; r < good.size(); ++r) {
      program const& p = x.programs[r];
      if (p.digest != good[r].digest || p.groups != x.programs[0].groups) return false;
      if (!same_tiles(p, good[r])) return false;  // the interpreter has no tiles
      if (!is_in_bounds(g, p, good[r]) || !memory_fault(p).empty()) return false;
    }
    if (wanted_.empty()) wanted_ = results(good);
    try {
      return are_same(results(x.programs), wanted_);
    } catch (std::exception const&) { return false; }
  }

  injection::workspace_of workspace() const {
    return [this](int op, std::size_t const* extents) { return g.launchers[op].workspace(*g.ops[op].info, extents, 1); };
  }

  graph_type g;
  std::vector<program> good;
  std::string words;

 private:
  static bool same_tiles(program const& a, program const& b) {
    for (std::size_t k = 0; k < a.chains.size(); ++k) {
      chain_call const &x = a.chains[k], &y = b.chains[k];
      bool same = x.depth == y.depth && x.inner == y.inner && x.tile_rows == y.tile_rows && x.scratch_bytes == y.scratch_bytes;
      for (int l = 0; l < std::min(x.link_count, y.link_count); ++l) {
        chain_link const &u = a.links[static_cast<std::size_t>(x.first_link + l)],
                         &v = b.links[static_cast<std::size_t>(y.first_link + l)];
        if (u.compute != v.compute) continue;  // in another order: the interpreter sees that
        for (int o = 0; o < max_inputs + max_outputs; ++o)
          same = same && u.operands[o] == v.operands[o] && u.row_bytes[o] == v.row_bytes[o] && u.slots[o] == v.slots[o];
      }
      if (!same) return false;
    }
    return true;
  }
  static bool are_same(std::vector<std::vector<double>> const& a, std::vector<std::vector<double>> const& b) {
    for (std::size_t t = 0; t < a.size(); ++t) {
      double largest = 1e-3;
      for (double v : b[t]) largest = std::max(largest, std::abs(v));
      for (std::size_t i = 0; i < a[t].size(); ++i)
        if (!(std::abs(a[t][i] - b[t][i]) <= rounding * largest)) return false;
    }
    return true;
  }
  // Every stored tensor, output and gradient after two steps.
  std::vector<std::vector<double>> results(std::vector<program> const& programs) const {
    program_interpreter<graph_type> all(g, programs, seed_);
    auto find = [&](std::string const& name) -> values const& { return inputs_.find(name)->second; };
    for (int step = 0; step < 2; ++step) all.run(find, {0.05, step, seed_, true});
    std::vector<std::vector<double>> r;
    for (auto list : {&program::stored, &program::outputs, &program::gradients})
      for (int t = 0; t < g.tensors.size; ++t) {
        bool there = false;
        for (program const& p : good)
          for (outside const& o : p.*list) there = there || o.tensor == t;
        if (there) r.push_back(all.gather(list, t, rounding));
      }
    return r;
  }
  unsigned seed_;
  named_values inputs_;
  std::vector<std::vector<double>> wanted_;
};

struct fault_count {
  int seen = 0, harmless = 0, missed = 0;
};
using judge_of_programs = std::function<program_finding(injection const&)>;

class fault_trials {
 public:
  explicit fault_trials(std::vector<unsigned> const& seeds) {
    for (unsigned seed : seeds) plans_.push_back(std::make_unique<damaged_plan>(seed));
  }
  // Puts the fault `per_plan` times into every plan that has a place for it. The words of a miss are in `misses`.
  fault_count run(
      fault_kind const& kind, int per_plan, judge_of_programs const& judge = [](injection const& x) { return x.check(); }) {
    fault_count n;
    for (auto& plan : plans_)
      for (int k = 0; k < per_plan; ++k) {
        injection x(plan->g, plan->good, static_cast<unsigned>(1000 * k + 17) + static_cast<unsigned>(plan->good.size()),
                    plan->workspace());
        if (!kind.put(x)) continue;
        if (const program_finding f = judge(x)) {
          ++n.seen;
          ++by_fault[static_cast<std::size_t>(f.what)];
          if (f.words.empty()) misses += kind.name + ": a finding without words\n";
        } else if (plan->is_harmless(x)) ++n.harmless;
        else {
          ++n.missed;
          misses += kind.name + ": " + x.words + " (" + plan->words + ")\n";
        }
      }
    return n;
  }
  std::string misses;
  int by_fault[static_cast<int>(program_fault::missing) + 1]{};  // how often each finding was made

 private:
  std::vector<std::unique_ptr<damaged_plan>> plans_;
};

inline std::vector<fault_kind> all_faults() {
  std::vector<fault_kind> kinds = faults_of_calls();
  for (auto const& more : {faults_of_instructions(), faults_of_memory()}) kinds.insert(kinds.end(), more.begin(), more.end());
  return kinds;
}

}  // namespace partita::testing
