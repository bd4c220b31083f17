// What an expert knows, in the primitives' words: it narrows the space that is searched. As values, or as types, that combine:
// pt::constrained<pt::only::stages<4, 8>, pt::only::zero<1>>(), and with a value: pt::constrained<...>(given).
#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include <partita/core/axis.hpp>
#include <partita/core/glob.hpp>
#include <partita/core/words.hpp>

namespace partita {

class plan_base;

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

// An order of a pipeline's turns of one's own, as policy::pipeline takes it: of stages of one chunk, the backward pass whole.
struct own_order {
  std::string_view name{};  // which outlives it
  void (*order)(plan_base&, int stages, int micro_batches) = nullptr;
  bool operator==(own_order const&) const = default;
};

namespace detail {
// An empty list allows any, so that one of two that have nothing in common would.
template <class T> constexpr void keep_common(std::vector<T>& mine, std::vector<T> const& other, const char* name) {
  if (other.empty()) return;
  if (mine.empty()) {
    mine = other;
    return;
  }
  std::erase_if(mine, [&](T const& x) { return std::find(other.begin(), other.end(), x) == other.end(); });
  if (mine.empty()) throw_error({"constraints: what two of them say of '", name, "' has nothing in common"});
}
}  // namespace detail

struct constraints {
  double memory = 0;  // bytes of a device; 0: what the cluster says
  int devices = 0;    // at most so many, the first ones; 0: all of the cluster. Some may stay idle
  std::vector<cut_rule> cuts;
  std::vector<int> stages;               // allowed numbers; empty: any
  std::vector<int> devices_per_stage;    // empty: powers of two, and three times those
  std::vector<int> micro_batches;        // empty: divisors of the batch
  std::vector<schedule_kind> schedules;  // empty: 1F1B, which is as fast as GPipe and holds no more
  std::vector<own_order> orders;         // besides; where these alone are given, one of them
  std::vector<int> chunks;               // of a stage, where interleaved is asked for; empty: 2
  std::vector<int> zero;                 // empty: 0, 1, 2, 3
  std::vector<recompute_constraint> recompute;
  std::vector<int> coshard;   // how many pieces, in time, the heads and features of a block may have; empty: 1
  glob stage_begins{"*"};     // names of blocks ("block.3") that a stage may begin with
  bool equal_stages = false;  // of as many blocks each: stage s of p begins with block floor(s * blocks / p)
  std::vector<region_constraint> regions;

  // What both allow; orders of one's own add to schedules. Throws error where they name numbers, schedules or begins of stages of
  // which none is allowed by both.
  constexpr void narrow(constraints const& o) {
    if (o.memory != 0) memory = memory != 0 ? std::min(memory, o.memory) : o.memory;
    if (o.devices != 0) devices = devices != 0 ? std::min(devices, o.devices) : o.devices;
    detail::keep_common(stages, o.stages, "stages");
    detail::keep_common(devices_per_stage, o.devices_per_stage, "devices_per_stage");
    detail::keep_common(micro_batches, o.micro_batches, "micro_batches");
    detail::keep_common(schedules, o.schedules, "schedules");
    detail::keep_common(orders, o.orders, "orders");
    detail::keep_common(chunks, o.chunks, "chunks");
    detail::keep_common(zero, o.zero, "zero");
    detail::keep_common(coshard, o.coshard, "coshard");
    if (stage_begins.patterns.view() == "*") stage_begins = o.stage_begins;
    else if (o.stage_begins.patterns.view() != "*" && o.stage_begins.patterns.view() != stage_begins.patterns.view())
      throw_error({"constraints: 'stage_begins' is '", stage_begins.patterns.view(), "' and '", o.stage_begins.patterns.view(),
                   "'; give one list of names"});
    equal_stages = equal_stages || o.equal_stages;
    cuts.insert(cuts.end(), o.cuts.begin(), o.cuts.end());
    recompute.insert(recompute.end(), o.recompute.begin(), o.recompute.end());
    regions.insert(regions.end(), o.regions.begin(), o.regions.end());
  }
};

namespace detail {
// One member of the constraints: a list of what it may be, or a number.
template <auto Member, auto... Allowed> struct member_is_one_of {
  static constexpr void narrow(constraints& c) {
    constraints own;
    own.*Member = {Allowed...};
    c.narrow(own);
  }
};
}  // namespace detail

// The same as types.
namespace only {
template <std::size_t Bytes> struct memory {
  static constexpr void narrow(constraints& c) {
    constraints own;
    own.memory = static_cast<double>(Bytes);
    c.narrow(own);
  }
};
template <int N> struct devices : detail::member_is_one_of<&constraints::devices, N> {};
template <int... N> struct stages : detail::member_is_one_of<&constraints::stages, N...> {};
template <int... N> struct devices_per_stage : detail::member_is_one_of<&constraints::devices_per_stage, N...> {};
template <int... N> struct micro_batches : detail::member_is_one_of<&constraints::micro_batches, N...> {};
template <int... N> struct zero : detail::member_is_one_of<&constraints::zero, N...> {};
template <int... N> struct coshard : detail::member_is_one_of<&constraints::coshard, N...> {};
template <schedule_kind... K> struct schedules : detail::member_is_one_of<&constraints::schedules, K...> {};
// Types as pt::schedule::one_f_one_b is one; the name may be left out.
template <class... Schedule> struct orders {
  static constexpr void narrow(constraints& c) {
    constraints own;
    own.orders = {own_order{name_of<Schedule>(), &Schedule::order}...};
    c.narrow(own);
  }
  template <class One> static constexpr std::string_view name_of() {
    if constexpr (requires { One::name; }) return One::name;
    else return "an order of one's own";
  }
};
template <int... N> struct chunks : detail::member_is_one_of<&constraints::chunks, N...> {};
// Of ops that match, these axes alone may be cut; none named: no axis.
template <fixed_string Ops, class... Axes> struct axes {
  static constexpr void narrow(constraints& c) {
    cut_rule r;
    r.ops = glob(Ops.view());
    r.axes = {&axis_of<Axes>::info...};
    r.no_axes = sizeof...(Axes) == 0;
    c.cuts.push_back(r);
  }
};
template <fixed_string Ops, int Least, int Most> struct pieces {
  static constexpr void narrow(constraints& c) {
    cut_rule r;
    r.ops = glob(Ops.view());
    r.least_pieces = Least;
    r.most_pieces = Most;
    c.cuts.push_back(r);
  }
};
template <fixed_string Ops, int... N> struct piece_counts {
  static constexpr void narrow(constraints& c) {
    cut_rule r;
    r.ops = glob(Ops.view());
    r.pieces = {N...};
    c.cuts.push_back(r);
  }
};
template <fixed_string Ops> struct no_replicas {
  static constexpr void narrow(constraints& c) {
    cut_rule r;
    r.ops = glob(Ops.view());
    r.replicas = false;
    c.cuts.push_back(r);
  }
};
struct equal_stages {
  static constexpr void narrow(constraints& c) { c.equal_stages = true; }
};
template <recompute_rule Rule, fixed_string Blocks = "*"> struct recompute {
  static constexpr void narrow(constraints& c) { c.recompute.push_back({glob(Blocks.view()), Rule}); }
};
template <fixed_string Ops, int First, int Last> struct region {
  static_assert(0 <= First && First <= Last, "pt::only::region: give the first and the last device, from 0 on");
  static constexpr void narrow(constraints& c) { c.regions.push_back({glob(Ops.view()), First, Last}); }
};
template <fixed_string Blocks> struct stages_begin_at {
  static constexpr void narrow(constraints& c) {
    constraints own;
    own.stage_begins = glob(Blocks.view());
    c.narrow(own);
  }
};
}  // namespace only

// What all of the types allow, and `given` too.
template <class... Rules> constexpr constraints constrained(constraints given = {}) {
  (Rules::narrow(given), ...);
  return given;
}

}  // namespace partita
