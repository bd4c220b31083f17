// Seconds of a collective over a group of devices, by algorithm, over the cluster's levels of links.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include <partita/cost/cluster.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// `bytes` of a collective: all_reduce, what each member holds; all_gather, the result; reduce_scatter, what each member
// puts in; all_to_all, what all members together hold; broadcast and permute, what one member sends.
enum class collective_kind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, permute };
constexpr std::string_view name_of(collective_kind kind) {
  switch (kind) {
    case collective_kind::all_reduce: return "all_reduce";
    case collective_kind::all_gather: return "all_gather";
    case collective_kind::reduce_scatter: return "reduce_scatter";
    case collective_kind::all_to_all: return "all_to_all";
    case collective_kind::broadcast: return "broadcast";
    case collective_kind::permute: return "permute";
  }
  return "?";
}

enum class collective_algorithm : std::uint8_t {
  best,          // the fastest of ring, tree and hierarchical
  ring,          // n - 1 steps (all_reduce: 2 (n - 1)), each over the slowest link of the ring (Thakur et al. 2005)
  tree,          // about log2 n steps: double binary trees (Sanders et al. 2009), recursive doubling and halving
  hierarchical,  // level by level, each device with its own share on the outer links (Cho et al. 2019, BlueConnect)
  one_latency    // alpha once, and the bytes of a ring: as Alpa's search has it (Zheng et al. 2022)
};

inline constexpr int max_link_levels = 6;

// How a group lies in the units of the levels.
struct group_shape {
  int members = 1;
  int top = 0;                 // the level that joins them all
  int fan[max_link_levels]{};  // units of the level below that the group has in one unit of each level, the most
  bool even = true;            // the same number everywhere
  static group_shape of(cluster const& c, std::span<int const> group) {
    group_shape s;
    s.members = static_cast<int>(group.size());
    if (group.size() < 2) return s;
    const int levels = std::min<int>(static_cast<int>(c.links.size()), max_link_levels);
    int below = 1, units_below = s.members;
    for (int l = 0; l < levels; ++l) {
      const int n = c.links[static_cast<std::size_t>(l)].devices;
      int units = 0, most = 0, least = s.members, now = 0, last_unit = -1, last_below = -1;
      auto close = [&] {
        if (now == 0) return;
        most = std::max(most, now);
        least = std::min(least, now);
      };
      for (int d : group) {  // sorted
        if (d / n != last_unit) {
          close();
          now = 0;
          last_unit = d / n;
          last_below = -1;
          ++units;
        }
        if (d / below != last_below) {
          last_below = d / below;
          ++now;
        }
      }
      close();
      s.fan[l] = most;
      s.even = s.even && most == least && units * most == units_below;
      s.top = l;
      units_below = units;
      below = n;
      if (units == 1) return s;
    }
    throw_error({"cluster ", c.name, ": no link joins devices ", group.front(), " and ", group.back()});
  }
  bool operator==(group_shape const&) const = default;
};

namespace detail::collective {

struct view {
  cluster const& c;
  group_shape const& s;
  double concurrent;  // groups that use the same links at once
  link_level const& level(int l) const { return c.links[static_cast<std::size_t>(l)]; }
  double beta(int l, double flows) const { return level(l).beta(flows); }
  // The slowest link of a ring or tree through all members: one flow in and out of every unit.
  double slowest_beta() const {
    double b = 0;
    for (int l = 0; l <= s.top; ++l)
      if (s.fan[l] > 1) b = std::max(b, beta(l, concurrent));
    return b;
  }
  double slowest_latency() const {
    double a = 0;
    for (int l = 0; l <= s.top; ++l)
      if (s.fan[l] > 1) a = std::max(a, level(l).latency);
    return a;
  }
};
// Bytes on every link of a ring over n members, in units of the bytes that define the collective.
inline double ring_bytes(collective_kind kind, double n) {
  switch (kind) {
    case collective_kind::all_reduce: return 2 * (n - 1) / n;
    case collective_kind::all_gather:
    case collective_kind::reduce_scatter: return (n - 1) / n;
    case collective_kind::all_to_all: return (n - 1) / (n * n);
    case collective_kind::broadcast: return 1;
    case collective_kind::permute: return 1;
  }
  return 0;
}
inline double ring(view const& v, collective_kind kind, double bytes) {
  const double n = v.s.members;
  const double steps = kind == collective_kind::permute ? 1 : kind == collective_kind::all_reduce ? 2 * (n - 1) : n - 1;
  return steps * v.slowest_latency() + ring_bytes(kind, n) * bytes * v.slowest_beta();
}
inline double tree(view const& v, collective_kind kind, double bytes) {
  const double n = v.s.members, depth = std::ceil(std::log2(n));
  double steps = depth, factor = ring_bytes(kind, n);
  if (kind == collective_kind::all_reduce) {
    steps = 2 * depth;
    factor = 2;
  } else if (kind == collective_kind::all_to_all) factor = depth / 2 / n;  // Bruck et al. 1997: half of the data a step
  else if (kind == collective_kind::permute) return ring(v, kind, bytes);
  return steps * v.slowest_latency() + factor * bytes * v.slowest_beta();
}
inline double one_latency(view const& v, collective_kind kind, double bytes) {
  const double n = v.s.members;
  const double factor = ring_bytes(kind, n) * (kind == collective_kind::all_to_all ? n / 2 : 1);
  return v.slowest_latency() + factor * bytes * v.slowest_beta();
}
// Level by level: an inner level leaves every device a share of what the outer levels carry.
inline double hierarchical(view const& v, collective_kind kind, double bytes) {
  double seconds = 0, share = bytes, inside = 1;
  for (int l = 0; l <= v.s.top; ++l) {
    const double n = v.s.fan[l];
    if (n < 2) continue;
    const double beta = v.beta(l, v.concurrent * inside), alpha = v.level(l).latency;
    switch (kind) {
      case collective_kind::all_reduce: {  // on the way out and on the way back; at the top an all-reduce, which is both
        seconds += 2 * (n - 1) * alpha + 2 * (n - 1) / n * share * beta;
        share /= n;
        break;
      }
      case collective_kind::all_gather:
      case collective_kind::reduce_scatter:
        seconds += (n - 1) * alpha + (n - 1) / n * share * beta;
        share /= n;
        break;
      case collective_kind::all_to_all:  // a device's data to and from all devices cross the levels one after the other
        seconds += (n - 1) * alpha + (n - 1) / n * bytes / v.s.members * beta;
        break;
      case collective_kind::broadcast:  // scattered on the way, each device with its share; gathered inside at the end
        seconds += (n - 1) * alpha + (l == v.s.top ? 1 : (n - 1) / n) * share * beta;
        share /= n;
        break;
      case collective_kind::permute: return ring(v, kind, bytes);
    }
    inside *= n;
  }
  return seconds;
}

}  // namespace detail::collective

// `concurrent`: as many groups of this shape use the same links at the same time (the groups along one dimension of a
// grid do). A group of one device takes no time.
inline double seconds_of(cluster const& c, collective_kind kind, group_shape const& shape, double bytes, double concurrent = 1,
                         collective_algorithm how = collective_algorithm::best) {
  if (shape.members < 2 || bytes <= 0) return 0;
  namespace by = detail::collective;
  const by::view v{c, shape, concurrent};
  switch (how) {
    case collective_algorithm::ring: return by::ring(v, kind, bytes);
    case collective_algorithm::tree: return by::tree(v, kind, bytes);
    case collective_algorithm::one_latency: return by::one_latency(v, kind, bytes);
    case collective_algorithm::hierarchical: return shape.even ? by::hierarchical(v, kind, bytes) : by::ring(v, kind, bytes);
    case collective_algorithm::best: break;
  }
  double least = std::min(by::ring(v, kind, bytes), by::tree(v, kind, bytes));
  if (shape.even && shape.top > 0) least = std::min(least, by::hierarchical(v, kind, bytes));
  return least;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
