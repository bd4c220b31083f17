// What collectives cost on one device grid of at most two dimensions, and changes of layout made of them.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
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

// Outer dimension first; neighbours along the inner one are next to each other.
class device_grid {
 public:
  constexpr device_grid(int outer, int inner) : extents_{outer, inner} {}
  constexpr int extent(int dimension) const { return extents_[static_cast<std::size_t>(dimension)]; }
  constexpr int devices() const { return extents_[0] * extents_[1]; }
  // Of a tensor with these extents, the share that the device with the largest piece holds.
  constexpr double share(lies const& l, std::size_t const* extents) const {
    const bool both_split_one = l.by[0] >= 0 && l.by[0] == l.by[1];
    if (both_split_one) return largest_of(extents[l.by[0]], devices());
    double s = 1;
    for (std::size_t d = 0; d < grid_dimensions; ++d)
      if (l.by[d] >= 0) s *= largest_of(extents[l.by[d]], extents_[d]);
    return s;
  }
  // The largest of so many pieces, as a share of the whole.
  static constexpr double largest_of(std::size_t whole, int pieces) {
    const std::size_t n = static_cast<std::size_t>(pieces);
    return static_cast<double>((whole + n - 1) / n) / static_cast<double>(whole);
  }

 private:
  std::array<int, grid_dimensions> extents_;
};

// `Costs`: `costs`, or what answers as they do (cost/plain_machine.hpp).
template <class Costs> class grid_costs : public device_grid {
 public:
  constexpr grid_costs(Costs const& k, int outer, int inner) : device_grid(outer, inner), costs_(&k) {
    placement w;
    w.rank = grid_dimensions;
    w.extents[0] = outer;
    w.extents[1] = inner;
    w.strides[0] = inner;
    w.strides[1] = 1;
    for (unsigned over = 1; over < groups_.size(); ++over)
      if ((over & 1) <= (outer > 1) && (over >> 1) <= (inner > 1)) groups_[over] = k.group_over(w, over);
  }
  constexpr double collective(collective_kind kind, int dimension, double bytes) const {
    return extent(dimension) < 2 ? 0 : costs_->collective(kind, groups_[1u << dimension], bytes);
  }
  // Over the dimensions named, at once.
  constexpr double collective(collective_kind kind, bool const* over, double bytes) const {
    if (over[0] && over[1] && extent(0) > 1 && extent(1) > 1) return costs_->collective(kind, groups_.back(), bytes);
    return (over[0] ? collective(kind, 0, bytes) : 0) + (over[1] ? collective(kind, 1, bytes) : 0);
  }
  constexpr Costs const& of() const { return *costs_; }

 private:
  Costs const* costs_;
  std::array<typename Costs::device_group, 1 << grid_dimensions> groups_{};  // by which dimensions they are over, a bit for each
};

inline constexpr double impossible = 1e6;  // seconds, of a change of layout that no collective makes

// Changes of layout of one tensor: dimension by dimension, in the better order of the two. What is sent in pieces and does not
// lie in memory piece by piece is copied before or after; so is a part of what a device has that is no run of memory.
template <class Costs> class changes {
 public:
  // `extents`: of the tensor, by axis.
  constexpr changes(grid_costs<Costs> const& g, double bytes, std::size_t const* extents, int rank)
      : grid_(&g), ways_(static_cast<std::size_t>(rank) + 2) {
    if (!std::is_constant_evaluated()) known_.assign(ways_ * ways_ * ways_ * ways_, -1);  // steps are metered there
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
  constexpr double seconds(lies const& from, lies const& to) {
    if (from == to) return 0;
    if (known_.empty()) return least(from, to);
    double& known = known_[number(from) * ways_ * ways_ + number(to)];
    return known >= 0 ? known : known = least(from, to);
  }

 private:
  // Of a way to lie.
  constexpr std::size_t number(lies const& x) const {
    return static_cast<std::size_t>(x.by[0] + 2) * ways_ + static_cast<std::size_t>(x.by[1] + 2);
  }
  constexpr double least(lies const& from, lies const& to) const {
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
  constexpr double step(int dimension, lies const& from, lies const& to) const {
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
  constexpr std::size_t place(int dimension, int axis, int other) const {
    return static_cast<std::size_t>((dimension * max_rank + axis) * (max_rank + 1) + other + 1);
  }
  grid_costs<Costs> const* grid_;
  std::size_t ways_;           // on one dimension
  std::vector<double> known_;  // seconds, from and to: each pair is asked for often
  std::array<std::array<prices, 2>, grid_dimensions> step_{};
  // Do pieces along an axis lie in memory one after another, where the grid's other dimension splits another one, or none?
  std::array<bool, grid_dimensions * max_rank*(max_rank + 1)> in_runs_{};
};

}  // namespace partita::spaces
