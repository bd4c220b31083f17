// Boxes copied and combined between dense arrays, and arrays filled with one value.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <partita/core/narrow_arrays.hpp>
#include <partita/device/cpu/team.hpp>
#include <partita/device/cpu/workers.hpp>
#include <partita/program/program.hpp>

namespace partita::on_cpu {

namespace detail {

// Elements below which a second thread is not worth waking for work that memory bounds.
inline constexpr std::size_t copy_grain = 32 * 1024;

// Calls f(std::type_identity<T>{}) with the type that holds an element which is not narrow.
template <class F> void with_element(dtype type, F f) {
  switch (type) {
    case dtype::f64: return f(std::type_identity<double>{});
    case dtype::i32: return f(std::type_identity<std::int32_t>{});
    default: return f(std::type_identity<float>{});
  }
}

struct sum_into {
  template <class T> T operator()(T left, T right) const {
    if constexpr (std::is_integral_v<T>)  // wraps instead of being undefined
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(left) + static_cast<std::make_unsigned_t<T>>(right));
    else return left + right;
  }
};
struct max_into {  // a NaN on either side stays, as in a reduction between ranks
  template <class T> T operator()(T left, T right) const {
    if constexpr (std::is_integral_v<T>) return left < right ? right : left;
    else return ((left < right) | (right != right)) ? right : left;
  }
};

// A box with as few loops as its strides allow; the last is the innermost.
struct loops {
  int rank = 0;
  std::size_t extents[max_rank + 1]{}, from[max_rank + 1]{}, to[max_rank + 1]{};
  std::size_t rows = 1;  // calls of the innermost loop
  bool empty = false;

  explicit loops(box_copy const& b) {
    for (int d = 0; d < b.rank; ++d) {
      if (b.extents[d] == 0) empty = true;
      if (b.extents[d] == 1) continue;
      if (rank > 0 && from[rank - 1] == b.extents[d] * b.from_strides[d] && to[rank - 1] == b.extents[d] * b.to_strides[d]) {
        extents[rank - 1] *= b.extents[d];
        from[rank - 1] = b.from_strides[d];
        to[rank - 1] = b.to_strides[d];
      } else {
        extents[rank] = b.extents[d];
        from[rank] = b.from_strides[d];
        to[rank++] = b.to_strides[d];
      }
    }
    if (rank == 0) extents[rank] = from[rank] = to[rank] = 1, rank = 1;
    for (int d = 0; d + 1 < rank; ++d) rows *= extents[d];
  }
  std::size_t length() const { return extents[rank - 1]; }
  bool contiguous() const { return from[rank - 1] == 1 && to[rank - 1] == 1; }

  // f(offset in from, offset in to) for rows [begin, end), in elements.
  template <class F> void each_row(std::size_t begin, std::size_t end, F f) const {
    std::size_t at[max_rank + 1]{}, source = 0, target = 0, rest = begin;
    for (int d = rank - 2; d >= 0; --d) {
      at[d] = rest % extents[d];
      rest /= extents[d];
      source += at[d] * from[d];
      target += at[d] * to[d];
    }
    for (std::size_t row = begin; row < end; ++row) {
      f(source, target);
      for (int d = rank - 2; d >= 0; --d) {
        source += from[d];
        target += to[d];
        if (++at[d] < extents[d]) break;
        source -= at[d] * from[d];
        target -= at[d] * to[d];
        at[d] = 0;
      }
    }
  }
};

// f(source, target, length) for the runs of a box, shared out among the team. A run that is the whole box is cut. One
// loop nest for all, and a call of f for each run: it is compiled for every type and way of combining.
using run_of_elements = void (*)(void const* what, std::size_t from, std::size_t to, std::size_t count);
[[gnu::noinline]] inline void each_run(loops const& l, workers* team, void const* what, run_of_elements f) {
  if (l.empty) return;
  const std::size_t length = l.length();
  auto rows = [&](std::size_t begin, std::size_t end) {
    l.each_row(begin, end, [&](std::size_t from, std::size_t to) { f(what, from, to, length); });
  };
  if (team == nullptr || team->size() == 1 || l.rows * length < 2 * copy_grain) return rows(0, l.rows);
  if (l.rows > 1) return team->parallel(l.rows, copy_grain / length + 1, rows);
  const std::size_t from = l.from[l.rank - 1], to = l.to[l.rank - 1];
  team->parallel(length, copy_grain, [&](std::size_t begin, std::size_t end) { f(what, begin * from, begin * to, end - begin); });
}
template <class F> void each_run(loops const& l, workers* team, F const& f) {
  each_run(l, team, &f, [](void const* what, std::size_t from, std::size_t to, std::size_t count) {
    (*static_cast<F const*>(what))(from, to, count);
  });
}

inline void copy_runs(loops const& l, void const* source, void* target, std::size_t width, workers* team) {
  each_run(l, team, [=](std::size_t f, std::size_t t, std::size_t n) {
    std::memcpy(static_cast<std::byte*>(target) + t * width, static_cast<std::byte const*>(source) + f * width, n * width);
  });
}
template <class Word> void copy_words(loops const& l, void const* source, void* target, workers* team) {
  Word const* const from = static_cast<Word const*>(source);
  Word* const to = static_cast<Word*>(target);
  const std::size_t from_step = l.from[l.rank - 1], to_step = l.to[l.rank - 1];
  each_run(l, team, [=](std::size_t f, std::size_t t, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[t + i * to_step] = from[f + i * from_step];
  });
}

template <class T, class Combine> void combine_elements(loops const& l, T const* from, T* to, workers* threads, Combine combine) {
  if (l.contiguous())
    return each_run(l, threads, [=](std::size_t f, std::size_t t, std::size_t n) {
      T const* const source = from + f;
      T* const target = to + t;
      team{}.each(n, [=](std::size_t i) { target[i] = combine(target[i], source[i]); });
    });
  const std::size_t from_step = l.from[l.rank - 1], to_step = l.to[l.rank - 1];
  each_run(l, threads, [=](std::size_t f, std::size_t t, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[t + i * to_step] = combine(to[t + i * to_step], from[f + i * from_step]);
  });
}

// In float, and rounded.
inline void combine_narrow(loops const& l, dtype type, void const* from, void* to, reduction how, workers* threads) {
  const std::size_t from_step = l.from[l.rank - 1], to_step = l.to[l.rank - 1];
  each_run(l, threads, [=](std::size_t f, std::size_t t, std::size_t n) {
    constexpr std::size_t strip = 512;
    float left[strip], right[strip];
    for (std::size_t first = 0; first < n; first += strip) {
      const std::size_t count = n - first < strip ? n - first : strip;
      void* const target = static_cast<std::uint16_t*>(to) + t + first * to_step;
      widen(type, target, to_step, left, count);
      widen(type, static_cast<std::uint16_t const*>(from) + f + first * from_step, from_step, right, count);
      for (std::size_t i = 0; i < count; ++i)
        left[i] = how == reduction::sum ? sum_into{}(left[i], right[i]) : max_into{}(left[i], right[i]);
      narrow(type, left, target, to_step, count);
    }
  });
}

}  // namespace detail

// Copies a box, or combines it into what is there; `from` and `to` are where its references point and do not overlap.
inline void copy_box(box_copy const& b, dtype type, void const* from, void* to, workers* team = nullptr) {
  const detail::loops l(b);
  if (b.combine && is_narrow(type)) return detail::combine_narrow(l, type, from, to, b.reduce, team);
  if (b.combine)
    return detail::with_element(type, [&]<class T>(std::type_identity<T>) {
      T const* const source = static_cast<T const*>(from);
      T* const target = static_cast<T*>(to);
      if (b.reduce == reduction::sum) detail::combine_elements(l, source, target, team, detail::sum_into{});
      else detail::combine_elements(l, source, target, team, detail::max_into{});
    });
  if (l.contiguous()) return detail::copy_runs(l, from, to, size_of(type), team);
  switch (size_of(type)) {
    case 8: return detail::copy_words<std::uint64_t>(l, from, to, team);
    case 2: return detail::copy_words<std::uint16_t>(l, from, to, team);
    default: return detail::copy_words<std::uint32_t>(l, from, to, team);
  }
}

inline void fill_elements(dtype type, void* to, std::size_t count, double value, workers* threads = nullptr) {
  if (is_narrow(type)) {
    float const one = static_cast<float>(value);
    std::uint16_t bits = 0;
    narrow(type, &one, &bits, 1, 1);
    std::fill_n(static_cast<std::uint16_t*>(to), count, bits);
    return;
  }
  detail::with_element(type, [&]<class T>(std::type_identity<T>) {
    T* const target = static_cast<T*>(to);
    const T one = static_cast<T>(value);
    auto part = [=](std::size_t begin, std::size_t end) {
      T* const first = target + begin;
      team{}.each(end - begin, [=](std::size_t i) { first[i] = one; });
    };
    if (threads == nullptr) part(0, count);
    else threads->parallel(count, detail::copy_grain, part);
  });
}

}  // namespace partita::on_cpu
