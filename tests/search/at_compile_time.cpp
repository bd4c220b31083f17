// Plans that are found while this compiles.
#include <algorithm>

#include <doctest/doctest.h>

#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/relu.hpp>
#include <partita/plan/typed_plan.hpp>
#include <partita/search/at_compile_time.hpp>
#include <partita/search/search.hpp>

namespace pt = partita;

namespace {
struct batch : pt::axis<"batch", 32> {};
struct in : pt::axis<"in", 784> {};
struct ffn : pt::axis<"ffn", 512> {};
struct out : pt::axis<"class", 10> {};

struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, in, ffn>(g, "fc1.weight")));
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, ffn, out>(g, "fc2.weight")), y);
  }
};
struct roomy {
  static constexpr pt::plain_machine of{.flops = 1e9, .bandwidth = 1e12, .launch = 0, .alpha = 1e-5, .beta = 1e-9, .memory = 1e9};
};
struct tight {  // the first weight, 1.6 MB, and its gradient must be cut
  static constexpr pt::plain_machine of{
      .flops = 1e9, .bandwidth = 1e12, .launch = 0, .alpha = 1e-5, .beta = 1e-9, .memory = 2.5e6};
};
struct dear {  // what is sent costs more than what is saved
  static constexpr pt::plain_machine of{.flops = 1e9, .bandwidth = 1e12, .launch = 0, .alpha = 1, .beta = 1e-9, .memory = 1e9};
};
// [compile-time]
template <class Machine> using found =
    pt::searched_at_compile_time<mlp, Machine, 4, pt::only::axes<"*", batch, ffn>, pt::only::devices_per_stage<1, 4>,
                                 pt::only::stages<1>, pt::only::micro_batches<1>, pt::only::zero<0>>;

static_assert(found<roomy>::best.found && found<roomy>::best.points == 31);
static_assert(pt::verify<mlp, found<roomy>>());
// [/compile-time]
static_assert(pt::plan_of<mlp, found<roomy>>.devices() == 4);
static_assert(found<tight>::best.found && found<tight>::best.bytes <= 2.5e6);
static_assert(pt::verify<mlp, found<tight>>());
static_assert(found<dear>::best.point.devices == 1);
static_assert(found<tight>::best.seconds >= found<roomy>::best.seconds);  // less memory is never faster

struct width : pt::axis<"width", 64> {};
struct stack {
  constexpr auto operator()(auto& g) const {
    auto x = pt::linear(pt::input<pt::f32, batch, in>(g, "x"), pt::param<pt::f32, in, width>(g, "in.weight"));
    auto y = pt::input<pt::i32, batch>(g, "y");
    for (int l = 0; l < 4; ++l) {
      auto s = pt::scope(g, "block", l);
      auto h = pt::relu(pt::linear(x, pt::param<pt::f32, width, ffn>(g, "up.weight")));
      x = x + pt::linear(h, pt::param<pt::f32, ffn, width>(g, "down.weight"));
    }
    return pt::cross_entropy(pt::linear(x, pt::param<pt::f32, width, out>(g, "out.weight")), y);
  }
};
using stages_of_one = pt::searched_at_compile_time<stack, roomy, 4, pt::only::devices_per_stage<1>, pt::only::stages<4>,
                                                   pt::only::micro_batches<8>, pt::only::recompute<pt::recompute_rule::always>>;
static_assert(stages_of_one::best.point.stages == 4 && pt::verify<stack, stages_of_one>());

// The best of all points, looked at one by one, and what the run-time search finds.
template <class Model> void agree(pt::plain_machine m, int devices, pt::constraints const& given, double& seconds) {
  m.count = devices;
  pt::recorder<pt::planning_only, pt::as_training<Model>> g;
  pt::trace(g, pt::as_training<Model>{});
  const pt::spaces::small_space<pt::plain_machine> space(g, g.forward_count, m, given);
  double least = pt::spaces::infinite;
  space.each_point([&](pt::spaces::small_point const&, double time, double bytes) {
    if (bytes <= space.limit()) least = std::min(least, time);
  });
  const pt::found_at_compile_time best = space.best();
  REQUIRE(best.found);
  CHECK(best.seconds == least);
  const auto r =
      pt::search<Model>(pt::costs(pt::cluster_of(m, devices), {pt::collective_algorithm::ring}), given, {}, {}, {.tolerance = 0});
  CHECK(best.seconds == doctest::Approx(r.seconds).epsilon(1e-9));
  CHECK(best.seconds >= r.lower_bound * (1 - 1e-9));
  seconds = best.seconds;
}
}  // namespace

TEST_CASE("a plan that was found while compiling is the best of its space, and of the run-time search's, at run time too") {
  const pt::constraints given = pt::constrained<pt::only::axes<"*", batch, ffn>, pt::only::devices_per_stage<1, 4>,
                                                pt::only::stages<1>, pt::only::micro_batches<1>, pt::only::zero<0>>();
  double seconds = 0;
  agree<mlp>(roomy::of, 4, given, seconds);
  CHECK(seconds == doctest::Approx(found<roomy>::best.seconds).epsilon(1e-12));
  agree<mlp>(tight::of, 4, given, seconds);
  CHECK(seconds == doctest::Approx(found<tight>::best.seconds).epsilon(1e-12));
  agree<mlp>(dear::of, 4, given, seconds);
  CHECK(seconds == doctest::Approx(found<dear>::best.seconds).epsilon(1e-12));
}

TEST_CASE("stages of one device, with schedules, micro-batches and what runs again: the same optimum as the run-time search's") {
  using enum pt::schedule_kind;
  pt::constraints given = pt::constrained<pt::only::devices_per_stage<1>, pt::only::micro_batches<1, 4, 8>,
                                          pt::only::schedules<one_f_one_b, gpipe, zero_bubble_h1, zero_bubble_h2>>();
  double before = 0, seconds = 0;
  for (double memory : {1e9, 1.12e6, 1.09e6, 1.07e6}) {
    given.memory = memory;
    agree<stack>(roomy::of, 4, given, seconds);
    CHECK(seconds >= before);
    before = seconds;
  }
}
