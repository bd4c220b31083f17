// What collectives cost on one device grid of at most two dimensions, and changes of layout made of them.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <partita/cost/costs.hpp>

namespace partita::spaces {

inline constexpr int grid_dimensions = 2;

// What each dimension of the grid does to a tensor: the axis that it splits, or none (replicas), or partial results.
struct lies {
  static constexpr std::int8_t none = -1, partial = -2;
  std::array<std::int8_t, grid_dimensions> by{none, none};
  bool operator==(lies const&) const = default;
};

class grid_costs {
 public:
  // Outer dimension first; neighbours along the inner one are next to each other.
  grid_costs(costs const& k, int outer, int inner) : costs_(&k), extents_{outer, inner} {
    placement w;
    w.rank = grid_dimensions;
    w.extents[0] = outer;
    w.extents[1] = inner;
    w.strides[0] = inner;
    w.strides[1] = 1;
    for (int l = 0; l < grid_dimensions; ++l) {
      if (w.extents[l] < 2) continue;
      const std::size_t d = static_cast<std::size_t>(l);
      const std::vector<int> group = costs::group_along(w, 1u << l);
      groups_[d] = group_shape::of(k.of(), group);
      flows_[d] = k.concurrent_groups(w, group, groups_[d]);
    }
    if (outer > 1 && inner > 1) whole_ = group_shape::of(k.of(), costs::group_along(w, 3));
  }
  int extent(int dimension) const { return extents_[static_cast<std::size_t>(dimension)]; }
  int devices() const { return extents_[0] * extents_[1]; }
  double collective(collective_kind kind, int dimension, double bytes) const {
    const std::size_t d = static_cast<std::size_t>(dimension);
    return extents_[d] < 2 ? 0 : costs_->collective(kind, groups_[d], bytes, flows_[d]);
  }
  // Over the dimensions named, at once.
  double collective(collective_kind kind, bool const* over, double bytes) const {
    if (over[0] && over[1] && extents_[0] > 1 && extents_[1] > 1) return costs_->collective(kind, whole_, bytes);
    return (over[0] ? collective(kind, 0, bytes) : 0) + (over[1] ? collective(kind, 1, bytes) : 0);
  }
  costs const& of() const { return *costs_; }

  // Of the whole tensor, the share of it that one device holds.
  double share(lies const& l) const {
    double s = 1;
    for (std::size_t d = 0; d < grid_dimensions; ++d)
      if (l.by[d] >= 0) s /= extents_[d];
    return s;
  }

 private:
  costs const* costs_;
  std::array<int, grid_dimensions> extents_;
  std::array<group_shape, grid_dimensions> groups_{};
  std::array<double, grid_dimensions> flows_{1, 1};
  group_shape whole_{};
};

// Changes of layout of one tensor: dimension by dimension, in the better order of the two. What is sent in pieces and does not
// lie in memory piece by piece is copied before or after; so is a part of what a device has that is no run of memory.
class changes {
 public:
  static constexpr double impossible = 1e6;  // seconds

  // `extents`: of the tensor, by axis.
  changes(grid_costs const& g, double bytes, std::size_t const* extents, int rank)
      : grid_(&g), ways_(static_cast<std::size_t>(rank) + 2), known_(ways_ * ways_ * ways_ * ways_, -1) {
    for (int d = 0; d < grid_dimensions; ++d)
      for (int other_splits = 0; other_splits < 2; ++other_splits) {
        const double whole = bytes / (other_splits ? g.extent(1 - d) : 1), n = g.extent(d);
        auto& to = step_[static_cast<std::size_t>(d)][static_cast<std::size_t>(other_splits)];
        to.all_reduce = g.collective(collective_kind::all_reduce, d, whole);
        to.reduce_scatter = g.collective(collective_kind::reduce_scatter, d, whole);
        to.all_gather = g.collective(collective_kind::all_gather, d, whole);
        to.all_to_all = g.collective(collective_kind::all_to_all, d, whole) + 2 * n * g.of().pass_over(2 * whole / n / n);
        to.copies = n * g.of().pass_over(2 * whole / n);
        to.slice = g.of().pass_over(2 * whole / n);
      }
    for (int d = 0; d < grid_dimensions; ++d)
      for (int other = -1; other < rank; ++other) {
        bool one = true;
        for (int a = 0; a < rank; ++a) {
          in_runs_[place(d, a, other)] = one;
          one = one && extents[a] <= static_cast<std::size_t>(a == other ? g.extent(1 - d) : 1);
        }
      }
  }
  double seconds(lies const& from, lies const& to) const {
    if (from == to) return 0;
    double& known = known_[number(from) * ways_ * ways_ + number(to)];
    return known >= 0 ? known : known = least(from, to);
  }

 private:
  // Of a way to lie.
  std::size_t number(lies const& x) const {
    return static_cast<std::size_t>(x.by[0] + 2) * ways_ + static_cast<std::size_t>(x.by[1] + 2);
  }
  double least(lies const& from, lies const& to) const {
    lies half = from;
    half.by[1] = to.by[1];
    const double inner_first = step(1, from, to) + step(0, half, to);
    // An axis that both split is put together from the inside.
    if (from.by[0] >= 0 && from.by[0] == from.by[1] && to.by[0] != from.by[0]) return inner_first;
    half = from;
    half.by[0] = to.by[0];
    return std::min(inner_first, step(0, from, to) + step(1, half, to));
  }
  struct prices {
    double all_reduce = 0, reduce_scatter = 0, all_gather = 0, all_to_all = 0;
    double copies = 0, slice = 0;  // of all members' pieces; of a part of what a device has
  };
  double step(int dimension, lies const& from, lies const& to) const {
    const std::size_t d = static_cast<std::size_t>(dimension);
    const std::int8_t a = from.by[d], b = to.by[d], other = from.by[1 - d];
    if (a == b || grid_->extent(dimension) < 2) return 0;
    prices const& p = step_[d][other >= 0 ? 1 : 0];
    auto unless_in_runs = [&](std::int8_t axis, double copies) {
      return in_runs_[place(dimension, axis, std::max<int>(other, -1))] ? 0 : copies;
    };
    if (b == lies::partial) return impossible;
    if (a == lies::partial) return b == lies::none ? p.all_reduce : p.reduce_scatter + unless_in_runs(b, p.copies);
    if (a == lies::none) return unless_in_runs(b, p.slice);  // each takes its part
    return b == lies::none ? p.all_gather + unless_in_runs(a, p.copies) : p.all_to_all;
  }
  std::size_t place(int dimension, int axis, int other) const {
    return static_cast<std::size_t>((dimension * max_rank + axis) * (max_rank + 1) + other + 1);
  }
  grid_costs const* grid_;
  std::size_t ways_;                   // on one dimension
  mutable std::vector<double> known_;  // seconds, from and to: each pair is asked for often
  std::array<std::array<prices, 2>, grid_dimensions> step_{};
  // Do pieces along an axis lie in memory one after another, where the grid's other dimension splits another one, or none?
  std::array<bool, grid_dimensions * max_rank*(max_rank + 1)> in_runs_{};
};

}  // namespace partita::spaces
