// What the devices of this process read of the inputs.
#pragma once
#include <algorithm>
#include <cstddef>

#include <partita/core/list.hpp>
#include <partita/layout/box.hpp>
#include <partita/train/devices.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

class input_boxes {
 public:
  // In the first `sets` sets of programs.
  input_boxes(graph_data const& g, local_devices const& devices, std::size_t sets)
      : boxes_(static_cast<std::size_t>(g.tensors.size)) {
    for (box& b : boxes_) b.rank = 1;  // of no elements
    list<bool> seen(boxes_.size());
    for (std::size_t set = 0; set < sets; ++set)
      for (int r : devices.here())
        for (outside const& o : devices.what(set, r).inputs) {
          const auto t = static_cast<std::size_t>(o.tensor);
          boxes_[t] = seen[t] ? around(boxes_[t], box_of(o)) : box_of(o);
          seen[t] = true;
        }
  }
  // The smallest box around all that is read of a tensor.
  box const& of(int tensor) const { return boxes_[static_cast<std::size_t>(tensor)]; }
  // A piece of the whole as a piece of its tensor's box.
  outside inside(outside o) const {
    box const& given = of(o.tensor);
    for (int d = 0; d < o.rank; ++d) {
      o.begin[d] -= given.at[d].begin;
      o.whole[d] = given.at[d].size;
    }
    return o;
  }

 private:
  static box box_of(outside const& o) {
    box b;
    b.rank = o.rank;
    for (int d = 0; d < o.rank; ++d) b.at[d] = {o.begin[d], o.extents[d]};
    return b;
  }
  static box around(box a, box const& b) {
    for (int d = 0; d < a.rank; ++d) {
      const std::size_t begin = std::min(a.at[d].begin, b.at[d].begin);
      a.at[d] = {begin, std::max(a.at[d].end(), b.at[d].end()) - begin};
    }
    return a;
  }
  list<box> boxes_;  // by tensor
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
