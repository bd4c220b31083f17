// One rank of each class stands for all of it: random plans simulated by class and rank by rank agree.
#include <doctest/doctest.h>

#include "../support/number_of.hpp"
#include "../support/planned.hpp"
#include "../support/random_plan.hpp"

#include <partita/cost/presets.hpp>
#include <partita/simulate/order_bound.hpp>
#include <partita/simulate/plan_bound.hpp>
#include <partita/simulate/simulate.hpp>

namespace pt = partita;
using namespace pt::testing;

namespace {

using gpt = pt::training<planned_gpt, pt::adamw, pt::clip_norm>;

// Three levels of links, so that groups lie in them in many ways; `shared`: the outer ones are.
pt::cluster levels(bool shared) {
  pt::cluster c = pt::preset::dgx_a100(1);
  pt::link_level inner = c.links[0], middle = inner, outer = inner;
  inner.devices = 2;
  middle.devices = 4, middle.latency = 1e-5, middle.seconds_per_byte = 1e-9;
  outer.devices = 8, outer.latency = 5e-5, outer.seconds_per_byte = 1e-8;
  if (shared) middle.shared_seconds_per_byte = 1e-9, outer.shared_seconds_per_byte = 4e-9;
  c.links = {inner, middle, outer};
  return c;
}
pt::rank_classes each_alone(int devices) {
  pt::rank_classes r;
  for (int d = 0; d < devices; ++d) {
    r.all.push_back({d, {d}});
    r.of.push_back(d);
  }
  return r;
}
pt::simulation run(pt::lowering const& shared, pt::costs const& k, pt::rank_classes const& classes,
                   pt::simulate_options const& how) {
  std::vector<pt::program> programs;
  for (pt::rank_class const& c : classes.all) programs.push_back(pt::lower(shared, c.rank));
  return pt::simulate(shared, k, classes, std::move(programs), how);
}

}  // namespace

// Random plans of a model; how many of them have ranks that are alike.
template <class Training> int compare(unsigned seeds, auto model_of) {
  int symmetric = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    planned<Training> p(model_of(seed));
    const std::string words = random_plan(p.plan, random, 8).make();
    p.complete();
    INFO("seed ", seed, ": ", words);
    REQUIRE(describe(p.wrong_with) == "");
    const pt::costs k(levels(false));
    pt::lowering_options options;
    options.seconds = [&](pt::node const& n) { return pt::node_seconds(p.g, p.c, n, k); };
    options.speed = pt::rates_of(k, p.g, p.c.devices);
    const pt::lowering shared(p.g, p.plan, p.c, options);
    const pt::rank_classes classes = pt::find_rank_classes(shared, k), alone = each_alone(p.c.devices);
    symmetric += classes.all.size() < alone.all.size();
    pt::simulate_options how;
    how.lanes = 1 + static_cast<int>(seed / 2 % 2);
    const pt::simulation s = run(shared, k, classes, how), each = run(shared, k, alone, how);
    CHECK(s.seconds == doctest::Approx(each.seconds).epsilon(1e-9));
    CHECK(s.devices() == p.c.devices);
    for (int rank = 0; rank < p.c.devices; ++rank) {
      pt::simulated_class const &one = s.of_rank(rank), &own = each.of_rank(rank);
      CHECK(one.parts.compute == doctest::Approx(own.parts.compute).epsilon(0.002));  // the norm's sum counts replicas once
      CHECK(one.parts.compute + one.parts.exposed + one.parts.bubble == doctest::Approx(s.seconds));
      CHECK(one.parts.exposed <= one.parts.communication * (1 + 1e-12));
      CHECK(one.parts.bubble >= -1e-12);
      CHECK(one.what.state_bytes == own.what.state_bytes);
      CHECK(one.peak_bytes() == doctest::Approx(static_cast<double>(own.peak_bytes())).epsilon(0.02));
      const auto curve = pt::memory_over_time(one);
      std::size_t most = 0;
      for (auto const& x : curve) most = std::max(most, x.bytes);
      CHECK(most == one.what.state_bytes + one.memory.lower_bound);
    }
    // Every instruction once, each lane in its order, none before what it waits for.
    for (pt::simulated_class const& c : s.classes) {
      std::vector<double> done[2];
      for (std::size_t i = 0; i < c.times.size(); ++i) {
        const std::size_t lane = c.what.instructions[i].where == pt::lane::compute ? 0 : 1;
        CHECK(c.times[i].end >= c.times[i].begin);
        if (!done[lane].empty()) CHECK(c.times[i].begin >= done[lane].back());
        if (const int wait = c.what.instructions[i].wait; wait > 0)
          CHECK(c.times[i].begin >= done[1 - lane][static_cast<std::size_t>(wait) - 1]);
        done[lane].push_back(c.times[i].end);
      }
    }
    // The same without the programs at hand.
    pt::simulate_options streamed = how;
    streamed.keep_programs = false;
    const pt::simulation bare = pt::simulate(shared, k, streamed);
    CHECK(bare.seconds == s.seconds);
    CHECK(bare.peak_bytes() == s.peak_bytes());
    CHECK(bare.parts.exposed == s.parts.exposed);
    CHECK(bare.classes.front().what.instructions.empty());
    // A bound is one.
    const pt::plan_bound least = pt::bound_of(p.g, p.c, k);
    CHECK(least.seconds <= s.seconds * (1 + 1e-9));
    CHECK(pt::least_in_order(p.g, p.plan, p.c, k) <= s.seconds * (1 + 1e-9));
    CHECK(least.bytes <= static_cast<double>(s.peak_bytes()));
    // Fewer classes than are exact: a guess that ends.
    const pt::rank_classes few = pt::find_rank_classes(shared, k, 1);
    CHECK(few.all.size() <= classes.all.size());
    const double guess = run(shared, k, few, how).seconds;
    CHECK(guess > s.seconds / 2);
    CHECK(guess < s.seconds * 2);
    // Two lanes are never slower than one: nothing waits that did not before.
    pt::simulate_options one_lane;
    one_lane.lanes = 1;
    pt::simulate_options two_lanes;
    CHECK(run(shared, k, classes, two_lanes).seconds <= run(shared, k, classes, one_lane).seconds * (1 + 1e-9));
    // Shared links make nothing faster.
    const pt::costs slower(levels(true));
    CHECK(run(shared, slower, pt::find_rank_classes(shared, slower), how).seconds >= s.seconds * (1 - 1e-9));
  }
  return symmetric;
}

// All extents are multiples of 8.
struct even_axes {
  struct sample : pt::axis<"sample", 16> {};
  struct in : pt::axis<"in", 8> {};
  struct feature : pt::axis<"feature", 16> {};
  struct other : pt::axis<"other", 8> {};
  struct label : pt::axis<"class", 8> {};
};
struct even_net {
  constexpr auto operator()(auto& g) const {
    using a = even_axes;
    auto x = pt::input<pt::f32, a::sample, a::in>(g, "x");
    auto y = pt::input<pt::i32, a::sample>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, a::in, a::feature>(g, "fc1.weight")));
    auto z = pt::gelu(pt::linear(h, pt::param<pt::f32, a::feature, a::other>(g, "fc2.weight")));
    return pt::cross_entropy(pt::linear(z, pt::param<pt::f32, a::other, a::label>(g, "fc3.weight")), y);
  }
};

TEST_CASE("random plans: classes and single ranks take the same time") {
  compare<gpt>(drawn_sanitized(4, 16), [](unsigned seed) {
    return gpt{{1 + static_cast<int>(seed % 2), seed % 3 != 0}, {}, {}, {}};
  });
  using even = pt::training<even_net, pt::adamw, pt::clip_norm>;
  const unsigned of_even = drawn_sanitized(24, 80);
  const int symmetric = compare<even>(of_even, [](unsigned) { return even{}; });
  CHECK(symmetric > static_cast<int>(of_even) / 8);
}

TEST_CASE("a plan for more devices than the cluster has is refused") {
  planned<planned_mlp> p(pt::policy::data_parallel<4>{});
  const pt::lowering shared(p.g, p.plan, p.c);
  pt::cluster small = pt::preset::dgx_a100(1);
  small.devices[0].count = 2;
  CHECK_THROWS_AS(pt::simulate(shared, pt::costs(small)), pt::error);
}
