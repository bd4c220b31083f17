// Rows added by number, as a GPU does it, always in their order: the rows are sorted by number, rows of one number
// stay in their order; teams take chunks of the sorted rows and add each run of equal numbers; a run that a chunk's
// end cuts is put together from its parts, in their order. No atomics.
//
// Sorted by counting: a row's place is the number of rows that come before it, found by comparing it with all others,
// from memory that the members of a team have in common. That is rows^2 comparisons, of 16,384 rows as much work as a
// product of squares of 500.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <partita/core/host_device.hpp>
#include <partita/core/packs.hpp>

namespace partita::detail {

// Scratch: [rows] which row stands at a place, [rows] its number; [chunks, 2, h] the parts of runs that a chunk's
// beginning and its end cut.
struct sorted_rows {
  static constexpr std::size_t chunk = 32;
  std::size_t rows, h;
  PARTITA_HOST_DEVICE sorted_rows(std::size_t n, std::size_t width) : rows(n), h(width) {}
  PARTITA_HOST_DEVICE std::size_t chunks() const { return (rows + chunk - 1) / chunk; }
  PARTITA_HOST_DEVICE std::size_t list_bytes() const { return (rows * sizeof(std::uint32_t) + 15) / 16 * 16; }
  std::size_t bytes(std::size_t element_size) const {
    return 2 * list_bytes() + 2 * chunks() * h * (element_size < sizeof(float) ? sizeof(float) : element_size);
  }
};

// out[v, h] (+)= sum over rows with ids[row] - from = v of dy[row, h].
template <class Call, class T> PARTITA_HOST_DEVICE void add_sorted_rows(Call const& call, T const* dy, std::int32_t const* ids,
                                                                        T* out, std::size_t rows, std::size_t h, std::size_t v,
                                                                        std::size_t from, bool add) {
  using A = typename Call::accumulation_type;
  const sorted_rows shape(rows, h);
  std::byte* const scratch = call.template scratch<std::byte>();
  std::uint32_t* const row_at = reinterpret_cast<std::uint32_t*>(scratch);
  std::uint32_t* const number_at = reinterpret_cast<std::uint32_t*>(scratch + shape.list_bytes());
  A* const parts = reinterpret_cast<A*>(scratch + 2 * shape.list_bytes());
  // Numbers that another piece of the table has come last.
  const auto number = [=](std::size_t row) {
    const std::size_t at = static_cast<std::size_t>(ids[row]) - from;  // a number below `from` wraps to a large one
    return static_cast<std::uint32_t>(at < v ? at : v);
  };
  const auto key = [=](std::size_t row) { return std::uint64_t{number(row)} << 32 | row; };

  constexpr std::size_t group = 64, tile = 1024;
  call.rows((rows + group - 1) / group,
            [=](std::size_t item, auto const& team) {
              // Four members count for one row, a quarter of the tile each.
              constexpr std::size_t shares = 4;
              std::uint64_t* const keys = team.template shared<std::uint64_t, tile, 0>();
              std::uint32_t* const before = team.template shared<std::uint32_t, group * shares, 1>();
              const std::size_t first = item * group, count = rows - first < group ? rows - first : group;
              team.each(group * shares, [=](std::size_t m) { before[m] = 0; });
              for (std::size_t begin = 0; begin < rows; begin += tile) {
                const std::size_t length = rows - begin < tile ? rows - begin : tile;
                team.each(tile, [=](std::size_t i) { keys[i] = i < length ? key(begin + i) : ~std::uint64_t{0}; });
                team.each(group * shares, [=](std::size_t m) {
                  if (m % group >= count) return;
                  const std::uint64_t mine = key(first + m % group);
                  std::uint32_t smaller = 0;
                  std::uint64_t const* const here = keys + m / group * (tile / shares);
                  for (std::size_t i = 0; i < tile / shares; ++i) smaller += here[i] < mine ? 1u : 0u;
                  before[m] += smaller;
                });
              }
              team.each(count, [=](std::size_t i) {
                std::uint32_t place = 0;
                for (std::size_t s = 0; s < shares; ++s) place += before[s * group + i];
                row_at[place] = static_cast<std::uint32_t>(first + i);
                number_at[place] = number(first + i);
              });
            },
            group * 4 * pack_bytes);
  if (!add)
    each_of(
        call, v * h, [] { return A(0); }, out);

  constexpr std::size_t pack = elements_of_pack<T>();
  const bool whole_packs = begins_pack(dy) && begins_pack(out) && h % pack == 0;
  call.rows(
      shape.chunks(),
      [=](std::size_t c, auto const& team) {
        const std::size_t begin = c * sorted_rows::chunk,
                          end = begin + sorted_rows::chunk < rows ? begin + sorted_rows::chunk : rows;
        const bool enters = begin > 0 && number_at[begin - 1] == number_at[begin],
                   leaves = end < rows && number_at[end] == number_at[end - 1];
        team.each((h + pack - 1) / pack, [=](std::size_t p) {
          const std::size_t column = p * pack, width = h - column < pack ? h - column : pack;
          A total[pack]{};
          for (std::size_t at = begin; at < end; ++at) {
            const std::size_t n = number_at[at];
            T const* const source = dy + row_at[at] * h + column;
            if (whole_packs) {
              const auto x = load_pack<pack>(source);
              for (std::size_t j = 0; j < pack; ++j) total[j] += A(x.at[j]);
            } else
              for (std::size_t j = 0; j < pack; ++j) total[j] += j < width ? A(source[j]) : A(0);
            const bool last = at + 1 == end;
            if (!last && number_at[at + 1] == n) continue;
            const bool from_before = enters && n == number_at[begin], goes_on = last && leaves;
            if (n < v && (from_before || goes_on)) {
              A* const part = parts + (2 * c + (from_before ? 0 : 1)) * h + column;
              for (std::size_t j = 0; j < width; ++j) part[j] = total[j];
            } else if (n < v) {
              T* const to = out + n * h + column;
              for (std::size_t j = 0; j < width; ++j) to[j] = static_cast<T>(add ? A(to[j]) + total[j] : total[j]);
            }
            for (std::size_t j = 0; j < pack; ++j) total[j] = 0;
          }
        });
      },
      h);
  // The chunk in which a run begins that leaves it adds the parts of the chunks after it.
  call.rows(
      shape.chunks(),
      [=](std::size_t c, auto const& team) {
        const std::size_t begin = c * sorted_rows::chunk, end = begin + sorted_rows::chunk;
        if (end >= rows || number_at[end] != number_at[end - 1] || number_at[end] >= v) return;
        const std::uint32_t n = number_at[end - 1];
        if (begin > 0 && number_at[begin - 1] == n) return;  // begins in an earlier chunk
        team.each(h, [=](std::size_t j) {
          A total = parts[(2 * c + 1) * h + j];
          for (std::size_t next = c + 1; next * sorted_rows::chunk < rows && number_at[next * sorted_rows::chunk] == n; ++next)
            total += parts[2 * next * h + j];
          T& to = out[n * h + j];
          to = static_cast<T>(add ? A(to) + total : total);
        });
      },
      h);
}

}  // namespace partita::detail
