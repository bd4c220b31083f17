// The gradient that layer_norm and rms_norm share: over rows of h elements, with g = dy scale and
// n = (x - mean) deviation^-1 the normalised row,
//     dx = deviation^-1 (g - average(g) - n average(g n))      (without average(g) where no mean is taken off)
//     dscale = sum over rows of dy n,   dbias = sum over rows of dy
// in one pass over memory: a row is summed while it is in the cache, and the sums over rows are held per block of
// rows. The blocks depend on the number of rows alone and are added in their order, so that the result does not
// depend on how many threads there are.
#pragma once
#include <cstddef>

#include <partita/ops/column_sums.hpp>
#include <partita/ops/pointwise.hpp>
#include <partita/ops/row_blocks.hpp>

namespace partita::detail {

// Bytes of scratch: dscale and dbias of every block.
template <class Shape> std::size_t normalize_rows_workspace(Shape const& s) {
  const row_blocks of(s.rest());
  const std::size_t blocks = (s.workers > 0 ? of : row_blocks::for_gpu(s.rest())).count();
  return 2 * s.extent('h') * (blocks < 1 ? 1 : blocks) * (s.element_size < sizeof(float) ? sizeof(float) : s.element_size);
}

// A team keeps the sums of its rows in memory that its members have in common, where they fit.
template <bool Centred, class Call, class T, class A>
PARTITA_HOST_DEVICE void normalize_rows_gradient_on_gpu(Call& call, std::size_t h, row_blocks blocks, T const* dy, T const* x,
                                                        T const* scale, A const* means, A const* inverses, T* dx, T* dscale,
                                                        T* dbias, A* scratch) {
  constexpr std::size_t columns = (std::size_t{16} << 10) / sizeof(A);
  call.rows(
      blocks.count(),
      [=](std::size_t b, auto const& team) {
        A* const sums = h <= columns ? team.template shared<A, 2 * columns, 2>() : scratch + b * 2 * h;
        A *const dscale_sums = sums, *const dbias_sums = h <= columns ? sums + columns : sums + h;
        each_of(
            team, h, [] { return A(0); }, dscale_sums);
        each_of(
            team, h, [] { return A(0); }, dbias_sums);
        for (std::size_t row = b * blocks.block; row < blocks.end(b); ++row) {
          T const *const dy_row = dy + row * h, *const x_row = x + row * h;
          const A mean = Centred ? means[row] : A(0), inverse = inverses[row];
          const A all = static_cast<A>(h);
          A average = 0;
          if constexpr (Centred)
            average = sum_of(
                          team, h, [](auto d, auto s) { return A(d) * A(s); }, dy_row, scale) /
                      all;
          const A projection = sum_of(
                                   team, h, [=](auto d, auto v, auto s) { return A(d) * A(s) * ((A(v) - mean) * inverse); },
                                   dy_row, x_row, scale) /
                               all;
          each_of(
              team, h,
              [=](auto d, auto v, auto s) { return inverse * (A(d) * A(s) - average - (A(v) - mean) * inverse * projection); },
              dx + row * h, dy_row, x_row, scale);
          each_of(
              team, h, [=](A sum, T d, T v) { return sum + A(d) * ((A(v) - mean) * inverse); }, dscale_sums, dscale_sums, dy_row,
              x_row);
          if (dbias != nullptr)
            each_of(
                team, h, [](A sum, T d) { return sum + A(d); }, dbias_sums, dbias_sums, dy_row);
        }
        if (h > columns) return;
        each_of(
            team, h, [](A sum) { return sum; }, scratch + b * 2 * h, dscale_sums);
        each_of(
            team, h, [](A sum) { return sum; }, scratch + b * 2 * h + h, dbias_sums);
      },
      h);
  add_parts(call, blocks.count(), 2 * h, scratch, [=](std::size_t j, A sum) {
    if (j < h) dscale[j] = static_cast<T>(sum);
    else if (dbias != nullptr) dbias[j - h] = static_cast<T>(sum);
  });
}

template <bool Centred, class Call, class T, class A>
void normalize_rows_gradient_on_host(Call& call, std::size_t h, row_blocks blocks, T const* dy, T const* x, T const* scale,
                                     A const* means, A const* inverses, T* dx, T* dscale, T* dbias, A* scratch) {
  call.rows(blocks.count(), [=](std::size_t b, auto const& team) {
    A* const dscale_here = scratch + b * 2 * h;
    A* const dbias_here = dscale_here + h;
    team.each(2 * h, [=](std::size_t i) { dscale_here[i] = 0; });
    for (std::size_t row = b * blocks.block; row < blocks.end(b); ++row) {
      T const* const dy_row = dy + row * h;
      T const* const x_row = x + row * h;
      T* const dx_row = dx + row * h;
      const A mean = Centred ? means[row] : A(0), inverse = inverses[row];
      A average = 0;
      if constexpr (Centred) average = team.sum(h, [=](std::size_t i) { return A(dy_row[i]) * A(scale[i]); }) / static_cast<A>(h);
      const A projection = team.sum(h, [=](std::size_t i) {
        return A(dy_row[i]) * A(scale[i]) * ((A(x_row[i]) - mean) * inverse);
      }) / static_cast<A>(h);
      team.each(h, [=](std::size_t i) {
        const A d = A(dy_row[i]), n = (A(x_row[i]) - mean) * inverse;
        dx_row[i] = static_cast<T>(inverse * (d * A(scale[i]) - average - n * projection));
        dscale_here[i] += d * n;
        dbias_here[i] += d;
      });
    }
  });
  call.rows(1, [=](std::size_t, auto const& team) {
    if (blocks.count() == 0) team.each(2 * h, [=](std::size_t i) { scratch[i] = 0; });
    for (std::size_t b = 1; b < blocks.count(); ++b) {
      A const* const more = scratch + b * 2 * h;
      team.each(2 * h, [=](std::size_t i) { scratch[i] += more[i]; });
    }
    team.each(h, [=](std::size_t i) { dscale[i] = static_cast<T>(scratch[i]); });
    if (dbias != nullptr) team.each(h, [=](std::size_t i) { dbias[i] = static_cast<T>(scratch[h + i]); });
  });
}

// dy, x, dx: rows x h. scale, dscale, dbias: h. means, inverses: one a row. `means` is null if not Centred, `dbias`
// if there is none. scratch: normalize_rows_workspace.
template <bool Centred, class Call, class T, class A>
PARTITA_HOST_DEVICE void normalize_rows_gradient(Call& call, T const* dy, T const* x, T const* scale, A const* means,
                                                 A const* inverses, T* dx, T* dscale, T* dbias) {
  const std::size_t h = call.extent('h'), rows = call.rest();
  A* const scratch = call.template scratch<A>();
  if constexpr (Call::on_host)
    normalize_rows_gradient_on_host<Centred>(call, h, row_blocks(rows), dy, x, scale, means, inverses, dx, dscale, dbias,
                                             scratch);
  else
    normalize_rows_gradient_on_gpu<Centred>(call, h, row_blocks::for_gpu(rows), dy, x, scale, means, inverses, dx, dscale, dbias,
                                            scratch);
}

}  // namespace partita::detail
