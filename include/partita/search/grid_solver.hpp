// The segments of a space on one grid, with what was found out about them.
#pragma once
#include <map>
#include <memory>
#include <tuple>

#include <partita/search/eliminate.hpp>
#include <partita/search/sequences.hpp>

namespace partita::spaces {

// What is made small: time per micro-batch and time per step with these factors.
struct aim {
  double time = 1, step = 0;
};

// The segments of one kind on one grid.
class kind_solver {
 public:
  class piece {
   public:
    std::unique_ptr<eliminator> by;
    int variant = 0;
    bool replays = false;
    bool has_kept_twin = false;  // a variant that does not run again is as fast
    // It needs at least this while it runs. Found out when it is asked for.
    double least_running() const {
      if (least_running_ < 0) least_running_ = least_transient() + (replays ? by->run({0, 0, 0, 0, 0, 1}).least() : 0);
      return least_running_;
    }
    // Some op of it does.
    double least_transient() const {
      table const& t = by->of();
      double most = 0;
      for (int u = 0; u < t.variables(); ++u) {
        double least = infinite;
        for (int i = 0; i < t.options[static_cast<std::size_t>(u)]; ++i) least = std::min(least, t.own.transient(t.index(u, i)));
        most = std::max(most, least);
      }
      return most;
    }
    bool runs_in(double level) const { return level == infinite || least_running() <= level; }

   private:
    mutable double least_running_ = -1;
  };
  explicit kind_solver(std::vector<variant> const& variants) {
    for (std::size_t v = 0; v < variants.size(); ++v) {
      std::shared_ptr<elimination_order const> order;
      for (piece const& other : pieces_)
        if (other.by->of().same_form(*variants[v].costs)) order = other.by->order();
      piece x;
      x.by = std::make_unique<eliminator>(*variants[v].costs, std::move(order));
      x.variant = static_cast<int>(v);
      x.replays = variants[v].replays;
      x.has_kept_twin = variants[v].saves_memory_alone;
      for (variant const& other : variants)
        x.has_kept_twin = x.has_kept_twin || (x.replays && !other.replays && other.costs == variants[v].costs);
      pieces_.push_back(std::move(x));
    }
  }
  std::vector<piece>& pieces() { return pieces_; }
  static weights weigh(aim a, double mu, in_flight_counts n, bool replays) {
    return {replays ? 2 * a.time : a.time, a.time, a.step, mu, mu * n.whole, replays ? 0 : mu * n.whole, mu * n.waiting};
  }
  // The cheapest way through a segment, kept or run again, by variants that need no more than a level while they run.
  matrix const& block(bool replays, double level, aim a, double mu, in_flight_counts in_flight) {
    if (mu == 0) in_flight = {};  // it makes no difference then
    const key k{replays, level, a.time, a.step, mu, in_flight};
    const auto known = blocks_.find(k);
    if (known != blocks_.end()) return known->second;
    table const& first = pieces_.front().by->of();
    matrix r(first.entries(), first.exits());
    for (piece& x : pieces_) {
      if (x.replays != replays || !x.runs_in(level)) continue;
      matrix const& m = x.by->run(weigh(a, mu, in_flight, replays));
      for (std::size_t i = 0; i < r.at.size(); ++i) r.at[i] = std::min(r.at[i], m.at[i]);
    }
    return blocks_.emplace(k, std::move(r)).first->second;
  }
  // Of 2 to the power of `doublings` equal segments, kept or run again, whatever they need while they run.
  matrix const& power(int doublings, aim a, double mu, in_flight_counts in_flight) {
    if (mu == 0) in_flight = {};
    const key k{false, doublings, a.time, a.step, mu, in_flight};
    if (const auto known = powers_.find(k); known != powers_.end()) return known->second;
    matrix r;
    if (doublings > 0) {
      matrix const& half = power(doublings - 1, a, mu, in_flight);
      r = through(half, half);
    } else {
      r = block(false, infinite, a, mu, in_flight);
      if (std::any_of(pieces_.begin(), pieces_.end(),
                      [&](piece const& x) { return x.replays && (mu > 0 || !x.has_kept_twin); })) {
        matrix const& again = block(true, infinite, a, mu, in_flight);
        for (std::size_t i = 0; i < r.at.size(); ++i) r.at[i] = std::min(r.at[i], again.at[i]);
      }
    }
    return powers_.emplace(k, std::move(r)).first->second;
  }
  // Bytes that a segment needs while it runs, at the least.
  double least_running() const {
    double least = infinite;
    for (piece const& x : pieces_) least = std::min(least, x.least_running());
    return least;
  }
  // The least of all ways through a segment, without a limit.
  double least(aim a) {
    double least = block(false, infinite, a, 0, {}).least();
    for (piece& x : pieces_)
      if (x.replays && !x.has_kept_twin) least = std::min(least, x.by->run(weigh(a, 0, {}, true)).least());
    return least;
  }
  // No way through the segment is worth more.
  double most(aim a) {
    double most = 0;
    for (piece& x : pieces_) {
      const weights w = weigh(a, 0, {}, x.replays);
      table const& t = x.by->of();
      double sum = 0;
      auto largest = [&](cost_list const& costs, std::size_t first, std::size_t count) {
        std::vector<double> each(count);
        costs.weigh(w, first, count, each.data());
        return *std::max_element(each.begin(), each.end());
      };
      for (std::size_t v = 0; v < t.options.size(); ++v)
        sum += largest(t.own, t.first[v], static_cast<std::size_t>(t.options[v]));
      for (table::pair const& p : t.pairs)
        sum += largest(t.pair_costs, p.first,
                       static_cast<std::size_t>(t.options[static_cast<std::size_t>(p.a)]) *
                           static_cast<std::size_t>(t.options[static_cast<std::size_t>(p.b)]));
      most = std::max(most, sum);
    }
    return most * (1 + 1e-9);
  }
  long eliminations() const {
    long n = 0;
    for (piece const& x : pieces_) n += x.by->runs();
    return n;
  }
  // What was found under multipliers is of use to one configuration alone.
  void forget() {
    std::erase_if(blocks_, [](auto const& b) { return std::get<4>(b.first) > 0; });
    std::erase_if(powers_, [](auto const& b) { return std::get<4>(b.first) > 0; });
  }

 private:
  using key = std::tuple<bool, double, double, double, double, in_flight_counts>;
  std::vector<piece> pieces_;
  std::map<key, matrix> blocks_, powers_;
};

class grid_solver {
 public:
  using piece = kind_solver::piece;
  explicit grid_solver(grid_choice const& g) : grid_solver(g, [](std::vector<variant> const&) { return nullptr; }) {}
  // `known(variants)`: what is known of a kind with these, whose tables outlive this; or nothing.
  template <class Known> grid_solver(grid_choice const& g, Known&& known) {
    for (auto const& variants : g.kinds) {
      kinds_.push_back(known(variants));
      if (!kinds_.back()) kinds_.back() = std::make_shared<kind_solver>(variants);
    }
  }
  int kinds() const { return static_cast<int>(kinds_.size()); }
  std::shared_ptr<kind_solver> const& shared_kind(int k) const { return kinds_[static_cast<std::size_t>(k)]; }
  std::vector<piece>& kind(int k) { return of(k).pieces(); }
  static weights weigh(aim a, double mu, in_flight_counts n, bool replays) { return kind_solver::weigh(a, mu, n, replays); }
  matrix const& block(int kind_id, bool replays, double level, aim a, double mu, in_flight_counts in_flight) {
    return of(kind_id).block(replays, level, a, mu, in_flight);
  }
  // The cheapest ways through a stretch, segments kept or run again, whatever they need while they run.
  matrix through_all(std::vector<run_of_segments> const& runs, aim a, double mu, in_flight_counts in_flight) {
    matrix all;
    for (run_of_segments const& r : runs) {
      int doublings = 0;
      for (int n = r.count; n > 0; n /= 2, ++doublings)
        if (n % 2 == 1) {
          matrix const& some = of(r.kind).power(doublings, a, mu, in_flight);
          all = all.at.empty() ? some : through(all, some);
        }
    }
    return all;
  }
  // Bytes that some segment of a stretch needs while it runs, at the least.
  double least_running(std::vector<run_of_segments> const& runs) {
    double most = 0;
    for (run_of_segments const& r : runs) most = std::max(most, of(r.kind).least_running());
    return most;
  }
  double least(int kind_id, aim a) { return of(kind_id).least(a); }
  double most(int kind_id, aim a) { return of(kind_id).most(a); }
  void forget() {
    for (auto const& k : kinds_) k->forget();
  }

 private:
  kind_solver& of(int k) { return *kinds_[static_cast<std::size_t>(k)]; }
  std::vector<std::shared_ptr<kind_solver>> kinds_;
};

}  // namespace partita::spaces
