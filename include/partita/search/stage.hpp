// One stage of a pipeline, exactly: the cheapest ways through a run of segments on one grid within a memory limit, by
// every entry and exit.
//
// Its memory is linear in the choices but for the largest segment's own (`replay`). So it is divided into cases: how many
// segments are run again, and a level, the least that a variant may need while it runs; what is left of the limit is for
// the sum. In a case a multiplier per byte gives a lower bound (Lagrange), the better for the count being a whole number.
#pragma once
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
  // Of any way from this entry to this exit: time per micro-batch; what it is worth; the same with a quarter of the step.
  double least_time = infinite, least_worth = infinite, least_mixed = infinite;
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
  stage_problem(grid_solver& g, std::vector<run_of_segments> runs, int in_flight, aim worth, double limit, double most,
                bool alone)
      : g_(&g), runs_(std::move(runs)), in_flight_(in_flight), worth_(worth), limit_(limit), most_(most), alone_(alone) {
    for (run_of_segments const& r : runs_) {
      for (int i = 0; i < r.count; ++i) kinds_.push_back(r.kind);
      most_worth_ += r.count * g_->most(r.kind, worth_);
    }
    counted_ = counts_all() ? static_cast<int>(kinds_.size()) : 1;
    rows_ = g_->kind(kinds_.front()).front().by->of().entries();
    columns_ = g_->kind(kinds_.back()).front().by->of().exits();
    entries_.resize(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_));
    for (double level : possible_levels()) bound(level);
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
  int in_flight() const { return in_flight_; }
  int counted() const { return counted_; }
  aim worth() const { return worth_; }
  aim mixed_aim() const { return {worth_.time, worth_.step / 4}; }
  // What ways are looked for by.
  std::vector<aim> aims() const {
    if (alone_) return {worth_};
    return {worth_, mixed_aim(), {worth_.time, 0}};
  }
  double limit() const { return limit_; }
  // The cheapest way of a case from i to j under an aim and a multiplier, segment by segment.
  std::vector<way_through const*> cheapest(stage_case const& c, aim a, double mu, int i, int j) {
    const std::size_t n = kinds_.size(), counts = static_cast<std::size_t>(counted_) + 1;
    std::vector<std::vector<double>> best(n + 1);  // [place][boundary * counts + count]
    best[0].assign(static_cast<std::size_t>(rows_) * counts, infinite);
    best[0][static_cast<std::size_t>(i) * counts] = 0;
    auto way = [&](std::size_t q, int again) -> matrix const& { return block(kinds_[q], again == 1, c.level, a, mu); };
    for (std::size_t q = 0; q < n; ++q) {
      best[q + 1].assign(static_cast<std::size_t>(way(q, 0).columns) * counts, infinite);
      for (int again = 0; again < 2; ++again) {
        matrix const& m = way(q, again);
        for (int r = 0; r < m.rows; ++r)
          for (std::size_t k = 0; k < counts; ++k) {
            const double so_far = best[q][static_cast<std::size_t>(r) * counts + k];
            if (so_far == infinite) continue;
            const std::size_t next = std::min(k + static_cast<std::size_t>(again), counts - 1);
            for (int to = 0; to < m.columns; ++to) {
              double& b = best[q + 1][static_cast<std::size_t>(to) * counts + next];
              b = std::min(b, so_far + m(r, to));
            }
          }
      }
    }
    std::vector<way_through const*> chosen(n);
    int to = j;
    std::size_t count = static_cast<std::size_t>(c.replays);
    for (std::size_t q = n; q-- > 0;) {
      int from = 0, how = 0;
      std::size_t before = 0;
      double least = infinite;
      for (int again = 0; again < 2; ++again) {
        matrix const& m = way(q, again);
        for (int r = 0; r < m.rows; ++r)
          for (std::size_t k = 0; k < counts; ++k) {
            if (std::min(k + static_cast<std::size_t>(again), counts - 1) != count) continue;
            if (const double v = best[q][static_cast<std::size_t>(r) * counts + k] + m(r, to); v < least) {
              least = v;
              from = r;
              how = again;
              before = k;
            }
          }
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
  bool counts_all() const {
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
  using by_count = std::vector<matrix>;  // per number of segments that are run again

  // Both one after the other; the last count stands for itself and all above.
  by_count join(by_count const& a, by_count const& b) const {
    by_count r(std::min(static_cast<std::size_t>(counted_) + 1, a.size() + b.size() - 1),
               matrix(a.front().rows, b.front().columns));
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t j = 0; j < b.size(); ++j) {
        if (a[i].least() == infinite || b[j].least() == infinite) continue;
        matrix& to = r[std::min(i + j, static_cast<std::size_t>(counted_))];
        const matrix both = through(a[i], b[j]);
        for (std::size_t e = 0; e < to.at.size(); ++e) to.at[e] = std::min(to.at[e], both.at[e]);
      }
    return r;
  }
  by_count product(double level, aim a, double mu) {
    by_count all;
    for (run_of_segments const& r : runs_) {
      by_count power{block(r.kind, false, level, a, mu), block(r.kind, true, level, a, mu)}, some;
      if (power[1].least() == infinite) power.pop_back();
      for (int n = r.count; n > 0; n /= 2) {
        if (n % 2 == 1) some = some.empty() ? power : join(some, power);
        if (n > 1) power = join(power, power);
      }
      all = all.empty() ? some : join(all, some);
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
  void bound(double level) {
    const by_count memory = product(level, {0, 0}, 1);
    by_count worth;
    for (std::size_t count = 0; count < memory.size(); ++count) {
      if (memory[count].least() + level > limit_ || (count == 0 && !matters_to_kept(level))) continue;
      if (worth.empty()) worth = product(level, worth_, 0);
      if (worth[count].least() > most_) continue;
      stage_case c;
      c.replays = static_cast<int>(count);
      c.level = level;
      c.memory = memory[count];
      c.worth = worth[count];
      matrix time = product(level, {1, 0}, 0)[count], mixed = product(level, mixed_aim(), 0)[count];
      if (limit_ != infinite) {
        c.mu = raise(c, worth_, c.worth, &stage_entry::least_worth, most_);
        if (c.worth.least() <= most_ && !alone_) {
          raise(c, {1, 0}, time, &stage_entry::least_time, infinite);
          raise(c, mixed_aim(), mixed, &stage_entry::least_mixed, infinite);
        }
      }
      for (std::size_t e = 0; e < entries_.size(); ++e) {
        if (c.memory.at[e] + level > limit_) continue;
        entries_[e].least_time = std::min(entries_[e].least_time, time.at[e]);
        entries_[e].least_worth = std::min(entries_[e].least_worth, c.worth.at[e]);
        entries_[e].least_mixed = std::min(entries_[e].least_mixed, mixed.at[e]);
      }
      cases_.push_back(std::move(c));
    }
  }
  // Raises the bounds of a case for an aim by a multiplier per byte, found where the lines of two choices, one above and one
  // below the limit, meet; returns it. `stop`: bounds above it are of no use, per entry and exit or `most`.
  double raise(stage_case const& c, aim a, matrix& bounds, double stage_entry::*stop, double most) {
    const double room = limit_ - c.level;
    std::size_t best = 0;
    double least = infinite, found = 0;
    for (std::size_t e = 0; e < entries_.size(); ++e)
      if (c.memory.at[e] <= room && bounds.at[e] < least) {
        least = bounds.at[e];
        best = e;
      }
    if (least == infinite || least >= entries_[best].*stop) return 0;
    const std::size_t count = static_cast<std::size_t>(c.replays);
    const int i = static_cast<int>(best) / columns_, j = static_cast<int>(best) % columns_;
    line above = decode(c, a, 0, a, i, j);
    if (above.memory <= room) return 0;
    line below = decode(c, {0, 0}, 1, a, i, j);
    for (int round = 0; round < 8 && bounds.least() <= most && bounds.at[best] < entries_[best].*stop; ++round) {
      const double mu = (below.worth - above.worth) / (above.memory - below.memory);
      if (!(mu > 0)) break;
      const matrix m = product(c.level, a, mu)[count];
      if (m.at[best] - mu * room > bounds.at[best]) found = mu;
      for (std::size_t e = 0; e < entries_.size(); ++e) bounds.at[e] = std::max(bounds.at[e], m.at[e] - mu * room);
      const line now = decode(c, a, mu, a, i, j);
      if (now.worth + mu * now.memory >= (above.worth + mu * above.memory) * (1 - 1e-6)) break;
      (now.memory > room ? above : below) = now;
    }
    return found;
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
    r.memory = r.cost.held + in_flight_ * r.cost.flight;
    return r;
  }

  grid_solver* g_;
  std::vector<run_of_segments> runs_;
  std::vector<int> kinds_;
  int in_flight_, rows_ = 0, columns_ = 0, counted_ = 0;
  aim worth_;
  double limit_, most_, most_worth_ = 0;
  bool alone_;
  std::vector<stage_case> cases_;
  std::vector<stage_entry> entries_;
  // by kind, whether it is run again, level, aim, multiplier, entry, exit
  std::map<std::tuple<int, bool, double, double, double, double, int, int>, way_through> decoded_;
};

}  // namespace partita::spaces
