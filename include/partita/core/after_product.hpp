// What an op is of a matrix product whose result it takes: libraries make some together with the product.
#pragma once
#include <cstdint>

namespace partita {

// An op says so by `static constexpr after_product after`. adds_bias: input 0 plus input 1, which has the last axes of it. adds:
// the sum of two like it.
enum class after_product : std::uint8_t { none, adds_bias, adds, gelu };

}  // namespace partita
