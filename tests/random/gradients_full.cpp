// Gradients of whole random graphs against central differences, in double: what one op's test does not see is how terms
// of several readers add up and how rules follow one another.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "../support/random_model.hpp"

namespace {

using namespace partita;
using partita::testing::make_random_case;
using partita::testing::named_values;
using partita::testing::random_case;
using partita::testing::random_model;
using training_type = training<in_precision<random_model, f64>, sgd>;

// A kink between the two points of a difference is no fault: relu's is left out. So is what stops the gradient, which the
// slope of the loss does not know.
void smooth(random_case& c) {
  for (auto& block : c.model.block) {
    if (block.unit == 2) block.unit = 1;
    if (block.extra == 6) block.extra = 0;
  }
  c.frozen = {};
}

}  // namespace

TEST_CASE("gradients of 120 random graphs are the slopes of their losses") {
  int compared = 0;
  for (unsigned seed = 1; seed <= 120; ++seed) {
    std::mt19937 random(seed);
    random_case c = make_random_case(random, true);
    smooth(c);
    const named_values inputs = c.inputs(random);
    partita::testing::reference<training_type> r(training_type{.model = {c.model}}, seed, c.extents);
    r.step(inputs, 0);
    std::vector<std::string> const names = r.trained();
    std::vector<std::vector<double>> gradients;
    double most = 1e-9;
    for (std::string const& name : names) {
      gradients.push_back(r.gradient(name));
      for (double g : gradients.back()) most = std::max(most, std::abs(g));
    }
    for (std::size_t p = 0; p < names.size(); ++p) {
      std::vector<double> x = r.parameter(names[p]);
      for (int k = 0; k < 3; ++k) {
        const std::size_t i = std::uniform_int_distribution<std::size_t>(0, x.size() - 1)(random);
        const double kept = x[i], h = 1e-5;
        auto loss_at = [&](double value) {
          x[i] = value;
          r.set_parameter(names[p], x);
          return r.evaluate(inputs, true);
        };
        const double slope = (loss_at(kept + h) - loss_at(kept - h)) / (2 * h);
        loss_at(kept);
        INFO("seed ", seed, ", ", names[p], "[", i, "]");
        CHECK(std::abs(slope - gradients[p][i]) <= 1e-5 * std::max(std::abs(gradients[p][i]), 1e-2 * most) + 1e-9);
        ++compared;
      }
    }
  }
  CHECK(compared > 1000);
}
