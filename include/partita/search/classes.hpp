// The gap between the bound of a stage and its best way, closed further where there are too many ways to list.
//
// A multiplier per byte leaves a gap where a few segments are cheap and large, or dear and small, and nothing lies between: the
// bound takes a part of a segment each. So segments are told apart by class, at first by variant; a case is how many segments are
// of each class, and has a bound, a level and a multiplier of its own. The case with the least bound is looked at: where two ways
// meet there, one that fits and one that does not, they differ in some option of some variable, and the class where they do so
// most is divided into segments with that option and segments without. Where a way fits but for what is there while a segment
// runs, a class is divided by that. It goes on until no case is below what is enough.
#pragma once
#include <cmath>
#include <set>

#include <partita/search/class_division.hpp>

namespace partita::spaces {

// Where to stop. Of 8 layers on 64 A100 with barely enough memory the gap is 6.8% after 0.1 million, 1.3% after 10 million, and
// 0.1% after 1,000 million, which take 2.4 times as long as 10 (benchmarks/search.cpp, closing). Segments and cases bound what
// one step may take.
struct class_limits {
  long work = 30'000'000;  // sums and comparisons, per entry and exit of a stage
  // So many times as much for configurations that keep the gap open: the search comes back to them at the end, when the best
  // plan known says how much is enough. Of those 8 layers it leaves 0.10%, before 1.1%, in twice the time.
  int at_last = 32;
  std::size_t segments = 200, cases = 4000;
};

class stage_classes {
 public:
  // `tried`: multipliers that were of use to others; to be tried first.
  stage_classes(stage_problem& s, int entry, int exit, std::vector<double>& tried, class_limits const& allowed)
      : s_(s), allowed_(allowed), entry_(entry), exit_(exit), tried_(tried), mixing_(s) {
    for (int k : s.kinds()) {
      bool known = false;
      for (segment_class const& x : classes_) known = known || x.kind() == k;
      if (known) continue;
      for (auto& piece : s.grid().kind(k)) classes_.emplace_back(k, piece, s.in_flight());
    }
    int may_replay = 0;
    for (int k : s.kinds())
      may_replay += std::any_of(classes_.begin(), classes_.end(), [&](auto const& x) { return x.kind() == k && x.replays(); });
    if (may_replay > 0) share_ = 1.0 / may_replay;
    start();
  }
  // No way is worth less than this. Goes on until it is `enough`, or a way is found that is worth less than `known`, or that is
  // `done`.
  double least(double enough, double known) {
    found_.clear();
    best_ = std::min(best_, known);
    while (!done_ && found_.empty()) {
      std::erase_if(cases_, [&](open_case const& c) {
        if (c.bound < enough) return false;
        beyond_ = std::min(beyond_, c.bound);
        return true;
      });
      if (cases_.empty()) return beyond_;
      open_case& next = *std::min_element(cases_.begin(), cases_.end(), by_bound);
      done_ = next.final || work_ > allowed_.work || !advance(next) || is_full_;
      work_ += work_of_step + static_cast<long>(cases_.size() * classes_.size());
    }
    if (done_) solutions_.clear();
    double least = beyond_;
    for (open_case const& c : cases_) least = std::min(least, c.bound);
    return least;
  }
  // There is no more to find out.
  bool done() const { return done_; }
  // More work would find out more.
  bool cut_short() const { return work_ > allowed_.work; }
  // Ways that fit, met by the last call.
  std::vector<stage_point> const& found() const { return found_; }

 private:
  static constexpr long work_of_step = 10000;  // beside what is counted apart
  static constexpr std::size_t most_multipliers = 4, most_tried = 3;

  using counts = std::vector<short>;  // of segments, per class
  struct open_case {
    counts of;
    double bound = -infinite, rooms[2]{};  // by rule
    int rule = 0;
    bool final = false, has_lines = false, below_runs = false;
    classed_way above, below;  // ways that do not fit, and that do
  };
  // What is there while the largest segment runs again is no less than the average. So it may be counted in two ways, or rules:
  // 0, the least that segments of a class need; 1, an equal share of every segment's own, which is near it where many are alike.
  double share(int rule) const { return rule == 1 ? share_ : 0; }
  static bool by_bound(open_case const& a, open_case const& b) { return a.bound < b.bound; }
  // What the cheapest ways of all cases cost under a multiplier: per place in the stage, by counts so far and boundary.
  using solution = std::vector<std::map<counts, std::vector<double>>>;

  matrix const& run(std::size_t x, double mu, int rule) { return classes_[x].run(s_.worth(), mu, share(rule), work_); }
  void start() {
    if (s_.kinds().size() > allowed_.segments) return give_up();
    std::set<counts> all{counts(classes_.size(), 0)};
    for (int kind : s_.kinds()) {
      std::set<counts> next;
      for (counts const& c : all)
        for (std::size_t x = 0; x < classes_.size(); ++x)
          if (classes_[x].kind() == kind) {
            counts more = c;
            ++more[x];
            next.insert(std::move(more));
          }
      all = std::move(next);
      if (all.size() > allowed_.cases) return give_up();
    }
    for (counts const& c : all) add_case(c, -infinite);
    for (double mu : tried_) multipliers_.push_back({mu, first_rule()});
    for (auto const& [mu, rule] : multipliers_) solve(mu, rule);
    if (tried_.empty()) solve(0, 0);
  }
  void give_up() {
    cases_.assign(1, {});
    cases_.front().final = true;
  }
  int first_rule() const { return share_ > 0 ? 1 : 0; }
  void add_case(counts const& of, double bound) {
    open_case c;
    double level = 0, transient = 0, shares = 0;
    for (std::size_t x = 0; x < of.size(); ++x) {
      if (of[x] == 0) continue;
      level = std::max(level, classes_[x].level());
      if (!classes_[x].replays()) continue;
      shares += of[x] * share_;
      transient += of[x] * share_ * classes_[x].transient();
    }
    if (level > s_.limit()) return;
    c.of = of;
    c.bound = bound;
    c.rule = first_rule();
    c.rooms[0] = s_.limit() - level;
    c.rooms[1] = s_.limit() - transient - std::max(0.0, 1 - shares) * level;
    cases_.push_back(std::move(c));
  }
  // Raises the bounds of all cases.
  solution const& solve(double mu, int rule) {
    if (mu == 0) rule = 0;  // it makes no difference then
    const auto known = solutions_.find({mu, rule});
    if (known != solutions_.end()) return known->second;
    counts most(classes_.size(), 0);
    for (open_case const& c : cases_)
      for (std::size_t x = 0; x < most.size(); ++x) most[x] = std::max(most[x], c.of[x]);
    solution r(s_.kinds().size() + 1);
    r.front()[counts(classes_.size(), 0)].assign(static_cast<std::size_t>(s_.entries()), infinite);
    r.front().begin()->second[static_cast<std::size_t>(entry_)] = 0;
    for (std::size_t q = 0; q < s_.kinds().size(); ++q)
      for (auto const& [so_far, costs] : r[q])
        for (std::size_t x = 0; x < classes_.size(); ++x) {
          if (classes_[x].kind() != s_.kinds()[q] || so_far[x] == most[x]) continue;
          counts more = so_far;
          ++more[x];
          const auto [place, fresh] = r[q + 1].try_emplace(std::move(more));
          if (fresh && !leads_to_a_case(place->first)) {
            r[q + 1].erase(place);
            continue;
          }
          matrix const& m = run(x, mu, rule);
          work_ += m.rows * m.columns;
          std::vector<double>& to = place->second;
          to.resize(static_cast<std::size_t>(m.columns), infinite);
          for (int i = 0; i < m.rows; ++i) {
            const double before = costs[static_cast<std::size_t>(i)];
            if (before == infinite) continue;
            for (int j = 0; j < m.columns; ++j)
              to[static_cast<std::size_t>(j)] = std::min(to[static_cast<std::size_t>(j)], before + m(i, j));
          }
        }
    for (open_case& c : cases_) {
      const double cost = r.back().at(c.of)[static_cast<std::size_t>(exit_)];
      if (mu == infinite ? cost > c.rooms[rule] * (1 + 1e-12) : cost == infinite) c.bound = infinite;
      else if (mu < infinite) c.bound = std::max(c.bound, mu == 0 ? cost : cost - mu * c.rooms[rule]);
    }
    return solutions_[{mu, rule}] = std::move(r);
  }
  bool leads_to_a_case(counts const& so_far) {
    work_ += static_cast<long>(cases_.size() * classes_.size());
    return std::any_of(cases_.begin(), cases_.end(), [&](open_case const& c) {
      for (std::size_t x = 0; x < so_far.size(); ++x)
        if (so_far[x] > c.of[x]) return false;
      return true;
    });
  }
  classed_way decode(open_case const& c, double mu) {
    solution const& all = solve(mu, c.rule);
    classed_way r;
    r.classes.resize(s_.kinds().size());
    r.way.resize(s_.kinds().size());
    counts left = c.of;
    int to = exit_;
    for (std::size_t q = s_.kinds().size(); q-- > 0;) {
      std::size_t best = classes_.size();
      int from = 0;
      double least = infinite;
      for (std::size_t x = 0; x < classes_.size(); ++x) {
        if (classes_[x].kind() != s_.kinds()[q] || left[x] == 0) continue;
        --left[x];
        if (const auto before = all[q].find(left); before != all[q].end())
          for (int i = 0; i < static_cast<int>(before->second.size()); ++i)
            if (const double v = before->second[static_cast<std::size_t>(i)] + run(x, mu, mu == 0 ? 0 : c.rule)(i, to);
                v < least) {
              least = v;
              best = x;
              from = i;
            }
        ++left[x];
      }
      --left[best];
      way_through const& way = way_of(classes_[best], classes_[best].cheapest(s_.worth(), mu, share(c.rule), from, to));
      to = from;
      r.classes[q] = best;
      r.way[q] = &way;
      r.worth += s_.worth().time * way.cost.time + s_.worth().step * way.cost.step;
      r.memory += way.memory;
      r.counted += way.memory;
      if (classes_[best].replays()) r.counted += share(c.rule) * cost_of(classes_[best].costs(), way.chosen.options.data()).kept;
    }
    mixing_.add(r.way);
    return r;
  }
  way_through const& way_of(segment_class const& x, std::vector<int> options) {
    const auto [place, fresh] = ways_.try_emplace({x.kind(), x.variant(), options});
    way_through& r = place->second;
    if (!fresh) return r;
    r.kind = x.kind();
    r.entry = options.front();
    r.exit = options.back();
    r.cost = cost_in_stage(cost_of(x.costs(), options.data()), x.replays());
    r.memory = bytes_held(r.cost, s_.in_flight());
    r.chosen = {x.variant(), std::move(options)};
    return r;
  }
  // Does it fit with what runs? Then it is one of the ways found.
  bool take(classed_way const& x) {
    stage_point p;
    double running = 0;
    for (way_through const* w : x.way) {
      p.time += w->cost.time;
      p.step += w->cost.step;
      running = std::max(running, w->cost.replay);
      p.segments.push_back(w->chosen);
    }
    if (x.memory + running > s_.limit()) return false;
    keep(std::move(p));
    return true;
  }
  void keep(stage_point p) {
    const double worth = s_.worth().time * p.time + s_.worth().step * p.step;
    if (worth >= best_) return;
    best_ = worth;
    found_.push_back(std::move(p));
  }
  // Raises the bound of a case, or divides a class. False: it stays as it is.
  bool advance(open_case& c) {
    if (!c.has_lines) {
      if (solutions_.count({0, 0}) == 0) {
        solve(0, 0);
        return true;
      }
      if (c.bound == infinite) return true;
      classed_way fastest = decode(c, 0);
      if (fastest.counted <= c.rooms[c.rule]) {
        if (take(fastest)) c.final = true;
        else if (c.rule == 1) c.rule = 0;
        else if (!regroup(division().by_running(fastest))) c.final = true;
        return true;
      }
      solve(infinite, c.rule);
      if (c.bound == infinite) return true;
      c.below = decode(c, infinite);
      c.below_runs = take(c.below);
      c.above = std::move(fastest);
      c.has_lines = true;
    }
    const double mu = (c.below.worth - c.above.worth) / (c.above.counted - c.below.counted);
    if (!(mu > 0) || !std::isfinite(mu)) return false;
    if (solutions_.count({mu, c.rule}) == 0) multipliers_.push_back({mu, c.rule});
    classed_way now = decode(c, mu);
    if (now.worth + mu * now.counted >= (c.above.worth + mu * c.above.counted) * (1 - 1e-9)) {
      use(mu);
      work_ += mixing_.work();
      if (std::optional<stage_point> mixed = mixing_.mixed(s_.worth())) keep(std::move(*mixed));
      std::optional<std::size_t> divided;
      if (!c.below_runs) divided = division().by_running(c.below);
      return regroup(divided ? divided : division().between(c.above, c.below));
    }
    const bool fits = now.counted <= c.rooms[c.rule];
    if (fits) c.below_runs = take(now);
    (fits ? c.below : c.above) = std::move(now);
    return true;
  }
  class_division division() { return {classes_, s_.limit()}; }
  void use(double mu) {
    if (std::find(tried_.begin(), tried_.end(), mu) != tried_.end()) return;
    if (tried_.size() >= most_tried) tried_.erase(tried_.begin());
    tried_.push_back(mu);
  }
  // Cases once a class is divided: the new one, which stands last, has some of its segments.
  bool regroup(std::optional<std::size_t> divided_one) {
    if (!divided_one) return false;
    const std::size_t divided = *divided_one;
    std::vector<open_case> before = std::move(cases_);
    cases_.clear();
    solutions_.clear();
    for (open_case const& c : before)
      for (short n = 0; n <= c.of[divided]; ++n) {
        counts of = c.of;
        of[divided] = static_cast<short>(of[divided] - n);
        of.push_back(n);
        add_case(of, c.bound);
      }
    if (cases_.size() > allowed_.cases) {
      is_full_ = true;
      return true;
    }
    if (multipliers_.size() > most_multipliers) multipliers_.erase(multipliers_.begin(), multipliers_.end() - most_multipliers);
    for (auto const& [mu, rule] : multipliers_) solve(mu, rule);
    return true;
  }

  stage_problem& s_;
  class_limits allowed_;
  int entry_, exit_;
  std::vector<double>& tried_;
  std::vector<segment_class> classes_;
  std::vector<open_case> cases_;
  std::map<std::pair<double, int>, solution> solutions_;  // by multiplier and rule
  std::vector<std::pair<double, int>> multipliers_;
  double share_ = 0;  // of each segment that may run again in what is there while the largest does
  stage_mixing mixing_;
  std::map<std::tuple<int, int, std::vector<int>>, way_through> ways_;  // by kind, variant, options
  std::vector<stage_point> found_;
  double best_ = infinite, beyond_ = infinite;  // what the best way known is worth; bounds of cases that were enough
  bool done_ = false, is_full_ = false;         // full: of cases
  long work_ = 0;
};

}  // namespace partita::spaces
