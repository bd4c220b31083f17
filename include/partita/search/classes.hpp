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

#include <partita/search/mixing.hpp>
#include <partita/search/segment_class.hpp>

namespace partita::spaces {

class stage_classes {
 public:
  // `tried`: multipliers that were of use to others; to be tried first.
  stage_classes(stage_problem& s, int entry, int exit, std::vector<double>& tried)
      : s_(s), entry_(entry), exit_(exit), tried_(tried), mixing_(s) {
    for (int k : s.kinds()) {
      bool known = false;
      for (segment_class const& x : classes_) known = known || x.kind() == k;
      if (known) continue;
      for (auto& piece : s.grid().kind(k)) classes_.emplace_back(k, piece, s.in_flight());
    }
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
      done_ = next.final || work_ > most_work || !advance(next);
      work_ += work_of_step;
    }
    if (done_) solutions_.clear();
    double least = beyond_;
    for (open_case const& c : cases_) least = std::min(least, c.bound);
    return least;
  }
  // There is no more to find out.
  bool done() const { return done_; }
  // Ways that fit, met by the last call.
  std::vector<stage_point> const& found() const { return found_; }

 private:
  static constexpr long most_work = 400000, work_of_step = 100;  // about a fifth of a second
  static constexpr std::size_t most_segments = 200, most_cases = 4000, most_multipliers = 4, most_tried = 3;

  using counts = std::vector<short>;  // of segments, per class
  struct line {
    double worth = 0, memory = 0;
    std::vector<std::size_t> classes;  // segment by segment
    stage_mixing::way way;
  };
  struct open_case {
    counts of;
    double bound = -infinite, room = 0;
    bool final = false, has_lines = false, below_runs = false;
    line above, below;  // ways that do not fit, and that do
  };
  static bool by_bound(open_case const& a, open_case const& b) { return a.bound < b.bound; }
  // What the cheapest ways of all cases cost under a multiplier: per place in the stage, by counts so far and boundary.
  using solution = std::vector<std::map<counts, std::vector<double>>>;

  matrix const& run(std::size_t x, double mu) { return classes_[x].run(s_.worth(), mu); }
  void start() {
    if (s_.kinds().size() > most_segments) return give_up();
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
      if (all.size() > most_cases) return give_up();
    }
    for (counts const& c : all) add_case(c, -infinite);
    multipliers_ = tried_;
    for (double mu : tried_) solve(mu);
    if (tried_.empty()) solve(0);
  }
  void give_up() { cases_.assign(1, {{}, -infinite, 0, true, false, false, {}, {}}); }
  void add_case(counts const& c, double bound) {
    double level = 0;
    for (std::size_t x = 0; x < c.size(); ++x)
      if (c[x] > 0) level = std::max(level, classes_[x].level());
    if (level <= s_.limit()) cases_.push_back({c, bound, s_.limit() - level, false, false, false, {}, {}});
  }
  // Raises the bounds of all cases.
  solution const& solve(double mu) {
    const auto known = solutions_.find(mu);
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
          ++work_;
          matrix const& m = run(x, mu);
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
      if (mu == infinite ? cost > c.room * (1 + 1e-12) : cost == infinite) c.bound = infinite;
      else if (mu < infinite) c.bound = std::max(c.bound, mu == 0 ? cost : cost - mu * c.room);
    }
    return solutions_[mu] = std::move(r);
  }
  bool leads_to_a_case(counts const& so_far) const {
    return std::any_of(cases_.begin(), cases_.end(), [&](open_case const& c) {
      for (std::size_t x = 0; x < so_far.size(); ++x)
        if (so_far[x] > c.of[x]) return false;
      return true;
    });
  }
  line decode(open_case const& c, double mu) {
    solution const& all = solve(mu);
    line r;
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
            if (const double v = before->second[static_cast<std::size_t>(i)] + run(x, mu)(i, to); v < least) {
              least = v;
              best = x;
              from = i;
            }
        ++left[x];
      }
      --left[best];
      way_through const& way = way_of(classes_[best], classes_[best].cheapest(s_.worth(), mu, from, to));
      to = from;
      r.classes[q] = best;
      r.way[q] = &way;
      r.worth += s_.worth().time * way.cost.time + s_.worth().step * way.cost.step;
      r.memory += way.memory;
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
    r.memory = r.cost.held + s_.in_flight() * r.cost.flight;
    r.chosen = {x.variant(), std::move(options)};
    return r;
  }
  // Does it fit with what runs? Then it is one of the ways found.
  bool take(line const& x) {
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
      if (solutions_.count(0) == 0) {
        solve(0);
        return true;
      }
      if (c.bound == infinite) return true;
      line fastest = decode(c, 0);
      if (fastest.memory <= c.room) {
        if (!take(fastest) && divide_by_running(fastest)) return true;
        c.final = true;
        return true;
      }
      solve(infinite);
      if (c.bound == infinite) return true;
      c.below = decode(c, infinite);
      c.below_runs = take(c.below);
      c.above = std::move(fastest);
      c.has_lines = true;
    }
    const double mu = (c.below.worth - c.above.worth) / (c.above.memory - c.below.memory);
    if (!(mu > 0) || !std::isfinite(mu)) return false;
    if (solutions_.count(mu) == 0) multipliers_.push_back(mu);
    line now = decode(c, mu);
    if (now.worth + mu * now.memory >= (c.above.worth + mu * c.above.memory) * (1 - 1e-9)) {
      use(mu);
      if (std::optional<stage_point> mixed = mixing_.mixed(s_.worth())) keep(std::move(*mixed));
      return (!c.below_runs && divide_by_running(c.below)) || divide(c);
    }
    if (now.memory <= c.room) c.below_runs = take(now);
    (now.memory > c.room ? c.above : c.below) = std::move(now);
    return true;
  }
  void use(double mu) {
    if (std::find(tried_.begin(), tried_.end(), mu) != tried_.end()) return;
    if (tried_.size() >= most_tried) tried_.erase(tried_.begin());
    tried_.push_back(mu);
  }
  // The class and the variable that tell the two ways of a case apart: where the most memory differs.
  bool divide(open_case const& c) {
    std::size_t of = classes_.size();
    int variable = 0;
    double most = -1;
    for (std::size_t x = 0; x < classes_.size(); ++x)
      for (int v = 0; v < classes_[x].costs().variables(); ++v) {
        std::map<int, int> more;
        double memory = 0;
        each_option(c, x, [&](std::vector<int> const& options, int sign) {
          more[options[static_cast<std::size_t>(v)]] += sign;
          memory += sign * classes_[x].memory_of(options, v);
        });
        const bool differs = std::any_of(more.begin(), more.end(), [](auto const& m) { return m.second != 0; });
        if (!differs || std::abs(memory) <= most) continue;
        most = std::abs(memory);
        of = x;
        variable = v;
      }
    if (of == classes_.size()) return false;
    const std::vector<char> lean = lean_options(c, of, variable);
    classes_.push_back(classes_[of]);
    classes_[of].leave_out(variable, lean, true);
    classes_.back().leave_out(variable, lean, false);
    return regroup(of);
  }
  // A way that would fit but for what is there while one of its segments runs: segments of its class are told apart by whether
  // all of it leaves room for the rest. Those where it need not also count with more.
  bool divide_by_running(line const& x) {
    const double allowed = s_.limit() - x.memory;
    std::size_t of = classes_.size();
    double most = allowed;
    for (std::size_t q = 0; q < x.way.size(); ++q) {
      segment_class const& c = classes_[x.classes[q]];
      if (const double bytes = cost_of(c.costs(), x.way[q]->chosen.options.data()).transient; bytes > most) {
        most = bytes;
        of = x.classes[q];
      }
    }
    if (of == classes_.size()) return false;
    classes_.push_back(classes_[of]);
    classes_.back().raise_level(classes_[of].leave_out_above(allowed));
    return regroup(of);
  }
  // Options of the segments of a class in the way that does not fit (1) and in the one that does (-1).
  template <class Visit> static void each_option(open_case const& c, std::size_t of, Visit&& visit) {
    for (std::size_t q = 0; q < c.above.way.size(); ++q) {
      if (c.above.classes[q] == of) visit(c.above.way[q]->chosen.options, 1);
      if (c.below.classes[q] == of) visit(c.below.way[q]->chosen.options, -1);
    }
  }
  // Options that need little memory, between what the two ways choose; or one that they choose not equally often.
  std::vector<char> lean_options(open_case const& c, std::size_t of, int variable) const {
    segment_class const& x = classes_[of];
    table const& t = x.costs();
    std::vector<double> least;
    std::map<int, int> more;
    for (int o = 0; o < t.options[static_cast<std::size_t>(variable)]; ++o) least.push_back(x.least_memory(variable, o));
    double above = -infinite, below = infinite;
    each_option(c, of, [&](std::vector<int> const& options, int sign) {
      const int o = options[static_cast<std::size_t>(variable)];
      more[o] += sign;
      if (sign > 0) above = std::max(above, least[static_cast<std::size_t>(o)]);
      else below = std::min(below, least[static_cast<std::size_t>(o)]);
    });
    std::vector<char> lean(least.size(), false);
    if (below < above) {
      for (std::size_t o = 0; o < lean.size(); ++o) lean[o] = least[o] < (above + below) / 2;
      int differs = 0;
      for (auto const& [o, times] : more)
        if (lean[static_cast<std::size_t>(o)]) differs += times;
      if (differs != 0) return lean;
      lean.assign(lean.size(), false);
    }
    for (auto const& [o, times] : more)
      if (times != 0) {
        lean[static_cast<std::size_t>(o)] = true;
        break;
      }
    return lean;
  }
  // Cases once a class is divided: the new one, which stands last, has some of its segments.
  bool regroup(std::size_t divided) {
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
    if (cases_.size() > most_cases) {
      work_ = most_work + 1;
      return true;
    }
    if (multipliers_.size() > most_multipliers) multipliers_.erase(multipliers_.begin(), multipliers_.end() - most_multipliers);
    for (double mu : multipliers_) solve(mu);
    return true;
  }

  stage_problem& s_;
  int entry_, exit_;
  std::vector<double>& tried_;
  std::vector<segment_class> classes_;
  std::vector<open_case> cases_;
  std::map<double, solution> solutions_;
  std::vector<double> multipliers_;
  stage_mixing mixing_;
  std::map<std::tuple<int, int, std::vector<int>>, way_through> ways_;  // by kind, variant, options
  std::vector<stage_point> found_;
  double best_ = infinite, beyond_ = infinite;  // what the best way known is worth; bounds of cases that were enough
  bool done_ = false;
  long work_ = 0;
};

}  // namespace partita::spaces
