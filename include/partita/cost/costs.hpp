// What planning is told about time and memory: seconds of a piece of an op on a device, of a collective over a group, of
// a send; bytes of a device. Backward and update ops are ops of the graph like any others. What was measured is taken
// from the profile, the rest from the devices' rooflines and the links. One thread at a time asks an object.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include <partita/cost/cluster.hpp>
#include <partita/cost/collective.hpp>
#include <partita/cost/profile.hpp>
#include <partita/cost/work.hpp>
#include <partita/layout/layout.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct cost_options {
  collective_algorithm algorithm = collective_algorithm::best;
};

class costs {
 public:
  // Throws error where the cluster is none.
  explicit costs(cluster c, cost_options how = {}) : costs(std::move(c), profile{}, how) {}
  costs(cluster c, profile const& measured, cost_options how = {}) : cluster_(std::move(c)), how_(how), measured_(measured) {
    cluster_.check();
    for (device_kind const& k : cluster_.kinds) kinds_.emplace_back(k);
    for (device_run const& r : cluster_.devices)
      for (std::size_t k = 0; k < kinds_.size(); ++k)
        if (cluster_.kinds[k].name == r.kind) {
          kind_of_.insert(kind_of_.end(), static_cast<std::size_t>(r.count), static_cast<int>(k));
          break;
        }
  }

  // The same links and measurements, where every device is of this kind.
  costs with_devices_of(device_kind const& kind) const {
    costs r = *this;
    r.cluster_.kinds = {kind};
    r.cluster_.devices = {{kind.name, devices()}};
    r.kinds_.assign(1, roofline(kind));
    r.kind_of_.assign(kind_of_.size(), 0);
    return r;
  }

  cluster const& of() const { return cluster_; }
  // Some of what it says comes from a profile.
  bool measured() const { return !measured_.empty(); }
  int devices() const { return static_cast<int>(kind_of_.size()); }
  // Devices of one kind take the same time and have the same memory.
  int kind_of(int device) const { return kind_of_[static_cast<std::size_t>(device)]; }
  double peak(dtype type, int device = 0) const {
    return kinds_[static_cast<std::size_t>(kind_of(device))].peak(type);
  }  // FLOP/s
  double memory(int device) const { return cluster_.kinds[static_cast<std::size_t>(kind_of(device))].memory; }

  // A piece of an op; `extents` per letter, in the order of op_info::dims. Sources and views take no time.
  // `accumulates`: it adds to its output.
  double op(op_info const& info, std::size_t const* extents, int device = 0, int inputs = -1, bool accumulates = false) const {
    if (info.source != source_kind::none || info.is_view) return 0;
    if (!measured_.empty() && !info.variadic)
      if (const double s = measured_.op(info, extents, accumulates); s >= 0) return s;
    return op(work_of(info, extents, inputs, accumulates), device);
  }
  double op(op_work const& w, int device = 0) const { return kinds_[static_cast<std::size_t>(kind_of(device))].seconds(w); }
  // Of `n` devices that share the work of an op, each in so many turns at the most, the slowest takes no less. With a profile
  // nothing is known about that.
  double least_share(op_work w, int n, int turns = 1) const {
    if (!measured_.empty() || (w.flops <= 0 && w.bytes <= 0)) return 0;
    w.flops /= n;
    w.bytes /= n;
    if (w.reuse > static_cast<double>(n) * turns) return op(w);
    op_work thin = w;  // a piece of a product may not be one
    thin.product = false;
    return std::min(op(w), op(thin));
  }
  // A piece whose operands are in a core's cache; negative where none was measured.
  double tile(op_info const& info, std::size_t const* extents) const {
    return measured_.empty() ? -1 : measured_.tile(info, extents);
  }
  // Bytes read and bytes written by a copy, a sum of partial results, a fill.
  double pass_over(double bytes, int device = 0) const {
    if (const double s = measured_.transfer("copy", 1, bytes); s >= 0) return bytes > 0 ? s : 0;
    return op(op_work{0, bytes, f32}, device);
  }

  // Over a sorted group of devices. What `bytes` means stands with collective_kind.
  double collective(collective_kind kind, std::span<int const> group, double bytes, double concurrent = 1) const {
    return collective(kind, group_shape::of(cluster_, group), bytes, concurrent);
  }
  double collective(collective_kind kind, group_shape const& shape, double bytes, double concurrent = 1) const {
    if (shape.members < 2 || bytes <= 0) return 0;
    if (const double s = measured_.transfer(name_of(kind), shape.members, bytes); s >= 0) return s;
    return seconds_of(cluster_, kind, shape, bytes, concurrent, how_.algorithm);
  }
  // One of the groups of devices that differ along some dimensions of a grid (a mask), all of which are at work at once.
  struct device_group {
    group_shape shape{};
    double concurrent = 1;
  };
  device_group group_over(placement const& grid, unsigned levels) const {
    const std::vector<int> devices = group_along(grid, levels);
    const group_shape shape = group_shape::of(cluster_, devices);
    return {shape, concurrent_groups(grid, devices, shape)};
  }
  double collective(collective_kind kind, device_group const& over, double bytes) const {
    return collective(kind, over.shape, bytes, over.concurrent);
  }
  // Over all groups along one dimension of a grid, at once; or along several (a mask).
  double collective(collective_kind kind, placement const& grid, int level, double bytes) const {
    return collective_over(kind, grid, 1u << level, bytes);
  }
  double collective_over(collective_kind kind, placement const& grid, unsigned levels, double bytes) const {
    return collective(kind, group_over(grid, levels), bytes);
  }
  double send(int from, int to, double bytes, double concurrent = 1) const {
    if (from == to || bytes <= 0) return 0;
    if (const double s = measured_.transfer("send", 2, bytes); s >= 0) return s;
    link_level const& l = cluster_.links[static_cast<std::size_t>(cluster_.level_between(from, to))];
    return l.latency + bytes * l.beta(concurrent);
  }
  // Sends of `out` bytes and receives of `in` bytes at once, where that was measured; negative elsewhere.
  double exchange(double out, double in) const {
    if (out > 0 && in > 0) return measured_.transfer("exchange", 2, std::max(out, in));
    return measured_.transfer("send", 2, std::max(out, in));
  }
  // How many groups like this one of a grid, its first, leave one unit below the level that joins the group.
  double concurrent_groups(placement const& grid, std::vector<int> const& group, group_shape const& shape) const {
    if (shape.top == 0) return 1;
    const int unit = cluster_.links[static_cast<std::size_t>(shape.top) - 1].devices, first = grid.device_at(0) / unit;
    double here = 0, own = 0;
    for (int i = 0, n = grid.size(); i < n; ++i)
      if (grid.device_at(i) / unit == first) ++here;
    for (int device : group)
      if (device / unit == first) ++own;
    return own > 0 ? std::max(1.0, here / own) : 1;
  }
  // The devices that differ from the grid's first one along these dimensions alone, sorted.
  static std::vector<int> group_along(placement const& grid, unsigned levels) {
    std::vector<int> group;
    for (int i = 0, n = grid.size(); i < n; ++i) {
      int at[max_levels]{};
      grid.coordinates_at(i, at);
      bool along = true;
      for (int l = 0; l < grid.rank; ++l) along = along && (at[l] == 0 || (levels >> l & 1) != 0);
      if (along) group.push_back(grid.device(at));
    }
    std::sort(group.begin(), group.end());
    return group;
  }

 private:
  cluster cluster_;
  cost_options how_;
  profiled measured_;
  std::vector<roofline> kinds_;
  std::vector<int> kind_of_;  // by device
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
