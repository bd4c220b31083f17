// Grids of one shape on the same devices that number them otherwise, as lists of devices do: what stays where it is.
#pragma once
#include <partita/layout/layout.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

class renumbering {
 public:
  constexpr renumbering(placement const& from, placement const& to) {
    same_ = from.same_shape(to);
    int at[max_levels]{};
    for (int i = 0, n = from.size(); i < n && same_; ++i) {
      same_ = to.coordinates_of(from.device_at(i), at);
      for (int l = 0; l < from.rank; ++l) new_.push(at[l]);
      from.coordinates_at(i, at);
      for (int l = 0; l < from.rank; ++l) old_.push(at[l]);
    }
    rank_ = from.rank;
    devices_ = from.size();
  }
  constexpr bool on_the_same_devices() const { return same_; }
  // Has every device in the one numbering what it has in the other, where dimensions `cut` (bit l: dimension l) cut and
  // dimensions `partial` hold parts of a sum? Which part is called which does not matter.
  constexpr bool keeps(unsigned cut, unsigned partial) const {
    if (!same_) return false;
    for (int d = 0; d < devices_; ++d)
      if (!alike(d, cut)) return false;
    if (partial == 0) return true;
    for (int d = 0; d < devices_; ++d)
      for (int e = 0; e < d; ++e) {
        if (!equal(old_, d, e, cut)) continue;
        if (equal(old_, d, e, partial) != equal(new_, d, e, partial)) return false;
      }
    return true;
  }

 private:
  constexpr bool alike(int d, unsigned levels) const {
    for (int l = 0; l < rank_; ++l)
      if ((levels >> l & 1) && old_[d * rank_ + l] != new_[d * rank_ + l]) return false;
    return true;
  }
  constexpr bool equal(growing<int> const& of, int d, int e, unsigned levels) const {
    for (int l = 0; l < rank_; ++l)
      if ((levels >> l & 1) && of[d * rank_ + l] != of[e * rank_ + l]) return false;
    return true;
  }
  bool same_ = false;
  int rank_ = 0, devices_ = 0;
  growing<int> old_{}, new_{};  // coordinates of the devices, in the old order
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
