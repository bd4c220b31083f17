// Which stretches of a chain may be a stage: those that no plan of some time rules out, that fit into the memory at their
// place in the pipeline, and beside which the rest can be placed.
#pragma once
#include <cstddef>
#include <map>
#include <utility>

#include <partita/search/problem.hpp>
#include <partita/search/sequences.hpp>

namespace partita::spaces {

// Per kind of segment, what it needs at the least on any grid.
struct least_needs {
  double time = infinite, worth = infinite;  // seconds per micro-batch; of all micro-batches and the step
};

class stage_window {
 public:
  struct span {
    int begin, end, sequence;
  };

  stage_window(problem const& p, sequences& q, configuration const& c, shape const& of)
      : p_(p), q_(q), stages_(c.stages), devices_(of.devices), n_(p.segments()), fill_(c.schedule.fill) {
    for (int s = 0; s < stages_; ++s) {
      in_flight_.push_back(c.schedule.in_flight(s, stages_, of.micro_batches));
      places_.push_back(of.place_of(s));
    }
  }
  // `worth`: by place and kind of segment, at the least.
  // `memory(in_flight, kind)`: bytes of a segment, at the least. `limits`: by stage, for their sum.
  template <class Memory> void measure(std::vector<least_needs> const& of_kind, std::vector<std::vector<double>> const& worth,
                                       std::vector<double> limits, Memory&& memory) {
    limits_ = std::move(limits);
    time_.assign(1, 0);
    for (int k : q_.chain()) time_.push_back(time_.back() + of_kind[static_cast<std::size_t>(k)].time);
    worth_.clear();
    for (std::vector<double> const& there : worth) {
      worth_.emplace_back(1, 0);
      for (int k : q_.chain()) worth_.back().push_back(worth_.back().back() + there[static_cast<std::size_t>(k)]);
    }
    for (int s = 0; s < stages_; ++s) {
      if (limits_[static_cast<std::size_t>(s)] == infinite) continue;
      const in_flight_counts w = in_flight_[static_cast<std::size_t>(s)];
      std::vector<double>& sums = memory_[w];
      if (!sums.empty()) continue;
      std::vector<double> own;
      for (std::size_t k = 0; k < of_kind.size(); ++k)
        own.push_back(of_kind[k].time < infinite ? memory(w, static_cast<int>(k)) : 0);
      sums.assign(1, 0);
      for (int k : q_.chain()) sums.push_back(sums.back() + own[static_cast<std::size_t>(k)]);
    }
  }
  double time_of(int begin, int end) const { return between(time_, begin, end); }
  double whole_time() const { return time_.back(); }
  // With these segments on a stage at this place no plan takes less.
  double with_stage(std::size_t place, int begin, int end) const {
    return between(worth_[place], begin, end) + fill_ * (time_.back() - time_of(begin, end));
  }

  // Looks at stages that a plan of time `width` may have. False: there is no such plan.
  bool set(double width) {
    const double most = width * (1 + 1e-12);
    in_time_.clear();
    for (std::size_t place = 0; place < worth_.size(); ++place)
      in_time_.push_back(furthest([&](int b, int e) { return with_stage(place, b, e) <= most; }));
    far_.clear();
    for (int place : places_) far_.push_back(in_time_[static_cast<std::size_t>(place)]);
    std::map<std::pair<in_flight_counts, double>, std::vector<int>> fits;  // by micro-batches in flight and limit
    for (int s = 0; s < stages_; ++s) {
      const in_flight_counts w = in_flight_[static_cast<std::size_t>(s)];
      const double limit = limits_[static_cast<std::size_t>(s)];
      if (limit == infinite) continue;
      const auto [place, fresh] = fits.try_emplace({w, limit});
      if (fresh) {
        std::vector<double> const& sums = memory_.at(w);
        place->second = furthest([&](int b, int e) { return between(sums, b, e) <= limit * (1 + 1e-12); });
      }
      for (std::size_t b = 0; b < place->second.size(); ++b) {
        int& far = far_[static_cast<std::size_t>(s)][b];
        far = std::min(far, place->second[b]);
      }
    }
    if (!p_.regions.empty()) stay_in_regions();
    find_ways();
    return on_a_way(0, 0);
  }
  // A plan with a stage that is not looked at takes no less, does not fit, or leaves a region.
  double least_beyond() const {
    double least = infinite;
    for (std::size_t place = 0; place < worth_.size(); ++place)
      for (int b = 0; b < n_; ++b) {
        int e = in_time_[place][static_cast<std::size_t>(b)] + 1;
        while (e < n_ && !begins(e)) ++e;
        if (begins(b) && e <= n_) least = std::min(least, with_stage(place, b, e));
      }
    return least;
  }
  bool on_a_way(int s, int b) const { return reached_[at(s, b)] && leads_[at(s, b)]; }
  // Stage by stage.
  std::vector<std::vector<span>> spans() {
    std::vector<std::vector<span>> all(static_cast<std::size_t>(stages_));
    for (int s = 0; s < stages_; ++s)
      for (int b = 0; b < n_; ++b) {
        if (!on_a_way(s, b)) continue;
        const int last = far(s, b);
        for (int e = b + 1; e <= last; ++e)
          if (leads_[at(s + 1, e)]) all[static_cast<std::size_t>(s)].push_back({b, e, sequence(b, e)});
      }
    return all;
  }
  int sequence(int begin, int end) {
    std::vector<int>& from = from_[begin];
    if (from.empty()) from.push_back(sequences::empty);
    while (begin + static_cast<int>(from.size()) <= end)
      from.push_back(q_.extended(from.back(), q_.chain()[static_cast<std::size_t>(begin) + from.size() - 1]));
    return from[static_cast<std::size_t>(end - begin)];
  }

 private:
  static double between(std::vector<double> const& sums, int begin, int end) {
    return sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(begin)];
  }
  bool begins(int b) const { return b == 0 || p_.begins(b, stages_); }
  int far(int s, int b) const { return far_[static_cast<std::size_t>(s)][static_cast<std::size_t>(b)]; }
  std::size_t at(int s, int b) const {
    return static_cast<std::size_t>(s) * static_cast<std::size_t>(n_ + 1) + static_cast<std::size_t>(b);
  }
  // Per begin the last end that fits; what fits does so without its first or last segment.
  template <class Fits> std::vector<int> furthest(Fits&& fits) const {
    std::vector<int> far(static_cast<std::size_t>(n_));
    for (int b = 0, e = 0; b < n_; ++b) {
      e = std::max(e, b);
      while (e < n_ && fits(b, e + 1)) ++e;
      far[static_cast<std::size_t>(b)] = e;
    }
    return far;
  }
  void stay_in_regions() {
    for (int s = 0; s < stages_; ++s)
      for (int b = n_, end = n_; b-- > 0;) {
        if (!p_.lies(b, s, devices_)) end = b;
        int& far = far_[static_cast<std::size_t>(s)][static_cast<std::size_t>(b)];
        far = std::min(far, end);
      }
  }
  void find_ways() {
    const std::size_t all = at(stages_ + 1, 0);
    reached_.assign(all, false);
    leads_.assign(all, false);
    reached_[at(0, 0)] = true;
    for (int s = 0; s < stages_; ++s)
      for (int b = 0, done = 0; b < n_; ++b)
        if (reached_[at(s, b)]) {
          for (int e = std::max(done, b) + 1; e <= far(s, b); ++e)
            if (e == n_ || begins(e)) reached_[at(s + 1, e)] = true;
          done = std::max(done, far(s, b));
        }
    leads_[at(stages_, n_)] = true;
    std::vector<int> before(static_cast<std::size_t>(n_) + 2);  // how many ends before it lead on
    for (int s = stages_; s-- > 0;) {
      before[0] = 0;
      for (int e = 0; e <= n_; ++e)
        before[static_cast<std::size_t>(e) + 1] = before[static_cast<std::size_t>(e)] + leads_[at(s + 1, e)];
      for (int b = 0; b < n_; ++b)
        leads_[at(s, b)] = begins(b) && before[static_cast<std::size_t>(far(s, b)) + 1] > before[static_cast<std::size_t>(b) + 1];
    }
  }

  problem const& p_;
  sequences& q_;
  int stages_, devices_, n_;
  double fill_;
  std::vector<double> limits_;  // by stage
  std::vector<in_flight_counts> in_flight_;
  std::vector<int> places_;                                 // by stage
  std::vector<double> time_;                                // sums from the first segment on
  std::vector<std::vector<double>> worth_;                  // the same, by place
  std::map<in_flight_counts, std::vector<double>> memory_;  // by micro-batches in flight
  std::vector<std::vector<int>> in_time_;  // by place and begin, the last end that no plan of the width rules out
  std::vector<std::vector<int>> far_;      // [stage][begin], within memory as well
  std::vector<char> reached_, leads_;      // [stage][begin]
  std::map<int, std::vector<int>> from_;   // per begin, names of what begins there, by length
};

}  // namespace partita::spaces
