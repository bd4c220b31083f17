// The element types of tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <partita/core/narrow_float.hpp>

namespace partita {

enum class dtype : std::uint8_t { f32, f64, bf16, f16, i32 };
inline constexpr dtype f32 = dtype::f32, f64 = dtype::f64, bf16 = dtype::bf16, f16 = dtype::f16, i32 = dtype::i32;

constexpr std::size_t size_of(dtype type) {  // bytes per element
  switch (type) {
    case dtype::f64: return 8;
    case dtype::bf16:
    case dtype::f16: return 2;
    default: return 4;
  }
}
constexpr bool is_float(dtype type) { return type != dtype::i32; }
// A float of two bytes. It is stored and sent; what computes on it does so in f32, and rounds once.
constexpr bool is_narrow(dtype type) { return type == dtype::bf16 || type == dtype::f16; }

// What sums of elements of this type are held in: f64 for f64, f32 for the other float types.
constexpr dtype accumulation_of(dtype type) { return type == dtype::f64 ? dtype::f64 : dtype::f32; }

constexpr std::string_view name_of(dtype type) {
  switch (type) {
    case dtype::f32: return "f32";
    case dtype::f64: return "f64";
    case dtype::bf16: return "bf16";
    case dtype::f16: return "f16";
    case dtype::i32: return "i32";
  }
  return "?";
}

// The C++ type that holds one element.
template <dtype Type> struct element;
template <> struct element<dtype::f32> { using type = float; };
template <> struct element<dtype::f64> { using type = double; };
template <> struct element<dtype::bf16> { using type = bfloat16; };
template <> struct element<dtype::f16> { using type = float16; };
template <> struct element<dtype::i32> { using type = std::int32_t; };
template <dtype Type> using element_t = typename element<Type>::type;

}  // namespace partita
