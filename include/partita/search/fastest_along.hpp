// A chain of stages as a choice: of the ways listed for each of them the ones that make the fastest step.
#pragma once
#include <vector>

#include <partita/search/stage_chain.hpp>

namespace partita::spaces {

// `m`: micro-batches; `fill`: of the schedule. A step takes fill * sum_s t_s + max_s ((m - fill) t_s + g_s), so for every stage
// that may be the slowest each other one takes the least time that is no slower. Empty: a stage has no ways listed. Memory has no
// say here: ways are listed within what their stage has.
inline std::vector<stage_choice> fastest_along(stage_chain const& chain, problem const& p, shape const& s, double m,
                                               double fill) {
  struct option {
    double time, largest;
  };
  std::vector<std::vector<option>> of_stage;
  std::vector<double> slowest;
  for (std::size_t k = 0; k < chain.stages.size(); ++k) {
    chained_stage const& x = chain.stages[k];
    double crossing = 0;
    if (k > 0) {
      chained_stage const& before = chain.stages[k - 1];
      crossing = s.crossing(before.grid, x.grid, p.chain[static_cast<std::size_t>(x.begin)], before.exit, x.entry);
    }
    of_stage.emplace_back();
    for (stage_point const& way : x.of->solved->at(x.entry, x.exit).points) {
      of_stage.back().push_back({way.time + crossing, (m - fill) * (way.time + crossing) + way.step});
      slowest.push_back(of_stage.back().back().largest);
    }
  }
  std::vector<std::size_t> best, chosen;
  double least = infinite;
  for (double most : slowest) {
    chosen.clear();
    double sum = 0;
    for (auto const& options : of_stage) {
      std::size_t k = options.size();
      for (std::size_t i = 0; i < options.size(); ++i)
        if (options[i].largest <= most && (k == options.size() || options[i].time < options[k].time)) k = i;
      if (k == options.size()) break;
      chosen.push_back(k);
      sum += options[k].time;
    }
    if (chosen.size() < of_stage.size() || fill * sum + most >= least) continue;
    least = fill * sum + most;
    best = chosen;
  }
  std::vector<stage_choice> stages;
  for (std::size_t k = 0; k < best.size(); ++k) {
    chained_stage const& x = chain.stages[k];
    stages.push_back({x.begin, x.grid, x.of->solved->at(x.entry, x.exit).points[best[k]].segments});
  }
  return stages;
}

}  // namespace partita::spaces
