// A small classifier with what tests of the trainer need: an axis bound at run time, two layers, an output.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <partita/partita.hpp>

#include "plan_by_sizes.hpp"

namespace partita::testing {

namespace small {
struct sample : axis<"sample"> {};
struct in : axis<"in", 6> {};
struct feature : axis<"feature", 8> {};
struct kind : axis<"kind", 5> {};
}  // namespace small

struct small_net {
  constexpr auto operator()(auto& g) const {
    using namespace small;
    auto x = input<f32, sample, in>(g, "x");
    auto y = input<i32, sample>(g, "y");
    auto w1 = param<f32, in, feature>(g, "fc1.weight", normal{0.5});  // named one by one: in this order with every compiler
    auto b1 = param<f32, feature>(g, "fc1.bias", ones);
    auto w2 = param<f32, feature, kind>(g, "fc2.weight", normal{0.5});
    auto b2 = param<f32, kind>(g, "fc2.bias", zeros);
    auto logits = linear(relu(linear(x, w1, b1)), w2, b2);
    return outputs(loss("loss", cross_entropy(logits, y)), output("logits", logits));
  }
};

// With stages, fc1 and fc2 stand on different devices.
using small_plan = plan_by_sizes;

inline constexpr std::size_t small_samples = 12;

template <class T> struct small_batch {
  std::vector<T> x = std::vector<T>(small_samples * small::in::extent);
  std::vector<std::int32_t> y = std::vector<std::int32_t>(small_samples);
  explicit small_batch(unsigned seed = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (T& v : x) v = static_cast<T>(normal(random));
    for (std::int32_t& v : y) v = static_cast<std::int32_t>(random() % small::kind::extent);
  }
  std::vector<feed> feeds() const { return {{"x", x}, {"y", y}}; }
};

inline std::vector<double> numbers(host_tensor const& t) {
  std::vector<double> all(t.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = t[i];
  return all;
}

template <class Training>
trainer<Training> small_trainer(small_plan const& plan, Training const& training = {}, trainer_options const& options = {}) {
  return trainer<Training>{training, plan, cpu{.devices = plan.devices(), .threads = 1}, options,
                           bind<small::sample>(small_samples)};
}

}  // namespace partita::testing
