// Chains of collectives between layouts.
#include <doctest/doctest.h>

#include "simulated_chain.hpp"

namespace pt = partita;
using namespace pt::testing;

TEST_CASE("every layout is reached from every other, and each step does on numbers what it says") {
  auto check = [](std::vector<int> const& grid, std::vector<std::size_t> const& shape, int stride = 1) {
    const sweep_result r = sweep(grid_of(grid), shape, stride);
    CAPTURE(r.pairs);
    CHECK(r.fault == "");
    CHECK(r.pairs > 3);
  };
  for (int n = 2; n <= 4; ++n) {
    check({n}, {7});
    check({n}, {5, 4});
    check({n}, {4, 5, 6});
    for (int m = 2; m <= 4; ++m) {
      check({n, m}, {17});
      check({n, m}, {9, 10}, 3);
    }
  }
  check({2, 3}, {4, 3, 5}, 5);
  check({2, 2, 2}, {11});
  check({2, 3, 2}, {12, 7}, 31);
}

namespace {
// Volumes in elements, and one for a hop: what the published rows count in.
struct volume {
  double all_reduce(int n, double x) const { return 1 + 2.0 * (n - 1) / n * x; }
  double all_gather(int n, double x) const { return 1 + 1.0 * (n - 1) / n * x; }
  double reduce_scatter(int n, double x) const { return 1 + 1.0 * (n - 1) / n * x; }
  double all_to_all(int n, double x) const { return 1 + 1.0 * (n - 1) / (double(n) * n) * x; }
  double slice(double) const { return 1; }
  double permute(double x) const { return 1 + x; }
  double send(double x) const { return 1 + x; }
};
// The chain's words, and what it costs by the published formulas over what a device holds before a step.
struct found_chain {
  std::string words;
  double volume = 0;
};
found_chain chain_of(pt::layout const& from, pt::layout const& to, std::vector<std::size_t> const& shape) {
  double elements = 1;
  for (std::size_t e : shape) elements *= static_cast<double>(e);
  bool found = false;
  const auto chain = pt::cheapest_chain(from, to, static_cast<int>(shape.size()), elements, found, volume{});
  REQUIRE(found);
  found_chain r{words_of(chain), 0};
  pt::layout now = from;
  for (pt::transition_step const& s : chain) {
    double x = elements;  // of one device
    for (int p = 0; p < now.count; ++p)
      if (!now.parts[p].partial()) x /= now.parts[p].pieces;
    const double n = pt::detail::devices_over(now.where, s.levels);
    switch (s.kind) {
      case pt::transition_kind::all_reduce: r.volume += 1 + 2 * (n - 1) * x / n; break;
      case pt::transition_kind::all_gather: r.volume += 1 + (n - 1) * x; break;
      case pt::transition_kind::reduce_scatter:
      case pt::transition_kind::all_to_all: r.volume += 1 + (n - 1) * x / n; break;
      case pt::transition_kind::slice: r.volume += 1; break;
      case pt::transition_kind::permute:
      case pt::transition_kind::renumber: break;
      case pt::transition_kind::boxes:
      case pt::transition_kind::send: r.volume += 1 + x; break;
    }
    now = s.after;
  }
  return r;
}
pt::layout on(pt::placement const& w, std::vector<pt::part> const& parts) {
  pt::layout l;
  l.where = w;
  for (pt::part const& p : parts) l.push(p);
  return l;
}
}  // namespace

// nnScaler's layouts <replicas, partial sums, splits...> and volumes (Lin et al., OSDI 2024, its tests of transitions).
TEST_CASE("published transitions and their volumes") {
  const pt::placement w = grid_of({4});
  const pt::part partial = partial_of(w, 0), rows = split_of(w, 0, 0), columns = split_of(w, 0, 1);
  const std::vector<std::size_t> shape{64, 32};
  auto row = [&](std::vector<pt::part> const& from, std::vector<pt::part> const& to, const char* words, double volume) {
    const found_chain c = chain_of(on(w, from), on(w, to), shape);
    CHECK(c.words == words);
    CHECK(c.volume == doctest::Approx(volume));
  };
  row({partial}, {}, "all_reduce@0", 3073);
  row({partial}, {rows}, "reduce_scatter@0", 1537);
  row({rows}, {}, "all_gather@0", 1537);
  row({rows}, {columns}, "all_to_all@0", 385);
  row({}, {columns}, "slice@0", 1);

  // 8 x 8, two partial sums of column halves -> four pieces of rows: {0,2},{1,3} reduce and scatter, then {0,1},{2,3}
  // exchange.
  const pt::placement two = grid_of({2, 2});
  const pt::layout from = on(two, {partial_of(two, 0), split_of(two, 1, 1)}),
                   to = on(two, {split_of(two, 0, 0), split_of(two, 1, 0)});
  CHECK(chain_of(from, to, {8, 8}).words == "reduce_scatter@0, all_to_all@1");
}

// PyTorch's DTensor redistribution on four devices, uneven extents included.
TEST_CASE("published redistributions") {
  const pt::placement w = grid_of({4});
  for (std::size_t extent : {12u, 13u, 14u}) {
    const std::vector<std::size_t> shape{extent, extent};
    const pt::layout replicated = on(w, {}), split0 = on(w, {split_of(w, 0, 0)}), split1 = on(w, {split_of(w, 0, 1)}),
                     partial = on(w, {partial_of(w, 0)});
    CHECK(chain_of(split0, replicated, shape).words == "all_gather@0");
    CHECK(chain_of(replicated, split0, shape).words == "slice@0");  // nothing is sent
    CHECK(chain_of(partial, replicated, shape).words == "all_reduce@0");
    CHECK(chain_of(partial, split0, shape).words == "reduce_scatter@0");
    CHECK(chain_of(split0, split1, shape).words == "all_to_all@0");
    CHECK(chain_of(split0, split0, shape).words == "");
  }
}

TEST_CASE("cuts in time stay, or there is no chain") {
  const pt::placement w = grid_of({2});
  const pt::part data = split_of(w, 0, 0), micro = time_of(0, 3), partial = partial_of(w, 0), other = split_of(w, 0, 1);
  const std::vector<std::size_t> shape{13, 4};
  struct {
    std::vector<pt::part> from, to;
    bool found;
  } rows[]{
      {{micro, data}, {micro}, true},  // a piece of a micro-batch: gathered
      {{micro}, {micro, data}, true},       {{micro, data}, {micro, other}, true},
      {{data, micro}, {micro}, false},  // micro-batches of a piece are not those of the whole
      {{micro}, {data, micro}, false},      {{data, micro}, {micro, data}, false},
      {{micro, partial}, {micro}, true},    {{micro, partial}, {micro, data}, true},
      {{data, micro}, {data, micro}, true},
  };
  for (auto const& row : rows) {
    const pt::layout from = on(w, row.from), to = on(w, row.to);
    bool found = false;
    const auto chain = pt::cheapest_chain(from, to, 2, 100, found);
    INFO(words_of(from), " -> ", words_of(to), ": ", words_of(chain));
    CHECK(found == row.found);
    if (!found) continue;
    for (int t = 0; t < 3; ++t) {
      simulated_tensor x(from, shape, t);
      for (pt::transition_step const& s : chain) CHECK(x.take(s) == "");
      CHECK(x.arrived(to) == "");
    }
  }
}

// In constant evaluation, as verification needs it.
constexpr bool partial_halves_become_quarters() {
  pt::layout from, to;
  from.where.rank = 2;
  for (int l = 0; l < 2; ++l) {
    from.where.extents[l] = 2;
    from.where.strides[l] = 2 - l;
  }
  to.where = from.where;
  from.push({0, -1, 0, 2});
  from.push({1, 1, 1, 2});
  to.push({0, 0, 0, 2});
  to.push({1, 0, 1, 2});
  bool found = false;
  const auto chain = pt::cheapest_chain(from, to, 2, 4096.0, found, pt::link_cost{});
  return found && chain.size == 2 && chain[0].kind == pt::transition_kind::reduce_scatter && chain[0].levels == 1 &&
         chain[1].kind == pt::transition_kind::all_to_all && chain[1].levels == 2;
}
static_assert(partial_halves_become_quarters());

TEST_CASE("collectives over several dimensions at once are one step") {
  const pt::placement w = grid_of({2, 4});
  const std::vector<std::size_t> shape{64, 32};
  const pt::part rows = split_of(w, 0, 0), rows_inside = split_of(w, 1, 0), columns = split_of(w, 1, 1);
  CHECK(chain_of(on(w, {partial_of(w, 0), partial_of(w, 1)}), on(w, {}), shape).words == "all_reduce@0+1");
  CHECK(chain_of(on(w, {rows, rows_inside}), on(w, {}), shape).words == "all_gather@0+1");
  CHECK(chain_of(on(w, {rows, columns}), on(w, {}), shape).words == "all_gather@0+1");
  CHECK(chain_of(on(w, {partial_of(w, 0), partial_of(w, 1)}), on(w, {rows, columns}), shape).words == "reduce_scatter@0+1");
  CHECK(chain_of(on(w, {rows, rows_inside}), on(w, {split_of(w, 0, 1), columns}), shape).words == "all_to_all@0+1");
}

TEST_CASE("links that differ by dimension decide over which one to send") {
  struct by_dimension {
    pt::link_cost near{1e-6, 1e-11}, far{1e-5, 1e-9};
    pt::link_cost on(pt::placement const&, unsigned levels) const { return levels & 1 ? far : near; }
    double send(double bytes) const { return far.send(bytes); }
  };
  // Partial over both dimensions: first over the near one, and the far one carries a quarter.
  const pt::placement w = grid_of({2, 4});
  bool found = false;
  const auto chain = pt::cheapest_chain(on(w, {partial_of(w, 0), partial_of(w, 1)}),
                                        on(w, {split_of(w, 1, 0), split_of(w, 0, 0)}), 1, 1e6, found, by_dimension{});
  REQUIRE(found);
  CHECK(words_of(chain) == "reduce_scatter@1, reduce_scatter@0");
}

TEST_CASE("the cost object decides") {
  // Where an all-gather is dear, split(0) -> replicated on two dimensions goes another way round only if there is one;
  // and between partial -> split, reduce-scatter gives way to all-reduce and slice when it costs more.
  struct dear : pt::link_cost {
    double reduce_scatter(int, double) const { return 1e9; }
  };
  const pt::placement w = grid_of({4});
  bool found = false;
  const auto chain = pt::cheapest_chain(on(w, {partial_of(w, 0)}), on(w, {split_of(w, 0, 0)}), 1, 1000, found, dear{});
  CHECK(words_of(chain) == "all_reduce@0, slice@0");
}
