// The steps of which a change of layout is made, and what they cost.
#pragma once
#include <bit>
#include <cstdint>
#include <string_view>

#include <partita/layout/layout.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

enum class transition_kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  slice,    // of what a device has; nothing is sent
  permute,  // every device sends its piece to one device of the same grid, and gets one
  send,     // from every device to its counterpart on another grid of the same shape
  boxes,    // everybody gets the parts of its piece from wherever they are: redistribution.hpp
  renumber  // nothing is sent: the same devices, with what they have, are counted otherwise
};
constexpr std::string_view name_of(transition_kind kind) {
  constexpr std::string_view names[]{"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "slice",
                                     "permute",    "send",           "boxes",      "renumber"};
  return names[static_cast<int>(kind)];
}
struct transition_step {
  transition_kind kind = transition_kind::slice;
  unsigned levels = 0;               // the dimensions whose devices take part: bit l for dimension l
  int from_axis = -1, to_axis = -1;  // of the tensor; -1 where there is none, or several
  layout after{};
  constexpr int level() const { return levels == 0 ? 0 : std::countr_zero(levels); }
};

// Seconds that one step takes; any object with these members may stand in. n: devices of the group. bytes: all_reduce,
// reduce_scatter: what each holds before; all_gather: what each holds after; all_to_all: what the group holds together;
// slice, permute, send: what each holds before. An object that also has `on(placement const&, unsigned levels)` is asked for
// the cost object of every group, so that links may differ by dimension.
struct link_cost {
  double latency = 1e-5, seconds_per_byte = 1e-10;
  constexpr double all_reduce(int n, double bytes) const { return latency + seconds_per_byte * 2 * (n - 1) / n * bytes; }
  constexpr double all_gather(int n, double bytes) const { return latency + seconds_per_byte * (n - 1) / n * bytes; }
  constexpr double reduce_scatter(int n, double bytes) const { return latency + seconds_per_byte * (n - 1) / n * bytes; }
  constexpr double all_to_all(int n, double bytes) const {
    return latency + seconds_per_byte * (n - 1) / (double(n) * n) * bytes;
  }
  constexpr double slice(double bytes) const { return 1e-9 + seconds_per_byte * 1e-3 * bytes; }
  constexpr double permute(double bytes) const { return latency + seconds_per_byte * bytes; }
  constexpr double send(double bytes) const { return latency + seconds_per_byte * bytes; }
};

namespace detail {

constexpr int devices_over(placement const& w, unsigned levels) {
  int n = 1;
  for (int l = 0; l < w.rank; ++l)
    if (levels >> l & 1) n *= w.extents[l];
  return n;
}
template <class Cost> constexpr auto cost_on(Cost const& cost, placement const& w, unsigned levels) {
  if constexpr (requires { cost.on(w, levels); }) return cost.on(w, levels);
  else return cost;
}
// `held`: what one device holds before the step; `rest`: the same without the cuts that the step undoes.
template <class Cost> constexpr double step_seconds(Cost const& all, placement const& w, transition_kind kind, unsigned levels,
                                                    double held, double rest) {
  const auto cost = cost_on(all, w, levels);
  const int n = devices_over(w, levels);
  switch (kind) {
    case transition_kind::all_reduce: return cost.all_reduce(n, rest);
    case transition_kind::reduce_scatter: return cost.reduce_scatter(n, rest);
    case transition_kind::all_gather: return cost.all_gather(n, rest);
    case transition_kind::all_to_all: return cost.all_to_all(n, rest);
    case transition_kind::slice: return cost.slice(held);
    case transition_kind::permute: return cost.permute(held);
    case transition_kind::send:
    case transition_kind::boxes: return cost.send(held);
    case transition_kind::renumber: return 0;
  }
  return 0;
}

}  // namespace detail

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
