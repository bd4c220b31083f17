// The last axes of a tensor in another order.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <partita/core/packs.hpp>
#include <partita/model/apply.hpp>
#include <partita/ops/annotation_text.hpp>
#include <partita/ops/axis_position.hpp>

namespace partita {

namespace mistake {
template <class...> struct transpose_must_name_the_last_axes_once_each;
}

namespace detail {
// y, dense and row-major of these extents; element (i..) of it is x at the sum of i * stride.
template <int Rank, class Call, class T>
PARTITA_HOST_DEVICE void copy_permuted_by_elements(Call& call, T const* x, T* y, std::array<std::size_t, Rank> const& extents,
                                                   std::array<std::size_t, Rank> const& strides) {
  std::size_t size = 1;
  for (std::size_t extent : extents) size *= extent;
  const bool packs = strides[Rank - 1] == 1 && packs_divide<T>(extents[Rank - 1]) && begins_pack(x) && begins_pack(y);
  gather_elements(call, size, y, packs, [=](std::size_t i) {
    std::size_t left = i, from = 0;
    for (std::size_t a = Rank; a-- > 0;) {
      from += left % extents[a] * strides[a];
      left /= extents[a];
    }
    return x + from;
  });
}
// The same on the CPU: in tiles when both sides have a stride of 1 along different axes.
template <int Rank, class Call, class T> void copy_permuted(Call& call, T const* x, T* y,
                                                            std::array<std::size_t, Rank> const& extents,
                                                            std::array<std::size_t, Rank> const& strides) {
  constexpr std::size_t tile = 32;
  int along = Rank - 1;  // the axis along which x is contiguous
  for (int a = 0; a < Rank; ++a)
    if (strides[static_cast<std::size_t>(a)] == 1 && extents[static_cast<std::size_t>(a)] > 1) along = a;
  std::array<std::size_t, Rank> steps{};  // of y
  std::size_t total = 1, others = 1;
  for (int a = Rank - 1; a >= 0; --a) {
    steps[static_cast<std::size_t>(a)] = total;
    total *= extents[static_cast<std::size_t>(a)];
    if (a != along && a != Rank - 1) others *= extents[static_cast<std::size_t>(a)];
  }
  const std::size_t rows = along == Rank - 1 ? 1 : extents[static_cast<std::size_t>(along)], columns = extents[Rank - 1],
                    row_step = along == Rank - 1 ? 0 : steps[static_cast<std::size_t>(along)],
                    row_stride = along == Rank - 1 ? 0 : 1, column_stride = strides[Rank - 1],
                    row_tiles = (rows + tile - 1) / tile;
  const std::size_t per_item = std::max<std::size_t>(1, std::min(rows, tile) * columns);
  call.parallel(others * row_tiles, std::max<std::size_t>(1, call.grain / per_item),
                [=](std::size_t begin, std::size_t end, std::size_t) {
                  for (std::size_t item = begin; item < end; ++item) {
                    std::size_t left = item / row_tiles, from = 0, to = 0;
                    for (int a = Rank - 2; a >= 0; --a)
                      if (a != along) {
                        const std::size_t i = left % extents[static_cast<std::size_t>(a)];
                        left /= extents[static_cast<std::size_t>(a)];
                        from += i * strides[static_cast<std::size_t>(a)];
                        to += i * steps[static_cast<std::size_t>(a)];
                      }
                    if (along == Rank - 1 && column_stride == 1) {
                      std::copy_n(x + from, columns, y + to);
                      continue;
                    }
                    const std::size_t top = item % row_tiles * tile, bottom = std::min(rows, top + tile);
                    for (std::size_t first = 0; first < columns; first += tile) {
                      const std::size_t last = std::min(columns, first + tile);
                      for (std::size_t r = top; r < bottom; ++r)
                        for (std::size_t c = first; c < last; ++c)
                          y[to + r * row_step + c] = x[from + r * row_stride + c * column_stride];
                    }
                  }
                });
}
}  // namespace detail

// Of the last axes, in number as many as there are Order: axis i of y is axis Order[i] of x.
template <int... Order> struct transpose_op {
  static constexpr int count = static_cast<int>(sizeof...(Order));
  static constexpr detail::annotation_text text = [] {
    detail::annotation_text t;
    t.put("...");
    t.put_axes('a', count);
    t.put(" -> ...");
    (t.put_axes(static_cast<char>('a' + Order), 1), ...);
    return t;
  }();
  static constexpr std::string_view name = "transpose", annotation = text.view();
  static constexpr bool passes_partial = true;
  static constexpr double flops_per_point = 0;

  template <std::size_t... I> static constexpr auto inverse(auto dy, std::index_sequence<I...>) {
    constexpr int order[]{Order...};
    constexpr auto where = [](int axis) {
      int i = 0;
      while (order[i] != axis) ++i;
      return i;
    };
    return apply<transpose_op<where(static_cast<int>(I))...>>(dy);
  }
  static constexpr auto gradient(auto dy, auto, auto) {
    return gradients{inverse(dy, std::make_index_sequence<sizeof...(Order)>{})};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    constexpr std::size_t rank = sizeof...(Order) + 1;  // '...' is one axis
    constexpr std::size_t order[]{static_cast<std::size_t>(Order)...};
    std::array<std::size_t, rank> extents{call.rest()}, strides{};
    std::size_t stride[sizeof...(Order)]{}, size = 1;  // of x
    for (std::size_t a = sizeof...(Order); a-- > 0;) {
      stride[a] = size;
      size *= call.extent(static_cast<char>('a' + static_cast<int>(a)));
    }
    strides[0] = size;
    for (std::size_t i = 0; i + 1 < rank; ++i) {
      extents[i + 1] = call.extent(static_cast<char>('a' + static_cast<int>(order[i])));
      strides[i + 1] = stride[order[i]];
    }
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    if constexpr (Call::on_host) detail::copy_permuted<static_cast<int>(rank)>(call, x, y, extents, strides);
    else detail::copy_permuted_by_elements<static_cast<int>(rank)>(call, x, y, extents, strides);
  }
};

namespace detail {
template <class X, class... Axes> struct transposition {
  static constexpr int count = static_cast<int>(sizeof...(Axes));
  // where an axis of y stands among the last axes of x, or -1
  template <class Axis> static constexpr int place = [] {
    constexpr int after = axes_after<Axis, X>();
    return after < 0 || after >= count ? -1 : count - 1 - after;
  }();
  static constexpr bool valid = [] {
    bool seen[sizeof...(Axes) + 1]{}, good = count <= X::rank;
    const int places[]{place<Axes>...};  // nvcc cannot loop over a list without a name
    for (int p : places) {
      if (p < 0 || seen[p]) good = false;
      else seen[p] = true;
    }
    return good;
  }();
};
}  // namespace detail

namespace ops {
// Names the last axes in their new order: `pt::transpose<head, position, width>(x)` makes [batch, head, position,
// width] of [batch, position, head, width].
template <class... Axes, handle X> constexpr auto transpose(X x) {
  static_assert(sizeof...(Axes) > 1, "transpose takes the names of two axes or more");
  if constexpr (is_poison<X>) return x;
  else if constexpr (detail::transposition<X, Axes...>::valid)
    return apply<transpose_op<detail::transposition<X, Axes...>::template place<Axes>...>>(x);
  else
    return refuse<mistake::transpose_must_name_the_last_axes_once_each<typename X::like_type, on_axis<&axis_of<Axes>::info>...>>(
        x);
}
}  // namespace ops
using namespace ops;

}  // namespace partita
