// The best chain of stages of a configuration, made of ways that are listed and of bounds of those that are not.
//
// Labels go from stage to stage, per grid and layout at the boundary. One is dropped when another is no worse in all that
// counts, or when what must come after it at the least takes it past a cut-off. Cut-offs rise from the least that any chain
// may take, so that few labels are made that are not near the best chain.
#pragma once
#include <cmath>
#include <optional>
#include <utility>

#include <partita/search/known_stages.hpp>
#include <partita/search/stage_window.hpp>

namespace partita::spaces {

// A stage of a chain. `point`: of its listed ways; -1: a bound.
struct chained_stage {
  int begin = 0, end = 0, grid = 0, entry = 0, exit = 0, point = -1;
  known_stage* of = nullptr;
  double rest = 0;  // the stages beside it take this time per micro-batch at least
  double adds = 0;  // with this added to the time of all but filling it would be no slower than the slowest stage
};
struct stage_chain {
  double time = infinite;
  std::vector<chained_stage> stages;
};

class chain_finder {
 public:
  chain_finder(problem const& p, shape_solver& s, configuration const& c, stage_window& window, sequences& q, known_stages& known)
      : p_(p), s_(s), stages_(c.stages), m_(s.of().micro_batches), fill_(c.schedule.fill), q_(q), known_(known) {
    for (int k = 0; k < stages_; ++k) in_flight_.push_back(c.schedule.in_flight(k, stages_, s.of().micro_batches));
    spans_ = window.spans();
    places_.assign(static_cast<std::size_t>(stages_) + 1, {});
    for (int k = 0; k < stages_; ++k)
      for (auto const& x : spans_[static_cast<std::size_t>(k)])
        if (auto& places = places_[static_cast<std::size_t>(k)]; places.empty() || places.back() != x.begin)
          places.push_back(x.begin);
    places_.back().push_back(p.segments());
    for (int g = 0; g < s.grids(); ++g)
      for (int k = 0; k < s.grid(g).kinds(); ++k)
        if (auto const& pieces = s.grid(g).kind(k); !pieces.empty())
          widest_ = std::max({widest_, pieces.front().by->of().entries(), pieces.front().by->of().exits()});
  }

  // From now on bounds of what is not listed are as close as stages have them. False: they were before.
  bool look_closer() { return !std::exchange(close_, true); }
  // The chain that takes the least time; none that takes `most` or more.
  std::optional<stage_chain> best(double most) {
    collect();
    look_ahead(infinite);
    for (int round = 0; round < 2 && close_; ++round) {  // a chain below `most` has less room than it seems at first
      set_window(most);
      look_ahead(most_added_);
    }
    const double least = least_of_all(), from = std::max(least, last_);  // bounds rise, and with them what the chain takes
    for (double share = 1e-4;; share *= 4) {
      const double cut = std::min(most, from + std::abs(from) * share + 1e-300);
      set_window(cut);
      if (!(least < most)) return std::nullopt;
      if (const int found = extend(cut); found >= 0) {
        last_ = time_of(found);
        return way_to(found);
      }
      if (cut >= most) return std::nullopt;
    }
  }

 private:
  struct label {
    double sum = 0, largest = -infinite;  // of time over stages; of what the slowest stage adds
    double crossing = 0;                  // into the stage that follows
    int before = -1;                      // label
    int stage = -1, entry = 0, exit = 0;  // into refs_; -1: a crossing, or the start
    int point = -1;
  };
  struct stage_ref {
    int begin, end, grid;  // places by number
    known_stage* of;
  };
  // Through a stage: what is listed, or a bound of what is not.
  struct known_way {
    double time, adds;
    int point;
  };
  // Of what follows a state at the least: the sum of times, and what the slowest stage adds.
  struct ahead {
    double sum = infinite, largest = infinite;
  };

  int grids() const { return s_.grids(); }
  std::size_t state(int place, int grid, int boundary) const {
    return static_cast<std::size_t>((place * grids() + grid) * widest_ + boundary);
  }
  std::size_t states(int s) const { return state(static_cast<int>(places_[static_cast<std::size_t>(s)].size()), 0, 0); }
  int number(int s, int place) const {
    auto const& all = places_[static_cast<std::size_t>(s)];
    return static_cast<int>(std::lower_bound(all.begin(), all.end(), place) - all.begin());
  }
  table const& entered(int s, int place, int grid) const {
    const int segment = places_[static_cast<std::size_t>(s)][static_cast<std::size_t>(place)];
    return s_.grid(grid).kind(p_.chain[static_cast<std::size_t>(segment)]).front().by->of();
  }
  table const& left(int s, int place, int grid) const {
    const int segment = places_[static_cast<std::size_t>(s)][static_cast<std::size_t>(place)] - 1;
    return s_.grid(grid).kind(p_.chain[static_cast<std::size_t>(segment)]).front().by->of();
  }
  int kind_at(int s, int place) const {
    return p_.chain[static_cast<std::size_t>(places_[static_cast<std::size_t>(s)][static_cast<std::size_t>(place)])];
  }

  void collect() {
    if (!refs_.empty()) {
      for (auto& of_stage : refs_)
        for (stage_ref& r : of_stage) known_.refresh(*r.of);
      return;
    }
    refs_.resize(static_cast<std::size_t>(stages_));
    for (int s = 0; s < stages_; ++s)
      for (auto const& x : spans_[static_cast<std::size_t>(s)])
        for (int g = 0; g < grids(); ++g) {
          if (!s_.of().may_have(s, g)) continue;
          known_stage& k = known_.of(in_flight_[static_cast<std::size_t>(s)], g, x.sequence, q_);
          known_.refresh(k);
          if (k.fits) refs_[static_cast<std::size_t>(s)].push_back({number(s, x.begin), number(s + 1, x.end), g, &k});
        }
  }
  // What a stage adds to the time of all but its filling, at the least.
  double adds(double worth) const { return worth * (m_ - fill_) / m_; }
  // `added`: no stage adds more to the time of all but filling.
  void look_ahead(double added) {
    in_.assign(static_cast<std::size_t>(stages_) + 1, {});
    out_ = in_;
    out_.back().assign(states(stages_), {});
    for (int g = 0; g < grids(); ++g)
      for (int j = 0; j < left(stages_, 0, g).exits(); ++j) out_.back()[state(0, g, j)] = {0, 0};
    for (int s = stages_; s-- > 0;) {
      auto& in = in_[static_cast<std::size_t>(s)];
      in.assign(states(s), {});
      auto const& out = out_[static_cast<std::size_t>(s) + 1];
      for (stage_ref const& r : refs_[static_cast<std::size_t>(s)])
        for (int i = 0; i < r.of->worth.rows; ++i) {
          ahead& to = in[state(r.begin, r.grid, i)];
          for (int j = 0; j < r.of->worth.columns; ++j) {
            ahead const& after = out[state(r.end, r.grid, j)];
            if (after.sum == infinite) continue;
            const double time =
                added < infinite ? r.of->time_adding(i, j, r.of->least_worth(i, j), added, m_, fill_) : r.of->least_time(i, j);
            to.sum = std::min(to.sum, time + after.sum);
            to.largest = std::min(to.largest, std::max(adds(r.of->least_worth(i, j)), after.largest));
          }
        }
      if (s == 0) return;
      auto& before = out_[static_cast<std::size_t>(s)];
      before.assign(states(s), {});
      each_crossing(
          s, [](std::size_t) { return true; },
          [&](std::size_t from, std::size_t to, double crossing) {
            if (in[to].sum == infinite) return;
            before[from].sum = std::min(before[from].sum, crossing + in[to].sum);
            before[from].largest = std::min(before[from].largest, in[to].largest);
          });
    }
  }
  // Into stage s: from a state in which the stage before is left, if `from` wants it, to one in which it is entered.
  template <class From, class Visit> void each_crossing(int s, From&& from, Visit&& visit) const {
    for (int b = 0; b < static_cast<int>(places_[static_cast<std::size_t>(s)].size()); ++b)
      for (int g = 0; g < grids(); ++g)
        for (int j = 0, exits = s_.of().may_have(s - 1, g) ? left(s, b, g).exits() : 0; j < exits; ++j)
          for (int h = 0; h < grids() && from(state(b, g, j)); ++h)
            for (int i = 0, entries = s_.of().may_have(s, h) ? entered(s, b, h).entries() : 0; i < entries; ++i)
              visit(state(b, g, j), state(b, h, i), s_.of().crossing(g, h, kind_at(s, b), j, i));
  }
  double least_of_all() const {
    double least = infinite;
    for (ahead const& a : in_.front()) least = std::min(least, fill_ * a.sum + a.largest);
    return least;
  }

  void add(std::vector<int>& of_state, label const& l, ahead const& after, double cut) {
    if (after.sum == infinite || l.largest == infinite || fill_ * (l.sum + after.sum) + std::max(l.largest, after.largest) >= cut)
      return;
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
  // What the slowest stage adds in any chain, at the least, and in one that is below the cut, at the most.
  void set_window(double cut) {
    double sum = infinite;
    slowest_ = infinite;
    for (ahead const& a : in_.front()) {
      sum = std::min(sum, a.sum);
      slowest_ = std::min(slowest_, a.largest);
    }
    most_added_ = cut - fill_ * sum;
  }
  // What ways that are not listed may be at best, in steps along the line that time and worth trade on: the less time per
  // micro-batch, the more per step. visit(time, adds).
  template <class Visit> void bounds_of(known_stage const& k, int i, int j, double crossing, Visit&& visit) const {
    constexpr int steps = 4;
    constexpr double share = stage_problem::first_share;
    const double time = k.least_time(i, j), worth = k.least_open(i, j);
    auto say = [&](double t, double w) { visit(t, w - fill_ * t); };
    if (stages_ == 1) return say(time, worth);
    if (close_) return bounds_closer(k, i, j, crossing, visit);
    const double mixed = k.first_mixed(i, j), meets = (mixed - share * worth) / ((1 - share) * m_);
    if (!(meets > time)) return say(time, worth);
    for (int n = 0; n < steps; ++n) {
      const double from = time + n * (meets - time) / steps, to = time + (n + 1) * (meets - time) / steps;
      say(from, std::max(worth, (mixed - (1 - share) * m_ * to) / share));
    }
    say(meets, worth);
  }
  // The same by all shares that are known. What adds no more than the slowest stage does at the least is none the worse for it;
  // up to the most that one may add, in steps. `crossing`: into the stage, at the least.
  template <class Visit> void bounds_closer(known_stage const& k, int i, int j, double crossing, Visit&& visit) const {
    constexpr int steps = 16;
    const double worth = k.least_open(i, j), least = adds(worth), borne = (m_ - fill_) * crossing;
    const double from = std::max(least, slowest_ - borne), step = (most_added_ - borne - from) / steps;
    if (!(step >= 0)) return;
    // With its time bounded from below a way may count as adding what makes it worth as much as it is at the least: in a chain
    // either another stage is the slowest, and its time alone counts, or what it is worth.
    auto say = [&](double t, double added) { visit(t, std::max(added, worth - fill_ * t)); };
    double time = k.time_adding(i, j, worth, from, m_, fill_);
    say(time, least);
    for (int n = 0; n < steps; ++n) {
      const double less = k.time_adding(i, j, worth, from + (n + 1) * step, m_, fill_);
      if (!(less < time)) break;
      say(less, from + n * step);
      time = less;
    }
  }
  // The last label of the best chain below the cut; -1: there is none.
  int extend(double cut) {
    labels_.clear();
    std::vector<std::vector<int>> in(states(0)), out;
    label start;
    if (close_) start.largest = slowest_;
    for (std::size_t at = 0; at < in.size(); ++at) add(in[at], start, in_[0][at], cut);
    for (int s = 0; s < stages_; ++s) {
      auto const& after = out_[static_cast<std::size_t>(s) + 1];
      out.assign(states(s + 1), {});
      const std::vector<char> begun = labelled(s, in);
      for (std::size_t r = 0; r < refs_[static_cast<std::size_t>(s)].size(); ++r)
        if (begun[static_cast<std::size_t>(refs_[static_cast<std::size_t>(s)][r].begin)])
          through(s, static_cast<int>(r), in, out, after, cut);
      if (s + 1 == stages_) break;
      auto const& ahead_of = in_[static_cast<std::size_t>(s) + 1];
      in.assign(states(s + 1), {});
      each_crossing(
          s + 1, [&](std::size_t from) { return !out[from].empty(); },
          [&](std::size_t from, std::size_t to, double crossing) {
            for (int before : out[from]) {
              label l = labels_[static_cast<std::size_t>(before)];
              l.crossing = crossing;
              l.sum += crossing;
              l.before = before;
              l.stage = -1;
              add(in[to], l, ahead_of[to], cut);
            }
          });
    }
    int best = -1;
    for (auto const& of_state : out)
      for (int k : of_state)
        if (best < 0 || time_of(k) < time_of(best)) best = k;
    return best;
  }
  // Which places have labels.
  std::vector<char> labelled(int s, std::vector<std::vector<int>> const& in) const {
    std::vector<char> any(places_[static_cast<std::size_t>(s)].size(), false);
    for (std::size_t at = 0; at < in.size(); ++at)
      if (!in[at].empty()) any[at / static_cast<std::size_t>(grids() * widest_)] = true;
    return any;
  }
  void through(int s, int ref, std::vector<std::vector<int>> const& in, std::vector<std::vector<int>>& out,
               std::vector<ahead> const& after, double cut) {
    stage_ref const& r = refs_[static_cast<std::size_t>(s)][static_cast<std::size_t>(ref)];
    known_stage const& k = *r.of;
    for (int i = 0; i < k.worth.rows; ++i) {
      std::vector<int> const& here = in[state(r.begin, r.grid, i)];
      for (int j = 0; j < k.worth.columns && !here.empty(); ++j) {
        const std::size_t to = state(r.end, r.grid, j);
        if (after[to].sum == infinite) continue;
        ways_.clear();
        double crossing = infinite;
        for (int from : here) crossing = std::min(crossing, labels_[static_cast<std::size_t>(from)].crossing);
        if (k.solved)
          for (stage_point const& way : k.solved->at(i, j).points)
            ways_.push_back({way.time, (m_ - fill_) * way.time + way.step, static_cast<int>(ways_.size())});
        if (k.open(i, j)) bounds_of(k, i, j, crossing, [&](double time, double adds) { ways_.push_back({time, adds, -1}); });
        for (int from : here) {
          const label before = labels_[static_cast<std::size_t>(from)];
          for (known_way const& x : ways_) {
            label l;
            l.sum = before.sum + x.time;
            l.largest = std::max(before.largest, x.adds + (m_ - fill_) * before.crossing);
            l.before = from;
            l.stage = ref;
            l.entry = i;
            l.exit = j;
            l.point = x.point;
            add(out[to], l, after[to], cut);
          }
        }
      }
    }
  }
  double time_of(int k) const {
    label const& l = labels_[static_cast<std::size_t>(k)];
    return fill_ * l.sum + l.largest;
  }
  stage_chain way_to(int last) const {
    stage_chain r;
    r.time = time_of(last);
    std::vector<label const*> way;
    for (int k = last; k >= 0; k = labels_[static_cast<std::size_t>(k)].before)
      if (labels_[static_cast<std::size_t>(k)].stage >= 0) way.push_back(&labels_[static_cast<std::size_t>(k)]);
    std::reverse(way.begin(), way.end());
    for (std::size_t s = 0; s < way.size(); ++s) {
      label const& l = *way[s];
      stage_ref const& ref = refs_[s][static_cast<std::size_t>(l.stage)];
      chained_stage x;
      x.begin = places_[s][static_cast<std::size_t>(ref.begin)];
      x.end = places_[s + 1][static_cast<std::size_t>(ref.end)];
      x.grid = ref.grid;
      x.entry = l.entry;
      x.exit = l.exit;
      x.point = l.point;
      x.of = ref.of;
      x.rest = out_[s + 1][state(ref.end, ref.grid, l.exit)].sum;
      x.adds =
          labels_[static_cast<std::size_t>(last)].largest - (m_ - fill_) * labels_[static_cast<std::size_t>(l.before)].crossing;
      r.stages.push_back(x);
    }
    return r;
  }

  problem const& p_;
  shape_solver& s_;
  int stages_;
  double m_, fill_;
  sequences& q_;
  known_stages& known_;
  std::vector<in_flight_counts> in_flight_;
  std::vector<std::vector<stage_window::span>> spans_;
  std::vector<std::vector<int>> places_;  // per stage, where it may begin; then the end
  int widest_ = 1;
  std::vector<std::vector<stage_ref>> refs_;
  std::vector<std::vector<ahead>> in_, out_;  // in: entering stage s in a state; out: having left the one before it
  std::vector<label> labels_;
  std::vector<known_way> ways_;
  double last_ = -infinite;  // what the last chain takes
  bool close_ = false;
  double slowest_ = 0, most_added_ = infinite;
};

}  // namespace partita::spaces
