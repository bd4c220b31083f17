// Maxima between devices. NCCL says nothing about numbers that are not numbers in ncclMax, and its kernels take fmaxf (2.28:
// src/device/reduce_kernel.h), which drops them: of a NaN and 1 it makes 1, where a CPU's ranks keep the NaN. So what is
// reduced are keys, integers in the same order, of which a NaN's is the largest.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <partita/core/dtype.hpp>
#include <partita/core/host_device.hpp>
#include <partita/core/narrow_float.hpp>

namespace partita::on_cuda {

// The type of what is reduced in place of this one's maxima: in f64 keys of 64 bits, else of 32.
constexpr dtype type_of_keys(dtype type) { return type == f64 ? f64 : f32; }
constexpr bool has_keys(dtype type) { return is_float(type); }

template <class T> using key_type = std::conditional_t<std::is_same_v<T, double>, std::int64_t, std::int32_t>;

// Numbers below zero have their bits turned but the sign: integers grow with them then, too.
template <class T> PARTITA_HOST_DEVICE key_type<T> key_of(T x) {
  using key = key_type<T>;
  const std::conditional_t<std::is_same_v<T, double>, double, float> wide = x;
  if (wide != wide) return std::numeric_limits<key>::max();
  key bits;
  __builtin_memcpy(&bits, &wide, sizeof bits);
  return bits < 0 ? static_cast<key>(bits ^ std::numeric_limits<key>::max()) : bits;
}
template <class T> PARTITA_HOST_DEVICE T of_key(key_type<T> k) {
  using wide_type = std::conditional_t<std::is_same_v<T, double>, double, float>;
  if (k == std::numeric_limits<key_type<T>>::max()) return T(std::numeric_limits<wide_type>::quiet_NaN());
  if (k < 0) k = static_cast<key_type<T>>(k ^ std::numeric_limits<key_type<T>>::max());
  wide_type wide;
  __builtin_memcpy(&wide, &k, sizeof wide);
  return T(wide);
}

}  // namespace partita::on_cuda
