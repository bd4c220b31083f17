// Tensors of one size share what is known about changes of their layout: in a block most are alike to another one.
#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include <partita/search/grid_costs.hpp>

namespace partita::spaces {

template <class Costs> class known_changes {
 public:
  // `grid` must outlive this.
  explicit constexpr known_changes(grid_costs<Costs> const& grid) : grid_(&grid) {}
  // Of a tensor of so many bytes with these extents. Good until the next call.
  constexpr changes<Costs>& of(double bytes, std::array<std::size_t, max_rank> const& extents, int rank) {
    for (tensor& x : all_)
      if (x.bytes == bytes && x.rank == rank && x.extents == extents) return x.change;
    all_.push_back({bytes, rank, extents, changes<Costs>(*grid_, bytes, extents.data(), rank)});
    return all_.back().change;
  }

 private:
  struct tensor {
    double bytes;
    int rank;
    std::array<std::size_t, max_rank> extents;
    changes<Costs> change;
  };
  grid_costs<Costs> const* grid_;
  std::vector<tensor> all_;
};

}  // namespace partita::spaces
