// The gradient that layer_norm and rms_norm share: over rows of h elements, with g = dy scale and
// n = (x - mean) deviation^-1 the normalised row,
//     dx = deviation^-1 (g - average(g) - n average(g n))      (without average(g) where no mean is taken off)
//     dscale = sum over rows of dy n,   dbias = sum over rows of dy
// in one pass over memory: a row is summed while it is in the cache, and the sums over rows are held per block of
// rows. The blocks depend on the number of rows alone and are added in their order, so that the result does not
// depend on how many threads there are.
#pragma once
#include <cstddef>

#include <partita/ops/pointwise.hpp>
#include <partita/ops/row_blocks.hpp>

namespace partita::detail {

// Bytes of scratch: dscale and dbias of every block.
inline std::size_t normalize_rows_workspace(std::size_t rows, std::size_t h, std::size_t element_size) {
  const std::size_t blocks = row_blocks(rows).count();
  return 2 * h * (blocks < 1 ? 1 : blocks) * (element_size < sizeof(float) ? sizeof(float) : element_size);
}

// dy, x, dx: rows x h. scale, dscale, dbias: h. means, inverses: one a row. `means` is null if not Centred, `dbias`
// if there is none. scratch: normalize_rows_workspace.
template <bool Centred, class Call, class T, class A>
PARTITA_HOST_DEVICE void normalize_rows_gradient(Call& call, T const* dy, T const* x, T const* scale, A const* means, A const* inverses,
                             T* dx, T* dscale, T* dbias) {
  const std::size_t h = call.extent('h');
  const row_blocks blocks(call.rest());
  A* const scratch = call.template scratch<A>();
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
      if constexpr (Centred)
        average = team.sum(h, [=](std::size_t i) { return A(dy_row[i]) * A(scale[i]); }) / static_cast<A>(h);
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

}  // namespace partita::detail
