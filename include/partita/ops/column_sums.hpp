// Sums down the columns of a matrix, as a GPU makes them: teams take blocks of rows, then the blocks are added in
// their order.
#pragma once
#include <cstddef>

#include <partita/core/host_device.hpp>
#include <partita/core/packs.hpp>
#include <partita/ops/row_blocks.hpp>

namespace partita::detail {

inline constexpr std::size_t column_lanes = 32,
                             column_groups = 8;  // members next to each other, and rows at a time, of a team

// take(j, the sum over parts of sums[part, j]) for every j < width; sums: parts x width. A team takes 32 columns; its
// members add every eighth part each, then one adds the eight.
template <class Call, class A, class F>
PARTITA_HOST_DEVICE void add_parts(Call const& call, std::size_t parts, std::size_t width, A const* sums, F take) {
  constexpr std::size_t members = column_lanes * column_groups;
  call.rows((width + column_lanes - 1) / column_lanes,
            [=](std::size_t item, auto const& team) {
              const std::size_t first = item * column_lanes, count = width - first < column_lanes ? width - first : column_lanes;
              A* const all = team.template shared<A, members, 0>();
              team.each(members, [=](std::size_t m) {
                const std::size_t column = m % column_lanes;
                A sum = 0;
                if (column < count)
                  for (std::size_t part = m / column_lanes; part < parts; part += column_groups)
                    sum += sums[part * width + first + column];
                all[m] = sum;
              });
              team.each(count, [=](std::size_t j) {
                A sum = all[j];
                for (std::size_t g = 1; g < column_groups; ++g) sum += all[g * column_lanes + j];
                take(first + j, sum);
              });
            },
            members * pack_bytes);
}

// out[j] (+)= the sum over rows of x[row, j]; x: rows x width. scratch: row_blocks::for_gpu(rows).count() x width.
template <class Call, class T, class Out, class A> PARTITA_HOST_DEVICE void column_sums(Call const& call, std::size_t rows,
                                                                                        std::size_t width, T const* x, Out* out,
                                                                                        bool add, A* scratch) {
  constexpr std::size_t pack = elements_of_pack<T>(), stretch = column_lanes * pack, members = column_lanes * column_groups;
  const row_blocks blocks = row_blocks::for_gpu(rows);
  const std::size_t stretches = (width + stretch - 1) / stretch;
  const bool whole_packs = begins_pack(x) && width % pack == 0;
  call.rows(
      blocks.count() * stretches,
      [=](std::size_t item, auto const& team) {
        const std::size_t b = item / stretches, column = item % stretches * stretch, end = blocks.end(b),
                          count = width - column < stretch ? width - column : stretch;
        A* const sums = team.template shared<A, stretch * column_groups, 1>();
        team.each(members, [=](std::size_t m) {
          const std::size_t at = m % column_lanes * pack, group = m / column_lanes;
          A total[pack]{};
          if (at < count)
            for (std::size_t row = b * blocks.block + group; row < end; row += column_groups) {
              T const* const from = x + row * width + column + at;
              if (whole_packs) {
                const auto p = load_pack<pack>(from);
                for (std::size_t j = 0; j < pack; ++j) total[j] += A(p.at[j]);
              } else
                for (std::size_t j = 0; j < pack; ++j) total[j] += at + j < count ? A(from[j]) : A(0);
            }
          for (std::size_t j = 0; j < pack; ++j) sums[group * stretch + at + j] = total[j];
        });
        team.each(count, [=](std::size_t j) {
          A sum = sums[j];
          for (std::size_t g = 1; g < column_groups; ++g) sum += sums[g * stretch + j];
          scratch[b * width + column + j] = sum;
        });
      },
      members * pack_bytes);
  add_parts(call, blocks.count(), width, scratch,
            [=](std::size_t j, A sum) { out[j] = static_cast<Out>(add ? A(out[j]) + sum : sum); });
}

}  // namespace partita::detail
