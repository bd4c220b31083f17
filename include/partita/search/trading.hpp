// Ways through a stage that take less time per micro-batch for more per step: where another stage is the slowest, one that takes
// the least of both is not the best. Those that are cheapest with some share of the step, and the beginning of one with the end
// of another.
#pragma once
#include <algorithm>
#include <vector>

#include <partita/search/stage.hpp>

namespace partita::spaces {

// From entry i to exit j, those that fit and that no other beats in both times.
inline std::vector<stage_point> traded_ways(stage_problem& s, int i, int j) {
  using way = std::vector<way_through const*>;  // segment by segment
  constexpr std::size_t most_cases = 2;
  std::vector<stage_case const*> cases;
  for (stage_case const& c : s.cases())
    if (c.worth(i, j) < infinite && c.memory(i, j) + c.level <= s.limit()) cases.push_back(&c);
  std::sort(cases.begin(), cases.end(), [&](auto const* a, auto const* b) { return a->worth(i, j) < b->worth(i, j); });
  if (cases.size() > most_cases) cases.resize(most_cases);
  std::vector<double> shares = s.shares();
  shares.insert(shares.end(), {0, 1});
  std::vector<way> all;
  for (stage_case const* c : cases)
    for (double share : shares)
      for (double mu : {0.0, c->mu})
        if (way w = s.cheapest(*c, {s.worth().time, share * s.worth().step}, mu, i, j);
            std::find(all.begin(), all.end(), w) == all.end())
          all.push_back(std::move(w));

  struct sums {
    std::vector<double> time, step, memory, running_before, running_after;  // before place q; after: from q on
  };
  const std::size_t n = s.kinds().size();
  std::vector<sums> of;
  for (way const& w : all) {
    const std::vector<double> none(n + 1, 0);
    sums& x = of.emplace_back(sums{none, none, none, none, none});
    for (std::size_t q = 0; q < n; ++q) {
      x.time[q + 1] = x.time[q] + w[q]->cost.time;
      x.step[q + 1] = x.step[q] + w[q]->cost.step;
      x.memory[q + 1] = x.memory[q] + w[q]->memory;
      x.running_before[q + 1] = std::max(x.running_before[q], w[q]->cost.replay);
    }
    for (std::size_t q = n; q-- > 0;) x.running_after[q] = std::max(x.running_after[q + 1], w[q]->cost.replay);
  }
  std::vector<stage_point> found;
  for (std::size_t x = 0; x < all.size(); ++x)
    for (std::size_t y = 0; y < all.size(); ++y)
      for (std::size_t q = x == y ? n : 1; q < n + (x == y); ++q) {
        if (q < n && all[x][q]->entry != all[y][q]->entry) continue;
        const double memory = of[x].memory[q] + of[y].memory[n] - of[y].memory[q];
        if (memory + std::max(of[x].running_before[q], of[y].running_after[q]) > s.limit()) continue;
        const double time = of[x].time[q] + of[y].time[n] - of[y].time[q], step = of[x].step[q] + of[y].step[n] - of[y].step[q];
        if (std::any_of(found.begin(), found.end(), [&](stage_point const& p) { return p.time <= time && p.step <= step; }))
          continue;
        std::erase_if(found, [&](stage_point const& p) { return time <= p.time && step <= p.step; });
        stage_point& p = found.emplace_back(stage_point{time, step, {}});
        for (std::size_t k = 0; k < n; ++k) p.segments.push_back((k < q ? all[x] : all[y])[k]->chosen);
      }
  return found;
}

}  // namespace partita::spaces
