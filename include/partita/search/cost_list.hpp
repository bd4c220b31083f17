// What an option costs, and lists of such costs by component.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <partita/core/growing.hpp>

namespace partita::spaces {

struct cost {
  double forward = 0, backward = 0;  // seconds per micro-batch
  double step = 0;                   // seconds per step
  double held = 0;                   // bytes, the whole step long
  double entry = 0;                  // bytes per micro-batch in flight, whether the segment is run again or not
  double kept = 0;                   // bytes per micro-batch in flight; where it is run again, while it runs
  double waiting = 0;                // bytes per micro-batch that waits for the gradients of weights alone
  double transient = 0;              // bytes while one op runs

  constexpr cost& operator+=(cost const& o) {
    forward += o.forward;
    backward += o.backward;
    step += o.step;
    held += o.held;
    entry += o.entry;
    kept += o.kept;
    waiting += o.waiting;
    transient = std::max(transient, o.transient);
    return *this;
  }
};
// What a component weighs in one number; transients have no weight.
inline constexpr int weighed = 7, weight_of_kept = 5;
using weights = std::array<double, weighed>;

// Costs by component; one that is zero in all of them takes no room.
class cost_list {
 public:
  cost_list() = default;
  // Written out: g++ 12 copies an array of vectors bit by bit in constant evaluation.
  constexpr cost_list(cost_list const& o) : size_(o.size_), as_given_(o.as_given_) {
    for (std::size_t k = 0; k < of_.size(); ++k) of_[k] = o.of_[k];
  }
  constexpr cost_list(cost_list&& o) noexcept : size_(o.size_), as_given_(std::move(o.as_given_)) {
    for (std::size_t k = 0; k < of_.size(); ++k) of_[k] = std::move(o.of_[k]);
    o.size_ = 0;
  }
  constexpr cost_list& operator=(cost_list o) noexcept {
    for (std::size_t k = 0; k < of_.size(); ++k) of_[k] = std::move(o.of_[k]);
    size_ = o.size_;
    as_given_ = std::move(o.as_given_);
    return *this;
  }
  // There will be so many.
  constexpr void expect(std::size_t size) { expected_ = size; }
  constexpr void append(std::vector<cost> const& costs) {
    constexpr double cost::*members[]{&cost::forward, &cost::backward, &cost::step,    &cost::held,
                                      &cost::entry,   &cost::kept,     &cost::waiting, &cost::transient};
    if (std::is_constant_evaluated()) {
      for (cost const& c : costs) as_given_.push(c);
      size_ += costs.size();
      return;
    }
    for (std::size_t k = 0; k < of_.size(); ++k) {
      std::vector<double>& component = of_[k];
      const auto member = members[k];
      bool any = !component.empty();
      for (std::size_t i = 0; i < costs.size() && !any; ++i) any = costs[i].*member != 0;
      if (!any) continue;
      component.reserve(expected_);
      component.resize(size_ + costs.size(), 0);
      for (std::size_t i = 0; i < costs.size(); ++i) component[size_ + i] = costs[i].*member;
    }
    size_ += costs.size();
  }
  constexpr std::size_t size() const { return size_; }
  constexpr cost operator[](std::size_t i) const {
    if (std::is_constant_evaluated()) return as_given_[static_cast<int>(i)];
    auto at = [&](std::size_t k) { return of_[k].empty() ? 0.0 : of_[k][i]; };
    return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)};
  }
  constexpr double transient(std::size_t i) const { return of_[weighed].empty() ? 0.0 : of_[weighed][i]; }
  // The weighed sum of `count` costs from `first` on.
  constexpr void weigh(weights const& w, std::size_t first, std::size_t count, double* into) const {
    bool any = false;
    for (std::size_t k = 0; k < static_cast<std::size_t>(weighed); ++k) {
      if (w[k] == 0 || of_[k].empty()) continue;
      double const* from = of_[k].data() + first;
      if (!std::exchange(any, true))
        for (std::size_t i = 0; i < count; ++i) into[i] = w[k] * from[i];
      else
        for (std::size_t i = 0; i < count; ++i) into[i] += w[k] * from[i];
    }
    if (!any) std::fill(into, into + count, 0.0);
  }

 private:
  std::array<std::vector<double>, weighed + 1> of_;
  std::size_t size_ = 0, expected_ = 0;
  growing<cost> as_given_;  // in place of components in constant evaluation, where steps are metered
};

}  // namespace partita::spaces
