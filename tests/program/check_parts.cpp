// What the check of programs is made of, against sets of single elements: lattices of places met and subtracted, boxes
// added up, sets of pieces joined.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <partita/program/check/contents.hpp>

namespace pt = partita;
namespace ck = pt::detail::checking;

namespace {

int below(std::mt19937& random, int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); }

// place -> index
std::map<std::int64_t, std::int64_t> elements_of(ck::lattice const& x) {
  std::map<std::int64_t, std::int64_t> all;
  std::int64_t at[ck::max_loops]{};
  for (;;) {
    std::int64_t place = x.place, index = x.index;
    for (int l = 0; l < x.depth; ++l) {
      place += at[l] * x.loops[l].place;
      index += at[l] * x.loops[l].index;
    }
    REQUIRE(all.emplace(place, index).second);
    int l = x.depth - 1;
    while (l >= 0 && at[l] == x.loops[l].count - 1) at[l--] = 0;
    if (l < 0) return all;
    ++at[l];
  }
}
// A box inside an array, as lowering would copy it; sometimes with strides that no array has.
ck::lattice random_lattice(std::mt19937& random) {
  ck::lattice x;
  const int rank = below(random, 4);
  std::int64_t outer[4], stride = 4, strides[4], steps[4];
  for (int a = rank - 1; a >= 0; --a) {
    outer[a] = 1 + below(random, 5);
    strides[a] = stride;
    steps[a] = 1 + below(random, 40);
    stride *= outer[a];
    if (below(random, 6) == 0) stride += 4 * below(random, 3);  // rows apart
  }
  x.place = 4 * below(random, 12);
  x.index = below(random, 100);
  for (int a = 0; a < rank; ++a) x.push(1 + below(random, static_cast<int>(outer[a])), strides[a], steps[a]);
  return x;
}

}  // namespace

TEST_CASE("lattices meet in the places that both have") {
  std::mt19937 random(1);
  int shared = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const ck::lattice a = random_lattice(random), b = random_lattice(random);
    REQUIRE(is_nested(a, 4));
    const auto of_a = elements_of(a), of_b = elements_of(b);
    REQUIRE(static_cast<std::int64_t>(of_a.size()) == a.elements());
    CHECK(of_a.rbegin()->first == a.last());
    std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> wanted, found;
    for (auto [place, index] : of_a)
      if (const auto at = of_b.find(place); at != of_b.end()) wanted[place] = {index, at->second};
    meet(a, b, [&](ck::shared_part const& s) {
      ck::lattice first, second;
      first.place = second.place = s.place;
      first.index = s.index;
      second.index = s.other;
      for (int l = 0; l < s.depth; ++l) {
        first.loops[first.depth++] = {s.loops[l].count, s.loops[l].place, s.loops[l].index};
        second.loops[second.depth++] = {s.loops[l].count, s.loops[l].place, s.loops[l].other};
      }
      const auto x = elements_of(first), y = elements_of(second);
      for (auto [place, index] : x) CHECK(found.emplace(place, std::pair{index, y.at(place)}).second);  // parts are disjoint
    });
    CHECK(found == wanted);
    shared += !wanted.empty();
  }
  CHECK(shared > 5000);
}

TEST_CASE("what is subtracted from a lattice is gone, and the rest is there") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 20000; ++trial) {
    const ck::lattice a = random_lattice(random), b = random_lattice(random);
    auto wanted = elements_of(a);
    for (auto [place, index] : elements_of(b)) wanted.erase(place);
    std::vector<ck::lattice> left;
    subtract(ck::lattice_view(a), ck::lattice_view(b), left);
    std::map<std::int64_t, std::int64_t> found;
    for (ck::lattice const& x : left)
      for (auto [place, index] : elements_of(x)) CHECK(found.emplace(place, index).second);
    CHECK(found == wanted);
  }
}

TEST_CASE("contents taken from places and put at others are the same elements") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 5000; ++trial) {
    ck::contents held;
    std::map<std::int64_t, std::int64_t> known;
    for (int k = 0; k < 3; ++k) {
      ck::patch p;
      p.tensor = 0;
      p.where = random_lattice(random);
      forget(held, p.where, 4);
      put(held, p);
      for (auto [place, index] : elements_of(p.where)) known[place] = index;
    }
    ck::lattice from = random_lattice(random);
    ck::contents taken;
    const std::int64_t missing = take(held, from, 4, taken);
    std::int64_t wanted_missing = 0;
    std::map<std::int64_t, std::set<std::int64_t>> wanted, found;  // the index of `from` is a place; it may stand twice
    for (auto [place, to] : elements_of(from))
      if (const auto at = known.find(place); at != known.end()) wanted[to].insert(at->second);
      else ++wanted_missing;
    CHECK(missing == wanted_missing);
    bool once = true;
    std::int64_t row = 1;
    for (int l = from.depth - 1; l >= 0; --l) {
      once = once && from.loops[l].index >= row;
      row += (from.loops[l].count - 1) * from.loops[l].index;
    }
    if (!once) continue;  // several elements in one place: no copy does that
    for (ck::patch const& p : taken)
      for (auto [place, index] : elements_of(p.where)) found[place].insert(index);
    CHECK(found == wanted);
  }
}

TEST_CASE("boxes add up to what they cover, and say whether a part came twice") {
  std::mt19937 random(4);
  for (int trial = 0; trial < 4000; ++trial) {
    ck::box_set set;
    std::set<std::vector<int>> cells;
    const int rank = 1 + below(random, 3);
    for (int k = 0; k < 6; ++k) {
      ck::box_of_letters b;
      b.rank = rank;
      for (int d = 0; d < rank; ++d) {
        b.at[d].begin = below(random, 5);
        b.at[d].end = b.at[d].begin + 1 + below(random, 3);
      }
      bool fresh = true;
      std::vector<int> cell(static_cast<std::size_t>(rank));
      for (std::int64_t i = 0; i < b.elements(); ++i) {
        std::int64_t left = i;
        for (int d = rank - 1; d >= 0; --d) {
          const std::int64_t n = b.at[d].end - b.at[d].begin;
          cell[static_cast<std::size_t>(d)] = static_cast<int>(b.at[d].begin + left % n);
          left /= n;
        }
        fresh = cells.insert(cell).second && fresh;
      }
      CHECK(set.add(b) == fresh);
      CHECK(set.elements() == static_cast<std::int64_t>(cells.size()));
    }
  }
}

TEST_CASE("pieces join to the whole in any order, and never twice") {
  auto box = [](std::int64_t begin, std::int64_t end) {
    ck::box_of_letters b;
    b.rank = 1;
    b.at[0] = {begin, end};
    return b;
  };
  ck::pieces_summed sums;
  const int a = sums.piece(7, pt::reduction::sum, box(0, 3), 10), b = sums.piece(7, pt::reduction::sum, box(3, 8), 10),
            c = sums.piece(7, pt::reduction::sum, box(8, 10), 10);
  int s = 0;
  CHECK(sums.piece(7, pt::reduction::sum, box(0, 10), 10) == ck::whole);
  CHECK(sums.join(a, c, pt::reduction::sum, s) == ck::joined::good);
  CHECK(sums.join(s, b, pt::reduction::sum, s) == ck::joined::good);
  CHECK(s == ck::whole);
  CHECK(sums.join(ck::nothing, b, pt::reduction::sum, s) == ck::joined::good);
  CHECK(s == b);
  CHECK(sums.join(a, a, pt::reduction::sum, s) == ck::joined::twice);
  CHECK(sums.join(ck::whole, a, pt::reduction::sum, s) == ck::joined::twice);
  CHECK(sums.join(a, b, pt::reduction::max, s) == ck::joined::otherwise_reduced);
  // as many pieces as the whole has, but one of them twice and one never: a count would not see it
  int x = 0;
  CHECK(sums.join(a, b, pt::reduction::sum, x) == ck::joined::good);
  CHECK(sums.join(x, sums.piece(7, pt::reduction::sum, box(6, 8), 10), pt::reduction::sum, x) == ck::joined::twice);
  // of a maximum a piece may be there twice
  const int m = sums.piece(8, pt::reduction::max, box(0, 6), 10), n = sums.piece(8, pt::reduction::max, box(4, 10), 10);
  CHECK(sums.join(m, n, pt::reduction::max, s) == ck::joined::good);
  CHECK(s == ck::whole);
  // the sum of two partial tensors is whole when both are
  const int one = sums.linear(9, {a, b}), two = sums.linear(9, {b, a}), three = sums.linear(9, {c, c});
  CHECK(sums.join(one, two, pt::reduction::sum, s) == ck::joined::good);
  CHECK(s != ck::whole);
  CHECK(sums.join(s, three, pt::reduction::sum, s) == ck::joined::good);
  CHECK(s == ck::whole);
  CHECK(sums.join(one, sums.linear(9, {b, b}), pt::reduction::sum, s) == ck::joined::twice);
  CHECK(sums.linear(9, {ck::whole, ck::whole}) == ck::whole);
  CHECK(sums.join(sums.linear(9, {a, ck::whole}), sums.linear(9, {b, ck::whole}), pt::reduction::sum, s) == ck::joined::twice);
}
