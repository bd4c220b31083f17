// What segments need at the least on the grids that the stages of a configuration may have: by the tables, each figure on its
// own.
#pragma once
#include <algorithm>
#include <vector>

#include <partita/search/known_stages.hpp>
#include <partita/search/place_needs.hpp>
#include <partita/search/stage_window.hpp>

namespace partita::spaces {

class least_on_grids {
 public:
  // `counts`: of segments, by kind. `spread`: bytes of every device that stages have no use of.
  least_on_grids(problem const& p, shape_solver& s, std::vector<int> const& counts, int stages, double spread)
      : p_(p), s_(s), counts_(counts), spread_(spread), at_place_(s.of().count_places(stages)) {
    for (int g = 0; g < s.grids(); ++g) {
      if (at_place_[place_of(g)] == 0) continue;
      grids_.push_back(g);
      limited_ = limited_ || p.limit_on(s.of().grids[static_cast<std::size_t>(g)]) < infinite;
    }
  }
  std::vector<int> const& grids() const { return grids_; }
  // Does memory have a limit on any of them?
  bool limited() const { return limited_; }

  // Finds out what is below, but for `shared`.
  void measure_apart(double micro_batches, double fill) {
    of_kind_.assign(counts_.size(), {});
    worth_.clear();
    for (int n : at_place_) worth_.emplace_back(counts_.size(), n > 0 ? infinite : 0);
    std::vector<place_load> whole;
    for (int n : at_place_) whole.push_back({n, 0, 0});
    for (std::size_t k = 0; k < counts_.size(); ++k) {
      if (counts_[k] == 0) continue;
      std::vector<double> times(whole.size(), infinite);
      for (int g : grids_) {
        double &least = worth_[place_of(g)][k], &time = times[place_of(g)];
        least = std::min(least, s_.grid(g).least(static_cast<int>(k), {micro_batches, 1}));
        time = std::min(time, s_.grid(g).least(static_cast<int>(k), {1, 0}));
        of_kind_[k].time = std::min(of_kind_[k].time, time);
        of_kind_[k].worth = std::min(of_kind_[k].worth, least);
      }
      for (std::size_t x = 0; x < whole.size(); ++x) {
        whole[x].filling += counts_[k] * fill * times[x];
        whole[x].load += counts_[k] * (worth_[x][k] - fill * times[x]);
      }
    }
    shares_ = shares_of_stages(whole);
    time_ = apart_ = 0;
    for (std::size_t k = 0; k < counts_.size(); ++k) {
      if (counts_[k] == 0) continue;
      double apart = infinite;
      // Of fill t + share ((m - fill) t + g) the part share (m t + g) and the part (1 - share) fill t, each at its least.
      for (int g : grids_) {
        const double share = shares_[place_of(g)];
        apart = std::min(apart, share * s_.grid(g).least(static_cast<int>(k), {micro_batches, 1}) +
                                    (1 - share) * fill * s_.grid(g).least(static_cast<int>(k), {1, 0}));
      }
      time_ += counts_[k] * of_kind_[k].time;
      apart_ += counts_[k] * apart;
    }
  }
  // Finds out what is below.
  void measure(double micro_batches, double fill) {
    measure_apart(micro_batches, fill);
    shared_ = 0;
    for (std::size_t k = 0; k < counts_.size(); ++k) {
      if (counts_[k] == 0) continue;
      double shared = infinite;
      for (int g : grids_) {
        const double share = shares_[place_of(g)];
        shared = std::min(shared, s_.grid(g).least(static_cast<int>(k), {fill + (micro_batches - fill) * share, share}));
      }
      shared_ += counts_[k] * shared;
    }
  }
  // By kind of segment.
  std::vector<least_needs> const& of_kind() const { return of_kind_; }
  // By place and kind: seconds of all micro-batches and the step.
  std::vector<std::vector<double>> const& worth() const { return worth_; }
  // Of the whole chain: seconds per micro-batch; of a step, where every stage counts with its share (place_needs.hpp).
  double time() const { return time_; }
  double shared() const { return shared_; }
  // No more than that: by time per micro-batch and time of all micro-batches and the step, each at its least.
  double apart() const { return apart_; }
  // Bytes that some segment needs while it runs.
  double running() const {
    double least = infinite;
    for (std::size_t k = 0; k < counts_.size(); ++k)
      for (int g : grids_)
        if (counts_[k] > 0) least = std::min(least, s_.grid(g).least_running({{static_cast<int>(k), 1}}));
    return least;
  }
  // Under an aim and a price of a byte.
  double priced(int kind, aim a, double price, in_flight_counts in_flight) const {
    double least = infinite;
    for (int g : grids_) least = std::min(least, s_.grid(g).through_all({{kind, 1}}, a, price, in_flight).least());
    return least;
  }
  // Bytes that a device of the stage has, where what runs is there already: on the grid that has the most.
  std::vector<double> room(int stages) const {
    std::vector<double> all(static_cast<std::size_t>(stages), limited_ ? 0 : infinite);
    if (!limited_) return all;
    const double runs = running();
    for (int s = 0; s < stages; ++s)
      for (int g : grids_)
        if (double& most = all[static_cast<std::size_t>(s)]; s_.of().may_have(s, g))
          most = std::max(most, p_.limit_on(s_.of().grids[static_cast<std::size_t>(g)]) - spread_ - runs);
    return all;
  }

 private:
  std::size_t place_of(int grid) const { return static_cast<std::size_t>(s_.of().grids[static_cast<std::size_t>(grid)].place); }

  problem const& p_;
  shape_solver& s_;
  std::vector<int> const& counts_;
  double spread_;
  std::vector<int> at_place_;  // how many stages
  std::vector<int> grids_;
  bool limited_ = false;
  std::vector<least_needs> of_kind_;
  std::vector<std::vector<double>> worth_;
  std::vector<double> shares_;  // of a stage, by place
  double time_ = 0, shared_ = 0, apart_ = 0;
};

}  // namespace partita::spaces
