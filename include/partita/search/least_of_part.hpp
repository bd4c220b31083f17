// What the tables of one kind of segment tell of every configuration of a shape, under all schedules. It is a bound that is known
// before the tables of other kinds are made, before those in which gradients of weights fill bubbles, and before ways to spread.
//
// A step takes fill * sum_s t_s + max_s ((m - fill) t_s + g_s), no less than the sum over segments of
// share (m t + g) + (1 - share) fill t, where the shares of all stages add up to 1 (place_needs.hpp): for the kind each at its
// least on a grid, for other kinds what is known without tables. Where gradients of weights fill bubbles t is shorter, no shorter
// than 0, and m t + g is the same (option_costs::filling).
#pragma once
#include <algorithm>
#include <vector>

#include <partita/search/grid_solver.hpp>
#include <partita/search/place_needs.hpp>

namespace partita::spaces {

class least_of_part {
 public:
  // `solver_of(grid_choice)`: what is known of the kind there.
  template <class Solver> least_of_part(shape_part const& x, Solver&& solver_of)
      : kind_(static_cast<std::size_t>(x.kind)), m_(x.of.micro_batches) {
    for (grid_choice const& g : x.of.grids) {
      kind_solver& solver = solver_of(g);
      grids_.push_back({static_cast<std::size_t>(g.place), solver.least({1, 0}), solver.least({m_, 1})});
      places_ = std::max(places_, grids_.back().place + 1);
    }
    place_of_stage_ = x.of.places;
  }
  // No choice of the configuration takes less. `counts`: of segments, by kind.
  double seconds(configuration const& c, std::vector<int> const& counts, shape_needs const& needs) const {
    const double fill = c.schedule.splits() ? 0 : c.schedule.fill;
    const std::vector<place_load> stages = loads(c, counts[kind_], fill);
    const std::vector<double> shares = shares_of_stages(stages);
    double least = infinite, least_share = 1;
    for (std::size_t x = 0; x < stages.size(); ++x)
      if (stages[x].stages > 0) least_share = std::min(least_share, shares[x]);
    for (on_grid const& g : grids_)
      if (stages[g.place].stages > 0 && g.worth < infinite)
        least = std::min(least, shares[g.place] * g.worth + (1 - shares[g.place]) * fill * g.time);
    constexpr double rounding = 1 - 1e-12;  // sums of what fills bubbles round
    double all = c.spread + rounding * counts[kind_] * least;
    for (std::size_t k = 0; k < counts.size() && k < needs.kinds.size(); ++k)  // kinds that the chain lacks have no count
      if (k != kind_ && counts[k] > 0) {
        segment_needs const& other = needs.kinds[k];
        all += counts[k] * ((fill + least_share * (m_ - fill)) * other.seconds + least_share * other.step);
      }
    return all;
  }

 private:
  struct on_grid {
    std::size_t place;
    double time, worth;  // of a segment, each at its least: t, and m t + g
  };
  // Of the kind's segments, where all of them would be at one place.
  std::vector<place_load> loads(configuration const& c, int count, double fill) const {
    std::vector<place_load> all(places_);
    for (int s = 0; s < c.stages; ++s)
      ++all[place_of_stage_.empty() ? 0 : static_cast<std::size_t>(place_of_stage_[static_cast<std::size_t>(s)])].stages;
    for (std::size_t x = 0; x < all.size(); ++x) {
      double time = infinite, worth = infinite;
      for (on_grid const& g : grids_)
        if (g.place == x) {
          time = std::min(time, g.time);
          worth = std::min(worth, g.worth);
        }
      if (time == infinite) all[x].load = infinite;
      else {
        all[x].filling = count * fill * time;
        all[x].load = count * (worth - fill * time);
      }
    }
    return all;
  }

  std::size_t kind_, places_ = 1;
  double m_;
  std::vector<int> place_of_stage_;
  std::vector<on_grid> grids_;
};

}  // namespace partita::spaces
