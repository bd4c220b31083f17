// Tables of a space that shapes share while any of them has them. Shapes that differ in schedule alone have the same ones, but
// where gradients of weights fill bubbles; those tables differ in little from each other and are made together.
#pragma once
#include <compare>
#include <map>
#include <memory>
#include <vector>

#include <partita/search/problem.hpp>

namespace partita::spaces {

class shared_tables {
 public:
  struct key {
    int kind, devices, micro_batches, inner, prices, turns;
    bool rest, splits;  // splits: gradients of weights fill bubbles
    auto operator<=>(key const&) const = default;
  };
  // The table of this number of those that `make()` makes, as a vector.
  template <class Make> std::shared_ptr<table const> get(key const& k, std::size_t number, Make&& make) {
    std::weak_ptr<std::vector<table> const>& known = known_[k];
    std::shared_ptr<std::vector<table> const> all = known.lock();
    if (!all) known = all = std::make_shared<std::vector<table> const>(make());
    table const* const wanted = &(*all)[number];
    return {std::move(all), wanted};
  }

 private:
  std::map<key, std::weak_ptr<std::vector<table> const>> known_;
};

}  // namespace partita::spaces
