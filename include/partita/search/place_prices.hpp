// Clusters whose devices differ: a stage pays what the slowest of its own devices takes, and has the smallest of their memories.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <partita/cost/costs.hpp>

namespace partita::spaces {

// Stages whose devices are of the same kinds are at one place.
class place_prices {
 public:
  // `k` must outlive this.
  explicit place_prices(costs const& k) : k_(&k) {}

  // Of the devices from `first` on.
  int place_of(int first, int devices) {
    std::vector<int> kinds;
    for (int d = first; d < first + devices; ++d)
      if (std::find(kinds.begin(), kinds.end(), k_->kind_of(d)) == kinds.end()) kinds.push_back(k_->kind_of(d));
    std::sort(kinds.begin(), kinds.end());
    const auto [place, fresh] = known_.try_emplace(kinds, static_cast<int>(of_.size()));
    if (!fresh) return place->second;
    std::vector<device_kind> all;
    for (int kind : kinds) all.push_back(k_->of().kinds[static_cast<std::size_t>(kind)]);
    const bool as_first = kinds == std::vector<int>{k_->kind_of(0)};
    owned_.push_back(as_first ? nullptr : std::make_unique<costs>(k_->with_devices_of(cluster::slowest_of(all))));
    of_.push_back(as_first ? k_ : owned_.back().get());
    return place->second;
  }
  costs const& of(int place) const { return *of_[static_cast<std::size_t>(place)]; }
  double memory(int place) const { return of(place).memory(0); }

 private:
  costs const* k_;
  std::map<std::vector<int>, int> known_;
  std::vector<std::unique_ptr<costs>> owned_;
  std::vector<costs const*> of_;
};

}  // namespace partita::spaces
