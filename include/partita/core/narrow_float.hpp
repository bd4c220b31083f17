// bfloat16 and float16: floats of two bytes. They hold numbers; arithmetic on them is in float.
#pragma once
#include <cstdint>

#include <partita/core/host_device.hpp>

namespace partita {

namespace detail {
// To nearest, of two equally near ones to the even one; what is too large becomes infinity, a NaN stays one.
PARTITA_HOST_DEVICE constexpr std::uint16_t bfloat16_bits(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<std::uint16_t>(is_nan ? bits >> 16 | 0x40u : rounded);
}
PARTITA_HOST_DEVICE constexpr std::uint16_t float16_bits(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  std::uint32_t out = 0;
  if (size > 0x7f800000u) out = 0x7e00u;
  else if (size >= 0x47800000u) out = 0x7c00u;  // 65536 and above
  else if (size < 0x38800000u)                  // below 2^-14: an addition leaves a multiple of 2^-24 in the low bits
    out = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, size) + 0.5f) - 0x3f000000u;
  else out = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
  return static_cast<std::uint16_t>(sign | out);
}
PARTITA_HOST_DEVICE constexpr float float_of_float16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 0x1fu, fraction = half & 0x3ffu;
  if (exponent == 0) {
    const float size = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -size : size;
  }
  const std::uint32_t high = exponent == 31 ? 255u << 23 : (exponent + 112) << 23;
  return __builtin_bit_cast(float, sign | high | fraction << 13);
}

// On a GPU by its own instruction; a NaN is one there too, with other bits.
PARTITA_HOST_DEVICE constexpr std::uint16_t rounded_to_bfloat16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if (!__builtin_is_constant_evaluated()) {
    std::uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
  }
#endif
  return bfloat16_bits(x);
}
PARTITA_HOST_DEVICE constexpr std::uint16_t rounded_to_float16(float x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) {
    std::uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
  }
#endif
  return float16_bits(x);
}
PARTITA_HOST_DEVICE constexpr float widened_float16(std::uint16_t half) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
  }
#endif
  return float_of_float16(half);
}
}  // namespace detail

// The first 16 bits of a float: its range, 8 bits of precision.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  PARTITA_HOST_DEVICE constexpr explicit bfloat16(float x) : bits(detail::rounded_to_bfloat16(x)) {}
  PARTITA_HOST_DEVICE constexpr operator float() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
};

// IEEE 754's binary16: 11 bits of precision, up to 65504.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  PARTITA_HOST_DEVICE constexpr explicit float16(float x) : bits(detail::rounded_to_float16(x)) {}
  PARTITA_HOST_DEVICE constexpr operator float() const { return detail::widened_float16(bits); }
};

}  // namespace partita
