// Clusters whose devices differ: a plan on the first n of them pays what the slowest of those takes.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <partita/cost/costs.hpp>

namespace partita::spaces {

class prefix_prices {
 public:
  // Of the first `available` devices. `k` must outlive this.
  prefix_prices(costs const& k, int available) {
    std::vector<int> known;
    std::vector<device_kind> kinds;
    for (int d = 0; d < available; ++d) {
      if (std::find(known.begin(), known.end(), k.kind_of(d)) != known.end()) continue;
      known.push_back(k.kind_of(d));
      kinds.push_back(k.of().kind_of(d));
      begins_.push_back(d);
      owned_.push_back(kinds.size() == 1 ? nullptr : std::make_unique<costs>(k.with_devices_of(cluster::slowest_of(kinds))));
      of_.push_back(owned_.back() ? owned_.back().get() : &k);
    }
  }
  int groups() const { return static_cast<int>(of_.size()); }
  // Plans on as many devices are priced alike.
  int group_of(int devices) const {
    return static_cast<int>(std::lower_bound(begins_.begin(), begins_.end(), devices) - begins_.begin()) - 1;
  }
  costs const& of(int group) const { return *of_[static_cast<std::size_t>(group)]; }

 private:
  std::vector<int> begins_;  // per group, the device that the ones before lack
  std::vector<std::unique_ptr<costs>> owned_;
  std::vector<costs const*> of_;
};

}  // namespace partita::spaces
