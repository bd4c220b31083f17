// Sorting of indices, compiled once: std::stable_sort is two thousand instructions for every comparison it is given.
#pragma once
#include <cstddef>
#include <span>

#include <partita/core/list.hpp>

namespace partita {

namespace detail {
[[gnu::noinline]] inline void merge_sort(std::span<int> ids, bool (*before)(void const*, int, int), void const* what) {
  const std::size_t n = ids.size();
  constexpr std::size_t run = 8;  // sorted by insertion
  for (std::size_t begin = 0; begin < n; begin += run) {
    const std::size_t end = begin + run < n ? begin + run : n;
    for (std::size_t i = begin + 1; i < end; ++i) {
      const int id = ids[i];
      std::size_t at = i;
      for (; at > begin && before(what, id, ids[at - 1]); --at) ids[at] = ids[at - 1];
      ids[at] = id;
    }
  }
  if (n <= run) return;
  list<int> other(n);
  int *from = ids.data(), *to = other.data();
  for (std::size_t width = run; width < n; width *= 2) {
    for (std::size_t begin = 0; begin < n; begin += 2 * width) {
      const std::size_t middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
      std::size_t a = begin, b = middle;
      for (std::size_t at = begin; at < end; ++at)
        to[at] = b == end || (a < middle && !before(what, from[b], from[a])) ? from[a++] : from[b++];
    }
    int* const done = to;
    to = from;
    from = done;
  }
  if (from != ids.data())
    for (std::size_t i = 0; i < n; ++i) ids[i] = from[i];
}
}  // namespace detail

// Stable; `before(a, b)`: does index a come before index b.
template <class Before> void sort_ids(std::span<int> ids, Before const& before) {
  detail::merge_sort(
      ids, [](void const* f, int a, int b) { return static_cast<bool>((*static_cast<Before const*>(f))(a, b)); }, &before);
}
// 0, 1, ... n - 1, sorted so.
template <class Before> list<int> sorted_ids(std::size_t n, Before const& before) {
  list<int> ids(n);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<int>(i);
  sort_ids(ids, before);
  return ids;
}

}  // namespace partita
