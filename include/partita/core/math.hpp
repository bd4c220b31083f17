// exp, log, tanh, sigmoid, erf and sqrt without a branch or a call, so that loops over them become vector code and a
// GPU runs the same arithmetic. Each is a function of T = float; for double it is the standard library's.
//
// Largest error against the exact value, in units of the last place of the result, over all floats (tests/core/math):
// exp 1, log 1, tanh 2, sigmoid 3, erf 2, sqrt 1; with instructions that fuse multiply and add. Overflow gives
// infinity, underflow passes through subnormal numbers to zero, NaN gives NaN. The polynomials are minimax fits.
#pragma once
#include <cmath>
#include <cstdint>

#include <partita/core/host_device.hpp>

// A team asks clang for vector code, and clang warns, at the kernel's line, of a loop that calls one of the functions
// for double, which stay calls. Not undone at the end: the kernels stand in the headers that include this one.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

// Steps that are not finite are found by comparing, and masked scores are infinite: such a compiler leaves both out unheard.
static_assert(__FINITE_MATH_ONLY__ == 0,
              "partita looks for numbers that are not finite: compile without -ffast-math, -Ofast and -ffinite-math-only");

namespace partita::math {

namespace detail {
PARTITA_HOST_DEVICE inline std::uint32_t bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }
PARTITA_HOST_DEVICE inline float real(std::uint32_t x) { return __builtin_bit_cast(float, x); }
// 2^n for -126 <= n <= 127
PARTITA_HOST_DEVICE inline float power_of_two(std::int32_t n) { return real(static_cast<std::uint32_t>(n + 127) << 23); }
PARTITA_HOST_DEVICE inline float with_sign_of(float magnitude, float sign) {
  return real((bits(magnitude) & 0x7fffffffu) | (bits(sign) & 0x80000000u));
}
// `condition ? a : b` by masks: with the operator g++ moves the computation of a or b behind a branch, and a division
// there keeps the loop from becoming vector code.
PARTITA_HOST_DEVICE inline float select(bool condition, float a, float b) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return real((bits(a) & mask) | (bits(b) & ~mask));
}
PARTITA_HOST_DEVICE inline float absolute(float x) { return real(bits(x) & 0x7fffffffu); }
}  // namespace detail

PARTITA_HOST_DEVICE inline float exp(float x) {
  // beyond these the result is 0 or infinity; a NaN passes both comparisons
  float y = x < -104.f ? -104.f : x;
  y = y > 89.f ? 89.f : y;
  // Adding 1.5 * 2^23 rounds to an integer, and leaves that integer in the low bits.
  constexpr float shift = 12582912.f;
  const float shifted = y * 1.44269504088896341f + shift;
  const float whole = shifted - shift;
  const std::int32_t n = static_cast<std::int32_t>(detail::bits(shifted) - detail::bits(shift));
  // ln 2 in two parts, the first with trailing zeros
  const float r = (y - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 0.00139506022f;
  p = p * r + 0.00836895313f;
  p = p * r + 0.041666206f;
  p = p * r + 0.166665182f;
  p = p * r + 0.5f;
  p = p * (r * r) + r;
  // The power of two in two factors: either alone is a normal number, the product may not be. For a NaN n is
  // anything, hence the mask.
  const std::int32_t half = n >> 1, rest = n - half;
  return (p + 1.f) * detail::real(((static_cast<std::uint32_t>(half) + 127u) & 255u) << 23) *
         detail::real(((static_cast<std::uint32_t>(rest) + 127u) & 255u) << 23);
}

PARTITA_HOST_DEVICE inline float log(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = x * (subnormal ? 8388608.f : 1.f);
  // x = 2^n (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); from there as in fdlibm: log(1 + f) = f - s (f - R(s^2) ..)
  const std::uint32_t from_half = detail::bits(scaled) - 0x3f3504f3u;
  const std::int32_t exponent = static_cast<std::int32_t>(from_half) >> 23;
  const float n = static_cast<float>(exponent - (subnormal ? 23 : 0));
  const float f = detail::real((from_half & 0x007fffffu) + 0x3f3504f3u) - 1.f;
  const float s = f / (2.f + f), z = s * s;
  float p = 0.235899895f;
  p = p * z + 0.285369188f;
  p = p * z + 0.400003403f;
  p = p * z + 0.666666627f;
  const float half_square = 0.5f * f * f;
  const float value = s * (half_square + p * z) + n * -2.12194440e-4f - half_square + f + n * 0.693359375f;
  const float at_zero_or_less = detail::select(x == 0.f, -__builtin_inff(), __builtin_nanf(""));
  const float ordinary = detail::select(x > 0.f, value, at_zero_or_less);
  return detail::select(x < __builtin_inff(), ordinary, x);  // infinity and NaN stay
}

PARTITA_HOST_DEVICE inline float tanh(float x) {
  const float magnitude = detail::absolute(x), z = x * x;
  float p = 0.00239899964f;
  p = p * z - 0.00841679424f;
  p = p * z + 0.0217837673f;
  p = p * z - 0.0539597906f;
  p = p * z + 0.133332953f;
  p = p * z - 0.333333313f;
  const float small = x + x * (z * p);
  const float large = 1.f - 2.f / (math::exp(2.f * magnitude) + 1.f);
  return detail::with_sign_of(detail::select(magnitude < 0.55f, small, large), x);
}

// 1 / (1 + e^-x)
PARTITA_HOST_DEVICE inline float sigmoid(float x) { return 1.f / (1.f + math::exp(-x)); }

PARTITA_HOST_DEVICE inline float erf(float x) {
  const float magnitude = detail::absolute(x), z = x * x;
  float p = 8.34522725e-05f;
  p = p * z - 0.000813743798f;
  p = p * z + 0.00520063424f;
  p = p * z - 0.0268592704f;
  p = p * z + 0.112836942f;
  p = p * z - 0.376126349f;
  p = p * z + 0.128379166f;
  const float small = x + x * p;
  // erf(t) = 1 - exp(-t - t h(t)); it is 1 in float from 3.92 on
  const float t = magnitude > 4.f ? 4.f : magnitude;
  float h = 1.12312791e-05f;
  h = h * t - 0.000322803593f;
  h = h * t + 0.003642458f;
  h = h * t - 0.0237620603f;
  h = h * t + 0.106236875f;
  h = h * t + 0.635151327f;
  h = h * t + 0.12864849f;
  const float large = detail::with_sign_of(1.f - math::exp(-t - t * h), x);
  return detail::select(magnitude < 0.925f, small, large);
}

// 1 / sqrt(x) for x of at least 2^-126, in three steps of Newton's method from the exponent's half
PARTITA_HOST_DEVICE inline float reciprocal_sqrt(float x) {
  float y = detail::real(0x5f375a86u - (detail::bits(x) >> 1));
  const float half = 0.5f * x;
  y = y * (1.5f - (half * y) * y);
  y = y * (1.5f - (half * y) * y);
  y = y * (1.5f - (half * y) * y);
  return y;
}

// std::sqrt must set errno for a negative argument, which keeps loops with it from becoming vector code.
PARTITA_HOST_DEVICE inline float sqrt(float x) {
#if defined(__CUDA_ARCH__)
  return ::sqrtf(x);
#else
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = x * (tiny ? 16777216.f : 1.f);
  const float y = math::reciprocal_sqrt(scaled), root = scaled * y;
  const float better = root + 0.5f * y * (scaled - root * root);
  const float value = better * (tiny ? 1.f / 4096.f : 1.f);
  const float ordinary = detail::select(x > 0.f, value, detail::select(x == 0.f, x, __builtin_nanf("")));
  return detail::select(x < __builtin_inff(), ordinary, x);
#endif
}

PARTITA_HOST_DEVICE inline double exp(double x) { return std::exp(x); }
PARTITA_HOST_DEVICE inline double log(double x) { return std::log(x); }
PARTITA_HOST_DEVICE inline double tanh(double x) { return std::tanh(x); }
PARTITA_HOST_DEVICE inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
PARTITA_HOST_DEVICE inline double erf(double x) { return std::erf(x); }
PARTITA_HOST_DEVICE inline double sqrt(double x) { return std::sqrt(x); }
PARTITA_HOST_DEVICE inline double reciprocal_sqrt(double x) { return 1 / std::sqrt(x); }

}  // namespace partita::math
