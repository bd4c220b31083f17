#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <partita/model/initial.hpp>
#include <partita/model/source.hpp>

namespace pt = partita;

TEST_CASE_TEMPLATE("a box of a parameter holds what the whole does there", T, float, double) {
  const std::size_t whole[]{3, 5, 7}, none[]{0, 0, 0};
  for (pt::initializer how :
       {pt::initializer(pt::normal{0.5}), pt::initializer(pt::uniform{-1, 3}), pt::initializer(pt::constant{2})}) {
    std::vector<T> all(105), box(2 * 2 * 3);
    pt::fill_initial(how.given(), 11, 22, 3, whole, none, whole, all.data());
    const std::size_t offsets[]{1, 2, 4}, extents[]{2, 2, 3};
    pt::fill_initial(how.given(), 11, 22, 3, whole, offsets, extents, box.data());
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < 2; ++j)
        for (std::size_t k = 0; k < 3; ++k) CHECK(box[(i * 2 + j) * 3 + k] == all[((i + 1) * 5 + j + 2) * 7 + k + 4]);
  }
}

TEST_CASE("initial values follow their distribution, and differ by name and seed") {
  constexpr std::size_t n = 40000;
  const std::size_t whole[]{n}, none[]{0};
  std::vector<float> a(n), b(n), c(n);
  pt::fill_initial(pt::initializer(pt::normal{0.5}).given(), 1, 2, 1, whole, none, whole, a.data());
  pt::fill_initial(pt::initializer(pt::normal{0.5}).given(), 3, 2, 1, whole, none, whole, b.data());
  pt::fill_initial(pt::initializer(pt::normal{0.5}).given(), 1, 4, 1, whole, none, whole, c.data());
  double mean = 0, square = 0, with_b = 0, with_c = 0;
  for (std::size_t i = 0; i < n; ++i) {
    mean += a[i] / n;
    square += static_cast<double>(a[i]) * a[i] / n;
    with_b += static_cast<double>(a[i]) * b[i] / n;
    with_c += static_cast<double>(a[i]) * c[i] / n;
  }
  CHECK(std::abs(mean) < 0.5 * 4 / std::sqrt(n));  // four standard deviations
  CHECK(std::abs(square - 0.25) < 0.25 * 4 * std::sqrt(2. / n));
  CHECK(std::abs(with_b) < 0.25 * 4 / std::sqrt(n));
  CHECK(std::abs(with_c) < 0.25 * 4 / std::sqrt(n));
  pt::fill_initial(pt::initializer(pt::uniform{1, 3}).given(), 1, 2, 1, whole, none, whole, a.data());
  double low = 9, high = -9;
  for (float x : a) low = std::min<double>(low, x), high = std::max<double>(high, x);
  CHECK((low >= 1 && low < 1.001 && high < 3.0001 && high > 2.999));
}

TEST_CASE("a scalar parameter") {
  double x = 0;
  pt::fill_initial(pt::initializer(pt::constant{7}).given(), 1, 2, 0, nullptr, nullptr, nullptr, &x);
  CHECK(x == 7);
}
