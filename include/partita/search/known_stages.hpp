// What is known about the stages of a configuration: bounds that are soon found, and stages that were solved.
#pragma once
#include <memory>
#include <utility>

#include <partita/search/stage.hpp>

namespace partita::spaces {

// The grids of a shape with what was found out about them; configurations of one shape share it.
class shape_solver {
 public:
  explicit shape_solver(spaces::shape s) : shape_solver(std::move(s), [](std::vector<variant> const&) { return nullptr; }) {}
  // `known(variants)`: what is known of a kind with these on some grid, whose tables outlive this; or nothing.
  template <class Known> shape_solver(spaces::shape s, Known&& known) : shape_(std::move(s)) {
    grids_.reserve(shape_.grids.size());
    for (grid_choice const& g : shape_.grids) grids_.emplace_back(g, known);
  }
  spaces::shape const& of() const { return shape_; }
  grid_solver& grid(int g) { return grids_[static_cast<std::size_t>(g)]; }
  int grids() const { return static_cast<int>(grids_.size()); }
  void forget() {
    for (auto& g : grids_) g.forget();
  }

 private:
  spaces::shape shape_;
  std::vector<grid_solver> grids_;
};

// A stretch of segments as a stage on a grid. Bounds by entry and exit: no way takes less time per micro-batch, is worth
// less, is worth less with a share of the step.
struct known_stage {
  in_flight_counts in_flight;
  int grid = 0;
  std::vector<run_of_segments> runs;
  matrix time, worth, mixed;
  bool fits = false;  // as far as is known
  std::vector<double> const* found =
      nullptr;                  // multipliers that were of use to others on this grid and at this place, or are expected to be
  std::size_t multipliers = 0;  // of them the bounds were made with
  std::unique_ptr<stage_problem> solved;

  // May there be ways that are not listed?
  bool open(int i, int j) const { return least_open(i, j) < infinite; }
  double least_time(int i, int j) const { return solved ? solved->at(i, j).least_time : time(i, j); }
  double least_worth(int i, int j) const { return solved ? solved->at(i, j).least_worth : worth(i, j); }
  // Of ways that are not listed.
  double least_open(int i, int j) const {
    return solved ? std::max(solved->at(i, j).least_worth, solved->at(i, j).solved) : worth(i, j);
  }
  // Time per micro-batch that no way takes less than which is worth so much and adds no more than `adds` to the time of all but
  // filling: with t per micro-batch and g per step, m t + g and (m - fill) t + g.
  double time_adding(int i, int j, double worth_it, double adds, double m, double fill) const {
    double least = least_time(i, j);
    if (fill > 0) least = std::max(least, (worth_it - adds) / fill);  // m t + g
    each_mixed(i, j, [&](double share, double bound) {                // m t + share g
      least = std::max(least, (bound - share * adds) / ((1 - share) * m + share * fill));
    });
    return least;
  }
  double first_mixed(int i, int j) const { return solved ? solved->at(i, j).least_mixed.front() : mixed(i, j); }
  // visit(share, bound): with a share of the step.
  template <class Visit> void each_mixed(int i, int j, Visit&& visit) const {
    if (!solved) return visit(stage_problem::first_share, mixed(i, j));
    for (std::size_t k = 0; k < solved->shares().size(); ++k) visit(solved->shares()[k], solved->at(i, j).least_mixed[k]);
  }
};

class known_stages {
 public:
  // `spread`: bytes of every device that stages have no use of.
  known_stages(shape_solver& s, problem const& p, bool alone, double spread)
      : s_(s), p_(p), alone_(alone), spread_(spread), worth_{static_cast<double>(s.of().micro_batches), 1} {}

  known_stage& of(in_flight_counts in_flight, int grid, int sequence, sequences const& q) {
    auto& here = all_[{in_flight, grid}];
    if (here.size() <= static_cast<std::size_t>(sequence)) here.resize(static_cast<std::size_t>(sequence) + 1);
    auto& place = here[static_cast<std::size_t>(sequence)];
    if (place) return *place;
    place = std::make_unique<known_stage>();
    place->in_flight = in_flight;
    place->grid = grid;
    place->runs = q.runs(sequence);
    place->found = &multipliers_[{in_flight, grid}];
    bound_without_limit(*place);
    return *place;
  }
  // Bounds of stages are made with this multiplier from the beginning.
  void expect(in_flight_counts in_flight, int grid, double mu) {
    std::vector<double>& all = multipliers_[{in_flight, grid}];
    if (mu > 0 && std::find(all.begin(), all.end(), mu) == all.end()) all.push_back(mu);
  }
  // Raises bounds by the multipliers that have been found since.
  void refresh(known_stage& x) {
    if (x.solved || !x.fits) return;
    for (; x.multipliers < x.found->size(); ++x.multipliers) raise(x, (*x.found)[x.multipliers]);
  }
  // `most`: ways worth more are of no interest.
  stage_problem& solve(known_stage& x, double most) {
    if (x.solved) return *x.solved;
    x.solved = std::make_unique<stage_problem>(s_.grid(x.grid), x.runs, x.in_flight, worth_, limit_of(x), most, alone_);
    auto& found = multipliers_[{x.in_flight, x.grid}];
    if (const double mu = x.solved->multiplier();
        mu > 0 && found.size() < most_multipliers && std::find(found.begin(), found.end(), mu) == found.end())
      found.push_back(mu);
    return *x.solved;
  }
  void clear() { all_.clear(); }

 private:
  static constexpr std::size_t most_multipliers = 6;

  double limit_of(known_stage const& x) const { return p_.limit_on(s_.of().grids[static_cast<std::size_t>(x.grid)]) - spread_; }
  void bound_without_limit(known_stage& x) {
    grid_solver& g = s_.grid(x.grid);
    x.time = g.through_all(x.runs, {1, 0}, 0, {});
    x.worth = g.through_all(x.runs, worth_, 0, {});
    x.mixed = alone_ ? x.worth : g.through_all(x.runs, {worth_.time, stage_problem::first_share * worth_.step}, 0, {});
    if (const double limit = limit_of(x); limit < infinite) {
      const matrix lean = g.through_all(x.runs, {0, 0}, 1, x.in_flight);
      const double room = (limit - g.least_running(x.runs)) * (1 + 1e-12);
      for (std::size_t e = 0; e < lean.at.size(); ++e)
        if (lean.at[e] > room) x.time.at[e] = x.worth.at[e] = x.mixed.at[e] = infinite;
    }
    x.fits = x.worth.least() < infinite;
  }
  void raise(known_stage& x, double mu) {
    grid_solver& g = s_.grid(x.grid);
    const double room = limit_of(x) - g.least_running(x.runs);
    auto raise_to = [&](matrix& bounds, aim a, double by) {
      const matrix m = g.through_all(x.runs, a, by, x.in_flight);
      for (std::size_t e = 0; e < m.at.size(); ++e) bounds.at[e] = std::max(bounds.at[e], m.at[e] - by * room);
    };
    raise_to(x.worth, worth_, mu);
    if (alone_) return;  // nothing but worth counts
    raise_to(x.mixed, {worth_.time, stage_problem::first_share * worth_.step}, mu);
    raise_to(x.time, {1, 0}, mu / worth_.time);
  }

  shape_solver& s_;
  problem const& p_;
  bool alone_;  // stages are whole pipelines
  double spread_;
  aim worth_;
  // By micro-batches in flight and grid: stages by sequence, multipliers.
  std::map<std::pair<in_flight_counts, int>, std::vector<std::unique_ptr<known_stage>>> all_;
  std::map<std::pair<in_flight_counts, int>, std::vector<double>> multipliers_;
};

}  // namespace partita::spaces
