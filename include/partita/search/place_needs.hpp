// Where devices differ: what a configuration takes at the least, by the places of its stages.
//
// A step takes fill * sum_s t_s + max_s L_s, with L_s = (m - fill) t_s + g_s. The largest L_s is no less than any sum of them
// with shares that add up to 1. So each segment adds at least the least over places of fill t + share L there. With shares that
// make this the same at all places, where the whole model would be there, the bound is the best of its kind.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include <partita/search/problem.hpp>

namespace partita::spaces {

// What is known of a place before any table is made.
struct place_needs {
  int prices = 0;              // of place_prices
  std::vector<double> work{};  // by kind: seconds that a segment's FLOPs of a step take one of its devices
  shape_needs needs{};
};

// Of a place that has so many stages: fill t and L of the whole model there.
struct place_load {
  int stages = 0;
  double filling = 0, load = 0;
};
// The share of a stage at each place: not negative; where all that is known is no number, the same for all stages.
inline std::vector<double> shares_of_stages(std::vector<place_load> const& places) {
  std::vector<char> counts;
  int stages = 0;
  bool known = true;
  for (place_load const& x : places) {
    counts.push_back(x.stages > 0);
    stages += x.stages;
    known = known && (x.stages == 0 || (x.load > 0 && x.load < infinite && x.filling < infinite));
  }
  std::vector<double> shares(places.size(), 1.0 / stages);
  const auto used = std::count(counts.begin(), counts.end(), true);
  for (bool again = known && used > 1; again;) {
    double sum = 1, per_load = 0;
    for (std::size_t k = 0; k < places.size(); ++k)
      if (counts[k]) {
        sum += places[k].stages * places[k].filling / places[k].load;
        per_load += places[k].stages / places[k].load;
      }
    again = false;
    for (std::size_t k = 0; k < places.size(); ++k) {
      shares[k] = counts[k] ? (sum / per_load - places[k].filling) / places[k].load : 0;
      if (shares[k] >= 0) continue;
      shares[k] = 0;  // nothing would lie there
      counts[k] = false;
      again = true;
    }
  }
  return shares;
}

// The least of every figure at any of the places. Bytes are the same at all.
inline shape_needs least_of(std::vector<place_needs> const& places) {
  shape_needs r = places.front().needs;
  constexpr double segment_needs::*all[]{&segment_needs::seconds, &segment_needs::again, &segment_needs::step};
  for (place_needs const& x : places)
    for (std::size_t k = 0; k < r.kinds.size(); ++k)
      for (const auto member : all) r.kinds[k].*member = std::min(r.kinds[k].*member, x.needs.kinds[k].*member);
  return r;
}

// Seconds of a step. `counts`: of segments, by kind. `stages`: how many are at each place, of so many devices each.
inline double least_time(std::vector<place_needs> const& places, std::vector<int> const& counts, std::vector<int> const& stages,
                         int devices, double fill) {
  const int m = places.front().needs.micro_batches;
  std::vector<place_load> whole;
  for (std::size_t x = 0; x < places.size(); ++x) {
    double seconds = 0, step = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      seconds += counts[k] * places[x].needs.kinds[k].seconds;
      step += counts[k] * places[x].needs.kinds[k].step;
    }
    whole.push_back({stages[x], fill * seconds, (m - fill) * seconds + step});
  }
  const std::vector<double> shares = shares_of_stages(whole);
  double by_segments = 0, by_work = 0, steps = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    double all = infinite, step = infinite, work = infinite;
    for (std::size_t x = 0; x < places.size(); ++x) {
      segment_needs const& of = places[x].needs.kinds[k];
      all = std::min(all, (fill + shares[x] * (m - fill)) * of.seconds + shares[x] * of.step);
      step = std::min(step, shares[x] * of.step);
      work = std::min(work, (fill + shares[x] * (m - fill)) * places[x].work[k] / devices / m);
    }
    by_segments += counts[k] * all;
    by_work += counts[k] * work;
    steps += counts[k] * step;
  }
  return std::max(by_segments, by_work + steps);
}

}  // namespace partita::spaces
