// Trains a small model on two CPU devices with nothing but the installed targets: a missing include directory, library or
// flag fails here.
#include <cstdio>
#include <vector>

#include <partita/partita.hpp>

namespace pt = partita;

struct sample : pt::axis<"sample"> {};
struct in : pt::axis<"in", 4> {};
struct hidden : pt::axis<"hidden", 8> {};
struct label : pt::axis<"label", 2> {};

struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, in>(g, "x");
    auto y = pt::input<pt::i32, sample>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, in, hidden>(g, "fc1.weight", pt::normal{0.5})));
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, hidden, label>(g, "fc2.weight", pt::normal{0.5})), y);
  }
};
using plan = pt::policy::compose<pt::policy::data_parallel<2>>;
static_assert(pt::verify<mlp, plan>());

int main() {
  pt::trainer<mlp> t{{}, plan{}, pt::cpu{.devices = 2}, pt::bind<sample>(6), pt::trainer_options{.learning_rate = 0.5}};
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 4; ++j) x.push_back(static_cast<float>((i * 7 + j * 3) % 5) - 2.0f);
    y.push_back(x[static_cast<std::size_t>(4 * i)] > 0);
  }
  const float first = t.step({{"x", x}, {"y", y}});
  float last = first;
  for (int step = 0; step < 60; ++step) last = t.step({{"x", x}, {"y", y}});
  std::printf("loss %.4f, after 60 more steps %.4f\n", first, last);
  return last < 0.5f * first ? 0 : 1;
}
