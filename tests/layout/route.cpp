// Routes between any two layouts: grids that are given one shape, grids of other devices and sizes.
#include <doctest/doctest.h>

#include <memory>

#include <partita/layout/route.hpp>

#include "../support/number_of.hpp"
#include "simulated_chain.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
pt::layout on(pt::placement const& w, std::vector<pt::part> const& parts) {
  pt::layout l;
  l.where = w;
  for (pt::part const& p : parts) l.push(p);
  return l;
}
pt::placement at(pt::placement w, int base) {
  w.base = base;
  return w;
}
// A grid whose places are these devices.
pt::placement listed(pt::placement w, std::vector<int> const& devices) {
  w.list = devices.data();
  return w;
}
pt::tensor_shape shape_of(std::vector<std::size_t> const& extents) {
  pt::tensor_shape s;
  s.rank = static_cast<int>(extents.size());
  for (std::size_t a = 0; a < extents.size(); ++a) s.extents[a] = extents[a];
  return s;
}
// Does every step have what it needs? Collectives as simulated_chain.hpp says; then, device by device, what arrives.
// Elements, and one for a hop.
constexpr pt::link_cost volume{1, 0.25};
std::string fault_of(pt::layout const& from, pt::layout const& to, std::vector<std::size_t> const& extents, std::string& words) {
  const pt::route r = pt::find_route(from, to, shape_of(extents), nullptr, volume);
  words = words_of(r.steps);
  pt::layout now = r.start;
  auto x = std::make_unique<simulated_tensor>(now, extents);
  for (pt::transition_step const& s : r.steps) {
    if (s.kind == pt::transition_kind::boxes) {
      if (pt::part_on(s.after, -1, 0) >= 0) return "partial results cross";
      x = std::make_unique<simulated_tensor>(s.after, extents);  // redistribute() is tested by itself
    } else if (const std::string fault = x->take(s); !fault.empty()) return fault;
    now = s.after;
  }
  const auto have = pt::pieces_of(now, shape_of(extents), nullptr), want = pt::pieces_of(to, shape_of(extents), nullptr);
  for (auto const& w : want) {
    bool good = false;
    for (auto const& h : have) good = good || (h.device == w.device && h.boxes == w.boxes && h.partial == w.partial);
    if (!good) return "device " + std::to_string(w.device) + " gets another piece";
  }
  return "";
}
void route(pt::layout const& from, pt::layout const& to, std::vector<std::size_t> const& extents, const char* steps) {
  std::string words;
  CHECK(fault_of(from, to, extents, words) == "");
  CHECK(words == std::string(steps));
}
}  // namespace

// nnScaler (Lin et al., OSDI 2024): from one device to two others, replicated.
TEST_CASE("a replica for each of other devices is scattered across and gathered on arrival") {
  const pt::placement one = grid_of({}), two = at(grid_of({2}), 1);
  route(on(one, {}), on(two, {}), {64, 32}, "boxes, all_gather@0");
  // It costs less than sending the whole to each: 2 (1 + x/2 ...) against 2 x.
  const double whole = pt::detail::seconds_by_boxes(on(one, {}), on(two, {}), shape_of({4096, 4096}), nullptr, pt::link_cost{}),
               halves = pt::detail::seconds_by_boxes(on(one, {}), on(two, {split_of(two, 0, 0)}), shape_of({4096, 4096}), nullptr,
                                                     pt::link_cost{});
  CHECK(whole == doctest::Approx(2 * halves).epsilon(0.01));
  route(on(one, {}), on(at(grid_of({4}), 4), {}), {64, 32}, "boxes, all_gather@0");
}

TEST_CASE("grids of one device list are given one shape") {
  const pt::placement four = grid_of({4}), two = grid_of({2, 2});
  // nnScaler's row: two partial sums of column halves, to four pieces of rows.
  route(on(two, {partial_of(two, 0), split_of(two, 1, 1)}), on(four, {split_of(four, 0, 0)}), {8, 8},
        "reduce_scatter@0, all_to_all@1");
  route(on(four, {split_of(four, 0, 0)}), on(two, {split_of(two, 0, 0), split_of(two, 1, 0)}), {8, 8}, "");
  route(on(four, {split_of(four, 0, 0)}), on(two, {split_of(two, 0, 0)}), {8, 8}, "all_gather@1");
  route(on(four, {split_of(four, 0, 0)}), on(two, {split_of(two, 1, 0)}), {8, 8}, "permute@0+1, all_gather@0");
  route(on(four, {partial_of(four, 0)}), on(two, {split_of(two, 0, 0)}), {8, 8}, "reduce_scatter@0, all_reduce@1");
  route(on(four, {split_of(four, 0, 0)}), on(two, {split_of(two, 1, 1), split_of(two, 0, 0)}), {8, 8}, "all_to_all@1");
  // uneven pieces of 4 are not those of 2 and 2
  route(on(four, {split_of(four, 0, 0)}), on(two, {split_of(two, 0, 0), split_of(two, 1, 0)}), {10, 8}, "boxes");
  const pt::placement twelve = grid_of({12}), odd = grid_of({2, 3, 2});
  route(on(twelve, {split_of(twelve, 0, 0)}), on(odd, {split_of(odd, 0, 0), split_of(odd, 2, 1)}), {24, 8},
        "all_to_all@2, all_gather@1");
}

TEST_CASE("a permute is enough where devices are numbered otherwise") {
  const pt::placement two = grid_of({2, 2}), six = grid_of({2, 3});
  route(on(two, {split_of(two, 0, 0), split_of(two, 1, 0)}), on(two, {split_of(two, 1, 0), split_of(two, 0, 0)}), {8, 8},
        "permute@0+1");
  route(on(two, {split_of(two, 0, 0)}), on(two, {split_of(two, 1, 0)}), {8, 8}, "permute@0+1");
  route(on(six, {split_of(six, 0, 0), split_of(six, 1, 0)}), on(six, {split_of(six, 1, 0), split_of(six, 0, 0)}), {12, 8},
        "permute@0+1");
  // and one before a gather spares the replicas
  route(on(two, {split_of(two, 0, 0), split_of(two, 1, 0)}), on(two, {split_of(two, 1, 0)}), {64, 32},
        "permute@0+1, all_gather@0");
}

TEST_CASE("other devices") {
  const pt::placement here = grid_of({2, 2}), there = at(grid_of({2, 2}), 4), four = at(grid_of({4}), 4),
                      two = at(grid_of({2}), 2), one = at(grid_of({}), 7);
  route(on(here, {split_of(here, 0, 0)}), on(there, {split_of(there, 0, 0)}), {8, 8}, "send");
  // what is wanted in quarters is sliced before it is sent, what is wanted whole gathered after; of replicas of partial
  // results each reduces a part
  route(on(here, {split_of(here, 0, 0)}), on(four, {split_of(four, 0, 0)}), {64, 32}, "slice@1, send");
  route(on(four, {split_of(four, 0, 0)}), on(here, {}), {64, 32}, "send, all_gather@0+1");
  route(on(here, {partial_of(here, 0)}), on(there, {}), {64, 32}, "slice@1, reduce_scatter@0, send, all_gather@0+1");
  // overlapping devices: 0 to 3, then 2 and 3
  route(on(here, {split_of(here, 0, 0), split_of(here, 1, 0)}), on(two, {split_of(two, 0, 0)}), {64, 32}, "boxes");
  route(on(here, {partial_of(here, 0), partial_of(here, 1)}), on(one, {}), {64, 32}, "reduce_scatter@0+1, boxes");
  route(on(two, {split_of(two, 0, 1)}), on(here, {}), {64, 32}, "boxes, all_gather@0+1");
}

// Devices one by one, in any order: the collectives of grids, and of what only the numbering differs in nothing is sent.
TEST_CASE("lists of the same devices") {
  static const std::vector<int> turned{2, 0, 3, 1}, pairs{1, 0, 3, 2}, crossed{0, 2, 1, 3}, others{5, 2, 7, 0};
  const pt::placement four = grid_of({4}), list = listed(four, turned), two = grid_of({2, 2}), swapped = listed(two, pairs),
                      transposed = listed(two, crossed), other = listed(four, others);
  route(on(four, {split_of(four, 0, 0)}), on(list, {split_of(list, 0, 0)}), {8, 8}, "send");  // each to one other: a permute
  route(on(four, {}), on(list, {}), {8, 8}, "renumber");
  route(on(four, {split_of(four, 0, 0)}), on(list, {}), {8, 8}, "all_gather@0, renumber");
  route(on(four, {partial_of(four, 0)}), on(list, {split_of(list, 0, 0)}), {8, 8}, "renumber, reduce_scatter@0");
  route(on(list, {partial_of(list, 0)}), on(four, {}), {8, 8}, "renumber, all_reduce@0");
  route(on(list, {}), on(four, {split_of(four, 0, 1)}), {8, 8}, "renumber, slice@0");
  // within pairs only the numbers differ
  route(on(two, {split_of(two, 0, 0)}), on(swapped, {split_of(swapped, 0, 0)}), {8, 8}, "renumber");
  route(on(two, {split_of(two, 0, 0), partial_of(two, 1)}), on(swapped, {split_of(swapped, 0, 0)}), {8, 8},
        "renumber, all_reduce@1");
  route(on(two, {split_of(two, 0, 0), partial_of(two, 1)}), on(swapped, {split_of(swapped, 0, 0), split_of(swapped, 1, 1)}),
        {8, 8}, "renumber, reduce_scatter@1");
  // a list that is a grid with its dimensions the other way round
  route(on(two, {split_of(two, 0, 0)}), on(transposed, {split_of(transposed, 1, 0)}), {8, 8}, "");
  route(on(two, {split_of(two, 0, 0), split_of(two, 1, 0)}),
        on(transposed, {split_of(transposed, 1, 0), split_of(transposed, 0, 0)}), {8, 8}, "");
  // other devices
  route(on(four, {split_of(four, 0, 0)}), on(other, {split_of(other, 0, 0)}), {8, 8}, "send");
  route(on(other, {partial_of(other, 0)}), on(four, {}), {64, 32}, "reduce_scatter@0, send, all_gather@0");
}

TEST_CASE("replicas' groups whose devices come in different orders do not sum in groups: their bits would differ") {
  static const std::vector<int> alike{0, 3, 1, 4, 2, 5}, different{0, 1, 2, 4, 3, 5};
  const pt::placement w = grid_of({2, 3}), mixed = listed(w, different), turned = listed(w, alike);
  route(on(mixed, {partial_of(mixed, 1)}), on(mixed, {}), {8, 9}, "boxes");
  route(on(mixed, {split_of(mixed, 0, 0), partial_of(mixed, 1)}), on(mixed, {split_of(mixed, 0, 0)}), {8, 9}, "all_reduce@1");
  route(on(turned, {partial_of(turned, 1)}), on(turned, {}), {8, 9}, "boxes");
  route(on(turned, {partial_of(turned, 0)}), on(turned, {}), {8, 9}, "all_reduce@0");
}

TEST_CASE("every pair of layouts of small grids has a right route, over all shapes and places") {
  static const std::vector<int> mixed{2, 0, 3, 1}, far{4, 1, 0, 7, 3, 2};
  const std::vector<pt::placement> grids{grid_of({}),
                                         grid_of({2}),
                                         at(grid_of({2}), 1),
                                         grid_of({3}),
                                         at(grid_of({4}), 2),
                                         grid_of({2, 2}),
                                         at(grid_of({2, 2}), 3),
                                         grid_of({2, 3}),
                                         at(grid_of({3, 2}), 6),
                                         listed(grid_of({2, 2}), mixed),
                                         listed(grid_of({4}), mixed),
                                         listed(grid_of({2, 3}), far)};
  int routes = 0;
  const std::vector<std::vector<std::size_t>> shapes{{12, 12}, {7, 9}};
  for (std::vector<std::size_t> const& shape : shapes)
    for (pt::placement const& a : grids)
      for (pt::placement const& b : grids)
        for (pt::layout const& from : all_layouts(a, 2))
          for (pt::layout const& to : all_layouts(b, 2, false)) {
            if (++routes % (sanitized_briefly ? 35 : 7) != 0) continue;
            std::string words;
            const std::string fault = fault_of(from, to, shape, words);
            if (!fault.empty()) FAIL_CHECK(words_of(from), " -> ", words_of(to), ": ", words, ": ", fault);
          }
  CHECK(routes > 5000);
}

TEST_CASE("boxes carry every element that is wanted, once for every partial result") {
  const pt::placement a = grid_of({2, 3}), b = at(grid_of({4}), 3);
  const pt::tensor_shape x = shape_of({7, 9});
  for (pt::layout const& from : all_layouts(a, 2))
    for (pt::layout const& to : all_layouts(b, 2, false)) {
      auto have = pt::pieces_of(from, x, nullptr);
      const auto want = pt::pieces_of(to, x, nullptr);
      int results = 1;
      for (int p = 0; p < from.count; ++p)
        if (from.parts[p].partial()) results *= from.parts[p].pieces;
      std::vector<std::size_t> got(want.size());
      bool inside = true;
      for (pt::delivery const& d : pt::redistribute(have, want)) {
        got[static_cast<std::size_t>(d.wanted)] += d.part.elements();
        inside = inside && have[static_cast<std::size_t>(d.source)].boxes.first.contains(d.part) &&
                 want[static_cast<std::size_t>(d.wanted)].boxes.first.contains(d.part);
      }
      CHECK(inside);
      for (std::size_t w = 0; w < want.size(); ++w) CHECK(got[w] == want[w].boxes.elements() * static_cast<std::size_t>(results));
    }
}
