// FNV-1a, 64 bits: the same number in constant evaluation, at run time and in every process.
#pragma once
#include <cstdint>
#include <string_view>

namespace partita {

inline constexpr std::uint64_t hash_seed = 14695981039346656037u;
constexpr std::uint64_t hash(std::string_view text, std::uint64_t state = hash_seed) {
  for (char c : text) state = (state ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return state;
}
constexpr std::uint64_t hash(std::uint64_t value, std::uint64_t state) {
  for (int byte = 0; byte < 8; ++byte) state = (state ^ (value >> (8 * byte) & 255)) * 1099511628211u;
  return state;
}

}  // namespace partita
