// Rows sorted by a number each has, as a GPU does it: least digit first, by counting. A team takes a tile of rows; its members
// have a digit each, count the rows of it, and later put them where the digits before and the tiles before end: so rows of one
// number stay in their order, and there are no atomics. For each of a number's bytes that is 256 comparisons a row.
#pragma once
#include <cstddef>
#include <cstdint>

#include <partita/core/host_device.hpp>
#include <partita/core/packs.hpp>

namespace partita::detail {

// Which row stands at a place, and its number.
struct row_list {
  std::uint32_t *row, *number;
};

// Scratch: two lists, from which and to which a digit is sorted, then [digits, tiles] how many rows there are.
struct row_sort {
  static constexpr std::size_t tile = 512, digits = 256, digit_bits = 8;
  std::size_t rows, numbers;
  PARTITA_HOST_DEVICE row_sort(std::size_t n, std::size_t different) : rows(n), numbers(different) {}
  PARTITA_HOST_DEVICE std::size_t tiles() const { return (rows + tile - 1) / tile; }
  PARTITA_HOST_DEVICE std::size_t passes() const {
    std::size_t n = 1;
    for (std::size_t left = (numbers - 1) >> digit_bits; left > 0; left >>= digit_bits) ++n;
    return n;
  }
  PARTITA_HOST_DEVICE std::size_t column_bytes() const { return (rows * sizeof(std::uint32_t) + 15) / 16 * 16; }
  PARTITA_HOST_DEVICE std::size_t bytes() const { return 4 * column_bytes() + tiles() * digits * sizeof(std::uint32_t); }
  PARTITA_HOST_DEVICE row_list list(std::byte* scratch, std::size_t which) const {
    std::byte* const at = scratch + 2 * (which % 2) * column_bytes();
    return {reinterpret_cast<std::uint32_t*>(at), reinterpret_cast<std::uint32_t*>(at + column_bytes())};
  }
  PARTITA_HOST_DEVICE std::uint32_t* counts(std::byte* scratch) const {
    return reinterpret_cast<std::uint32_t*>(scratch + 4 * column_bytes());
  }
};

// The rows in the order of number(row), which is below `shape.numbers`. scratch: aligned to 16.
template <class Call, class Number>
PARTITA_HOST_DEVICE row_list sort_rows(Call const& call, row_sort const shape, std::byte* scratch, Number number) {
  constexpr std::size_t digits = row_sort::digits, tile = row_sort::tile;
  const std::size_t rows = shape.rows, tiles = shape.tiles(), passes = shape.passes();
  std::uint32_t* const counts = shape.counts(scratch);
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const row_list from = shape.list(scratch, pass), to = shape.list(scratch, pass + 1);
    const auto row_of = [=](std::size_t at) { return pass == 0 ? static_cast<std::uint32_t>(at) : from.row[at]; };
    const auto number_of = [=](std::size_t at) { return pass == 0 ? number(at) : from.number[at]; };
    // take(d, t, each) for every digit d and tile t, by a member of its own: each(f) calls f(i) for the rows i of that digit.
    const auto each_digit = [&](auto take) {
      call.rows(
          tiles,
          [=](std::size_t t, auto const& team) {
            std::uint32_t* const here = team.template shared<std::uint32_t, tile, 0>();
            const std::size_t first = t * tile, count = rows - first < tile ? rows - first : tile;
            team.each(count, [=](std::size_t i) {
              here[i] = number_of(first + i) >> (pass * row_sort::digit_bits) & (static_cast<std::uint32_t>(digits) - 1);
            });
            team.each(digits, [=](std::size_t d) {
              take(d, t, [=](auto f) {
                for (std::size_t i = 0; i < count; ++i)
                  if (here[i] == d) f(first + i);
              });
            });
          },
          digits * pack_bytes);
    };
    each_digit([=](std::size_t d, std::size_t t, auto each) {
      std::uint32_t n = 0;
      each([&](std::size_t) { ++n; });
      counts[d * tiles + t] = n;
    });
    call.rows(
        1,
        [=](std::size_t, auto const& team) {
          std::uint32_t* const totals = team.template shared<std::uint32_t, digits, 1>();
          team.each(digits, [=](std::size_t d) {
            std::uint32_t n = 0;
            for (std::size_t t = 0; t < tiles; ++t) n += counts[d * tiles + t];
            totals[d] = n;
          });
          team.each(digits, [=](std::size_t d) {
            std::uint32_t place = 0;
            for (std::size_t before = 0; before < d; ++before) place += totals[before];
            for (std::size_t t = 0; t < tiles; ++t) {
              const std::uint32_t n = counts[d * tiles + t];
              counts[d * tiles + t] = place;
              place += n;
            }
          });
        },
        digits * pack_bytes);
    each_digit([=](std::size_t d, std::size_t t, auto each) {
      std::size_t place = counts[d * tiles + t];
      each([&](std::size_t i) {
        to.row[place] = row_of(i);
        to.number[place++] = number_of(i);
      });
    });
  }
  return shape.list(scratch, passes);
}

}  // namespace partita::detail
