// Devices that are alike, with links that are alike between all of them: costs for constant evaluation, and the same ones as a
// cluster, for what runs.
#pragma once
#include <algorithm>

#include <partita/cost/collective.hpp>
#include <partita/cost/work.hpp>
#include <partita/layout/layout.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// Answers as `costs` does.
struct plain_machine {
  double flops = 1e12, bandwidth = 1e12;  // per second; bytes per second
  double launch = 0;                      // seconds per op
  double alpha = 5e-6, beta = 1e-10;      // of a link: seconds, seconds per byte
  double memory = 1e12;                   // bytes of a device
  int count = 1;                          // of devices

  constexpr int devices() const { return count; }
  constexpr double op(op_info const& f, std::size_t const* extents, int = 0, int inputs = -1, bool accumulates = false) const {
    return seconds(work_of(f, extents, inputs, accumulates));
  }
  constexpr double pass_over(double bytes, int = 0) const { return seconds({0, bytes, f32}); }
  // Of an op that so many devices share.
  constexpr double least_share(op_work w, int n) const {
    w.flops /= n;
    w.bytes /= n;
    return seconds(w);
  }
  constexpr double send(int from, int to, double bytes, double = 1) const {
    return from == to || bytes <= 0 ? 0 : alpha + beta * bytes;
  }

  struct device_group {
    int members = 1;
  };
  constexpr device_group group_over(placement const& grid, unsigned levels) const {
    device_group g;
    for (int l = 0; l < grid.rank; ++l)
      if ((levels >> l & 1) != 0) g.members *= grid.extents[l];
    return g;
  }
  // In rings: 2 (n - 1) steps of an n-th for an all-reduce, n - 1 for the others (a personalized exchange for the last one).
  constexpr double collective(collective_kind kind, device_group const& over, double bytes) const {
    if (over.members < 2 || bytes <= 0) return 0;
    const double n = over.members, steps = kind == collective_kind::all_reduce ? 2 * (n - 1) : n - 1;
    const double each = kind == collective_kind::all_to_all ? bytes / n / n : bytes / n;
    return steps * (alpha + beta * each);
  }
  constexpr double collective(collective_kind kind, placement const& grid, int level, double bytes) const {
    return collective_over(kind, grid, 1u << level, bytes);
  }
  constexpr double collective_over(collective_kind kind, placement const& grid, unsigned levels, double bytes) const {
    return collective(kind, group_over(grid, levels), bytes);
  }

 private:
  constexpr double seconds(op_work const& w) const {
    return w.flops <= 0 && w.bytes <= 0 ? 0 : launch + std::max(w.flops / flops, w.bytes / bandwidth);
  }
};

// The same devices and links, for searching, simulating and reporting: `costs(cluster_of(m, n), {collective_algorithm::ring})`
// says what `m` says.
inline cluster cluster_of(plain_machine const& m, int devices) {
  cluster c;
  c.name = "plain machine";
  c.kinds = {{"device", {{"f32", m.flops}}, m.memory, m.bandwidth, m.launch, {}, {}, ""}};
  c.devices = {{"device", devices}};
  c.links = {{"link", devices, m.alpha, m.beta, {}, ""}};
  return c;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
