// What a search says of what it has found and of what it has looked at, for people.
#pragma once
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include <partita/search/constraints.hpp>

namespace partita {

// Which of `constraints::schedules` a pipeline runs by.
struct schedule_choice {
  schedule_kind kind = schedule_kind::one_f_one_b;
  int chunks = 1;          // of a stage
  bool own_order = false;  // one of `constraints::orders` in place of it
};

// What a stage of the plan holds, for people.
struct found_stage {
  int first_block = 0, blocks = 0;  // segments of the chain
  int replayed = 0, in_turns = 0;   // how many of them run again; heads and features of how many in turns
  int outer = 1, inner = 1;         // its grid
  double seconds = 0;               // of a micro-batch, forward and backward; zero bubble: less what fills
  double step_seconds = 0;          // of a step: gradients brought together, update
  double memory = 0;                // bytes
  std::string cuts{};               // how the ops of its widest block are cut
  std::array<int, 4> zero{};        // how many of its trained parameters have each ZeRO stage
};
// Configurations that differ in micro-batches alone, by the best of them.
struct considered_configuration {
  int stages = 1, devices_per_stage = 1, micro_batches = 1;
  std::string schedule;    // "1F1B"; none where there is one stage
  double lower_bound = 0;  // seconds: no plan of them takes less
  double seconds = 0;      // of the best plan that is known of them, by the planner's cost; 0: none was looked for
  schedule_choice by{};    // what `schedule` names
};
struct search_report {
  long configurations = 0, bounded = 0, solved = 0, listed = 0, eliminations = 0;
  int stages = 1, devices_per_stage = 1, devices = 1, micro_batches = 1, segments = 0;
  std::string schedule;  // "1F1B"; none where there is one stage
  schedule_choice by{};  // what `schedule` names
  std::vector<found_stage> of_stages;
  std::vector<considered_configuration> considered;  // the fastest first, then by bound; a dozen at most
  std::string bound_by;                              // what keeps the plan from being faster
  // Of a search from a plan: seconds by the planner's cost of it, or of the plan of the space next to it, which bound the search
  // from the beginning; 0: nothing does. And why, in words.
  double start_seconds = 0;
  std::string start;
};

// The best plan without one freedom of the space, by the planner's cost (search/ablation.hpp).
struct ablation {
  std::string without;     // the freedom: "co-shard"
  bool used = true;        // by the plan that was found; else nothing was searched, as that plan is there without it too
  bool fits = false;       // is there a plan without it?
  double seconds = 0;      // of a step, of the best one known
  double lower_bound = 0;  // no plan without it takes less; where none fits: nothing
  double memory = 0;       // bytes of its fullest device; where none fits, those that would do, or infinite
};

// A plan without the freedom, where one fits, beside the plan that was found, which takes `seconds`: "6.1% more". What is not
// more by its bound may be nothing, as a search is exact to a tolerance.
inline std::string compared(ablation const& x, double seconds) {
  if (x.seconds < seconds * 0.9985) return "faster, where the constraints allow it";
  if (x.seconds < seconds * 0.9995) return "as fast, to 0.15%";  // the tolerance of a search, unless another is given, is 0.1%
  if (x.seconds < seconds * 1.0005) return "as fast, to 0.05%";
  char more[32];
  std::snprintf(more, sizeof more, "%.1f%%", 100 * (x.seconds / seconds - 1));
  return x.lower_bound > seconds ? std::string(more) + " more" : "no more than " + std::string(more) + ", if anything";
}

}  // namespace partita
