#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <partita/core/math.hpp>
#include <partita/device/cpu/team.hpp>

namespace pt = partita;

TEST_CASE_TEMPLATE("a team visits every index once, sums and finds the largest", T, float, double) {
  const pt::on_cpu::team team;
  for (std::size_t n : {0u, 1u, 2u, 63u, 64u, 65u, 127u, 128u, 200u, 1000u}) {
    std::vector<T> in(n), out(n + 1, T(-1));
    for (std::size_t i = 0; i < n; ++i) in[i] = static_cast<T>(static_cast<int>(i * 37 % 101) - 50);
    T const* from = in.data();
    T* to = out.data();
    team.each(n, [=](std::size_t i) { to[i] = 2 * from[i]; });
    T sum = 0, most = -std::numeric_limits<T>::infinity();
    bool same = true;
    for (std::size_t i = 0; i < n; ++i) {
      same &= out[i] == 2 * in[i];
      sum += in[i];
      most = in[i] > most ? in[i] : most;
    }
    CHECK(same);
    CHECK(out[n] == T(-1));
    CHECK(team.sum(n, [=](std::size_t i) { return from[i]; }) == sum);  // small integers: exact in any order
    CHECK(team.max(n, [=](std::size_t i) { return from[i]; }) == most);
    for (std::size_t bad = 0; bad < n; bad += 31) {
      in[bad] = std::numeric_limits<T>::quiet_NaN();
      CHECK(std::isnan(team.sum(n, [=](std::size_t i) { return from[i]; })));
      CHECK(std::isnan(team.max(n, [=](std::size_t i) { return from[i]; })));
      in[bad] = 0;
    }
  }
}

TEST_CASE("a sum of many equal numbers loses less than one running sum does") {
  const pt::on_cpu::team team;
  constexpr std::size_t n = 1 << 22;
  const float sum = team.sum(n, [](std::size_t) { return 0.1f; });
  CHECK(sum == doctest::Approx(0.1 * n).epsilon(1e-4));
}
