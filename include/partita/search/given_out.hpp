// Bytes of what a model gives out, on one grid: of activations that are put together from micro-batches, and of parameters.
#pragma once
#include <algorithm>
#include <vector>

#include <partita/search/cut_options.hpp>
#include <partita/search/problem.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

// How ZeRO cuts a parameter.
struct zero_parts {
  int axis = -1;       // none is long enough
  double largest = 1;  // the largest part, as a share of what a device would hold without
};

namespace detail {
constexpr bool shares_samples(searched_tensor const& x, lies const& l, device_grid const& grid) {
  for (int d = 0; d < grid_dimensions; ++d)
    if (const int axis = l.by[static_cast<std::size_t>(d)]; axis >= 0 && grid.extent(d) > 1 && x.is_batch[axis]) return true;
  return false;
}
}  // namespace detail

// From every way that an activation is made to every way that it is given out. It is changed once a step, of all micro-batches:
// till then it is there as it is made, and what it is sent from and arrives in beside it. Where it is made as it is given out its
// bytes count with the op that gives it out. Not so where devices share its samples: each has made some of every micro-batch, and
// gives out samples that follow one another.
constexpr std::vector<cost> costs_of_giving_out(segmented_model const& m, cut_options const& cuts, device_grid const& grid,
                                                int tensor, std::vector<lies> const& made, std::vector<lies> const& wanted) {
  searched_tensor const& x = m.tensors[static_cast<std::size_t>(tensor)];
  const double bytes = cut_options::bytes_of(x, m.samples);
  auto held = [&](lies const& l) { return bytes * grid.share(l, &x.wholes[0]); };
  std::vector<cost> costs;
  for (lies const& have : made) {
    const bool scattered = cuts.micro_batches() > 1 && detail::shares_samples(x, have, grid);
    const double of_all = scattered ? cuts.micro_batches() * cuts.held_bytes(tensor, have) : held(have);
    for (lies const& want : wanted) {
      cost& c = costs.emplace_back();
      if (have == want && !scattered) continue;
      c.held = of_all;
      c.transient = 2 * std::max(of_all, held(want));
    }
  }
  return costs;
}

// What an op makes of a device's piece of a parameter, whose extents are `pieces`. Of `parts` of it the largest, where they lie
// along an axis that the op has.
constexpr double bytes_of_weight(caused_op const& x, std::size_t const* pieces, zero_parts const& parts) {
  std::size_t extents[max_dims]{};
  bool in_parts = false;
  for (int d = 0; d < x.info->dim_count; ++d) {
    const int axis = x.info->dims[d].whole ? -1 : x.letter[d];
    extents[d] = axis >= 0 ? pieces[axis] : x.wholes[d];
    in_parts = in_parts || (axis >= 0 && axis == parts.axis);
  }
  operand const& as = x.info->outputs[0];
  return elements_of(as, extents) * static_cast<double>(size_of(as.type)) * (in_parts ? parts.largest : 1);
}

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
