// Orders of one's own among what is searched.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/search/search.hpp>
#include <partita/simulate/simulate.hpp>

#include "../support/block_model.hpp"
#include "../support/drawn_points.hpp"

using namespace partita;

namespace {
using model = testing::block_model<testing::block_axes<64, 128, 1024, 256, 1024>, 6, testing::output_table::its_own>;
using trained = training<model, adamw>;

// Stage s of p runs Each * (p - 1 - s) + More forwards ahead, then one forward and one backward in turn.
template <int Each, int More> struct ahead {
  static void order(plan_base& plan, int stages, int micro_batches) {
    for (int s = 0; s < stages; ++s) {
      schedule::turns stage(plan, s, micro_batches);
      const int warm = std::min(micro_batches, Each * (stages - 1 - s) + More);
      for (int i = 0; i < warm; ++i) stage.forward(i);
      for (int i = 0; i < micro_batches; ++i) {
        if (warm + i < micro_batches) stage.forward(warm + i);
        stage.backward(i);
      }
    }
  }
};
struct no_backward {
  static constexpr std::string_view name = "no backward";
  static void order(plan_base& plan, int stages, int micro_batches) {
    for (int s = 0; s < stages; ++s) {
      schedule::turns stage(plan, s, micro_batches);
      for (int i = 0; i < micro_batches; ++i) stage.forward(i);
    }
  }
};
struct never {  // a stage wants the backward pass of a micro-batch that the next one has not run forward
  static constexpr std::string_view name = "never";
  static void order(plan_base& plan, int stages, int micro_batches) {
    for (int s = 0; s < stages; ++s) {
      schedule::turns stage(plan, s, micro_batches);
      for (int k = 0; k < micro_batches; ++k) {
        const int i = s % 2 == 0 ? k : micro_batches - 1 - k;
        stage.forward(i);
        stage.backward(i);
      }
    }
  }
};
struct same {
  static constexpr std::string_view name = "the same";
  static void order(plan_base& plan, int stages, int micro_batches) { schedule::one_f_one_b::order(plan, stages, micro_batches); }
};
template <class Order> spaces::pipeline_schedule rule_of(int stages, int micro_batches) {
  return spaces::order_reader({"own", &Order::order}, stages, micro_batches).rule();
}
cluster slow_cluster() {
  cluster c = preset::dgx_a100(1);
  c.kinds[0].flops = {{"f32", 1e12}};
  c.devices = {{c.kinds[0].name, 4}};
  return c;
}
constexpr auto pipeline = constrained<only::stages<4>, only::devices_per_stage<1>, only::micro_batches<8>>;
}  // namespace

TEST_CASE("what an order holds and waits for is read from its turns") {
  for (int p : {1, 2, 4, 7})
    for (int m : {1, 2, 8, 24}) {
      const auto plain = rule_of<schedule::one_f_one_b>(p, m), all = rule_of<schedule::gpipe>(p, m);
      const auto one_by_one = rule_of<ahead<0, 0>>(p, m);
      CAPTURE(p);
      CAPTURE(m);
      CHECK(plain.fill == doctest::Approx(1));
      CHECK(all.fill == doctest::Approx(1));
      CHECK(one_by_one.fill == doctest::Approx(p > 1 ? m : 1));  // nothing at the same time
      for (int s = 0; s < p; ++s) {
        CHECK(plain.in_flight(s, p, m).whole == std::min(m, p - s));
        CHECK(all.in_flight(s, p, m).whole == m);
        CHECK(one_by_one.in_flight(s, p, m).whole == 1);
        CHECK(rule_of<ahead<2, 1>>(p, m).in_flight(s, p, m).whole == std::min(m, 2 * (p - 1 - s) + 2));
      }
    }
}

TEST_CASE("an order that is none is told") {
  const cluster c = slow_cluster();
  CHECK_THROWS_WITH_AS(
      search<trained>(c, pipeline(constrained<only::orders<no_backward>>())),
      "search: the order 'no backward' of 4 stages and 8 micro-batches: stage 0 has 8 turns, not a forward and a "
      "backward pass of each",
      error);
  CHECK_THROWS_WITH_AS(search<trained>(c, pipeline(constrained<only::orders<never>>())),
                       doctest::Contains("'never' of 4 stages and 8 micro-batches: stage 0 waits forever"), error);
  struct halves {
    static void order(plan_base& plan, int stages, int micro_batches) {
      schedule::zero_bubble<schedule::h1>::order(plan, stages, micro_batches);
    }
  };
  CHECK_THROWS_WITH_AS(search<trained>(c, pipeline(constrained<only::orders<halves>>())),
                       doctest::Contains("the backward pass is whole"), error);
}

TEST_CASE("1F1B as an order of one's own is 1F1B") {
  const cluster c = slow_cluster();
  const auto plain = search<trained>(c, pipeline({})), own = search<trained>(c, pipeline(constrained<only::orders<same>>()));
  CHECK(own.seconds == doctest::Approx(plain.seconds));
  CHECK(own.memory == doctest::Approx(plain.memory));
  CHECK(own.why.considered.front().schedule == "the same");
  CHECK(simulate(own.plan, c).seconds == doctest::Approx(simulate(plain.plan, c).seconds));
  // Beside others the best is taken: where memory allows 1F1B, that; where it does not, one micro-batch at a time.
  constraints both = pipeline(constrained<only::schedules<schedule_kind::one_f_one_b>, only::orders<ahead<0, 0>>>());
  both.recompute = {{glob("*"), recompute_rule::never}};
  const auto fast = search<trained>(c, both);
  CHECK(fast.why.considered.front().schedule == "1F1B");
  bool taken = false;
  for (both.memory = fast.memory; !taken && both.memory > fast.memory / 4; both.memory *= 0.9) {
    const auto lean = search<trained>(c, both);
    CHECK(lean.memory <= both.memory);
    CHECK(lean.seconds >= fast.seconds * 0.999);
    taken = lean.why.considered.front().schedule == "an order of one's own";
    if (!taken) continue;
    const simulation s = simulate(lean.plan, c);
    CHECK(static_cast<double>(s.peak_bytes()) <= lean.memory);
    CHECK(s.seconds <= lean.seconds * 1.01);  // gradients of inputs are sent on before those of weights are made
    CHECK(s.seconds >= lean.seconds * 0.85);
  }
  CHECK(taken);
}

TEST_CASE("points with orders of one's own verify, and hold no more than is counted") {
  const plan<trained> empty{trained{}};
  const costs k(slow_cluster());
  constraints given =
      constrained<only::orders<ahead<0, 0>, ahead<0, 2>, ahead<1, 0>, ahead<1, 1>, ahead<2, 0>, ahead<3, 2>, schedule::gpipe>>();
  given.stages = {2, 3, 4};
  given.micro_batches = {4, 8, 16};
  const spaces::plan_space space(empty.traced(), empty.traced().forward_count, k, given);
  double closest = spaces::infinite;
  testing::at_drawn_points(space, 5, 40, [&](spaces::shape const& s, spaces::choice const& x) {
    plan_base p(empty.traced());
    spaces::chosen(space, x)(p);
    const double counted = spaces::time_and_memory(space.of(), s, x).memory, held = testing::lowered_bytes(empty.traced(), p);
    spaces::configuration const& c = space.of().configurations[static_cast<std::size_t>(x.configuration)];
    CAPTURE(space.shapes()[static_cast<std::size_t>(c.shape)].schedule.own.name);
    CHECK(held <= counted);
    closest = std::min(closest, counted / held);
  });
  CHECK(closest < 1.5);
}
