// The order of an interlaced pipeline: turns of stages, and between them what all devices do at once.
#pragma once
#include <string_view>

#include <partita/plan/plan.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::policy::detail {

// Slots of turns: what is said here of micro-batch 0 happens to micro-batch i 2 i slots later. What is spread is done by all
// devices at once before a slot, and whoever is through with a turn waits there for the others. So the first and the last of
// what is spread are done before slots of one parity: once in two slots, in which every stage has a forward and a backward.
struct interlaced_slots {
  int stages;
  bool in_step;
  constexpr int forward(int s) const { return in_step ? 2 * s : s; }
  constexpr int backward(int s) const { return in_step ? 4 * stages - 3 - 2 * s : 2 * stages - 1 - s; }
  constexpr int spread_forward(int k) const {
    if (in_step) return k < stages ? 2 * k : 2 * stages - 1;
    return k > 0 ? k : -(stages % 2);
  }
  constexpr int spread_backward(int k) const {
    if (in_step) return k < stages ? 4 * stages - 2 - 2 * k : 2 * stages - 1;
    return k > 0 ? 2 * stages - k : 2 * stages + stages % 2;
  }
};
constexpr void order_interlaced(plan_base& plan, int stages, int micro_batches, bool in_step) {
  const interlaced_slots of{stages, in_step};
  for (int s = 0; s < stages; ++s) {
    sequence turns(plan, 0);
    auto take = [&](std::string_view level, int coordinate, pass when, int later) {
      if (later >= 0 && later % 2 == 0 && later / 2 < micro_batches)
        turns.then(moment{}.at(level, coordinate).of(when).index("micro", later / 2));
    };
    for (int slot = of.spread_forward(0), last = of.spread_backward(0) + 2 * (micro_batches - 1); slot <= last; ++slot) {
      for (int k = 0; k <= stages; ++k) take("spread", k, pass::forward, slot - of.spread_forward(k));
      for (int k = stages; k >= 0; --k) take("spread", k, pass::backward, slot - of.spread_backward(k));
      take("stage", s, pass::forward, slot - of.forward(s));
      take("stage", s, pass::backward, slot - of.backward(s));
    }
  }
}

}  // namespace partita::policy::detail

#include <partita/core/end_planning_code.hpp>
