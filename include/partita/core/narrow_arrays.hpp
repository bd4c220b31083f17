// Arrays of bf16 and f16 as floats and back. One loop per type for everything that computes on them.
#pragma once
#include <cstddef>
#include <cstdint>

#include <partita/core/dtype.hpp>

namespace partita {

// `type` is narrow in all of these. Steps are from one element to the next.
[[gnu::noinline]] inline void widen(dtype type, void const* from, std::size_t step, float* to, std::size_t count) {
  if (auto const* bits = static_cast<bfloat16 const*>(from); type == dtype::bf16)
    for (std::size_t i = 0; i < count; ++i) to[i] = bits[i * step];
  if (auto const* bits = static_cast<float16 const*>(from); type == dtype::f16)
    for (std::size_t i = 0; i < count; ++i) to[i] = bits[i * step];
}
[[gnu::noinline]] inline void narrow(dtype type, float const* from, void* to, std::size_t step, std::size_t count) {
  if (auto* bits = static_cast<bfloat16*>(to); type == dtype::bf16)
    for (std::size_t i = 0; i < count; ++i) bits[i * step] = bfloat16(from[i]);
  if (auto* bits = static_cast<float16*>(to); type == dtype::f16)
    for (std::size_t i = 0; i < count; ++i) bits[i * step] = float16(from[i]);
}

}  // namespace partita
