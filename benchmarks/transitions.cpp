// Time of a search for the cheapest change of layout, over the dimensions of the grid and the axes of the tensor: the mean
// over all pairs of layouts. The second argument is what the cut axes are: 1 to 3.
#include <benchmark/benchmark.h>

#include <vector>

#include <partita/layout/route.hpp>

namespace pt = partita;

namespace {

pt::placement grid_of(int dimensions, int base) {
  pt::placement w;
  w.base = base;
  w.rank = dimensions;
  for (int l = dimensions - 1, stride = 1; l >= 0; --l, stride *= 2) {
    w.extents[l] = 2;
    w.strides[l] = stride;
  }
  return w;
}
void add_layouts(std::vector<pt::layout>& all, pt::layout const& l, int axes, bool partial, int level) {
  if (level == l.where.rank) return all.push_back(l);
  add_layouts(all, l, axes, partial, level + 1);
  for (int axis = partial ? -1 : 0; axis < axes; ++axis) {
    pt::layout more = l;
    more.push({0, static_cast<signed char>(axis), static_cast<signed char>(level), 2, -1, 1, pt::reduction::sum});
    add_layouts(all, more, axes, partial, level + 1);
  }
}
std::vector<pt::layout> layouts(pt::placement const& w, int axes, bool partial) {
  std::vector<pt::layout> all;
  pt::layout l;
  l.where = w;
  add_layouts(all, l, axes, partial, 0);
  return all;
}

void search(benchmark::State& state, pt::placement const& a, pt::placement const& b) {
  const int axes = static_cast<int>(state.range(1));
  const std::vector<pt::layout> from = layouts(a, axes, true), to = layouts(b, axes, false);
  const pt::tensor_shape x{3, {1024, 512, 64}, 4};
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pt::find_route(from[at % from.size()], to[at / from.size() % to.size()], x));
    at += 7;
  }
}
void one_grid(benchmark::State& state) {
  const pt::placement w = grid_of(static_cast<int>(state.range(0)), 0);
  search(state, w, w);
}
void other_devices(benchmark::State& state) {  // of the same number
  search(state, grid_of(static_cast<int>(state.range(0)), 0), grid_of(static_cast<int>(state.range(0)), 64));
}
void half_the_devices(benchmark::State& state) {
  search(state, grid_of(static_cast<int>(state.range(0)), 0), grid_of(static_cast<int>(state.range(0)) - 1, 64));
}

}  // namespace

BENCHMARK(one_grid)->ArgsProduct({{1, 2, 3, 4}, {1, 2, 3}})->Unit(benchmark::kMicrosecond);
BENCHMARK(other_devices)->ArgsProduct({{1, 2, 3, 4}, {1, 2, 3}})->Unit(benchmark::kMicrosecond);
BENCHMARK(half_the_devices)->ArgsProduct({{1, 2, 3, 4}, {1, 2, 3}})->Unit(benchmark::kMicrosecond);
