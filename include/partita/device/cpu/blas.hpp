// Matrix products of the CPU: CBLAS, called on one thread from each of the device's workers.
#pragma once
#include <cblas.h>

#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>

#include <partita/core/words.hpp>
#include <partita/device/cpu/workers.hpp>

namespace partita::on_cpu {

namespace detail {

// Once a process, before the first product: the workers are the threads, a product must not start others. Programs
// that call OpenBLAS themselves find it single-threaded afterwards.
inline void prepare_blas() {
  static const bool prepared = [] {
#if defined(OPENBLAS_VERSION)
    openblas_set_num_threads(1);
#endif
    return true;
  }();
  static_cast<void>(prepared);
}

inline int blas_int(std::size_t value, char const* what) {
  if (value > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw_error({"gemm: ", what, " = ", value, " is more than BLAS takes"});
  return static_cast<int>(value);
}

template <class T> void gemm_on_this_thread(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k,
                                            T alpha, T const* a, std::size_t lda, T const* b, std::size_t ldb, T beta, T* c,
                                            std::size_t ldc) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) c[i * ldc + j] = beta == 0 ? T(0) : beta * c[i * ldc + j];
    return;
  }
  const auto ta = transpose_a ? CblasTrans : CblasNoTrans, tb = transpose_b ? CblasTrans : CblasNoTrans;
  const int rows = blas_int(m, "m"), columns = blas_int(n, "n"), depth = blas_int(k, "k");
  const int step_a = blas_int(lda, "lda"), step_b = blas_int(ldb, "ldb"), step_c = blas_int(ldc, "ldc");
  if (m == 1) {  // c = alpha op(b)^T a: nothing to pack
    const int stored = transpose_b ? columns : depth, across = transpose_b ? depth : columns;
    const auto tv = transpose_b ? CblasNoTrans : CblasTrans;
    const int between = transpose_a ? step_a : 1;
    if constexpr (std::is_same_v<T, float>)
      cblas_sgemv(CblasRowMajor, tv, stored, across, alpha, b, step_b, a, between, beta, c, 1);
    else cblas_dgemv(CblasRowMajor, tv, stored, across, alpha, b, step_b, a, between, beta, c, 1);
    return;
  }
  if constexpr (std::is_same_v<T, float>)
    cblas_sgemm(CblasRowMajor, ta, tb, rows, columns, depth, alpha, a, step_a, b, step_b, beta, c, step_c);
  else cblas_dgemm(CblasRowMajor, ta, tb, rows, columns, depth, alpha, a, step_a, b, step_b, beta, c, step_c);
}

// How C is cut: `rows` x `columns` tiles, one a worker.
struct tiling {
  std::size_t rows = 1, columns = 1;
  bool operator==(tiling const&) const = default;
};

// Every worker packs its stretch of op(A) and of op(B), at the price of some 32 operations an element, so the larger
// operand is the one to cut. Measured on an AMD EPYC (family 26, 2 cores, OpenBLAS 0.3.21 with its Haswell kernels,
// f32): 256 x 3072 x 768 by rows 215 GFLOP/s, by columns 225, the difference being 0.23 ns an element packed twice;
// 50257 x 768 x 256 by rows 228, by columns 210; 2048 cubed 238 and 230, one worker 120. Tiles are multiples of
// `row_unit` x `column_unit`, which the micro-kernels' divide, and k is never cut: the order of additions does not
// depend on the number of workers.
inline constexpr std::size_t row_unit = 8, column_unit = 16;
inline tiling choose_tiling(std::size_t m, std::size_t n, std::size_t k, std::size_t workers) {
  constexpr double pack = 32, least = 1 << 20;  // operations; below `least` a worker's share is not worth waking it
  auto units = [](std::size_t extent, std::size_t unit) { return (extent + unit - 1) / unit; };
  const std::size_t row_units = units(m, row_unit), column_units = units(n, column_unit);
  const double depth = static_cast<double>(k);
  const double worth = 2 * static_cast<double>(m) * static_cast<double>(n) * depth / least;
  const std::size_t affordable = worth < 1 ? 1 : static_cast<std::size_t>(worth < 1e6 ? worth : 1e6);
  const std::size_t most = affordable < workers ? affordable : workers;
  tiling best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (std::size_t columns = 1; columns <= most && columns <= column_units; ++columns)  // of equals the fewest columns
    for (std::size_t rows = 1; rows * columns <= most && rows <= row_units; ++rows) {
      const double tall = static_cast<double>(units(row_units, rows) * row_unit);
      const double wide = static_cast<double>(units(column_units, columns) * column_unit);
      const double cost = depth * (2 * tall * wide + pack * (tall + wide));
      if (cost < best_cost) best = {rows, columns}, best_cost = cost;
    }
  return best;
}

}  // namespace detail

// c = alpha op(a) op(b) + beta c, all row-major; op transposes where asked.
//   op(a) [m, k]   stored as [m, k], or [k, m] if transposed; lda elements between stored rows
//   op(b) [k, n]   stored as [k, n], or [n, k] if transposed; ldb
//   c     [m, n]   ldc; not read if beta is 0
// Any extent may be 0. Throws partita::error if an extent or a distance exceeds what BLAS takes (2^31 - 1). The
// numbers do not depend on the number of workers but for the rounding of edges of tiles.
template <class T> void gemm(workers& threads, bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k,
                             std::type_identity_t<T> alpha, T const* a, std::size_t lda, T const* b, std::size_t ldb,
                             std::type_identity_t<T> beta, T* c, std::size_t ldc) {
  if (m == 0 || n == 0) return;
  detail::prepare_blas();
  const detail::tiling tiles = detail::choose_tiling(m, n, k, threads.size());
  auto cut = [](std::size_t extent, std::size_t unit, std::size_t pieces, std::size_t piece) {
    const std::size_t units = (extent + unit - 1) / unit, at = units * piece / pieces * unit;
    return at < extent ? at : extent;
  };
  threads.parallel(tiles.rows * tiles.columns, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t tile = begin; tile < end; ++tile) {
      const std::size_t i = tile / tiles.columns, j = tile % tiles.columns;
      const std::size_t top = cut(m, detail::row_unit, tiles.rows, i);
      const std::size_t bottom = cut(m, detail::row_unit, tiles.rows, i + 1);
      const std::size_t left = cut(n, detail::column_unit, tiles.columns, j);
      const std::size_t right = cut(n, detail::column_unit, tiles.columns, j + 1);
      detail::gemm_on_this_thread<T>(transpose_a, transpose_b, bottom - top, right - left, k, alpha,
                                     a + (transpose_a ? top : top * lda), lda, b + (transpose_b ? left * ldb : left), ldb, beta,
                                     c + top * ldc + left, ldc);
    }
  });
}

// A matrix of every item of a batch in two levels (sequence and head, say): item (i, j) begins at
// data + i * outer + j * inner, its rows `row` elements apart.
template <class T> struct batch_of {
  T* data = nullptr;
  std::size_t row = 0, outer = 0, inner = 0;
  T* at(std::size_t i, std::size_t j) const { return data + i * outer + j * inner; }
};

// gemm for each of outer x inner items. Items are shared out among the workers whole if there is one for each, else
// every product is cut. Items of c do not overlap.
template <class T> void batched_gemm(workers& threads, std::size_t outer, std::size_t inner, bool transpose_a, bool transpose_b,
                                     std::size_t m, std::size_t n, std::size_t k, std::type_identity_t<T> alpha,
                                     batch_of<T const> a, batch_of<T const> b, std::type_identity_t<T> beta, batch_of<T> c) {
  const std::size_t items = outer * inner;
  if (items == 0 || m == 0 || n == 0) return;
  detail::prepare_blas();
  if (items < threads.size()) {
    for (std::size_t item = 0; item < items; ++item) {
      const std::size_t i = item / inner, j = item % inner;
      gemm<T>(threads, transpose_a, transpose_b, m, n, k, alpha, a.at(i, j), a.row, b.at(i, j), b.row, beta, c.at(i, j), c.row);
    }
    return;
  }
  // a share of at least 2^18 operations, some microseconds
  const std::size_t work = 2 * m * n * (k == 0 ? 1 : k), grain = work >= (1u << 18) ? 1 : (1u << 18) / work;
  threads.parallel(items, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t i = item / inner, j = item % inner;
      detail::gemm_on_this_thread<T>(transpose_a, transpose_b, m, n, k, alpha, a.at(i, j), a.row, b.at(i, j), b.row, beta,
                                     c.at(i, j), c.row);
    }
  });
}

}  // namespace partita::on_cpu
