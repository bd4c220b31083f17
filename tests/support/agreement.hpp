// When a planned training has done the same as one device (DESIGN D10), step by step from equal weights. In bf16 and f16
// what is wanted is the computation in double, and a plan may be twice as far from it as one device is, in the root of the
// mean square: with 8 bits the farthest element is a matter of chance.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <partita/core/dtype.hpp>

namespace partita::testing {

inline double largest(std::vector<double> const& all) {
  double most = 0;
  for (double x : all) most = std::max(most, std::abs(x));
  return most;
}
// Every second value one rounding farther from zero: what that changes, rounding may.
inline std::vector<double> nudged(std::vector<double> values) {
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] *= 1 + 0x1p-52;
  return values;
}
inline double farthest(std::vector<double> const& a, std::vector<double> const& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    if (!(d <= most)) most = d;  // a NaN stays
  }
  return most;
}

inline double root_mean_square(std::vector<double> const& all) {
  double sum = 0;
  for (double x : all) sum += x * x;
  return all.empty() ? 0 : std::sqrt(sum / static_cast<double>(all.size()));
}

// What rounding alone does to a tensor may be told: the distance of one device from a computation in double, or in double
// from one whose weights are a rounding off. A plan is granted
// forty times that where it is more than the rule's share, as in sums that cancel.
class agreement {
 public:
  explicit agreement(dtype type, double granted_narrow = 2)
      : tolerance_(type == f64    ? 1e-5 * 0x1p-29  // 29 more bits
                   : type == bf16 ? 0x1p-8
                   : type == f16  ? 0x1p-11
                                  : 1e-5),
        granted_(is_narrow(type) ? granted_narrow : 40),
        f64_(type == f64),
        narrow_(is_narrow(type)) {}

  double size(std::vector<double> const& all) const { return narrow_ ? root_mean_square(all) : largest(all); }
  double distance(std::vector<double> const& a, std::vector<double> const& b) const {
    if (!narrow_ || a.size() != b.size()) return farthest(a, b);
    std::vector<double> apart(a);
    for (std::size_t i = 0; i < a.size(); ++i) apart[i] -= b[i];
    return root_mean_square(apart);
  }

  // Within 1e-5 of its value; in double within 1e-12, since nothing tells what rounding does there to a loss that has
  // almost vanished.
  void loss(double wanted, double have, double rounding = 0) {
    look(std::abs(have - wanted), std::max((f64_ ? 1e-12 : tolerance_) * std::abs(wanted), granted_ * rounding), "loss");
  }
  // What a tensor may differ by: 1e-5 of max(its size, 1e-3 of the model's largest).
  double allowed(std::vector<double> const& wanted, double most_of_model, double rounding = 0) const {
    const double floor = (f64_ ? 1e-11 : 1e-5) * most_of_model;  // a chance rounding of one device's is no bound
    return std::max({tolerance_ * std::max(size(wanted), 1e-3 * most_of_model), granted_ * rounding, floor});
  }
  void tensor(std::string const& name, std::vector<double> const& wanted, std::vector<double> const& have, double allowed) {
    look(distance(wanted, have), allowed, name);
  }
  // Weights after AdamW: within 1e-5 (largest weight + learning rate) where the gradient is well above rounding, within
  // twice the learning rate more where it is not: a gradient that is zero in exact arithmetic has a random sign. In
  // between the share of `of_gradient`, what the gradient may differ by, in the gradient: as much is in the step.
  void adamw(std::string const& name, std::vector<double> const& wanted, std::vector<double> const& have,
             std::vector<double> const& gradient, double of_gradient, double learning_rate) {
    if (wanted.size() != have.size()) return look(INFINITY, 0, name);
    const double near = tolerance_ * (largest(wanted) + learning_rate);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double size = std::abs(gradient[i]);
      look(std::abs(have[i] - wanted[i]), near + 2 * learning_rate * (size > of_gradient ? of_gradient / size : 1), name);
    }
  }

  bool of_narrow() const { return narrow_; }
  bool holds() const { return worst_ <= 1; }
  double worst() const { return worst_; }  // of the difference to what is allowed
  std::string const& where() const { return where_; }

 private:
  void look(double difference, double allowed, std::string const& name) {
    double share = difference == 0 ? 0 : difference / allowed;
    if (share != share) share = INFINITY;
    if (share <= worst_) return;
    worst_ = share;
    where_ = name;
  }
  double tolerance_, granted_, worst_ = 0;
  bool f64_, narrow_;
  std::string where_;
};

}  // namespace partita::testing
