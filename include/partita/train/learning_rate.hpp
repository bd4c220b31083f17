// Learning rates over the steps of a training, as comparable, printable values.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <ostream>
#include <string>

#include <partita/core/words.hpp>

namespace partita {

// Steps count from 0. During `warm_up` steps the rate rises in equal parts, rate(0) = peak / warm_up and
// rate(warm_up - 1) = peak. From step `warm_up`, where it is `peak`, it falls until step `steps` and is `floor` from
// there on. The cosine is that of Loshchilov and Hutter, SGDR, arXiv 1608.03983, without restarts.
class learning_rate {
 public:
  enum class shape { constant, cosine, linear };

  // `rate` at every step, after a warm-up if one is asked for. Throws `error` unless the rate is finite and at
  // least 0.
  static constexpr learning_rate constant(double rate, std::uint64_t warm_up = 0) {
    return {shape::constant, rate, warm_up, 0, rate};
  }
  // Half a cosine wave from `peak` down to `floor`. Throws `error` unless 0 <= floor <= peak, both finite, and
  // warm_up < steps.
  static constexpr learning_rate cosine(double peak, std::uint64_t warm_up, std::uint64_t steps, double floor = 0) {
    return {shape::cosine, peak, warm_up, steps, floor};
  }
  // A straight line from `peak` down to `floor`. Throws `error` as `cosine` does.
  static constexpr learning_rate linear(double peak, std::uint64_t warm_up, std::uint64_t steps, double floor = 0) {
    return {shape::linear, peak, warm_up, steps, floor};
  }

  // The rate of step `step`, counted from 0.
  double rate(std::uint64_t step) const {
    if (step < warm_up_) return peak_ * static_cast<double>(step + 1) / static_cast<double>(warm_up_);
    if (shape_ == shape::constant) return peak_;
    if (step >= steps_) return floor_;
    const double done = static_cast<double>(step - warm_up_) / static_cast<double>(steps_ - warm_up_);
    const double left = shape_ == shape::linear ? 1 - done : (1 + std::cos(std::numbers::pi * done)) / 2;
    return floor_ + (peak_ - floor_) * left;
  }

  constexpr shape form() const { return shape_; }
  constexpr double peak() const { return peak_; }
  constexpr std::uint64_t warm_up() const { return warm_up_; }
  constexpr std::uint64_t steps() const { return steps_; }  // 0 for a constant rate
  constexpr double floor() const { return floor_; }

  // In words: "cosine from 0.0003 to 3e-05, 2000 steps, warm-up 100".
  std::string text() const {
    std::string all =
        shape_ == shape::constant
            ? words({"constant ", peak_})
            : words({shape_ == shape::cosine ? "cosine" : "linear", " from ", peak_, " to ", floor_, ", ", steps_, " steps"});
    if (warm_up_ > 0) all += words({", warm-up ", warm_up_});
    return all;
  }
  friend std::ostream& operator<<(std::ostream& out, const learning_rate& rate) { return out << rate.text(); }

  constexpr bool operator==(const learning_rate&) const = default;

 private:
  constexpr learning_rate(shape form, double peak, std::uint64_t warm_up, std::uint64_t steps, double floor)
      : shape_(form), peak_(peak), warm_up_(warm_up), steps_(steps), floor_(floor) {
    if (!(peak >= 0 && peak <= most)) throw_error({"learning rate: the rate is ", peak, "; give a finite number, at least 0"});
    if (!(floor >= 0 && floor <= peak))
      throw_error({"learning rate: the floor is ", floor, "; give a number from 0 to the peak, ", peak});
    if (form != shape::constant && steps <= warm_up)
      throw_error({"learning rate: a warm-up of ", warm_up, " steps leaves nothing of ", steps,
                   " steps; give more steps or a shorter warm-up"});
  }

  static constexpr double most = std::numeric_limits<double>::max();

  shape shape_;
  double peak_;
  std::uint64_t warm_up_, steps_;
  double floor_;
};

}  // namespace partita
