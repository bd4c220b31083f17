// How little time a step may take when the segments of a chain must fit into the memory of its stages: a bound that is known
// before any table is made, and costs a few operations per stage. Segments are taken apart from their order.
//
// A stage with w micro-batches in flight holds c (h + w e) + (c - r) w k bytes for c equal segments of which r run again: h of
// each held the whole step long, e per micro-batch in any case, k more where it is kept. Three lines bound c: the time of c
// segments that are kept, the memory of c that all run again, and the sum of time and memory weighed so that r drops out. The c
// of all stages must add up to the chain.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <partita/search/problem.hpp>

namespace partita::spaces {

class stage_packing {
 public:
  // `counts`: per kind, how many segments of the chain are of it.
  stage_packing(configuration const& c, std::vector<int> const& counts, shape_needs const& needs, double limit)
      : needs_(needs), m_(needs.micro_batches), fill_(c.schedule.fill) {
    std::vector<int> in_flight;
    for (int s = 0; s < c.stages; ++s) in_flight.push_back(c.schedule.in_flight(s, c.stages, needs.micro_batches));
    std::sort(in_flight.begin(), in_flight.end(), std::greater<int>());
    for (std::size_t k = 0; k < counts.size(); ++k) {
      all_seconds_ += counts[k] * needs.kinds[k].seconds;
      if (counts[k] * load(needs.kinds[k]) > counts[main_] * load(needs.kinds[main_])) main_ = k;
    }
    wanted_ = counts[main_];
    for (int w : in_flight) add_stage(w, limit);
    for (std::size_t k = 0; k < counts.size(); ++k)
      if (k != main_ && counts[k] > 0) others_ += counts[k] * share_of(needs.kinds[k], in_flight);
  }

  // No plan takes less than this, or than `at_least`. What is `enough` need not be exceeded.
  double least(double at_least, double enough) const {
    if (wanted_ == 0 || possible(at_least)) return at_least;
    if (!possible(infinite)) return infinite;
    double low = at_least, high = std::max(at_least * (1 + 1e-2), 1e-300);
    for (; !possible(high); high *= high < 4 * at_least ? 1.1 : 8) {
      low = high;
      if (low >= enough) return low;
    }
    while (high > low * (1 + 2e-4)) {
      const double middle = (low + high) / 2;
      (possible(middle) ? high : low) = middle;
    }
    return low;
  }

 private:
  // The most segments of the kind that takes the longest in all that a stage can have. By time alone all stages are alike.
  struct lines {
    double in_memory = infinite;                // all run again
    double per_second = 0, at_none = infinite;  // time and memory together
    double free = infinite, again = 0;          // so many fit kept; every one more makes so many run again
  };
  // What a segment adds to the time of all micro-batches but for filling.
  double load(segment_needs const& x) const { return (m_ - fill_) * x.seconds + x.step; }
  segment_needs const& main() const { return needs_.kinds[main_]; }
  bool trades() const { return main().again > 0 && main().flight_kept > main().flight_again; }
  double flight_again() const { return std::min(main().flight_kept, main().flight_again); }
  // Seconds of load that a byte is worth where some segments run again and others do not.
  double worth_of_byte(int w) const { return (m_ - fill_) * main().again / (w * (main().flight_kept - main().flight_again)); }

  void add_stage(int w, double limit) {
    lines x;
    if (limit < infinite) {
      const double lean = main().held + w * flight_again();
      if (lean > 0) x.in_memory = limit / lean;
      if (trades()) {
        const double worth = worth_of_byte(w), each = load(main()) + (m_ - fill_) * main().again + worth * lean;
        if (each > 0) {
          x.per_second = 1 / each;
          x.at_none = worth * limit / each;
        }
        const double kept = w * (main().flight_kept - main().flight_again);
        x.free = limit / (lean + kept);
        x.again = 1 + lean / kept;
      }
    }
    stages_.push_back(x);
  }
  // In every line another kind of segment takes the place of at least so many of the main one.
  double share_of(segment_needs const& x, std::vector<int> const& in_flight) const {
    double least = load(main()) > 0 ? load(x) / load(main()) : 0;
    if (stages_.front().in_memory == infinite) return least;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const int w = in_flight[s];
      const double lean = x.held + w * std::min(x.flight_kept, x.flight_again), own = main().held + w * flight_again();
      if (own > 0) least = std::min(least, lean / own);
      if (stages_[s].at_none == infinite) continue;
      const double worth = worth_of_byte(w), kept = load(x) + worth * (x.held + w * x.flight_kept);
      const double cheapest = std::min(kept, load(x) + (m_ - fill_) * x.again + worth * (x.held + w * x.flight_again));
      least = std::min(least, cheapest * stages_[s].per_second);
    }
    return least;
  }

  double most_in(lines const& x, double load_allowed) const {
    double most = x.in_memory;
    if (load(main()) > 0) most = std::min(most, load_allowed / load(main()));
    if (x.at_none < infinite) most = std::min(most, load_allowed * x.per_second + x.at_none);
    return most;
  }
  // Is there room for all segments when a step takes `time`?
  bool possible(double time) const {
    double again = 0;
    for (int round = 0; round < 3; ++round) {
      const double allowed = time - fill_ * (all_seconds_ + main().again * again);
      if (allowed < 0) return false;
      double room = 0, whole = 0, left = wanted_;
      for (lines const& x : stages_) {
        const double most = most_in(x, allowed) * (1 + 1e-9);
        room += most;
        whole += std::floor(most);
        left -= std::min(most, x.free);
      }
      if (room < wanted_ + others_ || whole < wanted_) return false;
      if (left <= 0 || fill_ == 0 || time == infinite) return true;
      // So many run again at the least, on stages where one more makes the fewest do so.
      double next = 0;
      for (lines const& x : stages_) {
        const double more = std::clamp(most_in(x, allowed) * (1 + 1e-9) - x.free, 0.0, left);
        next += more * x.again;
        left -= more;
        if (left <= 0) break;
      }
      if (next <= again * (1 + 1e-3)) return true;
      again = next;
    }
    return true;
  }

  shape_needs const& needs_;
  double m_, fill_, all_seconds_ = 0, wanted_ = 0, others_ = 0;
  std::size_t main_ = 0;
  std::vector<lines> stages_;
};

}  // namespace partita::spaces
