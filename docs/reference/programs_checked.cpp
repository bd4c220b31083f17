// The check of programs, and what it says of damaged ones.
#include <cstdio>
#include <vector>

#include <partita/planning.hpp>
#include <partita/program/check.hpp>
#include <partita/program/lower.hpp>

namespace pt = partita;
using pt::f32;

struct sample : pt::axis<"sample", 32> {};
struct in : pt::axis<"in", 8> {};
struct out : pt::axis<"out", 4> {};

struct model {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<f32, sample, in>(g, "x");
    auto y = pt::linear(x, pt::param<f32, in, out>(g, "fc.weight"));
    return pt::mean(y * y);
  }
};
using training = pt::training<model>;

// [check]
// The programs of all ranks of a plan, and whether they compute what the model's graph says.
std::vector<pt::program> checked_programs(pt::graph_data const& graph, pt::plan_base const& plan) {
  pt::completed completed;
  if (const pt::finding f = pt::verify_plan(graph, plan, completed)) throw pt::error(describe(f));
  const pt::lowering shared(graph, plan, completed);
  std::vector<pt::program> programs;
  for (int rank = 0; rank < completed.devices; ++rank) programs.push_back(pt::lower(shared, rank));
  if (const pt::program_finding f = pt::check_programs(graph, programs)) throw pt::error(f.words);
  return programs;
}
// [/check]

int main() {
  pt::recorder<pt::planning_only, training> graph;
  pt::trace(graph, training{});
  pt::plan_base plan(graph);
  pt::policy::data_parallel_of{2}(plan);
  pt::policy::micro_batches_of{2}(plan);
  const std::vector<pt::program> good = checked_programs(graph, plan);

  auto say = [&](std::vector<pt::program> const& damaged) {
    const pt::program_finding f = pt::check_programs(graph, damaged);
    std::printf("%s: %s\n", std::string(name_of(f.what)).c_str(), f.words.c_str());
  };
  auto first = [&](pt::program const& p, auto wanted) {
    std::size_t i = 0;
    while (!wanted(p.instructions[i])) ++i;
    return i;
  };
  auto is_sum_of_weights = [&](pt::instruction const& i) {
    return i.kind == pt::instruction_kind::all_reduce && good[0].collectives[static_cast<std::size_t>(i.payload)].counts[0] == 32;
  };

  std::vector<pt::program> damaged = good;  // the gradient of the other replica is not added
  for (pt::program& p : damaged) {
    pt::instruction& i = p.instructions[first(p, is_sum_of_weights)];
    ++i.payload;  // the first of the calls that are made as one is left out
    --i.call_count;
  }
  say(damaged);

  damaged = good;  // the second micro-batch takes the place of the first
  for (pt::compute_call& c : damaged[1].computes) c.accumulate = false;
  say(damaged);

  damaged = good;  // an op does not wait for the sum that it reads
  for (pt::instruction& i : damaged[0].instructions)
    if (i.where == pt::lane::compute) i.wait = 0;
  say(damaged);

  damaged = good;  // one rank is about to reduce something else
  damaged[1]
      .collectives[static_cast<std::size_t>(damaged[1].instructions[first(damaged[1], is_sum_of_weights)].payload)]
      .counts[0] = 31;
  say(damaged);
}
