// bf16 and f16 against their definition, for every value that they have.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <partita/core/narrow_arrays.hpp>

namespace pt = partita;

namespace {
// All finite values in ascending order, from what the bits mean.
template <int Exponent, int Fraction> std::vector<double> values_of_format() {
  std::vector<double> all;
  const int bias = (1 << (Exponent - 1)) - 1;
  for (int exponent = 0; exponent < (1 << Exponent) - 1; ++exponent)
    for (int fraction = 0; fraction < 1 << Fraction; ++fraction) {
      const double of_one = std::ldexp(fraction, -Fraction);
      all.push_back(exponent == 0 ? std::ldexp(of_one, 1 - bias) : std::ldexp(1 + of_one, exponent - bias));
    }
  return all;
}
template <class T> std::uint16_t bits_of(float x) { return T(x).bits; }

template <class T> void check(std::vector<double> const& values) {
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = static_cast<std::uint16_t>(i);
    T x{};
    x.bits = bits;
    wrong += double{float{x}} != values[i];
    x.bits |= 0x8000u;
    wrong += double{float{x}} != -values[i];
    const float exact = static_cast<float>(values[i]);
    wrong += bits_of<T>(exact) != bits;
    wrong += bits_of<T>(-exact) != (bits | 0x8000u);
    if (i + 1 == values.size()) continue;
    // Half way between two the even one is taken, a float beside it the nearer one.
    const float between = static_cast<float>((values[i] + values[i + 1]) / 2);
    if (double{between} != (values[i] + values[i + 1]) / 2) continue;
    const std::uint16_t even = static_cast<std::uint16_t>(bits + (bits & 1));
    wrong += bits_of<T>(between) != even;
    wrong += bits_of<T>(std::nextafter(between, 0.f)) != bits;
    wrong += bits_of<T>(std::nextafter(between, std::numeric_limits<float>::infinity())) != bits + 1;
  }
  CHECK(wrong == 0);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(float{T(infinity)} == infinity);
  CHECK(float{T(-infinity)} == -infinity);
  CHECK(std::isnan(float{T(std::numeric_limits<float>::quiet_NaN())}));
  CHECK(std::isnan(float{T(std::numeric_limits<float>::signaling_NaN())}));
  CHECK(float{T(std::numeric_limits<float>::max())} == infinity);
  CHECK(std::signbit(float{T(-0.f)}));
}
}  // namespace

TEST_CASE("every bf16 and f16 is what its bits say, and floats are rounded to the nearest") {
  check<pt::bfloat16>(values_of_format<8, 7>());
  check<pt::float16>(values_of_format<5, 10>());
  CHECK(float{pt::float16(65519.f)} == 65504.f);
  CHECK(std::isinf(float{pt::float16(65520.f)}));
  static_assert(float{pt::bfloat16(1.0f)} == 1.0f);
  static_assert(float{pt::float16(0x1p-24f)} == 0x1p-24f);
}

TEST_CASE("arrays are widened and narrowed in steps") {
  for (pt::dtype type : {pt::bf16, pt::f16}) {
    std::vector<std::uint16_t> narrow(30, 7);
    std::vector<float> wide(10), back(10);
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = 0.25f * static_cast<float>(i) - 1;
    pt::narrow(type, wide.data(), narrow.data(), 3, wide.size());
    CHECK(narrow[1] == 7);
    CHECK(narrow[29] == 7);
    pt::widen(type, narrow.data(), 3, back.data(), back.size());
    CHECK(back == wide);
  }
}
