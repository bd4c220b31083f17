// From one layout to another on the same grid: the cheapest chain of collectives, each over one dimension of the grid
// (DESIGN D7). Cuts in time are the same in both and stay as they are.
#pragma once
#include <cstdint>
#include <vector>

#include <partita/layout/layout.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

enum class transition_kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, slice };
struct transition_step {
  transition_kind kind = transition_kind::slice;
  int level = 0;                     // the dimension whose devices take part
  int from_axis = -1, to_axis = -1;  // of the tensor; -1 where there is none
  layout after{};
};
// Seconds that one step takes; any object with these members may stand in.
struct link_cost {
  double latency = 1e-5, seconds_per_byte = 1e-10;
  double all_reduce(int n, double bytes) const { return latency + seconds_per_byte * 2 * (n - 1) / n * bytes; }
  double all_gather(int n, double bytes) const { return latency + seconds_per_byte * (n - 1) / n * bytes; }
  double reduce_scatter(int n, double bytes) const { return latency + seconds_per_byte * (n - 1) / n * bytes; }
  double all_to_all(int n, double bytes) const { return latency + seconds_per_byte * (n - 1) / (double(n) * n) * bytes; }
  double slice(double bytes) const { return 1e-9 + seconds_per_byte * 1e-3 * bytes; }
};

// Empty when the layouts are equal; `found` says whether there is a chain. `bytes`: of the whole tensor. A chain exists
// unless a cut in time stands inside one in space that has to go: then pieces are not boxes of one another.
template <class Cost = link_cost>
std::vector<transition_step> cheapest_chain(layout const& from, layout const& to, int rank, double bytes, bool& found,
                                            Cost const& cost = {}) {
  struct state {
    layout lay;
    double seconds;
    int before;
    transition_step step;
    bool done;
  };
  auto same = [&](layout const& a, layout const& b) {
    for (int axis = -1; axis < rank; ++axis)
      if (axis >= 0) {
        if (!same_on_axis(a, b, axis)) return false;
      } else {
        int partial_a = 0, partial_b = 0;
        for (int p = 0; p < a.count; ++p)
          if (a.parts[p].partial()) partial_a |= 1 << a.parts[p].level;
        for (int p = 0; p < b.count; ++p)
          if (b.parts[p].partial()) partial_b |= 1 << b.parts[p].level;
        if (partial_a != partial_b) return false;
      }
    return true;
  };
  auto piece_bytes = [&](layout const& l) {
    double b = bytes;
    for (int p = 0; p < l.count; ++p)
      if (!l.parts[p].partial()) b /= l.parts[p].pieces;
    return b;
  };
  auto without = [](layout const& l, int drop) {
    layout r;
    r.where = l.where;
    for (int p = 0; p < l.count; ++p)
      if (p != drop) r.push(l.parts[p]);
    return r;
  };
  std::vector<state> states;
  states.push_back(state{from, 0.0, -1, transition_step{}, false});
  auto reach = [&](int before, transition_step step, double seconds) {
    for (state& s : states)
      if (same(s.lay, step.after)) {
        if (seconds < s.seconds) {
          s.seconds = seconds;
          s.before = before;
          s.step = step;
          s.done = false;
        }
        return;
      }
    states.push_back(state{step.after, seconds, before, step, false});
  };
  for (;;) {
    int at = -1;
    for (int i = 0; i < static_cast<int>(states.size()); ++i)
      if (!states[static_cast<std::size_t>(i)].done &&
          (at < 0 || states[static_cast<std::size_t>(i)].seconds < states[static_cast<std::size_t>(at)].seconds))
        at = i;
    if (at < 0) {
      found = false;
      return {};
    }
    state& now = states[static_cast<std::size_t>(at)];
    now.done = true;
    const layout lay = now.lay;
    const double seconds = now.seconds;
    if (same(lay, to)) {
      std::vector<transition_step> chain;
      for (int i = at; states[static_cast<std::size_t>(i)].before >= 0; i = states[static_cast<std::size_t>(i)].before)
        chain.insert(chain.begin(), states[static_cast<std::size_t>(i)].step);
      found = true;
      return chain;
    }
    for (int level = 0; level < lay.where.rank; ++level) {
      const int n = lay.where.extents[level];
      int held = -1;
      for (int p = 0; p < lay.count; ++p)
        if (lay.parts[p].level == level) held = p;
      // The cut that the target wants next on an axis over this dimension, if it is the next one there.
      int want = -1;
      for (int axis = 0; axis < rank && want < 0; ++axis) {
        int k = 0;
        while (part_on(lay, axis, k) >= 0) ++k;
        const int removed = held >= 0 && lay.parts[held].axis == axis ? 1 : 0;
        const int q = part_on(to, axis, k - removed);
        if (q >= 0 && to.parts[q].level == level) want = q;
      }
      const bool last_on_axis = [&] {
        if (held < 0 || lay.parts[held].partial()) return true;
        for (int p = held + 1; p < lay.count; ++p)
          if (lay.parts[p].axis == lay.parts[held].axis) return false;
        return true;
      }();
      auto with = [&](layout l, int q) {
        l.push(to.parts[q]);
        return l;
      };
      if (held < 0) {
        if (want >= 0)
          reach(at, transition_step{transition_kind::slice, level, -1, to.parts[want].axis, with(lay, want)},
                seconds + cost.slice(piece_bytes(lay)));
        continue;
      }
      if (!last_on_axis) continue;
      const layout rest = without(lay, held);
      const double whole = piece_bytes(rest);
      const int from_axis = lay.parts[held].axis;
      if (lay.parts[held].partial()) {
        reach(at, transition_step{transition_kind::all_reduce, level, -1, -1, rest}, seconds + cost.all_reduce(n, whole));
        if (want >= 0)
          reach(at, transition_step{transition_kind::reduce_scatter, level, -1, to.parts[want].axis, with(rest, want)},
                seconds + cost.reduce_scatter(n, whole));
      } else {
        reach(at, transition_step{transition_kind::all_gather, level, from_axis, -1, rest}, seconds + cost.all_gather(n, whole));
        if (want >= 0 && to.parts[want].axis != from_axis)
          reach(at, transition_step{transition_kind::all_to_all, level, from_axis, to.parts[want].axis, with(rest, want)},
                seconds + cost.all_to_all(n, whole));
      }
    }
  }
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
