// How little time a step may take when the segments of a chain must fit into the memory of its stages: a bound that is known
// before any table is made, and costs a few operations per stage. Segments are taken apart from their order.
//
// A stage with w micro-batches in flight holds c (h + w e) + (c - r) w k bytes for c equal segments of which r run again: h of
// each held the whole step long and by micro-batches that wait, e per micro-batch in any case, k more where it is kept. Three
// lines bound c: the time of c segments that are kept, the memory of c that all run again, and the sum of time and memory weighed
// so that r drops out. The c of all stages must add up to the chain.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include <partita/search/problem.hpp>

namespace partita::spaces {

// Time and memory of a segment in one number: no way through it has a smaller `load * seconds + price * bytes`, with so many
// micro-batches in flight.
struct priced_segment {
  in_flight_counts in_flight;
  double load = 1, price = 0, cost = 0;
};

class stage_packing {
 public:
  // Prices for some numbers in flight, in rising order of whole ones. Between two of them costs are no less than the line through
  // both, as the least of linear functions is, where no fewer wait than on that line.
  using prices = std::vector<priced_segment>;

  // `counts`: per kind, how many segments of the chain are of it. `limit`: bytes of a device, wherever it is.
  // `priced`: of the main kind, as far as is known. `running`: bytes that are there at the least while a segment runs.
  stage_packing(configuration const& c, std::vector<int> const& counts, shape_needs const& needs, double limit,
                std::vector<prices> const& priced = {}, double running = 0)
      : needs_(needs), m_(needs.micro_batches), fill_(filling_of(c)) {
    struct place {
      in_flight_counts in_flight;
      double limit;
      bool operator<(place const& o) const { return std::tie(o.in_flight, o.limit) < std::tie(in_flight, limit); }
    };
    std::vector<place> places;
    for (int s = 0; s < c.stages; ++s) {
      const double own = needs.limits.empty() ? infinite : needs.limits[static_cast<std::size_t>(s)];
      places.push_back({c.schedule.in_flight(s, c.stages, needs.micro_batches), std::min(limit, own) - running});
      limited_ = limited_ || places.back().limit < infinite;
    }
    std::sort(places.begin(), places.end());
    for (std::size_t k = 0; k < counts.size(); ++k) {
      all_seconds_ += counts[k] * needs.kinds[k].seconds;
      if (counts[k] * load(needs.kinds[k]) > counts[main_] * load(needs.kinds[main_])) main_ = k;
    }
    wanted_ = counts[main_];
    for (place const& x : places) add_stage(x.in_flight, x.limit, priced);
    std::stable_sort(stages_.begin(), stages_.end(), [](lines const& a, lines const& b) { return a.again < b.again; });
    for (std::size_t k = 0; k < counts.size(); ++k)
      if (k != main_ && counts[k] > 0) others_ += counts[k] * share_of(needs.kinds[k]);
  }

  // Of a step, fill * sum_s t_s + max_s ((m - fill) t_s + g_s): what a stage needs beside the filling is its load. One stage
  // waits for none: m t + g is all load, so that memory weighs against all of its time.
  static double filling_of(configuration const& c) { return c.stages == 1 ? 0 : c.schedule.fill; }
  // The kind of segment that takes the longest in all.
  int main_kind() const { return static_cast<int>(main_); }
  // Seconds of load that a byte is worth where some segments run again and others do not; or where time and memory weigh alike.
  double price_of_byte(in_flight_counts w) const {
    if (trades()) return worth_of_byte(w);
    const double bytes = lean(main(), w, flight_again());
    return bytes > 0 ? load(main()) / bytes : 0;
  }
  // Tells visit(micro-batches in flight, price of a byte) of every stage that has no room to keep its share of the segments.
  template <class Visit> void each_price(Visit&& visit) const {
    for (lines const& x : stages_)
      if (wanted_ * lean(main(), x.in_flight, main().flight_kept) > x.limit * static_cast<double>(stages_.size()))
        visit(x.in_flight, price_of_byte(x.in_flight));
  }
  // No plan takes less than this, or than `at_least`. What is `enough` need not be exceeded.
  double least(double at_least, double enough) const {
    if (!limited_ || wanted_ == 0 || possible(at_least)) return at_least;
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
  // What bounds how many segments of the main kind a stage can have, beside their time, which does so on all stages alike.
  struct line {
    double per_second = 0, at_none = infinite;  // of the load that is allowed
    double load = 0, price = 0;
  };
  struct lines {
    in_flight_counts in_flight;
    double limit = infinite;
    std::vector<line> all;
    double free = infinite, again = 0;  // so many fit kept; every one more makes so many run again
  };
  // What a segment adds to the time of all micro-batches but for filling.
  double load(segment_needs const& x) const { return (m_ - fill_) * x.seconds + x.step; }
  segment_needs const& main() const { return needs_.kinds[main_]; }
  bool trades() const { return main().again > 0 && main().flight_kept > main().flight_again; }
  double flight_again() const { return std::min(main().flight_kept, main().flight_again); }
  // Seconds of load that a byte is worth where some segments run again and others do not.
  double worth_of_byte(in_flight_counts w) const {
    return (m_ - fill_) * main().again / (w.whole * (main().flight_kept - main().flight_again));
  }
  // Bytes of a segment that has so many per micro-batch.
  static double lean(segment_needs const& x, in_flight_counts w, double flight) {
    return x.held + w.whole * flight + w.waiting * x.waiting;
  }

  void add_stage(in_flight_counts w, double limit, std::vector<prices> const& priced) {
    lines x;
    x.in_flight = w;
    x.limit = limit;
    if (limit < infinite) {
      const double least = lean(main(), w, flight_again());
      add_line(x, {w, 0, 1, least}, limit);
      if (trades()) {
        const double price = worth_of_byte(w), kept = w.whole * (main().flight_kept - main().flight_again);
        add_line(x, {w, 1, price, load(main()) + (m_ - fill_) * main().again + price * least}, limit);
        x.free = limit / (least + kept);
        x.again = 1 + least / kept;
      }
      for (prices const& some : priced)
        if (!some.empty()) add_line(x, between(some, w), limit);
    }
    stages_.push_back(std::move(x));
  }
  static void add_line(lines& to, priced_segment const& x, double limit) {
    if (x.cost > 0 && x.cost < infinite) to.all.push_back({x.load / x.cost, x.price * limit / x.cost, x.load, x.price});
  }
  static priced_segment between(prices const& some, in_flight_counts w) {
    std::size_t k = 0;
    while (k + 1 < some.size() && some[k].in_flight.whole < w.whole) ++k;
    priced_segment const& b = some[k];
    if (k == 0 || b.in_flight.whole <= w.whole) return b.in_flight == w ? b : priced_segment{};
    priced_segment const& a = some[k - 1];
    const double of_a = b.price * (b.in_flight.whole - w.whole), of_b = a.price * (w.whole - a.in_flight.whole),
                 share = of_a / (of_a + of_b), price = share * a.price + (1 - share) * b.price,
                 waiting = share * a.price * a.in_flight.waiting + (1 - share) * b.price * b.in_flight.waiting;
    if (waiting > price * w.waiting * (1 + 1e-12)) return {};
    return {w, a.load, price, share * a.cost + (1 - share) * b.cost};
  }
  // In every line another kind of segment takes the place of at least so many of the main one.
  double share_of(segment_needs const& x) const {
    double least = load(main()) > 0 ? load(x) / load(main()) : infinite;
    for (lines const& s : stages_)
      for (line const& l : s.all) {
        const double cost = l.load > 0 ? l.load / l.per_second : l.price * s.limit / l.at_none;
        const double kept = l.load * load(x) + l.price * lean(x, s.in_flight, x.flight_kept);
        const double again = l.load * (load(x) + (m_ - fill_) * x.again) + l.price * lean(x, s.in_flight, x.flight_again);
        least = std::min(least, std::min(kept, again) / cost);
      }
    return least < infinite ? least : 0;
  }

  double most_in(lines const& x, double load_allowed) const {
    double most = load(main()) > 0 ? load_allowed / load(main()) : infinite;
    for (line const& l : x.all) most = std::min(most, l.per_second > 0 ? load_allowed * l.per_second + l.at_none : l.at_none);
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
  bool limited_ = false;
  std::vector<lines> stages_;
};

}  // namespace partita::spaces
