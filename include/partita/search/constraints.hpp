// What an expert knows, in the primitives' words: it narrows the space that is searched. As values, or as types that
// combine: pt::constrained<pt::only::stages<4, 8>, pt::only::zero<1>>.
#pragma once
#include <string_view>
#include <vector>

#include <partita/core/axis.hpp>
#include <partita/core/glob.hpp>

namespace partita {

// Those of policy/schedule.hpp and policy/interlaced_pipeline.hpp.
enum class schedule_kind { one_f_one_b, gpipe, interleaved, zero_bubble_h1, zero_bubble_h2, interlaced, interlaced_in_step };
enum class recompute_rule { either, always, never };

// What is asked of forward ops whose names match; of several rules that match an op all count.
struct cut_rule {
  glob ops{"*"};
  std::vector<axis_info const*> axes;     // that may be cut in space; empty: any that the annotations allow
  bool no_axes = false;                   // none at all
  std::vector<int> pieces;                // how many an op may have in space, in all; empty: any
  int least_pieces = 1, most_pieces = 0;  // the same as a range; 0: no upper end
  bool replicas = true;                   // may a dimension of the grid be left to replicas?
};
// Where blocks that match may or must be run again for their backward pass.
struct recompute_constraint {
  glob blocks{"*"};
  recompute_rule rule = recompute_rule::either;
};

// Ops that match lie on devices from `first` to `last`, and their blocks with them.
struct region_constraint {
  glob ops{"*"};
  int first = 0, last = 0;
};

struct constraints {
  double memory = 0;  // bytes of a device; 0: what the cluster says
  int devices = 0;    // at most so many, the first ones; 0: all of the cluster. Some may stay idle
  std::vector<cut_rule> cuts;
  std::vector<int> stages;               // allowed numbers; empty: any
  std::vector<int> devices_per_stage;    // empty: powers of two, and three times those
  std::vector<int> micro_batches;        // empty: divisors of the batch
  std::vector<schedule_kind> schedules;  // empty: 1F1B, which is as fast as GPipe and holds no more
  std::vector<int> chunks;               // of a stage, where interleaved is asked for; empty: 2
  std::vector<int> zero;                 // empty: 0, 1, 2, 3
  std::vector<recompute_constraint> recompute;
  std::vector<int> coshard;   // how many pieces, in time, the heads and features of a block may have; empty: 1
  glob stage_begins{"*"};     // names of blocks ("block.3") that a stage may begin with
  bool equal_stages = false;  // of as many blocks each: stage s of p begins with block floor(s * blocks / p)
  std::vector<region_constraint> regions;
};

// The same as types.
namespace only {
template <int... N> struct stages {
  static void narrow(constraints& c) { c.stages = {N...}; }
};
template <int... N> struct devices_per_stage {
  static void narrow(constraints& c) { c.devices_per_stage = {N...}; }
};
template <int... N> struct micro_batches {
  static void narrow(constraints& c) { c.micro_batches = {N...}; }
};
template <int... N> struct zero {
  static void narrow(constraints& c) { c.zero = {N...}; }
};
template <int... N> struct coshard {
  static void narrow(constraints& c) { c.coshard = {N...}; }
};
template <schedule_kind... K> struct schedules {
  static void narrow(constraints& c) { c.schedules = {K...}; }
};
template <int... N> struct chunks {
  static void narrow(constraints& c) { c.chunks = {N...}; }
};
template <int N> struct devices {
  static void narrow(constraints& c) { c.devices = N; }
};
// Of ops that match, these axes alone may be cut; none named: no axis.
template <fixed_string Ops, class... Axes> struct axes {
  static void narrow(constraints& c) {
    cut_rule r;
    r.ops = glob(Ops.view());
    r.axes = {&axis_of<Axes>::info...};
    r.no_axes = sizeof...(Axes) == 0;
    c.cuts.push_back(r);
  }
};
template <fixed_string Ops, int Least, int Most> struct pieces {
  static void narrow(constraints& c) {
    cut_rule r;
    r.ops = glob(Ops.view());
    r.least_pieces = Least;
    r.most_pieces = Most;
    c.cuts.push_back(r);
  }
};
template <fixed_string Ops> struct no_replicas {
  static void narrow(constraints& c) {
    cut_rule r;
    r.ops = glob(Ops.view());
    r.replicas = false;
    c.cuts.push_back(r);
  }
};
struct equal_stages {
  static void narrow(constraints& c) { c.equal_stages = true; }
};
template <recompute_rule Rule, fixed_string Blocks = "*"> struct recompute {
  static void narrow(constraints& c) { c.recompute.push_back({glob(Blocks.view()), Rule}); }
};
template <fixed_string Ops, int First, int Last> struct region {
  static_assert(0 <= First && First <= Last, "pt::only::region: give the first and the last device, from 0 on");
  static void narrow(constraints& c) { c.regions.push_back({glob(Ops.view()), First, Last}); }
};
template <fixed_string Blocks> struct stages_begin_at {
  static void narrow(constraints& c) { c.stage_begins = glob(Blocks.view()); }
};
}  // namespace only

template <class... Rules> constraints constrained() {
  constraints c;
  (Rules::narrow(c), ...);
  return c;
}

}  // namespace partita
