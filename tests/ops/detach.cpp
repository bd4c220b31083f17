#include <doctest/doctest.h>

#include <partita/ops/ops.hpp>

#include "../support/reference.hpp"

namespace {

namespace pt = partita;
struct row : pt::axis<"row", 3> {};

// loss = sum of a * detach(a): its slope is a, where without the stop it were 2 a.
struct half_square {
  constexpr auto operator()(auto& g) const {
    auto a = pt::param<pt::f32, row>(g, "a.weight", pt::uniform{1, 2});
    return pt::sum(a * pt::detach(a));
  }
};

}  // namespace

TEST_CASE("no gradient flows through detach") {
  pt::testing::reference<pt::training<half_square>> r;
  const std::vector<double> a = r.parameter("a.weight");
  r.step({}, 0);
  const std::vector<double> gradient = r.gradient("a.weight");
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(gradient[i] == doctest::Approx(a[i]));
}
