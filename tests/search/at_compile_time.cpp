// Plans that are found while this compiles.
#include <doctest/doctest.h>

#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/relu.hpp>
#include <partita/plan/typed_plan.hpp>
#include <partita/search/at_compile_time.hpp>

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
template <class Machine> using found = pt::searched_at_compile_time<mlp, Machine, 4, batch, ffn>;

static_assert(found<roomy>::best.found && found<roomy>::best.looked_at == 11);
static_assert(pt::verify<mlp, found<roomy>>());
// [/compile-time]
static_assert(pt::plan_of<mlp, found<roomy>>.devices() == 4);
// Features are cut four ways: terms of 32 x 10 logits are sent then, and no gradient of a weight. Twice two ways is the same:
// what is summed over both dimensions is summed at once.
static_assert(found<roomy>::best.cuts.devices() == 4 && found<roomy>::best.cuts.axes[1] == &pt::axis_of<ffn>::info);
static_assert(found<roomy>::best.cuts.extents[0] == 1 || found<roomy>::best.cuts.axes[0] == &pt::axis_of<ffn>::info);
static_assert(found<tight>::best.found && found<tight>::best.bytes <= 2.5e6);
static_assert(pt::verify<mlp, found<tight>>());
static_assert(found<dear>::best.cuts.devices() == 1 && pt::verify<mlp, found<dear>>());
static_assert(found<tight>::best.seconds >= found<roomy>::best.seconds);  // less memory is never faster
}  // namespace

TEST_CASE("a plan that was found while compiling is the best of its space at run time too") {
  pt::recorder<pt::planning_only, pt::training<mlp>> g;
  pt::trace(g, pt::training<mlp>{});
  const auto check = [&](pt::found_at_compile_time const& best, pt::plain_machine const& m) {
    int plans = 0;
    pt::axis_info const* const axes[]{&pt::axis_of<batch>::info, &pt::axis_of<ffn>::info};
    pt::detail::compile_time::each_point(4, axes, 2, [&](pt::cuts_of_grid const& cuts) {
      const auto p = pt::detail::compile_time::price_of(g, cuts, m);
      if (!p.is_plan) return;
      ++plans;
      if (p.bytes <= m.memory) CHECK(p.seconds >= best.seconds);
    });
    CHECK(plans == best.looked_at);
  };
  check(found<roomy>::best, roomy::of);
  check(found<tight>::best, tight::of);
  check(found<dear>::best, dear::of);
}
