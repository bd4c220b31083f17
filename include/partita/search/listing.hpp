// Ways through a stage, listed: those worth at most a cap, all of them (`list_all`), or some good ones (`sketch`).
//
// Columns are ways through one segment that some place in the stage could afford, by what must be paid before and after at
// least. Labels join them from segment to segment; one that another beats in time, step, memory and what runs is dropped.
#pragma once
#include <cmath>

#include <partita/search/mixing.hpp>

namespace partita::spaces {

struct stage_limits {
  long columns = 100000, labels = 200000;
};

class stage_listing {
 public:
  explicit stage_listing(stage_problem& s, stage_limits allowed) : s_(s), allowed_(allowed) {}

  // All ways from i to j worth at most `cap`, into the stage's entry. False, and nothing changed, when there are too many.
  bool list_all(int i, int j, double cap) {
    stage_entry& e = s_.at(i, j);
    std::vector<stage_point> found;
    for (stage_case const& c : s_.cases())
      if (c.worth(i, j) <= cap && c.memory(i, j) + c.level <= s_.limit() && !list(c, i, j, cap, false, found)) return false;
    keep_best(found);
    e.points = std::move(found);
    e.solved = cap >= s_.most_worth() ? infinite : cap;
    if (e.solved == infinite && e.points.empty()) e.least_worth = e.least_time = infinite;
    return true;
  }
  // Good ways from i to j among few: through each segment the cheapest under some multipliers.
  void sketch(int i, int j) {
    stage_entry& e = s_.at(i, j);
    if (e.sketched || !e.points.empty()) return;
    e.sketched = true;
    e.points = stage_mixing(s_).ways(i, j);
    keep_best(e.points);
    if (!e.points.empty()) return;
    for (double most : {1.1, 1.5}) {
      std::vector<stage_point> found;
      for (stage_case const& c : s_.cases())
        if (c.worth(i, j) <= e.least_worth * most && c.memory(i, j) + c.level <= s_.limit())
          list(c, i, j, e.least_worth * most, true, found);
      if (found.empty()) continue;
      keep_best(found);
      e.points = std::move(found);
      return;
    }
  }

 private:
  struct column {
    double time, step, memory, running;
    segment_choice chosen;
  };
  struct label {
    double time, step, memory, running;
    int before, column, from, again;  // the label, the column, the boundary and whether the segment is run again
  };
  using by_boundary = std::vector<double>;  // [boundary * counts + count]

  // What must be paid at least, and the columns, of one case.
  struct frame {
    std::vector<by_boundary> before, after, lean;  // lean: memory after
    std::size_t counts;
    std::size_t at(int boundary, std::size_t count) const { return static_cast<std::size_t>(boundary) * counts + count; }
    std::size_t next(std::size_t count, int again) const { return std::min(count + static_cast<std::size_t>(again), counts - 1); }
  };
  matrix const& worth(std::size_t q, int again, stage_case const& c) {
    return s_.block(s_.kinds()[q], again == 1, c.level, s_.worth(), c.mu);
  }
  matrix const& memory(std::size_t q, int again, stage_case const& c) {
    return s_.block(s_.kinds()[q], again == 1, c.level, {0, 0}, 1);
  }
  template <class Visit> static void each_way(matrix const& m, Visit&& visit) {
    for (int r = 0; r < m.rows; ++r)
      for (int to = 0; to < m.columns; ++to)
        if (m(r, to) < infinite) visit(r, to, m(r, to));
  }
  frame measure(stage_case const& c, int i, int j) {
    const std::size_t n = s_.kinds().size();
    frame f;
    f.counts = static_cast<std::size_t>(s_.counted()) + 1;
    f.before.resize(n + 1);
    f.after.resize(n + 1);
    f.before[0].assign(static_cast<std::size_t>(s_.entries()) * f.counts, infinite);
    f.before[0][f.at(i, 0)] = 0;
    for (std::size_t q = 0; q < n; ++q) {
      f.before[q + 1].assign(static_cast<std::size_t>(worth(q, 0, c).columns) * f.counts, infinite);
      for (int again = 0; again < 2; ++again)
        each_way(worth(q, again, c), [&](int r, int to, double pay) {
          for (std::size_t k = 0; k < f.counts; ++k) {
            double& b = f.before[q + 1][f.at(to, f.next(k, again))];
            b = std::min(b, f.before[q][f.at(r, k)] + pay);
          }
        });
    }
    f.after[n].assign(static_cast<std::size_t>(s_.exits()) * f.counts, infinite);
    f.after[n][f.at(j, static_cast<std::size_t>(c.replays))] = 0;
    f.lean = f.after;
    auto back = [&](std::vector<by_boundary>& to, std::size_t q, int again, matrix const& m) {
      each_way(m, [&](int r, int exit, double pay) {
        for (std::size_t k = 0; k < f.counts; ++k) {
          double& b = to[q][f.at(r, k)];
          b = std::min(b, pay + to[q + 1][f.at(exit, f.next(k, again))]);
        }
      });
    };
    for (std::size_t q = n; q-- > 0;) {
      f.after[q].assign(static_cast<std::size_t>(worth(q, 0, c).rows) * f.counts, infinite);
      f.lean[q] = f.after[q];
      for (int again = 0; again < 2; ++again) {
        back(f.after, q, again, worth(q, again, c));
        back(f.lean, q, again, memory(q, again, c));
      }
    }
    return f;
  }

  using columns_of_kind = std::vector<std::vector<column>>;  // [(entry * exits + exit) * 2 + again]
  bool make_columns(stage_case const& c, frame const& f, double ceiling, bool few, std::map<int, columns_of_kind>& all) {
    const std::size_t n = s_.kinds().size();
    const double slack = 1e-12 * std::abs(ceiling);
    std::vector<wanted_columns> wanted;
    for (std::size_t q = 0; q < n; ++q) {
      const int kind = s_.kinds()[q];
      if (all.count(kind)) continue;
      columns_of_kind& of = all[kind];
      const int exits = worth(q, 0, c).columns;
      of.resize(worth(q, 0, c).at.size() * 2);
      bool good = true;
      for (int again = 0; again < 2; ++again)
        each_way(worth(q, again, c), [&](int r, int to, double pay) {
          double most = -infinite;
          for (std::size_t at = q; at < n; ++at)
            if (s_.kinds()[at] == kind)
              for (std::size_t k = 0; k < f.counts; ++k) {
                const double b = f.before[at][f.at(r, k)], a = f.after[at + 1][f.at(to, f.next(k, again))];
                if (b < infinite && a < infinite) most = std::max(most, ceiling - b - a);
              }
          if (!good || most + slack < pay) return;
          std::vector<column>& into = of[static_cast<std::size_t>((r * exits + to) * 2 + again)];
          if (few) wanted.push_back({again, r, to, &into});
          else good = list_columns(kind, again == 1, c, r, to, most + slack, into);
        });
      if (!good) return false;
      sketch_columns(kind, c, wanted);
      wanted.clear();
    }
    return true;
  }
  bool list_columns(int kind, bool replays, stage_case const& c, int r, int to, double most, std::vector<column>& into) {
    for (auto& x : s_.grid().kind(kind)) {
      if (x.replays != replays || !x.runs_in(c.level)) continue;
      const double least = x.by->run(grid_solver::weigh(s_.worth(), c.mu, s_.in_flight(), replays))(r, to);
      if (least > most) continue;
      const bool all = x.by->each(r, to, most - least, [&](std::vector<int> const& options) {
        if (++columns_made_ > allowed_.columns) return false;
        add_column(x, options, into);
        return true;
      });
      if (!all) return false;
    }
    return true;
  }
  struct wanted_columns {
    int again, entry, exit;
    std::vector<column>* into;
  };
  void sketch_columns(int kind, stage_case const& c, std::vector<wanted_columns> const& wanted) {
    if (wanted.empty()) return;
    const std::vector<aim> aims = s_.aims();
    for (double factor : {0.0, 0.5, 1.0, 2.0}) {
      if (c.mu == 0 && factor > 0) break;
      for (aim const& a : aims)
        for (auto& x : s_.grid().kind(kind)) {
          if (!x.runs_in(c.level)) continue;
          bool ran = false;
          for (wanted_columns const& w : wanted) {
            if (x.replays != (w.again == 1)) continue;
            if (!ran) x.by->run(grid_solver::weigh(a, factor * c.mu, s_.in_flight(), x.replays));
            ran = true;
            add_column(x, x.by->decode(w.entry, w.exit), *w.into);
          }
        }
    }
  }
  void add_column(grid_solver::piece& x, std::vector<int> const& options, std::vector<column>& into) {
    const segment_cost s = cost_in_stage(cost_of(x.by->of(), options.data()), x.replays);
    if (s.replay > s_.limit()) return;
    const double memory = bytes_held(s, s_.in_flight());
    for (column const& o : into)
      if (o.time <= s.time && o.step <= s.step && o.memory <= memory && o.running <= s.replay) return;
    std::erase_if(into, [&](column const& o) {
      return s.time <= o.time && s.step <= o.step && memory <= o.memory && s.replay <= o.running;
    });
    into.push_back({s.time, s.step, memory, s.replay, {x.variant, options}});
  }

  bool list(stage_case const& c, int i, int j, double cap, bool few, std::vector<stage_point>& found) {
    const std::size_t n = s_.kinds().size();
    const double room = s_.limit() == infinite ? 0 : s_.limit() - c.level, ceiling = cap + c.mu * room;
    const double slack = 1e-12 * std::abs(ceiling);
    const frame f = measure(c, i, j);
    std::map<int, columns_of_kind> columns;
    if (!make_columns(c, f, ceiling, few, columns)) return false;
    std::vector<std::vector<std::vector<label>>> at(n + 1);  // [place][boundary * counts + count]
    at[0].resize(f.before[0].size());
    at[0][f.at(i, 0)].push_back({0, 0, 0, c.level, -1, -1, -1, 0});
    for (std::size_t q = 0; q < n; ++q) {
      const matrix shape = worth(q, 0, c);
      std::vector<std::vector<label>> made(f.after[q + 1].size());
      for (int r = 0; r < shape.rows; ++r)
        for (std::size_t k = 0; k < f.counts; ++k) {
          auto const& here = at[q][f.at(r, k)];
          if (here.empty()) continue;
          for (int to = 0; to < shape.columns; ++to)
            for (int again = 0; again < 2; ++again) {
              const std::size_t next = f.at(to, f.next(k, again));
              auto const& ways = columns[s_.kinds()[q]][static_cast<std::size_t>((r * shape.columns + to) * 2 + again)];
              for (std::size_t h = 0; h < here.size(); ++h)
                for (std::size_t w = 0; w < ways.size(); ++w) {
                  const label x{here[h].time + ways[w].time,
                                here[h].step + ways[w].step,
                                here[h].memory + ways[w].memory,
                                std::max(here[h].running, ways[w].running),
                                static_cast<int>(h),
                                static_cast<int>(w),
                                r,
                                again + 2 * static_cast<int>(k)};
                  if (s_.worth().time * x.time + s_.worth().step * x.step + c.mu * x.memory + f.after[q + 1][next] >
                      ceiling + slack)
                    continue;
                  if (x.memory + f.lean[q + 1][next] + x.running > s_.limit()) continue;
                  made[next].push_back(x);
                  if (++labels_made_ > allowed_.labels) return false;
                }
            }
        }
      at[q + 1].resize(made.size());
      for (std::size_t b = 0; b < made.size(); ++b) at[q + 1][b] = undominated(std::move(made[b]));
    }
    auto const& ends = at[n][f.at(j, static_cast<std::size_t>(c.replays))];
    for (std::size_t e = 0; e < ends.size(); ++e) {
      stage_point p{ends[e].time, ends[e].step, std::vector<segment_choice>(n)};
      int index = static_cast<int>(e), exit = j;
      std::size_t count = static_cast<std::size_t>(c.replays);
      for (std::size_t q = n; q-- > 0;) {
        label const& x = at[q + 1][f.at(exit, count)][static_cast<std::size_t>(index)];
        const int exits = worth(q, 0, c).columns;
        p.segments[q] = columns[s_.kinds()[q]][static_cast<std::size_t>((x.from * exits + exit) * 2 + x.again % 2)]
                               [static_cast<std::size_t>(x.column)]
                                   .chosen;
        index = x.before;
        exit = x.from;
        count = static_cast<std::size_t>(x.again / 2);
      }
      found.push_back(std::move(p));
    }
    return true;
  }
  static constexpr double rounding = 1e-12;
  static std::vector<label> undominated(std::vector<label> made) {
    std::sort(made.begin(), made.end(), [](label const& x, label const& y) {
      return std::tie(x.time, x.step, x.memory, x.running) < std::tie(y.time, y.step, y.memory, y.running);
    });
    std::vector<label> kept;
    for (label const& x : made) {
      // Sums of equal costs in another order differ in their last digits.
      const double step = x.step * (1 + rounding), memory = x.memory * (1 + rounding), running = x.running * (1 + rounding);
      bool beaten = false;  // the last ones are the likeliest to
      for (std::size_t k = kept.size(); k-- > 0 && !beaten;)
        beaten = kept[k].step <= step && kept[k].memory <= memory && kept[k].running <= running;
      if (!beaten) kept.push_back(x);
    }
    return kept;
  }

  stage_problem& s_;
  stage_limits allowed_;
  long columns_made_ = 0, labels_made_ = 0;
};

}  // namespace partita::spaces
