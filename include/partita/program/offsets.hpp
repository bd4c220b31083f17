// Where buffers of known size and life lie in one arena. Finding the lowest peak is NP-hard; several orders of placing
// them are tried and the best is kept. The same lives give the same offsets, in every process.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include <partita/core/list.hpp>
#include <partita/core/sort.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::memory {

inline constexpr std::size_t alignment = 64;  // bytes: a cache line, and the widest vector
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

struct life {
  std::size_t bytes = 0;
  int first = 0, last = 0;  // positions, both included
};
struct placed {
  list<std::size_t> offsets;
  std::size_t peak = 0;
};
struct most_live {
  std::size_t bytes = 0;
  int position = -1;  // the first with so many
};

inline list<std::size_t> live_bytes(std::span<life const> lives) {  // by position
  int end = 0;
  for (life const& l : lives) end = std::max(end, l.last + 1);
  list<std::size_t> live(static_cast<std::size_t>(end) + 1);
  for (life const& l : lives) {
    live[static_cast<std::size_t>(l.first)] += l.bytes;
    live[static_cast<std::size_t>(l.last) + 1] -= l.bytes;  // wraps, and back
  }
  for (std::size_t at = 1; at < live.size(); ++at) live[at] += live[at - 1];
  return live;
}

inline most_live find_most_live(std::span<life const> lives) {
  const list<std::size_t> live = live_bytes(lives);
  most_live most;
  for (std::size_t at = 0; at < live.size(); ++at)
    if (live[at] > most.bytes) most = {live[at], static_cast<int>(at)};
  return most;
}

// For each, the most bytes that are live at one time of its life.
inline list<std::size_t> most_beside(std::span<life const> lives) {
  list<list<std::size_t>> windows{live_bytes(lives)};  // the most in the 2^k positions from each
  for (std::size_t width = 1; 2 * width <= windows[0].size(); width *= 2) {
    list<std::size_t> const& half = windows.back();
    list<std::size_t> whole(half.size() - width);
    for (std::size_t at = 0; at < whole.size(); ++at) whole[at] = std::max(half[at], half[at + width]);
    windows.push_back(std::move(whole));
  }
  list<std::size_t> most(lives.size());
  for (std::size_t id = 0; id < lives.size(); ++id) {
    const auto first = static_cast<std::size_t>(lives[id].first), end = static_cast<std::size_t>(lives[id].last) + 1;
    const auto k = static_cast<std::size_t>(std::bit_width(end - first)) - 1;
    most[id] = std::max(windows[k][first], windows[k][end - (std::size_t{1} << k)]);
  }
  return most;
}

// One after another in the given order, each at the lowest offset, or in the smallest gap, that is free during its
// life. Gives up, with a peak of SIZE_MAX, when it would not get below `limit`. O(n^2).
inline placed place_in_order(std::span<life const> lives, std::span<int const> order, bool smallest_gap, std::size_t limit) {
  struct taken {
    std::size_t begin, end;
    int first, last;
  };
  list<taken> by_offset;
  by_offset.reserve(lives.size());
  placed result{list<std::size_t>(lives.size()), 0};
  for (int id : order) {
    life const& mine = lives[static_cast<std::size_t>(id)];
    std::size_t end = 0, at = SIZE_MAX, gap = SIZE_MAX;  // `end` of what is taken so far
    for (taken const& t : by_offset) {
      if (t.first > mine.last || mine.first > t.last) continue;
      if (t.begin >= end + mine.bytes && t.begin - end < gap) {
        at = end;
        gap = t.begin - end;
        if (!smallest_gap || gap == mine.bytes) break;
      }
      end = std::max(end, t.end);
    }
    if (at == SIZE_MAX) at = end;
    result.peak = std::max(result.peak, at + mine.bytes);
    if (result.peak >= limit) return {{}, SIZE_MAX};
    result.offsets[static_cast<std::size_t>(id)] = at;
    const taken t{at, at + mine.bytes, mine.first, mine.last};
    by_offset.insert(
        std::upper_bound(by_offset.begin(), by_offset.end(), t, [](taken const& a, taken const& b) { return a.begin < b.begin; }),
        t);
  }
  return result;
}

// As an allocator would while the program runs, by smallest free range; those that live longer than `most` positions
// were given their place before, below all others. O(n) times the number of free ranges.
inline placed place_online(std::span<life const> lives, int most) {
  placed result{list<std::size_t>(lives.size()), 0};
  list<int> begins, ends;
  std::size_t base = 0;
  for (std::size_t id = 0; id < lives.size(); ++id) {
    if (lives[id].last - lives[id].first > most) {
      result.offsets[id] = base;
      base += lives[id].bytes;
    } else begins.push_back(static_cast<int>(id));
  }
  auto of = [&](int id) -> life const& { return lives[static_cast<std::size_t>(id)]; };
  ends = begins;
  sort_ids(begins,
           [&](int a, int b) { return of(a).first != of(b).first ? of(a).first < of(b).first : of(a).bytes > of(b).bytes; });
  sort_ids(ends, [&](int a, int b) { return of(a).last < of(b).last; });
  struct range {
    std::size_t begin, end;
  };
  list<range> free;  // by address, none beside another
  std::size_t top = base;
  auto release = [&](std::size_t begin, std::size_t end) {
    std::size_t next = free.size();
    while (next > 0 && free[next - 1].begin > begin) --next;
    const bool joins_last = next > 0 && free[next - 1].end == begin, joins_next = next < free.size() && free[next].begin == end;
    if (joins_last && joins_next) {
      free[next - 1].end = free[next].end;
      free.erase(free.begin() + static_cast<std::ptrdiff_t>(next));
    } else if (joins_last) free[next - 1].end = end;
    else if (joins_next) free[next].begin = begin;
    else free.insert(free.begin() + static_cast<std::ptrdiff_t>(next), {begin, end});
  };
  std::size_t ended = 0;
  for (int id : begins) {
    for (; ended < ends.size() && of(ends[ended]).last < of(id).first; ++ended) {
      const std::size_t at = result.offsets[static_cast<std::size_t>(ends[ended])];
      release(at, at + of(ends[ended]).bytes);
    }
    const std::size_t bytes = of(id).bytes;
    std::size_t at = top, fit = free.size(), least = SIZE_MAX;
    for (std::size_t k = 0; k < free.size(); ++k)
      if (const std::size_t size = free[k].end - free[k].begin; size >= bytes && size < least) {
        fit = k;
        least = size;
      }
    if (fit < free.size()) {
      at = free[fit].begin;
      free[fit].begin += bytes;
      if (least == bytes) free.erase(free.begin() + static_cast<std::ptrdiff_t>(fit));
    } else {
      if (!free.empty() && free.back().end == top) {  // grow from the last free range
        at = free.back().begin;
        free.pop_back();
      }
      top = at + bytes;
    }
    result.offsets[static_cast<std::size_t>(id)] = at;
  }
  result.peak = top;
  return result;
}

// Tries orders until one reaches the lower bound or `work`, in buffers looked at, is spent.
inline placed place(std::span<life const> lives, std::size_t work = 100'000'000) {
  const std::size_t count = lives.size(), bound = find_most_live(lives).bytes;
  placed best{list<std::size_t>(count), 0};
  if (count == 0) return best;
  int end = 0;
  for (life const& l : lives) end = std::max(end, l.last + 1);
  best = place_online(lives, end);
  for (int parts : {2, 4, 16}) {
    if (best.peak == bound) return best;
    placed other = place_online(lives, end / parts);
    if (other.peak < best.peak) best = std::move(other);
  }

  std::size_t passes = std::min<std::size_t>(64, work / (count * count / 2 + 1));
  auto try_order = [&](std::span<int const> order, bool smallest_gap) {
    if (passes == 0 || best.peak == bound) return;
    --passes;
    placed other = place_in_order(lives, order, smallest_gap, best.peak);
    if (other.peak < best.peak) best = std::move(other);
  };
  auto of = [&](int id) -> life const& { return lives[static_cast<std::size_t>(id)]; };
  auto duration = [&](int id) { return static_cast<std::size_t>(of(id).last - of(id).first) + 1; };
  list<int> order(count);
  auto sort_by = [&](auto key) {  // decreasing; equal ones by age, then by size
    std::iota(order.begin(), order.end(), 0);
    sort_ids(order, [&](int a, int b) {
      if (key(a) != key(b)) return key(a) > key(b);
      return duration(a) != duration(b) ? duration(a) > duration(b) : of(a).bytes > of(b).bytes;
    });
  };
  if (passes == 0) return best;
  const list<std::size_t> crowd = most_beside(lives);
  auto size = [&](int id) { return of(id).bytes; };
  auto area = [&](int id) { return of(id).bytes * duration(id); };
  auto crowded = [&](int id) { return crowd[static_cast<std::size_t>(id)]; };
  for (bool smallest_gap : {false, true}) {
    sort_by(size);
    try_order(order, smallest_gap);
    sort_by(crowded);
    try_order(order, smallest_gap);
    sort_by(area);
    try_order(order, smallest_gap);
    sort_by(duration);
    try_order(order, smallest_gap);
  }
  // Those that stick out above the bound come earlier next time.
  sort_by(size);
  list<int> priority(count);
  while (passes > 0 && best.peak != bound) {
    --passes;
    const placed now = place_in_order(lives, order, false, SIZE_MAX);
    if (now.peak < best.peak) best = now;
    bool moved = false;
    for (std::size_t id = 0; id < count; ++id)
      if (now.offsets[id] + lives[id].bytes > bound) {
        ++priority[id];
        moved = true;
      }
    if (!moved) break;
    sort_ids(order, [&](int a, int b) { return priority[static_cast<std::size_t>(a)] > priority[static_cast<std::size_t>(b)]; });
  }
  return best;
}

}  // namespace partita::detail::memory

#include <partita/core/end_planning_code.hpp>
