// A team other than the CPU's: every member in turn, in reverse, so that a kernel that leans on an order shows.
#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <vector>

#include <partita/core/math.hpp>
#include <partita/core/team.hpp>

namespace pt = partita;

namespace {
struct reversed {
  static constexpr bool first() { return true; }
  template <class F> void each(std::size_t n, F f) const {
    while (n-- > 0) f(n);
  }
  template <class F> auto sum(std::size_t n, F f) const {
    decltype(f(n)) total = 0;
    while (n-- > 0) total += f(n);
    return total;
  }
  template <class F> auto max(std::size_t n, F f) const {
    auto most = -std::numeric_limits<decltype(f(n))>::infinity();
    while (n-- > 0) most = f(n) > most ? f(n) : most;
    return most;
  }
};
static_assert(pt::team<reversed>);

struct without_max {
  static constexpr bool first() { return true; }
  template <class F> void each(std::size_t, F) const {}
  template <class F> auto sum(std::size_t n, F f) const { return f(n); }
};
static_assert(!pt::team<without_max>);
static_assert(!pt::team<int>);

// the example of core/team.hpp
template <pt::team Team> void softmax(Team const& team, float const* in, float* out, std::size_t n) {
  const float most = team.max(n, [=](std::size_t i) { return in[i]; });
  const float total = team.sum(n, [=](std::size_t i) { return pt::math::exp(in[i] - most); });
  team.each(n, [=](std::size_t i) { out[i] = pt::math::exp(in[i] - most) / total; });
}
}  // namespace

TEST_CASE("a kernel over a team") {
  const std::vector<float> in{1, 2, 3, 1000};
  std::vector<float> out(4);
  softmax(reversed{}, in.data(), out.data(), 4);
  CHECK(out == std::vector<float>{0, 0, 0, 1});
  softmax(reversed{}, in.data(), out.data(), 3);
  CHECK(out[0] + out[1] + out[2] == doctest::Approx(1));
  CHECK(out[2] / out[1] == doctest::Approx(2.718281828));
}
