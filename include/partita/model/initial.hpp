// Initial values of parameters. They depend on the parameter's name, the seed and an element's index in the whole tensor
// alone, so that every plan begins alike.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <partita/core/hash.hpp>
#include <partita/core/random.hpp>
#include <partita/model/graph_entries.hpp>

namespace partita {

// Fills `out`, dense and row-major, with the box [offsets, offsets + extents) of a parameter of shape `whole`, each of
// `rank` numbers. `given` are the attributes of the parameter (initializer::given), `name` is the hash of its name.
template <class T> void fill_initial(attributes const& given, std::uint64_t name, std::uint64_t seed, int rank,
                                     std::size_t const* whole, std::size_t const* offsets, std::size_t const* extents, T* out) {
  const std::uint64_t key = hash(seed, name);
  const double kind = given.values[0], first = given.values[1], second = given.values[2];
  const std::size_t row = rank == 0 ? 1 : extents[rank - 1];
  std::size_t rows = 1;
  for (int a = 0; a + 1 < rank; ++a) rows *= extents[a];
  for (std::size_t r = 0; r < rows; ++r) {
    std::uint64_t index = 0, left = r, stride = rank == 0 ? 1 : whole[rank - 1];
    if (rank > 0) index = offsets[rank - 1];
    for (int a = rank - 2; a >= 0; --a) {
      index += (offsets[a] + left % extents[a]) * stride;
      left /= extents[a];
      stride *= whole[a];
    }
    T* const to = out + r * row;
    if (kind == 0)
      for (std::size_t i = 0; i < row; ++i) to[i] = static_cast<T>(first);
    else if (kind == 1) {
      fill_normal(to, key, 0, index, row, second);
      for (std::size_t i = 0; i < row; ++i) to[i] += static_cast<T>(first);
    } else
      for (std::size_t i = 0; i < row; ++i)
        to[i] = static_cast<T>(first + (second - first) * static_cast<double>(random_uniform(key, 0, index + i)));
  }
}

}  // namespace partita
