// The kernel of a product of two tensors over any axes: as matrix products where the strides allow, else element by
// element.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <partita/model/op_info.hpp>

namespace partita::detail {

// An axis of a contraction: its extent and its strides in a, b and c, 0 where it is missing.
struct contraction_axis {
  std::size_t extent = 1, a = 0, b = 0, c = 0;
};
// Axes by where they stand: in all three (loops), in a and c (rows), in b and c (columns), in a and b (summed). Axes of
// extent 1 are dropped, and two that lie together in every tensor are made one.
struct contraction_axes {
  enum kind { loop, row, column, summed };
  std::array<contraction_axis, max_dims> of[4]{};
  int count[4]{};
  bool swapped = false;  // a and b have changed places

  contraction_axes(op_info const& info, std::size_t const* extents) {
    contraction_axis all[max_dims]{};
    auto measure = [&](operand const& x, std::size_t contraction_axis::* stride) {
      std::size_t size = 1;
      for (int i = x.rank - 1; i >= 0; --i) {
        all[x.dims[i]].*stride = size;
        size *= extents[x.dims[i]];
      }
    };
    measure(info.inputs[0], &contraction_axis::a);
    measure(info.inputs[1], &contraction_axis::b);
    measure(info.outputs[0], &contraction_axis::c);
    for (int d = 0; d < info.dim_count; ++d) {
      contraction_axis& x = all[d];
      x.extent = extents[d];
      if (x.extent == 1) continue;
      const kind k = x.c == 0 ? summed : x.a == 0 ? column : x.b == 0 ? row : loop;
      add(k, x);
    }
    for (int k = 0; k < 4; ++k) join(k);
  }

  std::size_t product(kind k) const {
    std::size_t n = 1;
    for (int i = 0; i < count[k]; ++i) n *= of[k][static_cast<std::size_t>(i)].extent;
    return n;
  }
  void swap_operands() {
    swapped = !swapped;
    for (int k = 0; k < 4; ++k)
      for (contraction_axis& x : of[k]) std::swap(x.a, x.b);
    std::swap(of[row], of[column]);
    std::swap(count[row], count[column]);
  }
  // Takes axis i out of its kind; an axis of extent 1 when there is none.
  contraction_axis take(kind k, int i) {
    if (i < 0) return {};
    const contraction_axis x = of[k][static_cast<std::size_t>(i)];
    for (int j = i; j + 1 < count[k]; ++j) of[k][static_cast<std::size_t>(j)] = of[k][static_cast<std::size_t>(j + 1)];
    --count[k];
    return x;
  }
  void add(kind k, contraction_axis const& x) { of[k][static_cast<std::size_t>(count[k]++)] = x; }

 private:
  void join(int k) {
    // by strides, the largest first
    std::sort(of[k].begin(), of[k].begin() + count[k], [](contraction_axis const& x, contraction_axis const& y) {
      return std::max({x.a, x.b, x.c}) > std::max({y.a, y.b, y.c});
    });
    int kept = 0;
    for (int i = 0; i < count[k]; ++i) {
      contraction_axis const x = of[k][static_cast<std::size_t>(i)];
      if (kept > 0) {
        contraction_axis& last = of[k][static_cast<std::size_t>(kept - 1)];
        if (last.a == x.a * x.extent && last.b == x.b * x.extent && last.c == x.c * x.extent) {
          last = {last.extent * x.extent, x.a, x.b, x.c};
          continue;
        }
      }
      of[k][static_cast<std::size_t>(kept++)] = x;
    }
    count[k] = kept;
  }
};

// The one row, column and summed axis that a matrix product takes; the rest are loops.
struct contraction_plan {
  contraction_axis m, n, k;
  bool matrices = false;
};
inline contraction_plan choose_matrices(contraction_axes& axes) {
  using kind = contraction_axes::kind;
  // c must be contiguous along the columns; along the rows it is the product of the operands changed over
  auto contiguous = [&](kind in) {
    for (int i = 0; i < axes.count[in]; ++i)
      if (axes.of[in][static_cast<std::size_t>(i)].c == 1) return i;
    return -1;
  };
  if (contiguous(kind::loop) >= 0) return {};
  if (contiguous(kind::row) >= 0) axes.swap_operands();
  auto at = [&](kind in, int i) { return i < 0 ? contraction_axis{} : axes.of[in][static_cast<std::size_t>(i)]; };
  const int n_at = contiguous(kind::column), rows = axes.count[kind::row], sums = axes.count[kind::summed];
  const contraction_axis n = at(kind::column, n_at);
  int m_at = -1, k_at = -1;
  std::size_t most = 0;
  for (int i = rows == 0 ? -1 : 0; i < rows; ++i)
    for (int j = sums == 0 ? -1 : 0; j < sums; ++j) {
      const contraction_axis m = at(kind::row, i), k = at(kind::summed, j);
      const bool a_is_matrix = m.extent == 1 || k.extent == 1 || m.a == 1 || k.a == 1;
      const bool b_is_matrix = n.extent == 1 || k.extent == 1 || n.b == 1 || k.b == 1;
      if (!a_is_matrix || !b_is_matrix || m.extent * k.extent <= most) continue;
      most = m.extent * k.extent;
      m_at = i;
      k_at = j;
    }
  if (most == 0) return {};
  contraction_plan plan;
  plan.n = axes.take(kind::column, n_at);
  plan.m = axes.take(kind::row, m_at);
  plan.k = axes.take(kind::summed, k_at);
  plan.matrices = true;
  return plan;
}

// Where the tensors begin in iteration `item` of a list of axes.
struct contraction_place {
  std::size_t a = 0, b = 0, c = 0;
  void advance(std::array<contraction_axis, max_dims> const& axes, int count, std::size_t item) {
    for (int i = count - 1; i >= 0; --i) {
      contraction_axis const& x = axes[static_cast<std::size_t>(i)];
      const std::size_t index = item % x.extent;
      item /= x.extent;
      a += index * x.a;
      b += index * x.b;
      c += index * x.c;
    }
  }
};

// c = sum of a b, added to c where the call accumulates. Workers take rows of c whole: the order of additions does not
// depend on their number.
template <class Call> void contract(Call& call) {
  using kind = contraction_axes::kind;
  auto const* a = call.template input<0>();
  auto const* b = call.template input<1>();
  auto* const c = call.template output<0>();
  using value = std::remove_pointer_t<decltype(c)>;
  const std::size_t size = call.template output_size<0>();
  contraction_axes axes(call.info(), call.arguments().extents);
  const value before = call.accumulate() ? value(1) : value(0);
  if (size == 0) return;
  const contraction_plan plan = choose_matrices(axes);
  // choose_matrices may have changed the operands over: the axes' strides then belong to b and a
  if (axes.swapped) std::swap(a, b);
  std::array<contraction_axis, max_dims> outer{};
  int outer_count = 0;
  for (kind in : {kind::loop, kind::row, kind::column})
    for (int i = 0; i < axes.count[in]; ++i)
      outer[static_cast<std::size_t>(outer_count++)] = axes.of[in][static_cast<std::size_t>(i)];
  const std::size_t items = axes.product(kind::loop) * axes.product(kind::row) * axes.product(kind::column),
                    sums = axes.product(kind::summed);
  auto const& summed = axes.of[kind::summed];
  const int summed_count = axes.count[kind::summed];

  if (!plan.matrices) {
    call.parallel(items, std::max<std::size_t>(1, call.grain / std::max<std::size_t>(1, sums)),
                  [=](std::size_t begin, std::size_t end, std::size_t) {
                    for (std::size_t item = begin; item < end; ++item) {
                      contraction_place at;
                      at.advance(outer, outer_count, item);
                      value total = 0;
                      for (std::size_t s = 0; s < sums; ++s) {
                        contraction_place here = at;
                        here.advance(summed, summed_count, s);
                        total += a[here.a] * b[here.b];
                      }
                      c[at.c] = before == 0 ? total : c[at.c] + total;
                    }
                  });
    return;
  }
  const contraction_axis m = plan.m, n = plan.n, k = plan.k;
  const bool turn_a = !(k.extent == 1 || k.a == 1), turn_b = !(n.extent == 1 || n.b == 1);
  const std::size_t lda = std::max(turn_a ? k.a : m.a, turn_a ? m.extent : k.extent),
                    ldb = std::max(turn_b ? n.b : k.b, turn_b ? k.extent : n.extent), ldc = std::max(m.c, n.extent);
  // With fewer products than workers every product is cut along its rows.
  const std::size_t workers = call.worker_count(), wanted = items < workers ? (workers + items - 1) / items : 1;
  const std::size_t share = std::max<std::size_t>(1, ((m.extent + wanted - 1) / wanted + 7) / 8 * 8),
                    shares = (m.extent + share - 1) / share;
  const std::size_t work = 2 * std::min(share, m.extent) * n.extent * k.extent * sums;
  call.parallel(items * shares, std::max<std::size_t>(1, (std::size_t{1} << 18) / std::max<std::size_t>(1, work)),
                [=](std::size_t begin, std::size_t end, std::size_t) {
                  for (std::size_t item = begin; item < end; ++item) {
                    contraction_place at;
                    at.advance(outer, outer_count, item / shares);
                    const std::size_t top = item % shares * share, rows = std::min(share, m.extent - top);
                    for (std::size_t s = 0; s < sums; ++s) {
                      contraction_place here = at;
                      here.advance(summed, summed_count, s);
                      Call::template gemm_on_this_thread<value>(
                          turn_a, turn_b, rows, n.extent, k.extent, 1, a + here.a + top * m.a, lda, b + here.b, ldb,
                          s == 0 ? before : value(1), c + here.c + top * m.c, ldc);
                    }
                  }
                });
}

}  // namespace partita::detail
