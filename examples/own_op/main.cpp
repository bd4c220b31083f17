// Trains with an op of one's own under a plan: first its gradient against differences of the loss, in double; then
// the plan against one device.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "squared_relu.hpp"
namespace pt = partita;

struct batch : pt::axis<"batch", 64> {};
struct in : pt::axis<"in", 16> {};
struct feature : pt::axis<"feature", 48> {};
struct out : pt::axis<"out", 4> {};

struct regression {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::f32, batch, out>(g, "y");
    auto h = squared_relu(pt::linear(x, pt::param<pt::f32, in, feature>(g, "up.weight", pt::normal{0.2})));
    auto difference = pt::linear(h, pt::param<pt::f32, feature, out>(g, "down.weight", pt::normal{0.2})) - y;
    return pt::mean(difference * difference);
  }
};

// The library's plan finds the features, which `up` makes, the op of one's own keeps, and `down` sums.
using two_by_three = pt::policy::compose<pt::policy::data_parallel<2>, pt::policy::tensor_parallel<3>>;
static_assert(pt::verify<regression, two_by_three>());

struct examples {  // y is a fixed function of x
  std::vector<double> x = std::vector<double>(batch::extent * in::extent), y = std::vector<double>(batch::extent * out::extent);
  explicit examples(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (double& v : x) v = normal(random);
    for (std::size_t i = 0; i < y.size(); ++i) {
      double const* row = &x[i / out::extent * in::extent + i % out::extent];
      y[i] = row[0] * row[4] + std::abs(row[8]);
    }
  }
};

// The largest difference between the gradient of a weight and (loss(w + h) - loss(w - h)) / 2h, of the largest
// gradient.
double gradient_error() {
  using in_double = pt::in_precision<regression, pt::f64>;
  pt::trainer<in_double> t{pt::training<in_double>{}, two_by_three{}, pt::cpu{.devices = 6}};
  const examples e(1);
  t.set_learning_rate(0);  // the step is for its gradient
  t.step({{"x", e.x}, {"y", e.y}});
  const pt::host_tensor gradient = t.gradient("up.weight"), weight = t.parameter("up.weight");
  std::vector<double> w(weight.as<double>(), weight.as<double>() + weight.size());
  auto loss_at = [&](std::size_t i, double value) {
    std::vector<double> moved = w;
    moved[i] = value;
    t.set_parameter("up.weight", moved);
    t.evaluate({{"x", e.x}, {"y", e.y}});
    return t.output("loss")[0];  // in double, where evaluate returns a float
  };
  double worst = 0, most = 0;
  for (std::size_t i = 0; i < w.size(); i += 7) {
    const double h = 1e-6, slope = (loss_at(i, w[i] + h) - loss_at(i, w[i] - h)) / (2 * h);
    worst = std::max(worst, std::abs(slope - gradient[i]));
    most = std::max(most, std::abs(gradient[i]));
  }
  return worst / most;
}

int main() {
  const double error = gradient_error();
  std::printf("gradient of squared_relu: off by %.1e of the largest\n\n", error);

  using training = pt::training<regression, pt::adamw>;
  const pt::trainer_options options{.learning_rate = 0.01};
  pt::trainer<training> one{training{}, pt::policy::single_device{}, pt::cpu{}, options};
  pt::trainer<training> six{training{}, two_by_three{}, pt::cpu{.devices = 6}, options};
  std::printf("step    one device   2 x 3 devices\n");
  bool same = true;
  for (unsigned step = 0; step <= 200; ++step) {
    const examples e(step);
    const std::vector<float> x(e.x.begin(), e.x.end()), y(e.y.begin(), e.y.end());
    const float a = one.step({{"x", x}, {"y", y}}), b = six.step({{"x", x}, {"y", y}});
    if (step % 40 == 0) std::printf("%4u %13.6f %15.6f\n", step, a, b);
    same = same && std::abs(a - b) <= 1e-4f * std::abs(a);
  }
  std::printf(same ? "\nThe plan changes where things run, and not what they come to.\n"
                   : "\nThe plan differs from one device.\n");
  return same && error < 1e-6 ? 0 : 1;
}
