// One configuration, exactly: which segments on which stage, on which grid, in which way. Stages are solved as far as it
// takes: a chain of bounds from stage to stage picks the stages that the best plan may be made of, these are listed a
// little further, and so on until the best chain is made of listed ways alone.
#pragma once
#include <cmath>

#include <partita/search/brute_force.hpp>
#include <partita/search/listing.hpp>

namespace partita::spaces {

struct exact_options {
  double tolerance = 0;      // of time: a plan this much above the bound is good enough
  stage_limits listing{};    // where to give up closing the gap
  int rounds = 200;          // per configuration
};

// The grids of a shape with what was found out about them; configurations of one shape share it.
class shape_solver {
 public:
  explicit shape_solver(spaces::shape s) : shape_(std::move(s)) {
    grids_.reserve(shape_.grids.size());
    for (grid_choice const& g : shape_.grids) grids_.emplace_back(g);
  }
  spaces::shape const& of() const { return shape_; }
  grid_solver& grid(int g) { return grids_[static_cast<std::size_t>(g)]; }
  int grids() const { return static_cast<int>(grids_.size()); }
  long eliminations() const {
    long n = 0;
    for (auto const& g : grids_) n += g.eliminations();
    return n;
  }
  void forget() {
    for (auto& g : grids_) g.forget();
  }

 private:
  spaces::shape shape_;
  std::vector<grid_solver> grids_;
};

class configuration_solver {
 public:
  struct answer {
    double bound = infinite;         // no choice of this configuration takes less, or less than what was known before
    double least_memory = infinite;  // a lower bound where there is no choice
    choice best;                     // if better than what was known
    double time = infinite;
    bool open = false;
  };
  configuration_solver(problem const& p, shape_solver& s, int configuration, exact_options const& how)
      : p_(p), s_(s), how_(how), id_(configuration), c_(p.configurations[static_cast<std::size_t>(configuration)]),
        n_(p.segments()), stages_(c_.stages), m_(s.of().micro_batches), fill_(c_.schedule.fill) {}

  // What no choice of the configuration is faster than, soon found: every segment on the grid that suits it best, without
  // a memory limit.
  double first_bound() {
    if (stages_ > n_) return infinite;
    measure_segments();
    return quick_bound();
  }
  // `lists`: as far as it takes. Otherwise until ways would have to be listed; the answer is `open` then. `known`: the time
  // of the best choice known.
  answer solve(double known, bool lists) {
    known_ = known;
    lists_ = lists;
    answer a;
    const double first = first_bound();
    a.bound = first;
    if (first >= enough()) return a;
    // Stages are wide enough when a wider one would be too slow for what is known.
    double width = known_ < infinite ? known_ : first * 1.1;
    for (;;) {
      set_width(width);
      const bool unlimited = known_ == infinite && everything_;
      if (width > width_ || (unlimited && !unlimited_)) {  // bounds stop at the width that they were made for
        solved_.clear();
        width_ = width;
        unlimited_ = unlimited;
      }
      const bool all = known_ < infinite ? width >= known_ : everything_;
      if (iterate(a, all)) return a;
      width = known_ < infinite ? std::max(width, known_) : width * 1.5;
    }
  }

 private:
  struct label {
    double sum = 0, largest = -infinite;  // of time over stages; of what the slowest stage adds
    double crossing = 0;                  // into the stage that follows
    int before = -1;                      // label
    int begin = 0, grid = 0, entry = 0, exit = 0, point = -1;  // the stage that it ends; point -1: a bound
  };
  // Before stage s: states (begin, grid, entry); after it: (end, grid, exit).
  using states = std::vector<std::vector<int>>;

  double enough() const { return known_ * (1 - how_.tolerance); }
  std::vector<int> const& chain() const { return p_.chain; }
  int kind(int segment) const { return chain()[static_cast<std::size_t>(segment)]; }

  void measure_segments() {
    const aim all{static_cast<double>(m_), 1}, share{fill_ + (m_ - fill_) / stages_, 1.0 / stages_};
    std::map<int, std::array<double, 3>> of_kind;
    sum_time_.assign(1, 0);
    sum_worth_.assign(1, 0);
    sum_share_ = 0;
    for (int k : chain()) {
      const auto [place, fresh] = of_kind.try_emplace(k, std::array{infinite, infinite, infinite});
      if (fresh)
        for (int g = 0; g < s_.grids(); ++g) {
          const aim aims[]{{1, 0}, all, share};
          for (std::size_t i = 0; i < 3; ++i)
            place->second[i] = std::min(place->second[i], s_.grid(g).least(k, aims[i]));
        }
      sum_time_.push_back(sum_time_.back() + place->second[0]);
      sum_worth_.push_back(sum_worth_.back() + place->second[1]);
      sum_share_ += place->second[2];
    }
  }
  // The sum of an equal share of every stage; or one stage alone, which has its share of the segments of a kind.
  double quick_bound() const {
    double least = sum_share_;
    std::map<int, std::pair<int, int>> of_kind;  // how many, and one of them
    for (int i = 0; i < n_; ++i) {
      auto& k = of_kind[kind(i)];
      ++k.first;
      k.second = i;
    }
    for (auto const& [name, some] : of_kind) {
      const int together = (some.first + stages_ - 1) / stages_, i = some.second;
      least = std::max(least, together * worth_of(i, i + 1) + fill_ * (sum_time_.back() - together * time_of(i, i + 1)));
    }
    return least;
  }
  double time_of(int begin, int end) const { return sum_time_[static_cast<std::size_t>(end)] - sum_time_[static_cast<std::size_t>(begin)]; }
  double worth_of(int begin, int end) const { return sum_worth_[static_cast<std::size_t>(end)] - sum_worth_[static_cast<std::size_t>(begin)]; }
  // With these segments on one stage no plan takes less.
  double with_stage(int begin, int end) const { return worth_of(begin, end) + fill_ * (sum_time_.back() - time_of(begin, end)); }

  // Which stages are looked at: those that no plan of time `width` rules out, where the rest can be placed.
  void set_width(double width) {
    const double most = width * (1 + 1e-12);
    everything_ = true;
    fits_.assign(static_cast<std::size_t>(n_ * (n_ + 1)), false);
    for (int b = 0; b < n_; ++b)
      if (b == 0 || p_.begins(b))
        for (int e = b + 1; e <= n_; ++e) {
          if (e < n_ && !p_.begins(e)) continue;
          if (with_stage(b, e) <= most) fits_[static_cast<std::size_t>(b * (n_ + 1) + e)] = true;
          else everything_ = false;
        }
    auto clear = [&](std::vector<std::vector<bool>>& v) {
      v.assign(static_cast<std::size_t>(stages_) + 1, std::vector<bool>(static_cast<std::size_t>(n_) + 1, false));
    };
    clear(reached_);
    clear(leads_);
    reached_[0][0] = true;
    for (int s = 0; s < stages_; ++s)
      for (int b = 0; b < n_; ++b)
        if (reached_[static_cast<std::size_t>(s)][static_cast<std::size_t>(b)])
          for (int e = b + 1; e <= n_; ++e)
            if (fits(b, e)) reached_[static_cast<std::size_t>(s) + 1][static_cast<std::size_t>(e)] = true;
    leads_[static_cast<std::size_t>(stages_)][static_cast<std::size_t>(n_)] = true;
    for (int s = stages_; s-- > 0;)
      for (int b = 0; b < n_; ++b)
        for (int e = b + 1; e <= n_; ++e)
          if (fits(b, e) && leads_[static_cast<std::size_t>(s) + 1][static_cast<std::size_t>(e)])
            leads_[static_cast<std::size_t>(s)][static_cast<std::size_t>(b)] = true;
  }
  bool fits(int b, int e) const { return fits_[static_cast<std::size_t>(b * (n_ + 1) + e)]; }
  bool on_a_way(int s, int b) const {
    return reached_[static_cast<std::size_t>(s)][static_cast<std::size_t>(b)] && leads_[static_cast<std::size_t>(s)][static_cast<std::size_t>(b)];
  }

  stage_problem& problem_of(int s, int b, int e, int g) {
    std::vector<run_of_segments> runs;
    for (int i = b; i < e; ++i) {
      if (runs.empty() || runs.back().kind != kind(i)) runs.push_back({kind(i), 0});
      ++runs.back().count;
    }
    const int in_flight = c_.schedule.in_flight(s, stages_, m_);
    auto& place = solved_[{in_flight, g, std::move(runs)}];
    if (!place) {
      std::vector<run_of_segments> again;
      for (int i = b; i < e; ++i) {
        if (again.empty() || again.back().kind != kind(i)) again.push_back({kind(i), 0});
        ++again.back().count;
      }
      const double most = !unlimited_ ? width_ - fill_ * (sum_time_.back() - time_of(b, e)) : infinite;
      place = std::make_unique<stage_problem>(s_.grid(g), std::move(again), in_flight, aim{static_cast<double>(m_), 1}, p_.limit,
                                              most * (1 + 1e-12));
    }
    return *place;
  }

  struct stage_ref {
    int begin, end, grid;
    stage_problem* of;
  };
  std::vector<std::vector<stage_ref>> collect() {
    std::vector<std::vector<stage_ref>> all(static_cast<std::size_t>(stages_));
    for (int s = 0; s < stages_; ++s)
      for (int b = 0; b < n_; ++b) {
        if (!on_a_way(s, b)) continue;
        for (int e = b + 1; e <= n_; ++e)
          if (fits(b, e) && leads_[static_cast<std::size_t>(s) + 1][static_cast<std::size_t>(e)])
            for (int g = 0; g < s_.grids(); ++g) all[static_cast<std::size_t>(s)].push_back({b, e, g, &problem_of(s, b, e, g)});
      }
    return all;
  }
  // Numbers for (place in the chain, grid, boundary).
  void number_states() {
    widest_ = 1;
    for (int g = 0; g < s_.grids(); ++g)
      for (int k : chain()) {
        table const& t = s_.grid(g).kind(k).front().by->of();
        widest_ = std::max({widest_, t.entries(), t.exits()});
      }
  }
  std::size_t state(int place, int g, int boundary) const {
    return static_cast<std::size_t>((place * s_.grids() + g) * widest_ + boundary);
  }
  std::size_t state_count() const { return state(n_ + 1, 0, 0); }
  int entries_at(int place, int g) { return s_.grid(g).kind(kind(place)).front().by->of().entries(); }
  int exits_at(int place, int g) { return s_.grid(g).kind(kind(place - 1)).front().by->of().exits(); }

  // The least sum of times from entering stage s in a state; `out`: from leaving stage s - 1 in one.
  void look_ahead(std::vector<std::vector<stage_ref>> const& all) {
    ahead_in_.assign(static_cast<std::size_t>(stages_) + 1, std::vector<double>(state_count(), infinite));
    ahead_out_ = ahead_in_;
    for (int g = 0; g < s_.grids(); ++g)
      for (int j = 0; j < exits_at(n_, g); ++j) ahead_out_[static_cast<std::size_t>(stages_)][state(n_, g, j)] = 0;
    for (int s = stages_; s-- > 0;) {
      auto& in = ahead_in_[static_cast<std::size_t>(s)];
      auto const& out = ahead_out_[static_cast<std::size_t>(s) + 1];
      for (stage_ref const& r : all[static_cast<std::size_t>(s)])
        for (int i = 0; i < r.of->entries(); ++i) {
          double& to = in[state(r.begin, r.grid, i)];
          for (int j = 0; j < r.of->exits(); ++j) to = std::min(to, r.of->at(i, j).least_time + out[state(r.end, r.grid, j)]);
        }
      if (s == 0) return;
      for (int b = 1; b < n_; ++b)
        if (on_a_way(s, b))
          for (int g = 0; g < s_.grids(); ++g)
            for (int j = 0; j < exits_at(b, g); ++j) {
              double& to = ahead_out_[static_cast<std::size_t>(s)][state(b, g, j)];
              for (int h = 0; h < s_.grids(); ++h)
                for (int i = 0; i < entries_at(b, h); ++i)
                  to = std::min(to, s_.of().crossing(g, h, kind(b), j, i) + in[state(b, h, i)]);
            }
    }
  }

  void add(std::vector<int>& of_state, label const& l, double rest) {
    if (rest == infinite || l.largest == infinite || fill_ * (l.sum + rest) + l.largest >= enough()) return;
    for (int k : of_state) {
      label const& o = labels_[static_cast<std::size_t>(k)];
      if (o.sum <= l.sum && o.largest <= l.largest && o.crossing <= l.crossing) return;
    }
    std::erase_if(of_state, [&](int k) {
      label const& o = labels_[static_cast<std::size_t>(k)];
      return l.sum <= o.sum && l.largest <= o.largest && l.crossing <= o.crossing;
    });
    of_state.push_back(static_cast<int>(labels_.size()));
    labels_.push_back(l);
  }
  // What ways that are not listed may be at best, in steps along the line that time and worth trade on: the less time per
  // micro-batch, the more per step.
  template <class Visit> void bounds_of(stage_entry const& e, Visit&& visit) const {
    constexpr int steps = 4;
    const double worth = std::max(e.least_worth, e.solved), meets = (4 * e.least_mixed - worth) / (3 * m_);
    if (stages_ == 1 || !(meets > e.least_time)) return visit(e.least_time, worth);
    for (int k = 0; k < steps; ++k) {
      const double from = e.least_time + k * (meets - e.least_time) / steps, to = e.least_time + (k + 1) * (meets - e.least_time) / steps;
      visit(from, std::max(worth, 4 * e.least_mixed - 3 * m_ * to));
    }
    visit(meets, worth);
  }
  // The best chain of bounds and listed ways; -1: none is fast enough.
  int best_chain(std::vector<std::vector<stage_ref>> const& all) {
    labels_.clear();
    states in(state_count()), out;
    for (int g = 0; g < s_.grids(); ++g)
      for (int i = 0; i < entries_at(0, g); ++i) add(in[state(0, g, i)], label{}, ahead_in_[0][state(0, g, i)] == infinite ? infinite : 0);
    for (int s = 0; s < stages_; ++s) {
      out.assign(state_count(), {});
      for (stage_ref const& r : all[static_cast<std::size_t>(s)])
        for (int i = 0; i < r.of->entries(); ++i)
          for (int from : in[state(r.begin, r.grid, i)])
            for (int j = 0; j < r.of->exits(); ++j) {
              const double rest = ahead_out_[static_cast<std::size_t>(s) + 1][state(r.end, r.grid, j)];
              if (rest == infinite) continue;
              stage_entry const& e = r.of->at(i, j);
              const label before = labels_[static_cast<std::size_t>(from)];
              auto extend = [&](double time, double more, int point) {
                label l;
                l.sum = before.sum + time;
                l.largest = std::max(before.largest, more + (m_ - fill_) * before.crossing);
                l.before = from;
                l.begin = r.begin;
                l.grid = r.grid;
                l.entry = i;
                l.exit = j;
                l.point = point;
                add(out[state(r.end, r.grid, j)], l, rest);
              };
              for (std::size_t k = 0; k < e.points.size(); ++k)
                extend(e.points[k].time, (m_ - fill_) * e.points[k].time + e.points[k].step, static_cast<int>(k));
              if (e.least_worth < infinite && e.solved < infinite) bounds_of(e, [&](double time, double worth) {
                extend(time, worth - fill_ * time, -1);
              });
            }
      if (s + 1 == stages_) break;
      in.assign(state_count(), {});
      auto const& ahead = ahead_in_[static_cast<std::size_t>(s) + 1];
      for (int b = 1; b < n_; ++b)
        if (on_a_way(s + 1, b))
          for (int g = 0; g < s_.grids(); ++g)
            for (int j = 0; j < exits_at(b, g); ++j) {
              auto const& left = out[state(b, g, j)];
              if (left.empty()) continue;
              for (int h = 0; h < s_.grids(); ++h)
                for (int i = 0, entries = entries_at(b, h); i < entries; ++i) {
                  const std::size_t to = state(b, h, i);
                  if (ahead[to] == infinite) continue;
                  const double crossing = s_.of().crossing(g, h, kind(b), j, i);
                  for (int from : left) {
                    label l = labels_[static_cast<std::size_t>(from)];
                    l.crossing = crossing;
                    l.sum += crossing;
                    l.before = from;
                    l.point = -2;
                    add(in[to], l, ahead[to]);
                  }
                }
            }
    }
    int best = -1;
    for (int g = 0; g < s_.grids(); ++g)
      for (int j = 0; j < exits_at(n_, g); ++j)
        for (int k : out[state(n_, g, j)])
          if (best < 0 || time_of(labels_[static_cast<std::size_t>(k)]) < time_of(labels_[static_cast<std::size_t>(best)])) best = k;
    return best;
  }
  double time_of(label const& l) const { return fill_ * l.sum + l.largest; }

  // Labels of stages on a chain, first to last.
  std::vector<label> way_to(int last) const {
    std::vector<label> way;
    for (int k = last; k >= 0; k = labels_[static_cast<std::size_t>(k)].before)
      if (label const& l = labels_[static_cast<std::size_t>(k)]; l.point != -2 && l.before >= 0) way.push_back(l);
    std::reverse(way.begin(), way.end());
    return way;
  }
  int end_of(std::vector<label> const& way, std::size_t s) const { return s + 1 < way.size() ? way[s + 1].begin : n_; }

  // A plan along a chain from the ways listed for its stages: the least sum of times for every slowest stage.
  void take(std::vector<label> const& way, answer& a) {
    struct option {
      double time, largest;
    };
    std::vector<std::vector<option>> of_stage;
    std::vector<double> slowest;
    for (std::size_t s = 0; s < way.size(); ++s) {
      stage_entry const& e = entry_on(way, s);
      const double crossing = s == 0 ? 0 : s_.of().crossing(way[s - 1].grid, way[s].grid, kind(way[s].begin), way[s - 1].exit, way[s].entry);
      of_stage.emplace_back();
      for (stage_point const& p : e.points) {
        of_stage.back().push_back({p.time + crossing, (m_ - fill_) * (p.time + crossing) + p.step});
        slowest.push_back(of_stage.back().back().largest);
      }
    }
    std::vector<std::size_t> best, chosen;
    double least = infinite;
    for (double most : slowest) {
      chosen.clear();
      double sum = 0;
      for (auto const& options : of_stage) {
        std::size_t k = options.size();
        for (std::size_t i = 0; i < options.size(); ++i)
          if (options[i].largest <= most && (k == options.size() || options[i].time < options[k].time)) k = i;
        if (k == options.size()) break;
        chosen.push_back(k);
        sum += options[k].time;
      }
      if (chosen.size() < way.size() || fill_ * sum + most >= least) continue;
      least = fill_ * sum + most;
      best = chosen;
    }
    if (best.empty()) return;
    choice x;
    x.configuration = id_;
    for (std::size_t s = 0; s < way.size(); ++s) x.stages.push_back({way[s].begin, way[s].grid, entry_on(way, s).points[best[s]].segments});
    const total t = time_and_memory(p_, s_.of(), x);
    if (t.memory <= p_.limit && t.time < known_) {
      known_ = a.time = t.time;
      a.best = std::move(x);
    }
  }
  stage_entry& entry_on(std::vector<label> const& way, std::size_t s) {
    return problem_of(static_cast<int>(s), way[s].begin, end_of(way, s), way[s].grid).at(way[s].entry, way[s].exit);
  }

  // Until the best chain is known. False: stages of more kinds must be looked at.
  bool iterate(answer& a, bool all_stages) {
    number_states();
    const auto all = collect();
    a.least_memory = least_memory(all);
    const double known_at_first = known_;
    double bound = 0;
    a.open = false;
    for (int round = 0;; ++round) {
      look_ahead(all);
      const int best = best_chain(all);
      if (best < 0) {
        bound = std::max(bound, enough());
        break;
      }
      const std::vector<label> way = way_to(best);
      bound = std::max(bound, time_of(labels_[static_cast<std::size_t>(best)]));
      take(way, a);
      bool listed = true;
      for (label const& l : way) listed = listed && l.point >= 0;
      if (listed || bound >= enough() || round >= how_.rounds) break;
      if (sketch(way)) {
        take(way, a);
        if (bound >= enough()) break;
      }
      if (!lists_) {
        a.open = true;
        break;
      }
      if (!list_further(way)) break;
      take(way, a);
    }
    a.bound = std::min(bound, known_);
    if (all_stages) return true;
    // What was found rules out the stages that were not looked at, or they are looked at.
    return known_ < infinite && known_at_first == infinite && (unlimited_ || known_ <= width_) && covers(known_);
  }
  bool covers(double time) const {
    for (int b = 0; b < n_; ++b)
      if (b == 0 || p_.begins(b))
        for (int e = b + 1; e <= n_; ++e)
          if ((e == n_ || p_.begins(e)) && !fits(b, e) && with_stage(b, e) < time * (1 - how_.tolerance)) return false;
    return true;
  }
  // Good ways for stages that have none listed. False when there is nothing new.
  bool sketch(std::vector<label> const& way) {
    bool moved = false;
    for (std::size_t s = 0; s < way.size(); ++s) {
      stage_problem& of = problem_of(static_cast<int>(s), way[s].begin, end_of(way, s), way[s].grid);
      stage_entry& e = of.at(way[s].entry, way[s].exit);
      moved = moved || !e.sketched;
      stage_listing(of, how_.listing).sketch(way[s].entry, way[s].exit);
    }
    return moved;
  }
  // False when no stage could be listed further.
  bool list_further(std::vector<label> const& way) {
    bool moved = false;
    for (std::size_t s = 0; s < way.size(); ++s) {
      if (way[s].point >= 0) continue;
      const int end = end_of(way, s);
      stage_problem& of = problem_of(static_cast<int>(s), way[s].begin, end, way[s].grid);
      stage_entry& e = of.at(way[s].entry, way[s].exit);
      if (e.stuck) continue;
      double rest = ahead_out_[s + 1][state(end, way[s].grid, way[s].exit)];
      rest += time_of(0, way[s].begin);
      const double most = !unlimited_ ? width_ - fill_ * rest : infinite, from = std::max(e.least_worth, e.solved);
      double gap = from - e.least_worth;
      for (int tries = 0; tries < 60; ++tries) {
        gap = std::max(gap * 3, std::max(how_.tolerance / 4, 1e-4) * std::abs(from) + 1e-300);
        const double cap = std::min(most, e.least_worth + gap);
        if (!stage_listing(of, how_.listing).list_all(way[s].entry, way[s].exit, cap)) {
          e.stuck = true;
          break;
        }
        moved = true;
        if (!e.points.empty() || cap >= most || e.solved == infinite) break;
      }
    }
    return moved;
  }
  double least_memory(std::vector<std::vector<stage_ref>> const& all) const {
    // the fullest stage of the leanest chain of stages
    std::vector<double> best(static_cast<std::size_t>(n_) + 1, infinite);
    best[0] = 0;
    for (auto const& stage : all) {
      std::vector<double> next(static_cast<std::size_t>(n_) + 1, infinite);
      for (stage_ref const& r : stage) {
        double& to = next[static_cast<std::size_t>(r.end)];
        to = std::min(to, std::max(best[static_cast<std::size_t>(r.begin)], r.of->least_memory()));
      }
      best = std::move(next);
    }
    return best.back();
  }

  problem const& p_;
  shape_solver& s_;
  exact_options const& how_;
  int id_;
  configuration const& c_;
  int n_, stages_;
  double known_ = infinite, m_, fill_;
  bool lists_ = false;
  double width_ = 0;
  bool unlimited_ = false;
  std::vector<double> sum_time_, sum_worth_;
  double sum_share_ = 0;
  bool everything_ = false;
  std::vector<bool> fits_;
  std::vector<std::vector<bool>> reached_, leads_;
  std::map<std::tuple<int, int, std::vector<run_of_segments>>, std::unique_ptr<stage_problem>> solved_;
  int widest_ = 1;
  std::vector<std::vector<double>> ahead_in_, ahead_out_;
  std::vector<label> labels_;
};

}  // namespace partita::spaces
