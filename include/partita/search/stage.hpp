// One stage of a pipeline, exactly: the cheapest ways through a run of segments on one grid within a memory limit, by
// every entry and exit.
//
// Its memory is linear in the choices but for the largest segment's own (`replay`). So it is divided into cases: how many
// segments are run again, and a level, the least that a variant may need while it runs; what is left of the limit is for
// the sum. In a case a multiplier per byte gives a lower bound (Lagrange), the better for the count being a whole number.
#pragma once
#include <array>

#include <partita/search/grid_solver.hpp>
#include <partita/search/sequences.hpp>

namespace partita::spaces {

// A way through a stage.
struct stage_point {
  double time = 0, step = 0;
  std::vector<segment_choice> segments;
};
// Of ways, those that no other beats in both times.
inline void keep_best(std::vector<stage_point>& found) {
  std::sort(found.begin(), found.end(),
            [](stage_point const& a, stage_point const& b) { return std::tie(a.time, a.step) < std::tie(b.time, b.step); });
  std::vector<stage_point> kept;
  for (stage_point& p : found)
    if (kept.empty() || p.step < kept.back().step) kept.push_back(std::move(p));
  found = std::move(kept);
}
// A segment's part of one.
struct way_through {
  int kind = 0, entry = 0, exit = 0;
  segment_cost cost;
  double memory = 0;  // but for what is there while it runs
  segment_choice chosen;
};
struct stage_entry {
  // Of any way from this entry to this exit: time per micro-batch; what it is worth; the same with a share of the step, for each
  // of the stage's shares.
  double least_time = infinite, least_worth = infinite;
  std::vector<double> least_mixed;
  double solved = -infinite;  // every way worth at most this is among the points, or no better than one of them
  bool too_many = false;      // more ways than may be listed
  bool stuck = false;         // and the bound is as good as it can be made
  bool sketched = false;      // some ways were looked for
  std::vector<stage_point> points;
};
struct stage_case {
  int replays = 0;  // segments that are run again
  double level = 0, mu = 0;
  matrix worth, memory;
};

class stage_problem {
 public:
  // `worth`: what is made small first, the time of all micro-batches and of the step. `limit`: bytes. `most`: ways worth
  // more are of no interest. `alone`: it is all of a pipeline; then nothing but worth counts.
  stage_problem(grid_solver& g, std::vector<run_of_segments> runs, in_flight_counts in_flight, aim worth, double limit,
                double most, bool alone)
      : g_(&g), runs_(std::move(runs)), in_flight_(in_flight), worth_(worth), limit_(limit), most_(most), alone_(alone) {
    for (run_of_segments const& r : runs_) {
      for (int i = 0; i < r.count; ++i) kinds_.push_back(r.kind);
      most_worth_ += r.count * g_->most(r.kind, worth_);
    }
    counts_all_ = may_count_all();
    counted_ = counts_all_ ? static_cast<int>(kinds_.size()) : 1;
    rows_ = g_->kind(kinds_.front()).front().by->of().entries();
    columns_ = g_->kind(kinds_.back()).front().by->of().exits();
    entries_.resize(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_));
    for (double level : possible_levels()) open_cases(level);
    bound(worth_, most_, [](stage_entry& e) -> double& { return e.least_worth; });
    bound({1, 0}, alone_ ? -infinite : infinite, [](stage_entry& e) -> double& { return e.least_time; });
    if (!alone_) add_share(first_share);
    products_.clear();
  }
  // How much of the step counts where ways are bounded that take less time per micro-batch and more per step, or the other way.
  static constexpr double first_share = 0.25;
  std::vector<double> const& shares() const { return shares_; }
  // Bounds them with another share.
  void add_share(double share) {
    shares_.push_back(share);
    for (stage_entry& e : entries_) e.least_mixed.push_back(infinite);
    bound({worth_.time, share * worth_.step}, infinite, [](stage_entry& e) -> double& { return e.least_mixed.back(); });
    products_.clear();
  }
  int entries() const { return rows_; }
  int exits() const { return columns_; }
  stage_entry& at(int i, int j) { return entries_[static_cast<std::size_t>(i * columns_ + j)]; }
  stage_entry const& at(int i, int j) const { return entries_[static_cast<std::size_t>(i * columns_ + j)]; }
  double most_worth() const { return most_worth_; }
  grid_solver& grid() { return *g_; }
  std::vector<stage_case> const& cases() const { return cases_; }
  // That of the case which is worth least.
  double multiplier() const {
    double least = infinite, mu = 0;
    for (stage_case const& c : cases_)
      if (const double worth = c.worth.least(); worth < least) {
        least = worth;
        mu = c.mu;
      }
    return mu;
  }
  std::vector<int> const& kinds() const { return kinds_; }
  in_flight_counts in_flight() const { return in_flight_; }
  int counted() const { return counted_; }
  aim worth() const { return worth_; }
  aim mixed_aim() const { return {worth_.time, first_share * worth_.step}; }
  // What ways are looked for by.
  std::vector<aim> aims() const {
    if (alone_) return {worth_};
    return {worth_, mixed_aim(), {worth_.time, 0}};
  }
  double limit() const { return limit_; }
  // The cheapest way of a case from i to j under an aim and a multiplier, segment by segment.
  std::vector<way_through const*> cheapest(stage_case const& c, aim a, double mu, int i, int j) {
    const std::size_t n = kinds_.size(), last = static_cast<std::size_t>(c.replays), width = last + 1;
    const bool and_more = c.replays == counted_;        // the last count stands for all above
    std::vector<std::array<matrix const*, 2>> ways(n);  // kept and run again
    for (std::size_t q = 0; q < n; ++q)
      for (std::size_t again = 0; again < 2; ++again)
        ways[q][again] = q > 0 && kinds_[q] == kinds_[q - 1] ? ways[q - 1][again] : &block(kinds_[q], again == 1, c.level, a, mu);
    std::vector<std::vector<double>> best(n + 1);  // [place][boundary * width + count]
    best[0].assign(static_cast<std::size_t>(rows_) * width, infinite);
    best[0][static_cast<std::size_t>(i) * width] = 0;
    for (std::size_t q = 0; q < n; ++q) {
      best[q + 1].assign(static_cast<std::size_t>(ways[q][0]->columns) * width, infinite);
      for (std::size_t again = 0; again < 2; ++again) {
        matrix const& m = *ways[q][again];
        for (int r = 0; r < m.rows; ++r)
          for (int to = 0; to < m.columns; ++to) {
            const double more = m(r, to);
            if (more == infinite) continue;
            double const* const from = &best[q][static_cast<std::size_t>(r) * width];
            double* const b = &best[q + 1][static_cast<std::size_t>(to) * width];
            take_less(b + again, from, more, width - again);
            if (again == 1 && and_more) b[last] = std::min(b[last], from[last] + more);
          }
      }
    }
    std::vector<way_through const*> chosen(n);
    int to = j;
    std::size_t count = last;
    for (std::size_t q = n; q-- > 0;) {
      int from = 0, how = 0;
      std::size_t before = 0;
      double least = infinite;
      for (std::size_t again = 0; again < 2; ++again) {
        matrix const& m = *ways[q][again];
        auto look = [&](std::size_t k) {
          for (int r = 0; r < m.rows; ++r)
            if (const double v = best[q][static_cast<std::size_t>(r) * width + k] + m(r, to); v < least) {
              least = v;
              from = r;
              how = static_cast<int>(again);
              before = k;
            }
        };
        if (again <= count) look(count - again);
        if (again == 1 && and_more && count == last) look(last);
      }
      chosen[q] = &decode_block(kinds_[q], how == 1, c.level, a, mu, from, to);
      to = from;
      count = before;
    }
    return chosen;
  }
  matrix const& block(int kind, bool replays, double level, aim a, double mu) {
    return g_->block(kind, replays, level, a, mu, in_flight_);
  }

 private:
  // In longer runs it is told apart whether any segment is run again. Of 31 blocks on two devices, with 4 layouts between
  // them, all counts take a fifth more time, and the gap is 0.03% in place of 0.4%; 16 layouts make joining 64 times dearer.
  static constexpr std::size_t most_counted = 24, most_with_few_layouts = 48, few_layouts = 8;
  bool may_count_all() const {
    std::size_t widest = 0;
    for (run_of_segments const& r : runs_) {
      table const& t = g_->kind(r.kind).front().by->of();
      widest = std::max({widest, static_cast<std::size_t>(t.entries()), static_cast<std::size_t>(t.exits())});
    }
    return kinds_.size() <= (widest <= few_layouts ? most_with_few_layouts : most_counted);
  }
  struct line {
    double worth = 0, memory = 0;
  };
  using by_count = std::vector<matrix>;  // per number of segments that are run again; empty where it is not looked at
  struct counts {
    int least = 0, most = 0;
  };

  // Both one after the other, so many segments; the last count stands for itself and all above.
  by_count join(by_count const& a, by_count const& b, int segments, counts wanted) const {
    const std::size_t last = std::min(static_cast<std::size_t>(counted_), a.size() + b.size() - 2);
    const int others = static_cast<int>(kinds_.size()) - segments;
    by_count r(last + 1);
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t j = 0; j < b.size(); ++j) {
        const int count = static_cast<int>(std::min(i + j, last));
        if (a[i].at.empty() || b[j].at.empty() || count > wanted.most || (counts_all_ && count + others < wanted.least)) continue;
        matrix& to = r[static_cast<std::size_t>(count)];
        if (to.at.empty()) to = matrix(a[i].rows, b[j].columns);
        add_ways(a[i], b[j], to);
      }
    return r;
  }
  by_count const& product(double level, aim a, double mu, counts wanted) {
    const auto [place, fresh] = products_.try_emplace({level, a.time, a.step, mu});
    by_count& all = place->second;
    if (!fresh) return all;
    int segments = 0;
    for (run_of_segments const& r : runs_) {
      by_count power{block(r.kind, false, level, a, mu), block(r.kind, true, level, a, mu)}, some;
      if (power[1].least() == infinite) power.pop_back();
      int joined = 0;
      for (int n = r.count, doubled = 1; n > 0; n /= 2, doubled *= 2) {
        if (n % 2 == 1) {
          joined += doubled;
          some = some.empty() ? power : join(some, power, joined, wanted);
        }
        if (n > 1) power = join(power, power, 2 * doubled, wanted);
      }
      segments += r.count;
      all = all.empty() ? std::move(some) : join(all, some, segments, wanted);
    }
    return all;
  }
  std::vector<double> possible_levels() {
    std::vector<double> levels;
    double least = 0;
    for (run_of_segments const& r : runs_) {
      double own = infinite;
      for (auto const& x : g_->kind(r.kind)) own = std::min(own, x.least_running());
      least = std::max(least, own);
    }
    for (run_of_segments const& r : runs_)
      for (auto const& x : g_->kind(r.kind)) levels.push_back(std::max(least, x.least_running()));
    std::sort(levels.begin(), levels.end());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    return levels;
  }
  // Does a level bring something new to stages without a segment that is run again?
  bool matters_to_kept(double level) {
    if (cases_.empty()) return true;
    for (run_of_segments const& r : runs_)
      for (auto const& x : g_->kind(r.kind))
        if (!x.replays && x.least_running() == level) return true;
    return false;
  }
  void open_cases(double level) {
    const by_count& memory = product(level, {0, 0}, 1, {0, counted_});
    std::vector<int> fit;
    for (std::size_t count = 0; count < memory.size(); ++count)
      if (memory[count].least() + level <= limit_ && (count > 0 || matters_to_kept(level)))
        fit.push_back(static_cast<int>(count));
    if (fit.empty()) return;
    counts const& wanted = wanted_[level] = {fit.front(), fit.back()};
    const by_count& worth = product(level, worth_, 0, wanted);
    for (int count : fit) {
      const std::size_t at = static_cast<std::size_t>(count);
      if (worth[at].least() <= most_) cases_.push_back({count, level, 0, worth[at], memory[at]});
    }
  }
  // The bound of a case under an aim while it is raised by multipliers per byte.
  struct raised_bound {
    matrix at;
    double least = infinite, mu = 0;  // of what fits; the multiplier that was of use
    std::size_t best = 0;             // the entry and exit that it is raised for
    line above, below;                // ways that do not fit, and that do
    double like = 0;                  // a multiplier to try next; 0: where both meet
    int rounds = 0;
    bool has_lines = false, final = false;
  };
  // The case with the least bound first, until that one's is as good as it can be made: others are of no interest then. What a
  // multiplier gives raises all cases of a level. `most`: bounds above it are of no use.
  std::vector<raised_bound> bounds_of(aim a, double most) {
    std::vector<raised_bound> all(cases_.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      all[k].at = product(cases_[k].level, a, 0, wanted_[cases_[k].level])[static_cast<std::size_t>(cases_[k].replays)];
      find_least(cases_[k], all[k], true);
    }
    while (!all.empty() && limit_ < infinite) {
      const auto next = std::min_element(all.begin(), all.end(), [](auto const& x, auto const& y) { return x.least < y.least; });
      if (next->final || !(next->least <= most) || next->least == infinite) break;
      next->final = !raise(static_cast<std::size_t>(next - all.begin()), a, all);
    }
    return all;
  }
  void find_least(stage_case const& c, raised_bound& b, bool choose) const {
    b.least = infinite;
    for (std::size_t e = 0; e < entries_.size(); ++e)
      if (c.memory.at[e] + c.level <= limit_ && b.at.at[e] < b.least) {
        b.least = b.at.at[e];
        if (choose) b.best = e;
      }
  }
  // One multiplier more, found where the lines of two choices, one above and one below the limit, meet. False: no other helps.
  bool raise(std::size_t k, aim a, std::vector<raised_bound>& all) {
    constexpr int most_rounds = 8;
    stage_case const& c = cases_[k];
    raised_bound& b = all[k];
    const double room = limit_ - c.level;
    const int i = static_cast<int>(b.best) / columns_, j = static_cast<int>(b.best) % columns_;
    if (!b.has_lines) {
      b.above = decode(c, a, 0, a, i, j);
      if (b.above.memory <= room) return false;
      b.below = decode(c, {0, 0}, 1, a, i, j);
      b.has_lines = true;
      b.like = c.mu * a.time / worth_.time;
    }
    // The first two are near the one by which the case was raised under the first aim, if it was: lines of ways on both sides of
    // the best meet close to it.
    const bool likely = b.like > 0;
    const double mu = likely ? b.like : (b.below.worth - b.above.worth) / (b.above.memory - b.below.memory);
    if (!(mu > 0) || ++b.rounds > most_rounds) return false;
    by_count const& found = product(c.level, a, mu, wanted_[c.level]);
    for (std::size_t other = 0; other < all.size(); ++other) {
      raised_bound& x = all[other];
      if (cases_[other].level != c.level) continue;
      matrix const& m = found[static_cast<std::size_t>(cases_[other].replays)];
      if (m.at[x.best] - mu * room > x.at.at[x.best]) x.mu = mu;
      for (std::size_t e = 0; e < entries_.size(); ++e) x.at.at[e] = std::max(x.at.at[e], m.at[e] - mu * room);
      find_least(cases_[other], x, false);
    }
    line now = decode(c, a, mu, a, i, j);
    const bool is_above = now.memory > room;
    if (likely) b.like = b.rounds == 1 ? mu * (is_above ? 1.2 : 1 / 1.2) : 0;
    else if (now.worth + mu * now.memory >= (b.above.worth + mu * b.above.memory) * (1 - 1e-6)) return false;
    (is_above ? b.above : b.below) = now;
    return true;
  }
  template <class Least> void bound(aim a, double most, Least&& least_of) {
    const std::vector<raised_bound> all = bounds_of(a, most);
    for (std::size_t k = 0; k < all.size(); ++k) {
      stage_case& c = cases_[k];
      for (std::size_t e = 0; e < entries_.size(); ++e)
        if (double& least = least_of(entries_[e]); c.memory.at[e] + c.level <= limit_) least = std::min(least, all[k].at.at[e]);
      if (a.time != worth_.time || a.step != worth_.step) continue;
      c.worth = all[k].at;
      c.mu = all[k].mu;
    }
  }
  line line_of(std::vector<way_through const*> const& way, aim valued) const {
    line total;
    for (way_through const* x : way) {
      total.worth += valued.time * x->cost.time + valued.step * x->cost.step;
      total.memory += x->memory;
    }
    return total;
  }
  line decode(stage_case const& c, aim a, double mu, aim valued, int i, int j) {
    return line_of(cheapest(c, a, mu, i, j), valued);
  }
  way_through const& decode_block(int kind, bool replays, double level, aim a, double mu, int from, int to) {
    const auto [place, fresh] = decoded_.try_emplace({kind, replays, level, a.time, a.step, mu, from, to});
    way_through& r = place->second;
    if (!fresh) return r;
    grid_solver::piece* best = nullptr;
    double least = infinite;
    for (auto& x : g_->kind(kind)) {
      if (x.replays != replays || !x.runs_in(level)) continue;
      const double v = x.by->run(grid_solver::weigh(a, mu, in_flight_, x.replays))(from, to);
      if (v < least) {
        least = v;
        best = &x;
      }
    }
    r.kind = kind;
    r.entry = from;
    r.exit = to;
    r.chosen = {best->variant, best->by->decode(from, to)};
    r.cost = cost_in_stage(cost_of(best->by->of(), r.chosen.options.data()), best->replays);
    r.memory = bytes_held(r.cost, in_flight_);
    return r;
  }

  grid_solver* g_;
  std::vector<run_of_segments> runs_;
  std::vector<int> kinds_;
  in_flight_counts in_flight_;
  int rows_ = 0, columns_ = 0, counted_ = 0;
  aim worth_;
  double limit_, most_, most_worth_ = 0;
  bool alone_, counts_all_ = false;
  std::vector<stage_case> cases_;
  // While bounds are made: by level, aim and multiplier; counts of cases by level.
  std::map<std::tuple<double, double, double, double>, by_count> products_;
  std::map<double, counts> wanted_;
  std::vector<stage_entry> entries_;
  std::vector<double> shares_;
  // by kind, whether it is run again, level, aim, multiplier, entry, exit
  std::map<std::tuple<int, bool, double, double, double, double, int, int>, way_through> decoded_;
};

}  // namespace partita::spaces
