// One stage of a pipeline, exactly: the cheapest ways through a run of segments on one grid within a memory limit, by
// every entry and exit.
//
// Its memory is linear in the choices but for the largest segment's own (`replay`). That one is cut into levels: which
// variants may be used, by the least that each needs while it runs; what is left of the limit is for the sum. For a level
// a multiplier per byte gives a lower bound (Lagrange); `solve` then lists every choice that is worth at most a cap, by
// the columns whose reduced cost allows it, joined by labels.
#pragma once
#include <map>
#include <memory>
#include <tuple>

#include <partita/search/eliminate.hpp>

namespace partita::spaces {

// What is made small: time per micro-batch and time per step with these factors.
struct aim {
  double time = 1, step = 0;
};

class grid_solver {
 public:
  struct piece {
    std::unique_ptr<eliminator> by;
    int variant = 0;
    bool replays = false;
    double least_running = 0;  // it needs at least this while it runs
    bool has_kept_twin = false;  // the same costs without running again: faster, if more memory
  };
  explicit grid_solver(grid_choice const& g) {
    for (auto const& variants : g.kinds) {
      kinds_.emplace_back();
      for (std::size_t v = 0; v < variants.size(); ++v) {
        piece x;
        x.by = std::make_unique<eliminator>(*variants[v].costs);
        x.variant = static_cast<int>(v);
        x.replays = variants[v].replays;
        table const& t = *variants[v].costs;
        for (int u = 0; u < t.variables(); ++u) {
          double least = infinite;
          for (int i = 0; i < t.options[static_cast<std::size_t>(u)]; ++i)
            least = std::min(least, t.own.transient(t.index(u, i)));
          x.least_running = std::max(x.least_running, least);
        }
        for (variant const& other : variants)
          x.has_kept_twin = x.has_kept_twin || (x.replays && !other.replays && other.costs == variants[v].costs);
        if (x.replays) x.least_running += x.by->run({0, 0, 0, 0, 0, 1}).least();
        kinds_.back().push_back(std::move(x));
      }
    }
  }
  std::vector<piece>& kind(int k) { return kinds_[static_cast<std::size_t>(k)]; }
  static weights weigh(aim a, double mu, int in_flight, bool replays) {
    return {replays ? 2 * a.time : a.time, a.time, a.step, mu, mu * in_flight, replays ? 0 : mu * in_flight};
  }
  // The cheapest way through a segment by the variants of a level.
  matrix const& block(int kind_id, double level, aim a, double mu, int in_flight) {
    if (mu == 0) in_flight = 1;  // it makes no difference then
    const key k{kind_id, level, a.time, a.step, mu, in_flight};
    const auto known = blocks_.find(k);
    if (known != blocks_.end()) return known->second;
    matrix r;
    for (piece& x : kind(kind_id)) {
      if (x.least_running > level || (mu == 0 && x.has_kept_twin)) continue;
      matrix const& m = x.by->run(weigh(a, mu, in_flight, x.replays));
      if (r.at.empty()) r = m;
      else
        for (std::size_t i = 0; i < r.at.size(); ++i) r.at[i] = std::min(r.at[i], m.at[i]);
    }
    return blocks_.emplace(k, std::move(r)).first->second;
  }
  // No way through the segment is worth more.
  double most(int kind_id, aim a) {
    double most = 0;
    for (piece& x : kind(kind_id)) {
      const weights w = weigh(a, 0, 1, x.replays);
      table const& t = x.by->of();
      double sum = 0;
      auto largest = [&](cost_list const& costs, std::size_t first, std::size_t count) {
        std::vector<double> each(count, 0.0);
        costs.add(w, first, count, each.data());
        return *std::max_element(each.begin(), each.end());
      };
      for (std::size_t v = 0; v < t.options.size(); ++v) sum += largest(t.own, t.first[v], static_cast<std::size_t>(t.options[v]));
      for (table::pair const& p : t.pairs)
        sum += largest(t.pair_costs, p.first,
                       static_cast<std::size_t>(t.options[static_cast<std::size_t>(p.a)]) * static_cast<std::size_t>(t.options[static_cast<std::size_t>(p.b)]));
      most = std::max(most, sum);
    }
    return most * (1 + 1e-9);
  }
  long eliminations() const {
    long n = 0;
    for (auto const& k : kinds_)
      for (piece const& x : k) n += x.by->runs();
    return n;
  }
  // What was found under multipliers is of use to one configuration alone.
  void forget() {
    std::erase_if(blocks_, [](auto const& b) { return std::get<4>(b.first) > 0; });
  }

 private:
  using key = std::tuple<int, double, double, double, double, int>;
  std::vector<std::vector<piece>> kinds_;
  std::map<key, matrix> blocks_;
};

struct run_of_segments {
  int kind = 0, count = 0;
  bool operator<(run_of_segments const& o) const { return std::tie(kind, count) < std::tie(o.kind, o.count); }
};

// A way through a stage.
struct stage_point {
  double time = 0, step = 0;
  std::vector<segment_choice> segments;
};
struct stage_entry {
  double least_time = infinite;   // of any way from this entry to this exit
  double least_worth = infinite;  // of `worth`, the second aim
  double solved = -infinite;      // every way worth at most this is among the points, or no better than one of them
  bool stuck = false;             // more ways than may be listed
  std::vector<stage_point> points;
};

struct stage_limits {
  long columns = 200000, labels = 200000;
};

class stage_problem {
 public:
  // `worth`: what is made small first, the time of all micro-batches and of the step. `limit`: bytes. `most`: ways worth
  // more are of no interest.
  stage_problem(grid_solver& g, std::vector<run_of_segments> runs, int in_flight, aim worth, double limit, double most)
      : g_(&g), runs_(std::move(runs)), in_flight_(in_flight), worth_(worth), limit_(limit), most_(most) {
    for (run_of_segments const& r : runs_)
      for (int i = 0; i < r.count; ++i) kinds_.push_back(r.kind);
    for (run_of_segments const& r : runs_) most_worth_ += r.count * g_->most(r.kind, worth_);
    bound();
  }
  int entries() const { return rows_; }
  int exits() const { return columns_; }
  stage_entry& at(int i, int j) { return entries_[static_cast<std::size_t>(i * columns_ + j)]; }
  stage_entry const& at(int i, int j) const { return entries_[static_cast<std::size_t>(i * columns_ + j)]; }
  double least_memory() const { return least_memory_; }

  // Lists all ways from i to j worth at most `cap`. False, and nothing changed, when there are too many.
  bool solve(int i, int j, double cap, stage_limits const& allowed) {
    std::vector<stage_point> found;
    long columns = 0, labels = 0;
    for (level_bound const& l : levels_) {
      if (l.worth(i, j) > cap || l.memory(i, j) + l.level > limit_) continue;
      if (!list(l, i, j, cap, allowed, columns, labels, found)) return false;
    }
    keep_best(found);
    stage_entry& e = at(i, j);
    e.points = std::move(found);
    e.solved = cap >= most_worth_ ? infinite : cap;
    if (e.solved == infinite && e.points.empty()) e.least_worth = e.least_time = infinite;
    return true;
  }

 private:
  struct level_bound {
    double level = 0, mu = 0;
    matrix worth, memory;
  };
  struct column {
    double time, step, memory, running, value;
    segment_choice chosen;
  };
  struct label {
    double time, step, memory, running;
    int before, column;
  };

  matrix product(double level, aim a, double mu) {
    matrix all;
    for (run_of_segments const& r : runs_) {
      matrix power = g_->block(r.kind, level, a, mu, in_flight_), some;
      for (int n = r.count; n > 0; n /= 2) {
        if (n % 2 == 1) some = some.at.empty() ? power : through(some, power);
        if (n > 1) power = through(power, power);
      }
      all = all.at.empty() ? some : through(all, some);
    }
    return all;
  }
  std::vector<double> possible_levels() {
    std::vector<double> levels;
    double least = 0;
    for (run_of_segments const& r : runs_) {
      double own = infinite;
      for (auto const& x : g_->kind(r.kind)) own = std::min(own, x.least_running);
      least = std::max(least, own);
    }
    for (run_of_segments const& r : runs_)
      for (auto const& x : g_->kind(r.kind)) levels.push_back(std::max(least, x.least_running));
    std::sort(levels.begin(), levels.end());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    return levels;
  }
  void bound() {
    const aim memory{0, 0};
    for (double level : possible_levels()) {
      level_bound l;
      l.level = level;
      l.memory = product(level, memory, 1);
      if (rows_ == 0) {
        rows_ = l.memory.rows;
        columns_ = l.memory.columns;
        entries_.resize(l.memory.at.size());
      }
      least_memory_ = std::min(least_memory_, l.memory.least() + level);
      if (l.memory.least() + level > limit_) continue;
      l.worth = product(level, worth_, 0);
      if (l.worth.least() > most_) continue;
      matrix time = product(level, {1, 0}, 0);
      if (limit_ != infinite) raise(l, time);
      for (std::size_t e = 0; e < entries_.size(); ++e) {
        if (l.memory.at[e] + level > limit_) continue;
        entries_[e].least_time = std::min(entries_[e].least_time, time.at[e]);
        entries_[e].least_worth = std::min(entries_[e].least_worth, l.worth.at[e]);
      }
      levels_.push_back(std::move(l));
    }
  }
  // Raises the bounds of a level by a multiplier per byte, found where the lines of two choices, one above and one below
  // the limit, meet.
  void raise(level_bound& l, matrix& time) {
    const double room = limit_ - l.level;
    std::size_t best = 0;
    double least = infinite;
    for (std::size_t e = 0; e < entries_.size(); ++e)
      if (l.memory.at[e] <= room && l.worth.at[e] < least) {
        least = l.worth.at[e];
        best = e;
      }
    if (least == infinite) return;
    const int i = static_cast<int>(best) / columns_, j = static_cast<int>(best) % columns_;
    line above = decode(l.level, worth_, 0, i, j);
    if (above.memory <= room) return;
    line below = decode(l.level, {0, 0}, 1, i, j);
    for (int round = 0; round < 8 && l.worth.least() <= most_; ++round) {
      const double mu = (below.worth - above.worth) / (above.memory - below.memory);
      if (!(mu > 0)) break;
      const matrix m = product(l.level, worth_, mu);
      const double before = l.worth.at[best];
      if (m.at[best] - mu * room > before) l.mu = mu;
      for (std::size_t e = 0; e < entries_.size(); ++e) l.worth.at[e] = std::max(l.worth.at[e], m.at[e] - mu * room);
      const line now = decode(l.level, worth_, mu, i, j);
      if (now.worth + mu * now.memory >= (above.worth + mu * above.memory) * (1 - 1e-6)) break;
      (now.memory > room ? above : below) = now;
    }
    if (l.mu == 0) return;
    const double mu = l.mu / worth_.time;
    const matrix t = product(l.level, {1, 0}, mu);
    for (std::size_t e = 0; e < entries_.size(); ++e) time.at[e] = std::max(time.at[e], t.at[e] - mu * room);
  }
  struct line {
    double worth, memory;
  };
  // The worth and memory of the cheapest way from i to j.
  line decode(double level, aim a, double mu, int i, int j) {
    std::vector<matrix const*> blocks;
    for (int k : kinds_) blocks.push_back(&g_->block(k, level, a, mu, in_flight_));
    std::vector<std::vector<double>> best{std::vector<double>(static_cast<std::size_t>(rows_), infinite)};
    best[0][static_cast<std::size_t>(i)] = 0;
    for (matrix const* m : blocks) {
      std::vector<double> next(static_cast<std::size_t>(m->columns), infinite);
      for (int r = 0; r < m->rows; ++r)
        for (int c = 0; c < m->columns; ++c)
          next[static_cast<std::size_t>(c)] = std::min(next[static_cast<std::size_t>(c)], best.back()[static_cast<std::size_t>(r)] + (*m)(r, c));
      best.push_back(std::move(next));
    }
    line total{0, 0};
    int to = j;
    std::map<std::tuple<int, int, int>, line> known;
    for (std::size_t q = kinds_.size(); q-- > 0;) {
      int from = 0;
      double least = infinite;
      for (int r = 0; r < blocks[q]->rows; ++r)
        if (const double v = best[q][static_cast<std::size_t>(r)] + (*blocks[q])(r, to); v < least) {
          least = v;
          from = r;
        }
      const auto [place, fresh] = known.try_emplace({kinds_[q], from, to}, line{0, 0});
      if (fresh) place->second = decode_block(kinds_[q], level, a, mu, from, to);
      total.worth += place->second.worth;
      total.memory += place->second.memory;
      to = from;
    }
    return total;
  }
  line decode_block(int kind, double level, aim a, double mu, int from, int to) {
    grid_solver::piece* best = nullptr;
    double least = infinite;
    for (auto& x : g_->kind(kind)) {
      if (x.least_running > level) continue;
      const double v = x.by->run(grid_solver::weigh(a, mu, in_flight_, x.replays))(from, to);
      if (v < least) {
        least = v;
        best = &x;
      }
    }
    const segment_cost c = cost_in_stage(cost_of(best->by->of(), best->by->decode(from, to).data()), best->replays);
    return {worth_.time * c.time + worth_.step * c.step, c.held + in_flight_ * c.flight};
  }

  // -- listing
  bool list(level_bound const& l, int i, int j, double cap, stage_limits const& allowed, long& columns_made, long& labels_made,
            std::vector<stage_point>& found) {
    const std::size_t n = kinds_.size();
    const double room = limit_ == infinite ? 0 : limit_ - l.level, ceiling = cap + l.mu * room;
    const double slack = 1e-12 * std::abs(ceiling);
    std::vector<matrix const*> worth, memory;
    for (int k : kinds_) {
      worth.push_back(&g_->block(k, l.level, worth_, l.mu, in_flight_));
      memory.push_back(&g_->block(k, l.level, {0, 0}, 1, in_flight_));
    }
    // What is to be paid before and after, at least.
    std::vector<std::vector<double>> before(n + 1), after(n + 1), lean(n + 1);
    before[0].assign(static_cast<std::size_t>(rows_), infinite);
    before[0][static_cast<std::size_t>(i)] = 0;
    for (std::size_t q = 0; q < n; ++q) {
      before[q + 1].assign(static_cast<std::size_t>(worth[q]->columns), infinite);
      for (int r = 0; r < worth[q]->rows; ++r)
        for (int c = 0; c < worth[q]->columns; ++c) {
          double& to = before[q + 1][static_cast<std::size_t>(c)];
          to = std::min(to, before[q][static_cast<std::size_t>(r)] + (*worth[q])(r, c));
        }
    }
    after[n].assign(static_cast<std::size_t>(columns_), infinite);
    after[n][static_cast<std::size_t>(j)] = 0;
    lean[n] = after[n];
    for (std::size_t q = n; q-- > 0;) {
      after[q].assign(static_cast<std::size_t>(worth[q]->rows), infinite);
      lean[q] = after[q];
      for (int r = 0; r < worth[q]->rows; ++r)
        for (int c = 0; c < worth[q]->columns; ++c) {
          double &a = after[q][static_cast<std::size_t>(r)], &b = lean[q][static_cast<std::size_t>(r)];
          a = std::min(a, (*worth[q])(r, c) + after[q + 1][static_cast<std::size_t>(c)]);
          b = std::min(b, (*memory[q])(r, c) + lean[q + 1][static_cast<std::size_t>(c)]);
        }
    }
    // Columns: by kind, entry and exit, every way through the segment that some place in the run could afford.
    std::map<int, std::vector<std::vector<column>>> columns;
    for (std::size_t q = 0; q < n; ++q) {
      if (columns.count(kinds_[q])) continue;
      auto& of_kind = columns[kinds_[q]];
      of_kind.resize(worth[q]->at.size());
      for (int r = 0; r < worth[q]->rows; ++r)
        for (int c = 0; c < worth[q]->columns; ++c) {
          double most = -infinite;
          for (std::size_t at = q; at < n; ++at)
            if (kinds_[at] == kinds_[q])
              most = std::max(most, ceiling - before[at][static_cast<std::size_t>(r)] - after[at + 1][static_cast<std::size_t>(c)]);
          if (most + slack < (*worth[q])(r, c)) continue;
          auto& into = of_kind[static_cast<std::size_t>(r * worth[q]->columns + c)];
          if (!make_columns(kinds_[q], l, r, c, most + slack, allowed, columns_made, into)) return false;
        }
    }
    // Labels.
    std::vector<std::vector<std::vector<label>>> at(n + 1);
    
    at[0].resize(static_cast<std::size_t>(rows_));
    at[0][static_cast<std::size_t>(i)].push_back({0, 0, 0, l.level, -1, -1});
    // where a label came from: the boundary it left, beside its index there
    std::vector<std::vector<std::vector<int>>> came_from(n + 1);
    came_from[0].resize(static_cast<std::size_t>(rows_));
    for (std::size_t q = 0; q < n; ++q) {
      const int exits = worth[q]->columns;
      at[q + 1].resize(static_cast<std::size_t>(exits));
      came_from[q + 1].resize(static_cast<std::size_t>(exits));
      for (int c = 0; c < exits; ++c) {
        std::vector<label> made;
        std::vector<int> from;
        for (int r = 0; r < worth[q]->rows; ++r) {
          auto const& ways = columns[kinds_[q]][static_cast<std::size_t>(r * exits + c)];
          auto const& here = at[q][static_cast<std::size_t>(r)];
          for (std::size_t k = 0; k < here.size(); ++k)
            for (std::size_t w = 0; w < ways.size(); ++w) {
              label x{here[k].time + ways[w].time, here[k].step + ways[w].step, here[k].memory + ways[w].memory,
                      std::max(here[k].running, ways[w].running), static_cast<int>(k), static_cast<int>(w)};
              if (value(x, l.mu) + after[q + 1][static_cast<std::size_t>(c)] > ceiling + slack) continue;
              if (x.memory + lean[q + 1][static_cast<std::size_t>(c)] + x.running > limit_) continue;
              made.push_back(x);
              from.push_back(r);
              if (++labels_made > allowed.labels) return false;
            }
        }
        keep_undominated(made, from, at[q + 1][static_cast<std::size_t>(c)], came_from[q + 1][static_cast<std::size_t>(c)]);
      }
    }
    auto const& ends = at[n][static_cast<std::size_t>(j)];
    for (std::size_t e = 0; e < ends.size(); ++e) {
      stage_point p{ends[e].time, ends[e].step, std::vector<segment_choice>(n)};
      int index = static_cast<int>(e), exit = j;
      for (std::size_t q = n; q-- > 0;) {
        label const& x = at[q + 1][static_cast<std::size_t>(exit)][static_cast<std::size_t>(index)];
        const int entry = came_from[q + 1][static_cast<std::size_t>(exit)][static_cast<std::size_t>(index)];
        p.segments[q] = columns[kinds_[q]][static_cast<std::size_t>(entry * worth[q]->columns + exit)][static_cast<std::size_t>(x.column)].chosen;
        index = x.before;
        exit = entry;
      }
      found.push_back(std::move(p));
    }
    return true;
  }
  double value(label const& x, double mu) const { return worth_.time * x.time + worth_.step * x.step + mu * x.memory; }
  bool make_columns(int kind, level_bound const& l, int r, int c, double most, stage_limits const& allowed, long& made,
                    std::vector<column>& into) {
    for (auto& x : g_->kind(kind)) {
      if (x.least_running > l.level) continue;
      const weights w = grid_solver::weigh(worth_, l.mu, in_flight_, x.replays);
      const double least = x.by->run(w)(r, c);
      if (least > most) continue;
      const bool all = x.by->each(r, c, most - least, [&](std::vector<int> const& options) {
        if (++made > allowed.columns) return false;
        const segment_cost s = cost_in_stage(cost_of(x.by->of(), options.data()), x.replays);
        if (s.replay > limit_) return true;
        const column n{s.time, s.step, s.held + in_flight_ * s.flight, s.replay, 0, {x.variant, options}};
        for (column const& o : into)
          if (o.time <= n.time && o.step <= n.step && o.memory <= n.memory && o.running <= n.running) return true;
        std::erase_if(into, [&](column const& o) {
          return n.time <= o.time && n.step <= o.step && n.memory <= o.memory && n.running <= o.running;
        });
        into.push_back(n);
        return true;
      });
      if (!all) return false;
    }
    return true;
  }
  static void keep_undominated(std::vector<label>& made, std::vector<int>& from, std::vector<label>& kept, std::vector<int>& kept_from) {
    std::vector<int> order(made.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      label const &x = made[static_cast<std::size_t>(a)], &y = made[static_cast<std::size_t>(b)];
      return std::tie(x.time, x.step, x.memory, x.running) < std::tie(y.time, y.step, y.memory, y.running);
    });
    for (int i : order) {
      label const& x = made[static_cast<std::size_t>(i)];
      bool worse = false;
      for (label const& k : kept)
        if (k.step <= x.step && k.memory <= x.memory && k.running <= x.running) {
          worse = true;
          break;
        }
      if (worse) continue;
      kept.push_back(x);
      kept_from.push_back(from[static_cast<std::size_t>(i)]);
    }
  }
  // Of the ways, those that no other beats in both times.
  static void keep_best(std::vector<stage_point>& found) {
    std::sort(found.begin(), found.end(), [](stage_point const& a, stage_point const& b) {
      return std::tie(a.time, a.step) < std::tie(b.time, b.step);
    });
    std::vector<stage_point> kept;
    for (stage_point& p : found)
      if (kept.empty() || p.step < kept.back().step) kept.push_back(std::move(p));
    found = std::move(kept);
  }

  grid_solver* g_;
  std::vector<run_of_segments> runs_;
  std::vector<int> kinds_;
  int in_flight_, rows_ = 0, columns_ = 0;
  aim worth_;
  double limit_, most_, least_memory_ = infinite, most_worth_ = 0;
  std::vector<level_bound> levels_;
  std::vector<stage_entry> entries_;
};

}  // namespace partita::spaces
