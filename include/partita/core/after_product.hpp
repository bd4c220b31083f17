// What an op is of a matrix product whose result it takes: libraries make some together with the product.
#pragma once
#include <cstdint>

namespace partita {

// An op says so by `static constexpr after_product after`. adds_bias: input 0 plus input 1, which has the last axes of it. adds:
// the sum of two like it. gelu_gradient: input 0 times the slope of gelu at input 1. sums_rows: the sum over all rows.
enum class after_product : std::uint8_t { none, adds_bias, adds, gelu, gelu_gradient, sums_rows };

}  // namespace partita
