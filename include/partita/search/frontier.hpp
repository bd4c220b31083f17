// The time-memory Pareto set of a space, as TensorOpt gives it (Cai et al. 2021): from the fastest plan down, each the
// fastest of those that hold less than the one before.
#pragma once
#include <vector>

#include <partita/search/exact.hpp>

namespace partita::spaces {

struct frontier_options {
  std::size_t points = 64;  // at most
  double step = 0;          // each holds at least this share less than the one before; 0: any less
  exact_options exactly{};
};

// Fastest first.
inline std::vector<outcome> frontier(problem p, frontier_options const& how = {}) {
  std::vector<outcome> all;
  while (all.size() < how.points) {
    outcome next = exact(p, how.exactly);
    if (!next.best.found()) break;
    // Of two that take the same time the leaner one counts.
    if (!all.empty() && next.time <= all.back().time) all.back() = next;
    else all.push_back(next);
    p.limit = next.memory * (1 - std::max(how.step, 1e-12));
  }
  return all;
}

}  // namespace partita::spaces
