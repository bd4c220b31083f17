// Pipeline schedules: which micro-batch a stage works on next, forward or backward, as order wishes.
#pragma once
#include <string_view>

#include <partita/plan/plan.hpp>

namespace partita::schedule {

namespace detail {
// Chains the turns of one stage. A pass that has nothing to do there takes none: a stage may be empty, or hold frozen
// parameters alone.
struct turns {
  plan_base& plan;
  int stage;
  bool any = false, works[2]{};
  moment last{};
  constexpr turns(plan_base& p, int s) : plan(p), stage(s) {
    const short level = p.find_mode(mode_name("stage")), micro = p.find_mode(mode_name("micro"));
    graph_data const& g = p.graph();
    for (int op = 0; op < g.ops.size; ++op) {
      op_entry const& e = g.ops[op];
      if (e.when == pass::update || e.info->source != source_kind::none) continue;
      op_plan const& own = p.of(p.of(op).assigned ? op : e.origin);
      op_plan const& cut = p.of(p.of(op).cut_count > 0 ? op : e.origin);
      bool here = false, in_turns = false;
      for (int l = 0; l < own.level_count; ++l) here = here || (own.levels[l].mode == level && own.levels[l].coordinate == s);
      for (int c = 0; c < cut.cut_count; ++c) in_turns = in_turns || cut.cuts[c].mode == micro;
      if (here && in_turns) works[static_cast<int>(e.when)] = true;
    }
  }
  constexpr void take(pass when, int micro_batch) {
    if (!works[static_cast<int>(when)]) return;
    const moment next = moment{}.at("stage", stage).of(when).index("micro", micro_batch);
    if (any) plan.op_order(last, next, 0);
    last = next;
    any = true;
  }
};
}  // namespace detail

// All forwards, then all backwards (Huang et al. 2019).
struct gpipe {
  static constexpr std::string_view name = "gpipe";
  static constexpr void order(plan_base& plan, int stages, int micro_batches) {
    for (int s = 0; s < stages; ++s) {
      detail::turns stage{plan, s};
      for (pass when : {pass::forward, pass::backward})
        for (int i = 0; i < micro_batches; ++i) stage.take(when, i);
    }
  }
};

// Stage s of p runs p - 1 - s forwards ahead, then one forward and one backward in turn (Narayanan et al. 2019): at most
// p - s micro-batches are held.
struct one_f_one_b {
  static constexpr std::string_view name = "1f1b";
  static constexpr void order(plan_base& plan, int stages, int micro_batches) {
    for (int s = 0; s < stages; ++s) {
      detail::turns stage{plan, s};
      const int warm = stages - 1 - s < micro_batches ? stages - 1 - s : micro_batches;
      for (int i = 0; i < warm; ++i) stage.take(pass::forward, i);
      for (int i = 0; i < micro_batches; ++i) {
        if (warm + i < micro_batches) stage.take(pass::forward, warm + i);
        stage.take(pass::backward, i);
      }
    }
  }
};

}  // namespace partita::schedule
