// Times of collectives against closed formulas.
#include <doctest/doctest.h>

#include <vector>

#include <partita/cost/costs.hpp>
#include <partita/cost/presets.hpp>

namespace pt = partita;
using kind = pt::collective_kind;
using how = pt::collective_algorithm;

namespace {

pt::cluster flat(int n, double alpha, double beta) {
  pt::cluster c = pt::preset::dgx_a100(1);
  c.devices = {{"A100-80GB", n}};
  c.links = {{"link", n, alpha, beta, {}, "made up"}};
  return c;
}
std::vector<int> devices(int n, int first = 0, int stride = 1) {
  std::vector<int> all;
  for (int i = 0; i < n; ++i) all.push_back(first + i * stride);
  return all;
}
double seconds(pt::cluster const& c, kind k, std::vector<int> const& group, double bytes, how algorithm, double concurrent = 1) {
  return pt::seconds_of(c, k, pt::group_shape::of(c, group), bytes, concurrent, algorithm);
}

}  // namespace

TEST_CASE("one latency: the formulas of Alpa's search, less what breaks its ties") {
  const double alpha = 3, beta = 0.5, bytes = 4096;
  for (int n : {2, 3, 4, 8, 64}) {
    const pt::cluster c = flat(n, alpha, beta);
    auto one = [&](kind k) { return seconds(c, k, devices(n), bytes, how::one_latency); };
    CHECK(one(kind::all_reduce) == doctest::Approx(alpha + beta * 2 * (n - 1) / n * bytes));
    CHECK(one(kind::all_gather) == doctest::Approx(alpha + beta * (n - 1) / n * bytes));
    CHECK(one(kind::reduce_scatter) == doctest::Approx(alpha + beta * (n - 1) / n * bytes));
    CHECK(one(kind::all_to_all) == doctest::Approx(alpha + beta * (n - 1) / (1.0 * n * n) * bytes * n / 2));
  }
}

TEST_CASE("bytes alone: nnScaler's volumes over n devices") {
  for (int n : {2, 4, 7}) {
    const pt::cluster c = flat(n, 0, 1);
    const double x = 2048;  // of one device's input
    CHECK(seconds(c, kind::all_reduce, devices(n), x, how::ring) == doctest::Approx(2 * (n - 1) * x / n));
    CHECK(seconds(c, kind::all_gather, devices(n), n * x, how::ring) == doctest::Approx((n - 1) * x));
    CHECK(seconds(c, kind::reduce_scatter, devices(n), x, how::ring) == doctest::Approx((n - 1) * x / n));
    CHECK(seconds(c, kind::all_to_all, devices(n), n * x, how::ring) == doctest::Approx((n - 1) * x / n));
  }
}

TEST_CASE("rings wait for the slowest link, trees take fewer steps, levels carry shares") {
  pt::cluster c = flat(16, 1, 0.01);
  c.links[0].devices = 4;
  c.links.push_back({"network", 16, 10, 1, {}, "made up"});
  const double bytes = 1 << 20;
  const auto all = devices(16);
  CHECK(seconds(c, kind::all_reduce, all, bytes, how::ring) == doctest::Approx(30 * 10 + 2 * 15 / 16.0 * bytes));
  CHECK(seconds(c, kind::all_reduce, all, bytes, how::tree) == doctest::Approx(8 * 10 + 2 * bytes));
  CHECK(seconds(c, kind::all_reduce, all, bytes, how::hierarchical) ==
        doctest::Approx(2 * 3 * 1 + 2 * 3 / 4.0 * bytes * 0.01 + 2 * 3 * 10 + 2 * 3 / 4.0 * bytes / 4));
  CHECK(seconds(c, kind::all_gather, all, bytes, how::hierarchical) ==
        doctest::Approx(3 * 1 + 3 / 4.0 * bytes * 0.01 + 3 * 10 + 3 / 4.0 * bytes / 4));
  // Inside one node the network does not count; one device in each node knows the network alone.
  CHECK(seconds(c, kind::all_reduce, devices(4, 8), bytes, how::ring) == doctest::Approx(6 + 1.5 * bytes * 0.01));
  CHECK(seconds(c, kind::all_reduce, devices(4, 1, 4), bytes, how::hierarchical) == doctest::Approx(6 * 10 + 1.5 * bytes));
  // The best of all is none worse, and devices that lie unevenly take a ring.
  for (kind k : {kind::all_reduce, kind::all_gather, kind::reduce_scatter, kind::all_to_all, kind::broadcast, kind::permute}) {
    for (how h : {how::ring, how::tree, how::hierarchical})
      for (double b : {1.0, 1e3, 1e6}) CHECK(seconds(c, k, all, b, how::best) <= seconds(c, k, all, b, h) * (1 + 1e-12));
    const std::vector<int> uneven{0, 1, 2, 4};
    CHECK(seconds(c, k, uneven, bytes, how::hierarchical) == seconds(c, k, uneven, bytes, how::ring));
  }
}

TEST_CASE("a shared link is divided among those who use it") {
  pt::cluster c = flat(8, 0, 0.001);
  c.links[0].devices = 4;
  c.links.push_back({"network", 8, 0, 1, 0.5, "made up"});  // two flows at full speed
  const double bytes = 1000;
  const auto pair = devices(2, 0, 4);
  CHECK(seconds(c, kind::all_reduce, pair, bytes, how::ring, 1) == doctest::Approx(bytes));
  CHECK(seconds(c, kind::all_reduce, pair, bytes, how::ring, 2) == doctest::Approx(bytes));
  CHECK(seconds(c, kind::all_reduce, pair, bytes, how::ring, 4) == doctest::Approx(2 * bytes));
  // A grid of 2 x 4: along the first dimension four pairs at once.
  pt::placement grid;
  grid.rank = 2;
  grid.extents[0] = 2, grid.extents[1] = 4;
  grid.strides[0] = 4, grid.strides[1] = 1;
  const pt::costs costs(c, {how::ring});
  CHECK(costs.collective(kind::all_reduce, grid, 0, bytes) == doctest::Approx(2 * bytes));
  CHECK(costs.collective(kind::all_reduce, grid, 1, bytes) == doctest::Approx(1.5 * bytes * 0.001));
  CHECK(costs.send(0, 4, bytes, 4) == doctest::Approx(2 * bytes));
  CHECK(costs.send(0, 0, bytes) == 0);
}

TEST_CASE("laws: no time without bytes or company, more bytes never less time, all_reduce is both halves") {
  const pt::cluster c = pt::preset::dgx_a100(4);
  for (how h : {how::best, how::ring, how::tree, how::hierarchical, how::one_latency})
    for (kind k : {kind::all_reduce, kind::all_gather, kind::reduce_scatter, kind::all_to_all, kind::broadcast, kind::permute})
      for (auto const& group : {devices(1), devices(8), devices(32), devices(4, 3, 8), devices(16, 0, 2)}) {
        CHECK(seconds(c, k, group, 0, h) == 0);
        double last = 0;
        for (double bytes = 1; bytes < 1e10; bytes *= 7) {
          const double now = seconds(c, k, group, bytes, h);
          CHECK(now >= last);
          CHECK((group.size() > 1) == (now > 0));
          last = now;
        }
      }
  for (auto const& group : {devices(8), devices(32), devices(4, 0, 8)})
    for (how h : {how::ring, how::hierarchical})
      CHECK(seconds(c, kind::all_reduce, group, 1e8, h) ==
            doctest::Approx(seconds(c, kind::reduce_scatter, group, 1e8, h) + seconds(c, kind::all_gather, group, 1e8, h)));
}
