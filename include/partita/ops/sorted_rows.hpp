// Rows added by number, as a GPU does it, always in their order: the rows are sorted by number, rows of one number
// stay in their order (row_sort.hpp); teams take chunks of the sorted rows and add each run of equal numbers; a run that a
// chunk's end cuts is put together from its parts, in their order. No atomics.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <partita/core/host_device.hpp>
#include <partita/core/packs.hpp>
#include <partita/ops/row_sort.hpp>

namespace partita::detail {

// Scratch: what the sort takes, then [chunks, 2, h] the parts of runs that a chunk's beginning and its end cut.
struct sorted_rows {
  static constexpr std::size_t chunk = 32;
  std::size_t rows, h;
  row_sort order;
  // `numbers`: how many there are.
  PARTITA_HOST_DEVICE sorted_rows(std::size_t n, std::size_t width, std::size_t numbers) : rows(n), h(width), order(n, numbers) {}
  PARTITA_HOST_DEVICE std::size_t chunks() const { return (rows + chunk - 1) / chunk; }
  std::size_t bytes(std::size_t element_size) const {
    return order.bytes() + 2 * chunks() * h * (element_size < sizeof(float) ? sizeof(float) : element_size);
  }
};

// out[v, h] (+)= sum over rows with ids[row] - from = v of dy[row, h].
template <class Call, class T> PARTITA_HOST_DEVICE void add_sorted_rows(Call const& call, T const* dy, std::int32_t const* ids,
                                                                        T* out, std::size_t rows, std::size_t h, std::size_t v,
                                                                        std::size_t from, bool add) {
  using A = typename Call::accumulation_type;
  const sorted_rows shape(rows, h, v + 1);
  std::byte* const scratch = call.template scratch<std::byte>();
  A* const parts = reinterpret_cast<A*>(scratch + shape.order.bytes());
  // Numbers that another piece of the table has come last.
  const auto number = [=](std::size_t row) {
    const std::size_t at = static_cast<std::size_t>(ids[row]) - from;  // a number below `from` wraps to a large one
    return static_cast<std::uint32_t>(at < v ? at : v);
  };
  const row_list sorted = sort_rows(call, shape.order, scratch, number);
  std::uint32_t const *const row_at = sorted.row, *const number_at = sorted.number;
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
