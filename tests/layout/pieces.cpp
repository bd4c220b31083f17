// Pieces and boxes: their laws, by brute force over small extents.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <partita/layout/box.hpp>

namespace pt = partita;

TEST_CASE("pieces follow one another, sum to the extent, and differ by one at most, the longer ones first") {
  for (std::size_t extent = 0; extent <= 40; ++extent)
    for (int n = 1; n <= 12; ++n) {
      std::size_t at = 0, before = extent + 1;
      for (int i = 0; i < n; ++i) {
        const pt::interval p = pt::piece(extent, n, i);
        CHECK(p.begin == at);
        CHECK(p.size <= before);
        const std::size_t floor = extent / static_cast<std::size_t>(n);
        CHECK((p.size == floor || p.size == floor + 1));
        before = p.size;
        at = p.end();
      }
      CHECK(at == extent);
    }
  static_assert(pt::piece(50257, 2, 0) == pt::interval{0, 25129});
  static_assert(pt::piece(50257, 2, 1) == pt::interval{25129, 25128});
  static_assert(pt::piece(2, 3, 2) == pt::interval{2, 0});  // empty: legal in time
}

TEST_CASE("given sizes are the sizes") {
  const int sizes[]{3, 0, 5, 2};
  std::size_t at = 0;
  for (int i = 0; i < 4; ++i) {
    const pt::interval p = pt::piece(10, 4, i, sizes);
    CHECK(p.begin == at);
    CHECK(p.size == static_cast<std::size_t>(sizes[i]));
    at = p.end();
  }
}

namespace {
pt::box box_of(int rank, std::size_t const* begin, std::size_t const* size) {
  pt::box b;
  b.rank = rank;
  for (int a = 0; a < rank; ++a) b.at[a] = {begin[a], size[a]};
  return b;
}
// Every box inside extents {3, 2, 4}, of a rank.
std::vector<pt::box> all_boxes(int rank) {
  const std::size_t extents[]{3, 2, 4};
  std::vector<pt::box> all{pt::box{}};
  all[0].rank = rank;
  for (int a = 0; a < rank; ++a) {
    std::vector<pt::box> more;
    for (pt::box const& b : all)
      for (std::size_t begin = 0; begin <= extents[a]; ++begin)
        for (std::size_t size = 0; begin + size <= extents[a]; ++size) {
          pt::box c = b;
          c.at[a] = {begin, size};
          more.push_back(c);
        }
    all = more;
  }
  return all;
}
template <class F> void each_point(pt::box const& b, F f) {
  std::size_t at[pt::max_rank]{};
  for (std::size_t n = 0; n < b.elements(); ++n) {
    std::size_t left = n;
    for (int a = b.rank - 1; a >= 0; --a) {
      at[a] = b.at[a].begin + left % b.at[a].size;
      left /= b.at[a].size;
    }
    f(at);
  }
}
bool has(pt::box const& b, std::size_t const* at) {
  for (int a = 0; a < b.rank; ++a)
    if (at[a] < b.at[a].begin || at[a] >= b.at[a].end()) return false;
  return true;
}
}  // namespace

TEST_CASE("an intersection holds the points that both boxes hold") {
  for (int rank = 0; rank <= 2; ++rank) {
    const std::vector<pt::box> all = all_boxes(rank);
    for (pt::box const& a : all)
      for (pt::box const& b : all) {
        const pt::box both = pt::intersection(a, b);
        std::size_t count = 0;
        bool inside = true;
        each_point(a, [&](std::size_t const* at) {
          const bool common = has(b, at);
          count += common;
          if (common) inside = inside && has(both, at);
        });
        CHECK(both.elements() == count);
        CHECK(inside);
        CHECK(a.contains(b) == (b.elements() == 0 ? a.contains(b) : count == b.elements()));
        CHECK(pt::intersection(b, a).elements() == count);
      }
  }
}

TEST_CASE("a box is located in the row-major array of an enclosing one, and contiguous when its elements are one run") {
  for (int rank = 0; rank <= 3; ++rank) {
    const std::size_t zero[3]{}, sizes[]{3, 2, 4};
    std::vector<pt::box> outers{box_of(rank, zero, sizes)};
    if (rank == 3) {  // outer boxes that do not begin at zero
      const std::size_t begin[]{1, 0, 1}, size[]{2, 2, 3};
      outers.push_back(box_of(rank, begin, size));
    }
    for (pt::box const& outer : outers)
      for (pt::box const& inner : all_boxes(rank)) {
        if (!outer.contains(inner) || inner.elements() == 0) continue;
        const pt::place_in p = pt::locate(outer, inner);
        std::vector<std::size_t> places;
        bool right = true;
        each_point(inner, [&](std::size_t const* at) {
          std::size_t place = p.offset, wanted = 0;
          for (int a = 0; a < rank; ++a) {
            place += (at[a] - inner.at[a].begin) * p.strides[a];
            wanted = wanted * outer.at[a].size + (at[a] - outer.at[a].begin);
          }
          right = right && place == wanted;
          places.push_back(wanted);
        });
        CHECK(right);
        bool run = true;
        for (std::size_t i = 1; i < places.size(); ++i) run = run && places[i] == places[i - 1] + 1;
        CHECK(pt::is_contiguous(outer, inner) == run);
      }
  }
}

TEST_CASE("cuts of one axis follow one another, each of the piece that the one before left, in units of a group") {
  for (std::size_t extent = 4; extent <= 13; ++extent)
    for (int n = 2; n <= 4; ++n)
      for (int m = 2; m <= 3; ++m)
        for (int unit : {1, 5}) {
          pt::layout l;
          l.where.rank = 1;
          l.where.extents[0] = n;
          l.push({0, 0, 0, n, -1, unit, pt::reduction::sum});
          l.push({1, 0, -1, m, -1, unit, pt::reduction::sum});
          const std::size_t whole = extent * static_cast<std::size_t>(unit);
          std::size_t at = 0;
          for (int i = 0; i < n; ++i)
            for (int j = 0; j < m; ++j) {
              const pt::interval p =
                  pt::cut_interval(l, 0, whole, nullptr, [&](pt::part const& x) { return x.mode == 0 ? i : j; });
              CHECK(p.begin == at);
              CHECK(p.size % static_cast<std::size_t>(unit) == 0);
              at = p.end();
            }
          CHECK(at == whole);
        }
  // 12 heads of 64 by 5
  pt::layout l;
  l.where.rank = 1;
  l.where.extents[0] = 5;
  l.push({0, 0, 0, 5, -1, 64, pt::reduction::sum});
  const std::size_t sizes[]{192, 192, 128, 128, 128};
  for (int i = 0; i < 5; ++i) CHECK(pt::cut_interval(l, 0, 768, nullptr, [&](pt::part const&) { return i; }).size == sizes[i]);
}

TEST_CASE("a placement gives every coordinate tuple a device of its own and finds it again") {
  pt::placement w;
  w.base = 3;
  w.rank = 3;
  const int extents[]{2, 3, 4}, strides[]{24, 1, 6};
  for (int l = 0; l < 3; ++l) w.extents[l] = extents[l], w.strides[l] = strides[l];
  std::vector<int> devices;
  for (int i = 0; i < w.size(); ++i) {
    int c[pt::max_levels]{}, found[pt::max_levels]{};
    w.coordinates_at(i, c);
    CHECK(w.device(c) == w.device_at(i));
    REQUIRE(w.coordinates_of(w.device_at(i), found));
    for (int l = 0; l < 3; ++l) CHECK(found[l] == c[l]);
    devices.push_back(w.device_at(i));
  }
  std::sort(devices.begin(), devices.end());
  CHECK(std::unique(devices.begin(), devices.end()) == devices.end());
  int c[pt::max_levels]{};
  CHECK_FALSE(w.coordinates_of(2, c));
  pt::placement one;
  CHECK(one.size() == 1);
  CHECK(one.device_at(0) == 0);
  CHECK(one.coordinates_of(0, c));
  CHECK_FALSE(one.coordinates_of(1, c));
}
