#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <partita/core/math.hpp>

namespace pt = partita;

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();
const float nan_value = std::numeric_limits<float>::quiet_NaN();

// How far `value` is from `exact`, in units of the last place of a float of the size of `exact`.
double ulps(float value, double exact) {
  if (std::isnan(exact)) return std::isnan(value) ? 0 : 1e30;
  const float rounded = static_cast<float>(exact);
  if (value == rounded) return 0;
  if (std::isinf(value) && std::abs(exact) > 3.4028234e38) return 0;
  if (std::isinf(value) || std::isinf(rounded) || std::isnan(value)) return 1e30;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(value - exact) / std::ldexp(1., std::max(exponent - 24, -149));
}

// The largest over every 997th float, of both signs, and both infinities.
template <class F, class G> double worst(F fast, G exact) {
  double most = 0;
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += 997) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(x)) continue;
    most = std::max(most, ulps(fast(x), exact(static_cast<double>(x))));
  }
  for (float x : {infinity, -infinity, 0.f, -0.f, std::numeric_limits<float>::max(), std::numeric_limits<float>::min(),
                  std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::lowest(), 1.f, -1.f})
    most = std::max(most, ulps(fast(x), exact(static_cast<double>(x))));
  CHECK(std::isnan(fast(nan_value)));
  return most;
}
}  // namespace

TEST_CASE("exp") {
  CHECK(worst([](float x) { return pt::math::exp(x); }, [](double x) { return std::exp(x); }) < 1.5);
  CHECK(pt::math::exp(0.f) == 1.f);
  CHECK(pt::math::exp(-infinity) == 0.f);
  CHECK(pt::math::exp(infinity) == infinity);
  CHECK(pt::math::exp(88.8f) == infinity);
  CHECK(pt::math::exp(88.7f) < infinity);
  CHECK(pt::math::exp(-103.9f) > 0.f);
  CHECK(pt::math::exp(-104.1f) == 0.f);
}

TEST_CASE("log") {
  CHECK(worst([](float x) { return pt::math::log(x); }, [](double x) { return std::log(x); }) < 1.5);
  CHECK(pt::math::log(1.f) == 0.f);
  CHECK(pt::math::log(0.f) == -infinity);
}

TEST_CASE("tanh") {
  CHECK(worst([](float x) { return pt::math::tanh(x); }, [](double x) { return std::tanh(x); }) < 2.5);
  CHECK(std::signbit(pt::math::tanh(-0.f)));
}

TEST_CASE("erf") {
  CHECK(worst([](float x) { return pt::math::erf(x); }, [](double x) { return std::erf(x); }) < 2.5);
  CHECK(pt::math::erf(4.f) == 1.f);
}

TEST_CASE("sigmoid") {
  // below -88 the exponential is infinite, where the exact value is subnormal
  auto exact = [](double x) { return x < -88.7 ? 0 : 1 / (1 + std::exp(-x)); };
  CHECK(worst([](float x) { return x < -88.7f ? 0.f : pt::math::sigmoid(x); }, exact) < 3);
  CHECK(pt::math::sigmoid(-infinity) == 0.f);
  CHECK(pt::math::sigmoid(infinity) == 1.f);
}

TEST_CASE("sqrt and its reciprocal") {
  CHECK(worst([](float x) { return pt::math::sqrt(x); }, [](double x) { return std::sqrt(x); }) < 1.01);
  auto reciprocal = [](float x) { return x < 1.2e-38f || x == infinity ? 1.f : pt::math::reciprocal_sqrt(x); };
  double most = 0;
  for (std::uint32_t bits = 0x00800000; bits < 0x7f800000; bits += 997) {
    const float x = std::bit_cast<float>(bits);
    if (x >= 1.2e-38f) most = std::max(most, ulps(reciprocal(x), 1 / std::sqrt(static_cast<double>(x))));
  }
  CHECK(most < 4);
}

TEST_CASE("double is the standard library's") {
  for (double x : {-3.5, -0.1, 0.2, 1.7}) {
    CHECK(pt::math::exp(x) == std::exp(x));
    CHECK(pt::math::tanh(x) == std::tanh(x));
    CHECK(pt::math::erf(x) == std::erf(x));
    CHECK(pt::math::sigmoid(x) == doctest::Approx(0.5 + 0.5 * std::tanh(x / 2)));
  }
  CHECK(pt::math::log(1.7) == std::log(1.7));
  CHECK(pt::math::sqrt(1.7) == std::sqrt(1.7));
}
