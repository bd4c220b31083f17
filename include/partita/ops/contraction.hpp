// The kernel of a product of two tensors over any axes: as matrix products where the strides allow, else element by
// element. The CPU goes through the products itself; for a GPU the host writes them down for its library.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include <partita/core/host_device.hpp>
#include <partita/model/op_info.hpp>

namespace partita::detail {

// An axis of a contraction: its extent and its strides in a, b and c, 0 where it is missing.
struct contraction_axis {
  std::size_t extent = 1, a = 0, b = 0, c = 0;
};
struct contraction_axis_list {
  contraction_axis at[max_dims]{};
  PARTITA_HOST_DEVICE contraction_axis& operator[](std::size_t i) { return at[i]; }
  PARTITA_HOST_DEVICE contraction_axis const& operator[](std::size_t i) const { return at[i]; }
};
template <class T> PARTITA_HOST_DEVICE constexpr void change_places(T& a, T& b) {
  const T was = a;
  a = b;
  b = was;
}
PARTITA_HOST_DEVICE constexpr std::size_t larger_of(std::size_t a, std::size_t b) { return a < b ? b : a; }

// Axes by where they stand: in all three (loops), in a and c (rows), in b and c (columns), in a and b (summed). Axes of
// extent 1 are dropped, and two that lie together in every tensor are made one.
struct contraction_axes {
  enum kind { loop, row, column, summed };
  contraction_axis_list of[4]{};
  int count[4]{};
  bool swapped = false;  // a and b have changed places

  PARTITA_HOST_DEVICE contraction_axes(op_info const& info, std::size_t const* extents) {
    contraction_axis all[max_dims]{};
    auto measure = [&](operand const& x, std::size_t contraction_axis::*stride) {
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

  PARTITA_HOST_DEVICE std::size_t product(kind k) const {
    std::size_t n = 1;
    for (int i = 0; i < count[k]; ++i) n *= of[k][static_cast<std::size_t>(i)].extent;
    return n;
  }
  PARTITA_HOST_DEVICE void swap_operands() {
    swapped = !swapped;
    for (int k = 0; k < 4; ++k)
      for (contraction_axis& x : of[k].at) change_places(x.a, x.b);
    change_places(of[row], of[column]);
    change_places(count[row], count[column]);
  }
  // Takes axis i out of its kind; an axis of extent 1 when there is none.
  PARTITA_HOST_DEVICE contraction_axis take(kind k, int i) {
    if (i < 0) return {};
    const contraction_axis x = of[k][static_cast<std::size_t>(i)];
    for (int j = i; j + 1 < count[k]; ++j) of[k][static_cast<std::size_t>(j)] = of[k][static_cast<std::size_t>(j + 1)];
    --count[k];
    return x;
  }
  PARTITA_HOST_DEVICE void add(kind k, contraction_axis const& x) { of[k][static_cast<std::size_t>(count[k]++)] = x; }

 private:
  PARTITA_HOST_DEVICE static std::size_t longest_stride(contraction_axis const& x) { return larger_of(x.a, larger_of(x.b, x.c)); }
  PARTITA_HOST_DEVICE void join(int k) {
    // by strides, the largest first
    for (int i = 1; i < count[k]; ++i)
      for (int j = i; j > 0; --j) {
        contraction_axis &before = of[k][static_cast<std::size_t>(j - 1)], &here = of[k][static_cast<std::size_t>(j)];
        if (longest_stride(before) >= longest_stride(here)) break;
        change_places(before, here);
      }
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
PARTITA_HOST_DEVICE inline contraction_plan choose_matrices(contraction_axes& axes) {
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
  PARTITA_HOST_DEVICE void advance(contraction_axis_list const& axes, int count, std::size_t item) {
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

// How a matrix product has its operands, row-major: which of them lie transposed, and how far their rows are apart.
struct contraction_matrices {
  bool turn_a, turn_b;
  std::size_t lda, ldb, ldc;
  PARTITA_HOST_DEVICE explicit contraction_matrices(contraction_plan const& p)
      : turn_a(!(p.k.extent == 1 || p.k.a == 1)),
        turn_b(!(p.n.extent == 1 || p.n.b == 1)),
        lda(larger_of(turn_a ? p.k.a : p.m.a, turn_a ? p.m.extent : p.k.extent)),
        ldb(larger_of(turn_b ? p.n.b : p.k.b, turn_b ? p.k.extent : p.n.extent)),
        ldc(larger_of(p.m.c, p.n.extent)) {}
};

// The axes of c that no matrix product takes, and those that are summed.
struct contraction_loops {
  contraction_axis_list outer{}, summed{};
  int outer_count = 0, summed_count = 0;
  std::size_t items = 1, sums = 1;
  PARTITA_HOST_DEVICE explicit contraction_loops(contraction_axes const& axes) {
    using kind = contraction_axes::kind;
    for (int in = kind::loop; in <= kind::column; ++in)
      for (int i = 0; i < axes.count[in]; ++i)
        outer[static_cast<std::size_t>(outer_count++)] = axes.of[in][static_cast<std::size_t>(i)];
    summed = axes.of[kind::summed];
    summed_count = axes.count[kind::summed];
    for (int i = 0; i < outer_count; ++i) items *= outer[static_cast<std::size_t>(i)].extent;
    for (int i = 0; i < summed_count; ++i) sums *= summed[static_cast<std::size_t>(i)].extent;
  }
};

// Element number `item` of c.
template <class T> PARTITA_HOST_DEVICE void contract_element(contraction_loops const& loops, std::size_t item, T const* a,
                                                             T const* b, T* c, bool add) {
  using value = std::conditional_t<std::is_same_v<T, double>, double, float>;
  contraction_place at;
  at.advance(loops.outer, loops.outer_count, item);
  value total = 0;
  for (std::size_t s = 0; s < loops.sums; ++s) {
    contraction_place here = at;
    here.advance(loops.summed, loops.summed_count, s);
    total += static_cast<value>(a[here.a]) * static_cast<value>(b[here.b]);
  }
  c[at.c] = static_cast<T>(add ? static_cast<value>(c[at.c]) + total : total);
}

// Writes down the products by which a library does it: one for each step of the longest axis that all three tensors have, at
// once, and these again for each step of the other axes. False: it has to be done by elements. In narrow types what is
// summed in several products is rounded after each.
template <class Call> PARTITA_HOST_DEVICE bool contract_by_library(Call& call) {
  using kind = contraction_axes::kind;
  contraction_axes axes(call.info(), call.arguments().extents);
  auto const *a = call.template input<0>(), *b = call.template input<1>();
  const contraction_plan plan = choose_matrices(axes);
  if (!plan.matrices) return false;
  if (axes.swapped) change_places(a, b);
  int longest = -1;
  for (int i = 0; i < axes.count[kind::loop]; ++i)
    if (longest < 0 ||
        axes.of[kind::loop][static_cast<std::size_t>(i)].extent > axes.of[kind::loop][static_cast<std::size_t>(longest)].extent)
      longest = i;
  const contraction_axis batch = axes.take(kind::loop, longest);
  const contraction_loops loops(axes);
  const int count = loops.outer_count + loops.summed_count;
  const std::size_t times = loops.items * loops.sums, work = batch.extent * plan.m.extent * plan.n.extent * plan.k.extent;
  constexpr std::size_t most_small = 64, small = std::size_t{1} << 19;  // a launch takes as long as so much work: an estimate
  if (count > Call::most_loops || times == 0 || work == 0 || (times > most_small && work < small)) return false;
  contraction_axis all[Call::most_loops]{};
  for (int i = 0; i < loops.outer_count; ++i) all[i] = loops.outer[static_cast<std::size_t>(i)];
  for (int i = 0; i < loops.summed_count; ++i) all[loops.outer_count + i] = loops.summed[static_cast<std::size_t>(i)];
  const contraction_matrices lie(plan);
  call.gemm_of_each(lie.turn_a, lie.turn_b, plan.m.extent, plan.n.extent, plan.k.extent, a, lie.lda, b, lie.ldb,
                    call.template output<0>(), lie.ldc, batch, all, count);
  return true;
}

// Workers take rows of c whole: the order of additions does not depend on their number.
template <class Call, class T> void contract_on_host(Call& call, T const* a, T const* b, T* c, bool add) {
  contraction_axes axes(call.info(), call.arguments().extents);
  const contraction_plan plan = choose_matrices(axes);
  // choose_matrices may have changed the operands over: the axes' strides then belong to b and a
  if (axes.swapped) std::swap(a, b);
  const contraction_loops loops(axes);
  if (!plan.matrices) {
    call.parallel(loops.items, std::max<std::size_t>(1, call.grain / std::max<std::size_t>(1, loops.sums)),
                  [=](std::size_t begin, std::size_t end, std::size_t) {
                    for (std::size_t item = begin; item < end; ++item) contract_element(loops, item, a, b, c, add);
                  });
    return;
  }
  const contraction_axis m = plan.m, n = plan.n, k = plan.k;
  const contraction_matrices lie(plan);
  // With fewer products than workers every product is cut along its rows.
  const std::size_t items = loops.items, workers = call.worker_count(),
                    wanted = items < workers ? (workers + items - 1) / items : 1;
  const std::size_t share = std::max<std::size_t>(1, ((m.extent + wanted - 1) / wanted + 7) / 8 * 8),
                    shares = (m.extent + share - 1) / share;
  const std::size_t work = 2 * std::min(share, m.extent) * n.extent * k.extent * loops.sums;
  const T before = add ? T(1) : T(0);
  call.parallel(items * shares, std::max<std::size_t>(1, (std::size_t{1} << 18) / std::max<std::size_t>(1, work)),
                [=](std::size_t begin, std::size_t end, std::size_t) {
                  for (std::size_t item = begin; item < end; ++item) {
                    contraction_place at;
                    at.advance(loops.outer, loops.outer_count, item / shares);
                    const std::size_t top = item % shares * share, rows = std::min(share, m.extent - top);
                    for (std::size_t s = 0; s < loops.sums; ++s) {
                      contraction_place here = at;
                      here.advance(loops.summed, loops.summed_count, s);
                      Call::template gemm_on_this_thread<T>(lie.turn_a, lie.turn_b, rows, n.extent, k.extent, 1,
                                                            a + here.a + top * m.a, lie.lda, b + here.b, lie.ldb,
                                                            s == 0 ? before : T(1), c + here.c + top * m.c, lie.ldc);
                    }
                  }
                });
}

// c = sum of a b, added to c where the call accumulates.
template <class Call> PARTITA_HOST_DEVICE void contract(Call& call) {
  auto const* a = call.template input<0>();
  auto const* b = call.template input<1>();
  auto* const c = call.template output<0>();
  const bool add = call.accumulate();
  if (call.template output_size<0>() == 0) return;
  if constexpr (Call::on_host) contract_on_host(call, a, b, c, add);
  else {
    if constexpr (Call::records)
      if (contract_by_library(call)) return;
    const contraction_axes axes(call.info(), call.arguments().extents);
    const contraction_loops loops(axes);
    call.each(loops.items, [=](std::size_t item) { contract_element(loops, item, a, b, c, add); });
  }
}

}  // namespace partita::detail

namespace partita {

// Every einsum's kernel on a GPU: what it does, the extents say.
struct contraction_op {
  static constexpr std::string_view name = "contraction", annotation = "..., ... -> ...";
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::contract(call); }
};

}  // namespace partita
