// Bytes of a simulated plan against closed formulas.
#include <doctest/doctest.h>

#include <string>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/simulate/simulate.hpp>

namespace pt = partita;

namespace {

// Extents of which every piece is a multiple of 64 bytes, so that alignment adds nothing.
struct sample : pt::axis<"sample", 256> {};
struct in : pt::axis<"in", 1024> {};
struct wide : pt::axis<"wide", 2048> {};
struct label : pt::axis<"class", 512> {};
struct net {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, in>(g, "x");
    auto y = pt::input<pt::i32, sample>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, in, wide>(g, "fc1.weight")));
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, wide, label>(g, "fc2.weight")), y);
  }
};
using training = pt::training<net, pt::adamw>;
constexpr std::size_t parameters = 1024 * 2048 + 2048 * 512, seed = 64;  // the gradient of the loss, 1, in a line of its own

struct replicas {
  int data, zero;
  void operator()(auto& plan) const {
    pt::policy::data_parallel_of{data}(plan);
    if (zero > 0) pt::policy::zero_of{zero, data}(plan);
  }
};
pt::simulation run(replicas const& how) { return pt::simulate(pt::plan<training>::by(how), pt::preset::dgx_a100(8)); }

}  // namespace

TEST_CASE("parameters and Adam's moments: 12 bytes a parameter, and what ZeRO leaves of them") {
  CHECK(run({1, 0}).classes[0].what.state_bytes == seed + 12 * parameters);
  for (int d : {2, 4, 16, 64}) {
    const std::size_t n = static_cast<std::size_t>(d);
    CHECK(run({d, 0}).classes[0].what.state_bytes == seed + 12 * parameters);
    CHECK(run({d, 1}).classes[0].what.state_bytes == seed + 4 * parameters + 8 * parameters / n);
    CHECK(run({d, 2}).classes[0].what.state_bytes == seed + 4 * parameters + 8 * parameters / n);
    CHECK(run({d, 3}).classes[0].what.state_bytes == seed + 12 * parameters / n);
  }
}

TEST_CASE("what is held at the peak is named, and adds up to it") {
  for (int zero : {0, 1, 3}) {
    const pt::simulation s = run({4, zero});
    REQUIRE(s.lowered != nullptr);
    pt::simulated_class const& c = s.classes[0];
    std::size_t held = 0, last = ~std::size_t{0};
    for (pt::held_tensor const& h : pt::held_at_peak(c, s.lowered->graph())) {
      CHECK(h.bytes <= last);
      CHECK(!h.name.empty());
      held += h.bytes;
      last = h.bytes;
    }
    CHECK(held == c.memory.lower_bound);
    CHECK(c.memory.arena_bytes >= held);
    CHECK(c.peak_bytes() >= c.memory.arena_bytes + c.what.state_bytes);
    CHECK(s.fits());
    // Before the first update every gradient is there.
    std::size_t gradients = 0;
    for (pt::buffer const& b : c.what.buffers) {
      if (b.tensor < 0 || b.first < 0 || b.where != pt::region::arena) continue;
      pt::op_entry const& e = s.lowered->graph().ops[s.lowered->graph().tensors[b.tensor].op];
      if (e.info->kind == "linear.weight") gradients += b.bytes;
    }
    CHECK(gradients >= 4 * parameters);
  }
  pt::cluster small = pt::preset::dgx_a100(8);
  small.kinds[0].memory = 20e6;  // the state alone takes 37.7 MB
  CHECK_FALSE(pt::simulate(pt::plan<training>::by(replicas{4, 0}), small).fits());
}
