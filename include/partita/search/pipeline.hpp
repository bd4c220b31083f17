// One configuration, exactly: which segments on which stage, on which grid, in which way. Stages are solved as far as it
// takes: a chain of bounds from stage to stage picks the stages that the best plan may be made of, these are solved, then
// listed a little further, and so on until the best chain is made of listed ways alone.
#pragma once
#include <cmath>

#include <partita/search/brute_force.hpp>
#include <partita/search/classes.hpp>
#include <partita/search/fastest_along.hpp>
#include <partita/search/least_on_grids.hpp>
#include <partita/search/listing.hpp>
#include <partita/search/packing.hpp>
#include <partita/search/stage_chain.hpp>
#include <partita/search/trading.hpp>

namespace partita::spaces {

struct exact_options {
  double tolerance = 0;    // of the bound: a plan this much above it is good enough
  stage_limits listing{};  // where to give up closing the gap
  class_limits classes{};
  int rounds = 200;               // of listing, per configuration
  double faster_than = infinite;  // seconds: a choice that takes as long is not looked for
};

class configuration_solver {
 public:
  struct answer {
    double bound = infinite;  // no choice of this configuration takes less, or less than what was known before
    choice best;              // if better than what was known
    double time = infinite;
    bool open = false;       // there is more to find out
    bool paused = false;     // because the bound rose above what others have
    bool cut_short = false;  // there would be, but for class_limits::work
  };
  // `spread`: the way of the shape, whose seconds and bytes are the same for all stages: these are solved within what it leaves.
  configuration_solver(problem const& p, sequences& q, shape_solver& s, int configuration, int spread, exact_options const& how)
      : p_(p),
        q_(q),
        s_(s),
        how_(how),
        id_(configuration),
        c_(p.configurations[static_cast<std::size_t>(configuration)]),
        stages_(c_.stages),
        m_(s.of().micro_batches),
        fill_(c_.schedule.fill),
        way_(spread),
        spread_(s.of().spread_by(spread)),
        limit_(p.limit - spread_.bytes),
        floor_(p, s, q.counts(), c_.stages, spread_.bytes),
        window_(p, q, c_, s.of()),
        known_stages_(s, p, c_.stages == 1, spread_.bytes) {}

  // What no choice of the configuration is faster than, soon found: every segment on the grid that suits it best, without
  // a memory limit, by what is known of it on each grid under any schedule.
  double estimate() {
    if (stages_ > p_.segments()) return infinite;
    floor_.measure_apart(m_, fill_);
    return measured(floor_.apart()) + spread_.seconds;
  }
  // The same with time per micro-batch and per step weighed together as the configuration does.
  double first_bound() { return least_of_stages() + spread_.seconds; }
  // The same closer, within the memory limit: the segment that takes most has its time and memory weighed together, by the
  // tables, for some numbers of micro-batches in flight and prices of a byte.
  double priced_bound() {
    const double least = least_of_stages();
    if (!p_.needs || !floor_.limited() || least == infinite) return least + spread_.seconds;
    const shape_needs needs = raised_needs();
    const stage_packing plain(c_, q_.counts(), needs, limit_);
    std::vector<stage_packing::prices> priced;
    for (double factor : {0.0, 0.5, 1.0, 2.0}) {  // of the price of a byte; 0: memory alone
      priced.emplace_back();
      for (int s = stages_, last = 0; s-- > 0;) {
        const in_flight_counts w = c_.schedule.in_flight(s, stages_, s_.of().micro_batches);
        if (w.whole <= last || (s > 0 && w.whole < 2 * last)) continue;
        last = w.whole;
        priced_segment x{w, factor > 0 ? 1.0 : 0.0, factor > 0 ? factor * plain.price_of_byte(w) : 1, infinite};
        if (!(x.price > 0)) continue;
        x.cost = floor_.priced(plain.main_kind(), {x.load * (m_ - stage_packing::filling_of(c_)), x.load}, x.price, w);
        priced.back().push_back(x);
      }
    }
    return stage_packing(c_, q_.counts(), needs, limit_, priced, floor_.running()).least(least, known_) + spread_.seconds;
  }
  // `lists`: as far as it takes. Otherwise until ways would have to be listed; the answer is `open` then. `known`: the time
  // of the best choice known. `others`: no other configuration has a bound below it; when this one's rises above, it pauses.
  // `at_least`: a bound of this one that is known.
  answer solve(double known, bool lists, double others, double at_least) {
    least_known_ = at_least - spread_.seconds;
    answer a = solve_stages(known - spread_.seconds, lists, others - spread_.seconds);
    a.bound += spread_.seconds;
    a.time += spread_.seconds;
    return a;
  }

 private:
  // Times from here on are those of the stages alone.
  answer solve_stages(double known, bool lists, double others) {
    known_ = known;
    lists_ = lists;
    pause_ = others * (1 + 1e-3);
    answer a;
    a.bound = least_of_stages();
    if (a.bound >= enough() || (width_ == 0 && !open_window(a))) return a;
    // Stages are long enough when a longer one would be too slow for what is known.
    for (;;) {
      const double bound = improve(a), beyond = std::min(window_.least_beyond(), ceiling_);
      a.bound = std::max(a.bound, std::min({bound, beyond, known_}));
      if (a.paused && beyond <= pause_) a.open = a.paused = false;  // longer stages may be faster
      a.cut_short = cut_short_;
      if (a.open || std::min(bound, beyond) >= enough() || known_ <= beyond || bound < beyond) return a;
      double to = std::max(beyond, std::min(bound, known_)) * (1 + 1e-3);
      if (bound == infinite && known_ == infinite) to = std::max(beyond, width_) * 1.1;
      set_width(std::max(to, width_ * (1 + 1e-3)));
    }
  }
  double least_of_stages() {
    if (stages_ > p_.segments()) return infinite;
    if (first_ < 0) first_ = measure();
    return first_ = std::max(first_, least_known_);
  }
  double enough() const {
    return known_ == infinite ? infinite : (known_ + spread_.seconds) / (1 + how_.tolerance) - spread_.seconds;
  }

  // Every segment on the grid that suits it best: the sum of a share of every stage; or one stage alone, which has its share of
  // the segments of a kind.
  double measure() {
    floor_.measure(m_, fill_);
    return measured(floor_.shared());
  }
  double measured(double least) const {
    for (std::size_t k = 0; k < q_.counts().size(); ++k) {
      const int together = (q_.counts()[k] + stages_ - 1) / stages_;
      least_needs const& own = floor_.of_kind()[k];
      if (together > 0) least = std::max(least, together * own.worth + fill_ * (floor_.time() - together * own.time));
    }
    return packed(least);
  }
  // What fits, with what the tables say about time.
  double packed(double least) const {
    if (!p_.needs || !floor_.limited()) return least;
    const shape_needs needs = raised_needs();
    return stage_packing(c_, q_.counts(), needs, limit_).least(least, known_);
  }
  shape_needs raised_needs() const {
    shape_needs needs = p_.needs(c_.shape);
    for (double& limit : needs.limits) limit -= spread_.bytes;
    for (std::size_t k = 0; k < floor_.of_kind().size(); ++k) {
      segment_needs& x = needs.kinds[k];
      least_needs const& own = floor_.of_kind()[k];
      if (own.time == infinite) continue;
      x.seconds = std::max(x.seconds, own.time);
      x.step = std::max(x.step, own.worth - m_ * x.seconds);
    }
    return needs;
  }
  // Looks at no more stages than it takes to have a chain of them. False: no chain fits, or none is fast enough.
  bool open_window(answer& a) {
    window_.measure(floor_.of_kind(), floor_.worth(), floor_.room(stages_), [&](in_flight_counts in_flight, int kind) {
      return floor_.priced(kind, {0, 0}, 1, in_flight);
    });
    double low = first_, high = known_ < infinite ? known_ : std::max(first_ * 2, 1e-300);
    while (!window_.set(high)) {
      if (known_ < infinite || window_.least_beyond() == infinite) {
        a.bound = known_ < infinite ? std::max(low, enough()) : infinite;
        return false;
      }
      low = high;
      high *= 2;
    }
    if (!window_.set(low)) {
      for (int k = 0; k < 12 && high - low > 1e-4 * low; ++k) {
        const double middle = (low + high) / 2;
        (window_.set(middle) ? high : low) = middle;
      }
      a.bound = std::max(a.bound, low);
      if (low >= enough()) return false;
    } else high = low;
    expect_prices();
    set_width(high * (1 + 1e-3));
    return true;
  }
  // Bounds of stages are made with a price of a byte before any stage is solved: a chain of them picks few that have to be.
  void expect_prices() {
    if (!p_.needs || !floor_.limited()) return;
    const shape_needs needs = raised_needs();
    stage_packing(c_, q_.counts(), needs, limit_).each_price([&](in_flight_counts w, double price) {
      for (int g : floor_.grids()) known_stages_.expect(w, g, price);
    });
  }
  void set_width(double width) {
    width_ = std::min(width, std::max(known_, first_));
    window_.set(width_);
    // Stages are solved for plans of up to some time.
    const double wanted = known_ < infinite ? known_ : window_.least_beyond() == infinite ? infinite : width_ * 1.3;
    if (ceiling_ < width_ || (wanted == infinite && ceiling_ < infinite)) {
      classes_.clear();
      known_stages_.clear();
      ceiling_ = wanted;
    }
    finder_.emplace(p_, s_, c_, window_, q_, known_stages_);
  }
  stage_problem& solved(chained_stage const& x) {
    const double most =
        ceiling_ == infinite ? infinite : ceiling_ - fill_ * (window_.whole_time() - window_.time_of(x.begin, x.end));
    return known_stages_.solve(*x.of, most * (1 + 1e-12));
  }

  // The bound of plans made of stages in the window, raised as far as it takes; the best of them.
  double improve(answer& a) {
    double bound = 0;
    a.open = a.paused = false;
    for (int listed = 0, rounds = 1;;) {
      const double most = std::min(enough(), ceiling_);
      const std::optional<stage_chain> best = finder_->best(most);
      if (!best) return std::max(bound, most);
      bound = std::max(bound, best->time);
      if (bound > pause_) {
        a.open = a.paused = true;
        return bound;
      }
      bool fresh = false;
      for (chained_stage const& x : best->stages)
        if (!x.of->solved) {
          solved(x);
          fresh = true;
        }
      if (fresh) {
        // The bound may take as many rounds to settle on a chain as there are stages; a plan that is near enough is seen sooner.
        const bool sketches = known_ == own_ && (rounds & (rounds - 1)) == 0;
        ++rounds;
        if (sketches && sketch(*best)) {
          take(*best, a);
          if (bound >= enough()) return bound;
        }
        continue;
      }
      take(*best, a);
      const bool all_listed =
          std::all_of(best->stages.begin(), best->stages.end(), [](chained_stage const& x) { return x.point >= 0; });
      if (all_listed || bound >= enough() || ++listed > how_.rounds) return bound;
      if (sketch(*best)) {
        take(*best, a);
        if (bound >= enough()) return bound;
      }
      if (!lists_) {
        a.open = true;
        return bound;
      }
      if (trade_closer(*best)) {
        take(*best, a);
        if (bound >= enough()) return bound;
        --listed;
        continue;
      }
      if (!raise(*best)) return bound;
      take(*best, a);
    }
  }
  void take(stage_chain const& chain, answer& a) {
    choice found;
    found.configuration = id_;
    found.spread = way_;
    found.stages = fastest_along(chain, p_, s_.of(), m_, fill_);
    if (found.stages.empty()) return;
    const total t = time_and_memory(p_, s_.of(), found);
    if (const double time = t.time - spread_.seconds; t.fits && time < known_) {
      known_ = own_ = a.time = time;
      a.best = std::move(found);
    }
  }
  // Good ways for stages that have none listed. False when there is nothing new.
  bool sketch(stage_chain const& chain) {
    bool moved = false;
    for (chained_stage const& x : chain.stages) {
      moved = moved || !x.of->solved->at(x.entry, x.exit).sketched;
      stage_listing(*x.of->solved, how_.listing).sketch(x.entry, x.exit);
    }
    return moved;
  }
  // Bounds stages that have none of their ways in the chain closer where they take less time per micro-batch for more per step:
  // with shares of the step on both sides of the one that bounds them there, and finds such ways. False: none gained by it.
  bool trade_closer(stage_chain const& chain) {
    if (stages_ == 1) return false;
    const bool first = finder_->look_closer();
    bool any = first;
    for (chained_stage const& x : chain.stages) {
      if (x.point >= 0) continue;
      stage_problem& s = *x.of->solved;
      auto time = [&] { return x.of->time_adding(x.entry, x.exit, x.of->least_open(x.entry, x.exit), x.adds, m_, fill_); };
      const double before = time();
      for (int halved = 2; halved <= 8 && s.shares().size() < most_shares && !(time() > before * (1 + 1e-5)); halved *= 2) {
        double below = 0, above = 1, holds = 0, most = s.at(x.entry, x.exit).least_time;  // with nothing of the step
        x.of->each_mixed(x.entry, x.exit, [&](double share, double mixed) {
          if (const double t = (mixed - share * x.adds) / ((1 - share) * m_ + share * fill_); t > most) {
            most = t;
            holds = share;
          }
        });
        if (fill_ > 0 && (x.of->least_open(x.entry, x.exit) - x.adds) / fill_ > most) holds = 1;
        for (double share : s.shares()) {
          if (share < holds) below = std::max(below, share);
          if (share > holds) above = std::min(above, share);
        }
        if (holds > 0) s.add_share(holds - (holds - below) / halved);
        if (holds < 1) s.add_share(holds + (above - holds) / halved);
      }
      const bool closer = time() > before * (1 + 1e-5);
      any = any || closer;
      if (!first && !closer) continue;
      stage_entry& e = s.at(x.entry, x.exit);
      const std::vector<stage_point> more = traded_ways(s, x.entry, x.exit);
      e.points.insert(e.points.end(), more.begin(), more.end());
      keep_best(e.points);
    }
    return any;
  }
  // Raises the bound of a stage that has none of its ways in the chain: of the one that keeps the whole bound where it is, and of
  // those near it. Where that one's is as good as it can be made, the time of others remains to be found, which all wait for.
  // False: there is nothing more to find.
  bool raise(stage_chain const& chain) {
    std::vector<std::pair<double, chained_stage const*>> open;
    for (chained_stage const& x : chain.stages)
      if (x.point < 0) open.push_back({x.of->solved->at(x.entry, x.exit).least_worth + fill_ * rest_of(x), &x});
    std::sort(open.begin(), open.end(), [](auto const& a, auto const& b) { return a.first > b.first; });
    for (auto const& [bound, x] : open) {
      if (bound < open.front().first * (1 - how_.tolerance)) break;
      stage_entry& e = x->of->solved->at(x->entry, x->exit);
      if (!raise(*x, e) && x == open.front().second) return list_any(open);
    }
    return !open.empty();
  }
  bool list_any(std::vector<std::pair<double, chained_stage const*>> const& open) {
    for (auto const& [bound, x] : open) {
      stage_entry& e = x->of->solved->at(x->entry, x->exit);
      if (e.too_many) continue;
      if (list_further(*x, e, few())) return true;
      e.too_many = true;
    }
    return false;
  }
  stage_limits few() const { return {std::min(how_.listing.columns, 10000L), std::min(how_.listing.labels, 20000L)}; }
  bool raise(chained_stage const& x, stage_entry& e) {
    if (!e.too_many && list_further(x, e, few())) return true;
    e.too_many = true;
    if (!e.stuck && tell_apart(x, e)) return true;
    e.stuck = e.stuck || !list_further(x, e, how_.listing);
    return !e.stuck;
  }
  static constexpr std::size_t most_shares = 12;
  double rest_of(chained_stage const& x) const { return x.rest + window_.time_of(0, x.begin); }
  // False: there are too many ways to list.
  bool list_further(chained_stage const& x, stage_entry& e, stage_limits const& allowed) {
    const double most = ceiling_ < infinite ? (ceiling_ - fill_ * rest_of(x)) * (1 + 1e-9) : infinite,
                 from = std::max(e.least_worth, e.solved);
    double gap = from - e.least_worth;
    for (int tries = 0; tries < 60; ++tries) {
      gap = std::max(gap * 3, std::max(how_.tolerance / 4, 1e-4) * std::abs(from) + 1e-300);
      const double cap = std::min(most, e.least_worth + gap);
      if (!stage_listing(*x.of->solved, allowed).list_all(x.entry, x.exit, cap)) return false;
      if (!e.points.empty() || cap >= most || e.solved == infinite) break;
    }
    return true;
  }
  // Raises the bound of a stage by telling its segments apart, to what is enough if it can, or finds a better way. False:
  // neither.
  bool tell_apart(chained_stage const& x, stage_entry& e) {
    std::unique_ptr<stage_classes>& classes = classes_[&e];
    if (!classes)
      classes = std::make_unique<stage_classes>(*x.of->solved, x.entry, x.exit, tried_[x.of->in_flight], how_.classes);
    if (classes->done()) return false;
    const double before = e.least_worth;
    double known = infinite;
    for (stage_point const& p : e.points) known = std::min(known, m_ * p.time + p.step);
    e.least_worth = std::max(before, classes->least(enough() - fill_ * rest_of(x), known));
    cut_short_ = cut_short_ || classes->cut_short();
    e.points.insert(e.points.end(), classes->found().begin(), classes->found().end());
    keep_best(e.points);
    return !classes->found().empty() || e.least_worth > before + 1e-9 * std::abs(before);
  }

  problem const& p_;
  sequences& q_;
  shape_solver& s_;
  exact_options const& how_;
  int id_;
  configuration const& c_;
  int stages_;
  double known_ = infinite, own_ = infinite;  // the time of the best choice known; of the best one of this configuration
  double m_, fill_;
  int way_;
  spread_cost spread_;
  double limit_;
  bool lists_ = false, cut_short_ = false;
  double pause_ = infinite;
  double first_ = -1, least_known_ = 0, width_ = 0, ceiling_ = -infinite;
  least_on_grids floor_;
  stage_window window_;
  known_stages known_stages_;
  std::map<stage_entry const*, std::unique_ptr<stage_classes>> classes_;
  std::map<in_flight_counts, std::vector<double>> tried_;  // multipliers, by micro-batches in flight
  std::optional<chain_finder> finder_;
};

}  // namespace partita::spaces
