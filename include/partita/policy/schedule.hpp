// Pipeline schedules: what a stage works on next, as order wishes.
#pragma once
#include <string_view>

#include <partita/policy/stages.hpp>
#include <partita/policy/weight_gradients.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::schedule {

// The turns of one stage, one after another. A turn for which the stage has no op is left out: a stage may be empty, or hold
// frozen parameters alone. A stage of several chunks (parts of the model that do not follow each other) names the chunk.
class turns {
 public:
  constexpr turns(plan_base& plan, int stage, int micro_batches, int chunks = 1)
      : order_(plan, 0), stage_(stage), micro_batches_(micro_batches), chunks_(chunks) {}
  constexpr void forward(int micro_batch, int chunk = 0) { order_.then(here(micro_batch, chunk).of(pass::forward)); }
  constexpr void backward(int micro_batch, int chunk = 0) { order_.then(here(micro_batch, chunk).of(pass::backward)); }
  constexpr void forward_of_pass(int micro_batch, int pass_of_model) {
    order_.then(here(micro_batch, 0).of(pass::forward).at("pass", pass_of_model));
  }
  // The two halves of the backward pass, after `split_backward`.
  constexpr void inputs(int micro_batch, int chunk = 0) { half(micro_batch, chunk, 0); }
  constexpr void weights(int micro_batch, int chunk = 0) { half(micro_batch, chunk, 1); }

 private:
  constexpr moment here(int micro_batch, int chunk) const {
    moment m = moment{}.at("stage", stage_);
    if (chunks_ > 1) m = m.at("chunk", chunk);
    return micro_batches_ > 1 ? m.index("micro", micro_batch) : m;  // one alone is no mode
  }
  constexpr void half(int micro_batch, int chunk, int which) {
    order_.then(here(micro_batch, chunk).of(pass::backward).at("gradients", which));
  }
  sequence order_;
  int stage_, micro_batches_, chunks_;
};

// Names the halves of the backward pass: what only the gradients of parameters wait for is phase 1 of "gradients", all else,
// and what is run again, phase 0.
constexpr void split_backward(plan_base& plan) {
  plan.op_assign(plan.ops(), phase{"gradients", 0});
  plan.op_assign(policy::detail::weight_gradients(plan.graph()), phase{"gradients", 1});
}

// Which stage has a part of the model: one after another, again from the first (Narayanan et al. 2021), or back from the
// last (Qi et al. 2023).
constexpr int round_about(int part, int stages) { return part % stages; }
constexpr int back_and_forth(int part, int stages) { return part / stages % 2 == 0 ? part % stages : stages - 1 - part % stages; }

// All forwards, then all backwards (Huang et al. 2019).
struct gpipe {
  static constexpr std::string_view name = "gpipe";
  static constexpr void order(plan_base& plan, int stages, int micro_batches) {
    for (int s = 0; s < stages; ++s) {
      turns stage(plan, s, micro_batches);
      for (int i = 0; i < micro_batches; ++i) stage.forward(i);
      for (int i = 0; i < micro_batches; ++i) stage.backward(i);
    }
  }
};

// Stage s of p runs p - 1 - s forwards ahead, then one forward and one backward in turn (Narayanan et al. 2019): at most
// p - s micro-batches are held.
struct one_f_one_b {
  static constexpr std::string_view name = "1f1b";
  static constexpr void order(plan_base& plan, int stages, int micro_batches) {
    for (int s = 0; s < stages; ++s) {
      turns stage(plan, s, micro_batches);
      const int warm = stages - 1 - s < micro_batches ? stages - 1 - s : micro_batches;
      for (int i = 0; i < warm; ++i) stage.forward(i);
      for (int i = 0; i < micro_batches; ++i) {
        if (warm + i < micro_batches) stage.forward(warm + i);
        stage.backward(i);
      }
    }
  }
};

// 1F1B over v chunks a stage (Narayanan et al. 2021): the bubble is a v-th of 1F1B's, and every boundary is crossed v times
// as often. Micro-batches go in rounds, of p or a few more: a round passes a chunk before it comes to the next one.
// Stage s runs (v - 1) rounds of forwards and 2 (p - 1 - s) more ahead.
struct interleaved_of {
  int chunks = 2;
  static constexpr void order(plan_base& plan, int stages, int micro_batches, int chunks) {
    const int all = micro_batches * chunks, rounds = micro_batches / stages > 1 ? micro_batches / stages : 1;
    auto begin = [&](int r) { return r * (micro_batches / rounds) + (r < micro_batches % rounds ? r : micro_batches % rounds); };
    growing<int> chunk, micro;  // of the k-th forward; backwards go from the last chunk to the first
    for (int r = 0; r < rounds; ++r)
      for (int c = 0; c < chunks; ++c)
        for (int i = begin(r); i < begin(r + 1); ++i) {
          chunk.push(c);
          micro.push(i);
        }
    for (int s = 0; s < stages; ++s) {
      turns stage(plan, s, micro_batches, chunks);
      const int ahead = (chunks - 1) * begin(1) + 2 * (stages - 1 - s), warm = ahead < all ? ahead : all;
      for (int k = 0; k < warm; ++k) stage.forward(micro[k], chunk[k]);
      for (int k = 0; k < all; ++k) {
        if (warm + k < all) stage.forward(micro[warm + k], chunk[warm + k]);
        stage.backward(micro[k], chunks - 1 - chunk[k]);
      }
    }
  }
};
template <int Chunks> struct interleaved {
  static constexpr std::string_view name = "interleaved";
  static constexpr int chunks = Chunks;
  static constexpr void order(plan_base& plan, int stages, int micro_batches) {
    interleaved_of::order(plan, stages, micro_batches, Chunks);
  }
};

// Zero bubble (Qi et al. 2023): the backward pass is split, since only the gradients of inputs are waited for by other
// stages; the gradients of weights fill what would be bubbles. With p stages, m >= 2p - 1 micro-batches, times TF, TB, TW of a
// forward and the two halves, and M for what a stage holds of a micro-batch:
//   h1        bubble (p - 1)(TF + TB - TW), memory p M: as 1F1B, with the weights of stage s delayed by s micro-batches
//   h2        bubble (p - 1)(TF + TB - 2 TW), memory (2p - 1) M: twice as many forwards ahead, weights delayed twice as long
//   v_shaped  no bubble if TF = TB = TW, memory p M: two chunks a stage, the second ones in the opposite direction, so that
//             the stage that begins also ends
enum zero_bubble_kind { h1, h2, v_shaped };
template <zero_bubble_kind Kind = h1> struct zero_bubble {
  static constexpr std::string_view name = Kind == h1 ? "zero bubble h1" : "zero bubble h2";
  static constexpr bool splits = true;
  static constexpr void order(plan_base& plan, int stages, int micro_batches) {
    constexpr int times = Kind == h1 ? 1 : 2;
    split_backward(plan);
    for (int s = 0; s < stages; ++s) {
      turns stage(plan, s, micro_batches);
      const int ahead = times * (stages - 1 - s), warm = ahead < micro_batches ? ahead : micro_batches, delay = times * s;
      int weights = 0;
      for (int i = 0; i < warm; ++i) stage.forward(i);
      for (int i = 0; i < micro_batches; ++i) {
        if (warm + i < micro_batches) stage.forward(warm + i);
        stage.inputs(i);
        if (i >= delay) stage.weights(weights++);
      }
      while (weights < micro_batches) stage.weights(weights++);
    }
  }
};
template <> struct zero_bubble<v_shaped> {
  static constexpr std::string_view name = "zero bubble v";
  static constexpr int chunks = 2;
  static constexpr bool splits = true;
  static constexpr auto part_on = &back_and_forth;
  static constexpr void order(plan_base& plan, int stages, int micro_batches) {
    split_backward(plan);
    // The order is that of 2p - 1 micro-batches at least; those that there are not are left out.
    const int full = micro_batches > 2 * stages - 1 ? micro_batches : 2 * stages - 1;
    for (int s = 0; s < stages; ++s) {
      turns stage(plan, s, micro_batches, 2);
      int forwards[2]{}, inputs[2]{}, weights[2]{};
      auto forward = [&](int c) {
        if (const int i = forwards[c]++; i < micro_batches) stage.forward(i, c);
      };
      auto input = [&](int c) {
        if (const int i = inputs[c]++; i < micro_batches) stage.inputs(i, c);
      };
      auto weight = [&](int c) {
        if (const int i = weights[c]++; i < micro_batches) stage.weights(i, c);
      };
      auto both = [&](int c) {
        input(c);
        weight(c);
      };
      for (int k = 0; k < 2 * (stages - s) - 1; ++k) forward(0);
      for (int k = 0; k < s; ++k) {  // what comes back on its second way
        forward(1);
        forward(0);
      }
      for (int k = s; k < stages; ++k) {
        forward(1);
        both(1);
      }
      while (forwards[1] < full) {
        if (forwards[0] < full) forward(0);
        both(0);
        forward(1);
        both(1);
      }
      for (int k = 0; k < s; ++k) {
        input(0);
        input(1);
      }
      for (int k = s; k < stages; ++k) both(0);
      while (weights[1] < full) weight(1);
      while (weights[0] < full) weight(0);
    }
  }
};

// For a model that runs R times before it is differentiated, all but the last time without gradient (pt::detach), as
// AlphaFold2 recycles (Jumper et al. 2021): three forwards, one backward (Lin et al. 2024). Every pass goes through the same
// stages. A stage runs the last pass of micro-batch k, the one before of k + p, and so on to the first pass of
// k + (R - 1) p, and then one backward: as 1F1B, with R forwards in place of one. With TF and TB of a stage the bubble is
// 1F1B's, (p - 1)(TF + TB), and stage s holds at most p - s micro-batches for the backward pass.
struct three_f_one_b {
  static constexpr std::string_view name = "3f1b";
  static constexpr bool by_passes = true;
  static constexpr void order(plan_base& plan, int stages, int micro_batches) {
    int last = 0;
    for (int p : policy::detail::passes(plan.graph())) last = p > last ? p : last;
    const int apart = stages < micro_batches ? stages : micro_batches;
    for (int s = 0; s < stages; ++s) {
      turns stage(plan, s, micro_batches);
      for (int k = 0; k < micro_batches + last * apart + stages - 1 - s; ++k) {
        for (int p = last; p >= 0; --p)
          if (const int i = k - p * apart; i >= 0 && i < micro_batches) stage.forward_of_pass(i, p);
        if (const int i = k - last * apart - (stages - 1 - s); i >= 0) stage.backward(i);
      }
    }
  }
};

// What a pipeline takes from a schedule: a type with `static constexpr void order(plan_base&, int stages, int micro_batches)`,
// and, where they are not 1, round_about and false, `chunks`, `part_on`, `splits` and `by_passes`; or a function; or
// interleaved_of.
struct recipe {
  using plain = void (*)(plan_base&, int stages, int micro_batches);
  plain order_alike = nullptr;
  void (*order_chunks)(plan_base&, int stages, int micro_batches, int chunks) = nullptr;
  int chunks = 1;
  int (*part_on)(int part, int stages) = &round_about;
  bool splits = false;     // the backward pass, which has an order for one micro-batch too
  bool by_passes = false;  // stages are those of one pass of a model of several
  constexpr recipe(plain order) : order_alike(order) {}
  constexpr recipe(interleaved_of s) : order_chunks(&interleaved_of::order), chunks(s.chunks) {}
  template <class Schedule>
  requires requires(plan_base& p) { Schedule::order(p, 1, 1); }
  constexpr recipe(Schedule) : order_alike(&Schedule::order) {
    if constexpr (requires { Schedule::chunks; }) chunks = Schedule::chunks;
    if constexpr (requires { Schedule::part_on; }) part_on = Schedule::part_on;
    if constexpr (requires { Schedule::splits; }) splits = Schedule::splits;
    if constexpr (requires { Schedule::by_passes; }) by_passes = Schedule::by_passes;
  }
  constexpr void operator()(plan_base& plan, int stages, int micro_batches) const {
    if (order_chunks != nullptr) order_chunks(plan, stages, micro_batches, chunks);
    else order_alike(plan, stages, micro_batches);
  }
};

}  // namespace partita::schedule

#include <partita/core/end_planning_code.hpp>
