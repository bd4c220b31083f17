// An order of a pipeline's turns of one's own: what it holds in flight and how long it waits, read from the turns themselves.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <partita/plan/plan.hpp>
#include <partita/search/constraints.hpp>
#include <partita/search/problem.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

class order_reader {
 public:
  // Throws error where the order is none of whole forward and backward passes of `stages` stages, of each micro-batch one.
  order_reader(own_order const& o, int stages, int micro_batches)
      : name_(o.name), micro_batches_(micro_batches), turns_(static_cast<std::size_t>(stages)) {
    for (auto& seen : seen_) seen.assign(static_cast<std::size_t>(stages) * static_cast<std::size_t>(micro_batches), false);
    const graph_data none;  // turns are wishes, which need no op
    plan_base plan(none);
    o.order(plan, stages, micro_batches);
    for (wish const& w : plan.wishes()) {
      if (!w.continues) add(plan, w.first);
      add(plan, w.second);
    }
    for (int s = 0; s < stages; ++s)
      if (of(s).size() != 2 * static_cast<std::size_t>(micro_batches))
        wrong({"stage ", s, " has ", of(s).size(), " turns, not a forward and a backward pass of each"});
  }

  pipeline_schedule rule() const {
    pipeline_schedule r{pipeline_schedule::told, 0, 1, {}};
    for (auto const& turns : turns_) {
      int held = 0, most = 0;
      for (turn const& t : turns) most = std::max(most, held += t.forward ? 1 : -1);
      r.told_in_flight.push_back(most);
    }
    // Stages that all take t for a micro-batch are done after (m + fill (p - 1)) t. What that is may turn on how much of t is
    // the backward pass: the most counts of as long as the forward pass, twice and three times.
    for (int backward : {1, 2, 3}) {
      const double whole = 1 + backward, others = static_cast<double>(turns_.size()) - 1;
      const double slots = seconds(1, backward) / whole - micro_batches_;
      r.fill = std::max(r.fill, others > 0 ? slots / others : 1);
    }
    r.fill = std::clamp(r.fill, 0.0, static_cast<double>(micro_batches_));
    return r;
  }

 private:
  struct turn {
    int micro_batch;
    bool forward;
  };
  std::vector<turn> const& of(int stage) const { return turns_[static_cast<std::size_t>(stage)]; }
  [[noreturn]] void wrong(std::initializer_list<word> what) const {
    throw error(
        words({"search: the order '", name_, "' of ", turns_.size(), " stages and ", micro_batches_, " micro-batches: "}) +
        words(what));
  }
  void add(plan_base const& plan, moment_entry const& m) {
    auto is = [&](op_phase const& x, std::string_view name) { return plan.modes()[x.mode].view() == name; };
    int stage = -1, micro_batch = 0;
    bool plain = m.op < 0 && m.when >= 0;
    for (int i = 0; i < m.place_count; ++i)
      if (is(m.places[i], "stage")) stage = m.places[i].index;
      else plain = false;
    for (int i = 0; i < m.index_count; ++i)
      if (is(m.indices[i], "micro")) micro_batch = m.indices[i].index;
      else plain = false;
    const pass when = static_cast<pass>(m.when);
    if (!plain || (when != pass::forward && when != pass::backward))
      wrong({"a turn is more than a forward or a backward pass; stages have one chunk and the backward pass is whole"});
    if (stage < 0 || stage >= static_cast<int>(turns_.size())) wrong({"there is no stage ", stage});
    if (micro_batch < 0 || micro_batch >= micro_batches_) wrong({"there is no micro-batch ", micro_batch});
    const turn t{micro_batch, when == pass::forward};
    const std::size_t number =
        static_cast<std::size_t>(stage) * static_cast<std::size_t>(micro_batches_) + static_cast<std::size_t>(micro_batch);
    if (seen_[t.forward][number]) wrong({"stage ", stage, " runs a pass of micro-batch ", micro_batch, " twice"});
    if (!t.forward && !seen_[1][number]) wrong({"stage ", stage, " runs micro-batch ", micro_batch, " backward first"});
    seen_[t.forward][number] = true;
    turns_[static_cast<std::size_t>(stage)].push_back(t);
  }
  // Of equal stages, by what waits for what.
  double seconds(double forward, double backward) const {
    const std::size_t stages = turns_.size(), m = static_cast<std::size_t>(micro_batches_);
    std::vector<std::vector<double>> done[2];  // backward, forward: [stage][micro-batch]
    for (auto& all : done) all.assign(stages, std::vector<double>(m, infinite));
    std::vector<std::size_t> next(stages, 0);
    std::vector<double> free(stages, 0);
    for (bool any = true; any;) {
      any = false;
      auto run = [&](std::size_t s) {
        for (; next[s] < turns_[s].size(); ++next[s]) {
          const turn t = turns_[s][next[s]];
          const std::size_t i = static_cast<std::size_t>(t.micro_batch);
          double from = 0;
          if (t.forward && s > 0) from = done[1][s - 1][i];
          if (!t.forward) from = s + 1 < stages ? done[0][s + 1][i] : done[1][s][i];
          if (from == infinite) return;
          free[s] = done[t.forward][s][i] = std::max(free[s], from) + (t.forward ? forward : backward);
          any = true;
        }
      };
      for (std::size_t s = 0; s < stages; ++s) run(s);
      for (std::size_t s = stages; s-- > 0;) run(s);
    }
    for (std::size_t s = 0; s < stages; ++s)
      if (next[s] < turns_[s].size()) wrong({"stage ", s, " waits forever"});
    return *std::max_element(free.begin(), free.end());
  }

  std::string_view name_;
  int micro_batches_;
  std::vector<std::vector<turn>> turns_;  // by stage
  std::vector<bool> seen_[2];             // backward, forward: [stage * micro-batches + micro-batch]
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
