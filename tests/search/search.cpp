// From a model and a cluster to a plan that verifies.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/search/expert_grid.hpp>
#include <partita/search/from_plan.hpp>
#include <partita/search/mcmc.hpp>
#include <partita/search/search.hpp>

#include "../support/block_model.hpp"
#include "../support/number_of.hpp"

using namespace partita;
using testing::slow_cluster;

namespace {
using testing::sanitized_briefly;

using axes = testing::block_axes<16, 32, 64, 32, 128>;
using sample = axes::sample;
using position = axes::position;
using word = axes::word;
using hidden = axes::hidden;
using inner = axes::inner;
using model = testing::block_model<axes, 4, testing::output_table::of_the_input>;
using trained = training<model, adamw, clip_norm>;

struct other_position : axis<"other_position", 32> {};
struct model_with_views {
  constexpr auto operator()(auto& g) const {
    auto x = input<f32, sample, position, hidden>(g, "x");
    auto targets = input<i32, sample, position>(g, "targets");
    auto y = linear(x, param<f32, hidden, inner>(g, "in.weight"));
    for (int l = 0; l < 6; ++l) {
      auto s = scope(g, "block", l);
      auto read = rename<position, other_position>(linear(y, param<f32, inner, hidden>(g, "read.weight")));
      auto scores = einsum<"b s m, b t m -> b s t">(linear(y, param<f32, inner, hidden>(g, "asked.weight")), read);
      y = y + linear(einsum<"b s t, b t m -> b s m">(softmax<other_position>(scores), read),
                     param<f32, hidden, inner>(g, "out.weight"));
    }
    return cross_entropy(linear(y, param<f32, inner, word>(g, "words.weight")), targets);
  }
};

struct model_that_gives_out {
  constexpr auto operator()(auto& g) const {
    auto x = linear(input<f32, sample, position, hidden>(g, "x"), param<f32, hidden, inner>(g, "in.weight"));
    auto logits = linear(gelu(x), param<f32, inner, word>(g, "words.weight"));
    return outputs(loss("loss", cross_entropy(logits, input<i32, sample, position>(g, "targets"))), output("logits", logits));
  }
};

double time_of(constraints const& given, search_result<trained>* result = nullptr) {
  search_result<trained> r = search<trained>(slow_cluster(), given, trained{}, std::vector<binding>{}, {.tolerance = 0});
  CHECK(r.lower_bound <= r.seconds);
  CHECK(!r.plan.check());
  CHECK(r.plan.devices() <= 8);
  const double seconds = r.seconds;
  if (result != nullptr) *result = std::move(r);
  return seconds;
}
// At random points of a space: what is known before any table is made is no more than what the point needs.
template <class Model> void try_needs(Model const& of, constraints const& given) {
  const plan<training<Model, adamw, clip_norm>> empty(training<Model, adamw, clip_norm>{of, {}, {}, {}}, {});
  const costs k(slow_cluster());
  const spaces::plan_space space(empty.traced(), empty.traced().forward_count, k, given);
  spaces::problem const& p = space.of();
  const spaces::sequences stretches(p.chain);
  std::mt19937 random(1);
  constexpr double rounding = 1 + 1e-9;
  double nearest = 0;
  for (unsigned i = 0; i < testing::drawn_sanitized(15, 60); ++i) {
    const int c = std::uniform_int_distribution<int>(0, static_cast<int>(p.configurations.size()) - 1)(random);
    spaces::configuration const& configured = p.configurations[static_cast<std::size_t>(c)];
    const spaces::shape s = p.make_shape(configured.shape);
    const spaces::shape_needs needs = p.needs(configured.shape);
    const spaces::choice x = spaces::random_choice(p, s, c, random);
    if (!x.found()) continue;
    for (spaces::stage_choice const& stage : x.stages)
      for (std::size_t n = 0; n < stage.segments.size(); ++n) {
        const std::size_t kind = static_cast<std::size_t>(p.chain[static_cast<std::size_t>(stage.begin) + n]);
        spaces::variant const& v =
            s.grids[static_cast<std::size_t>(stage.grid)].kinds[kind][static_cast<std::size_t>(stage.segments[n].variant)];
        const spaces::segment_cost own =
            spaces::cost_in_stage(spaces::cost_of(*v.costs, stage.segments[n].options.data()), v.replays);
        spaces::segment_needs const& least = needs.kinds[kind];
        CHECK(least.seconds + (v.replays ? least.again : 0) <= own.time * rounding + 1e-15);
        CHECK(least.step <= own.step * rounding);
        CHECK(least.held <= own.held * rounding);
        CHECK((v.replays ? least.flight_again : least.flight_kept) <= own.flight * rounding);
        if (configured.schedule.in_flight(configured.stages - 1, configured.stages, needs.micro_batches).waiting > 0)
          CHECK(least.waiting <= own.waiting * rounding);
      }
    // In the memory that the point takes nothing is faster than the bound.
    const spaces::total t = spaces::time_and_memory(p, s, x);
    const double bound =
        spaces::stage_packing(configured, stretches.counts(), needs, t.memory).least(configured.bound, spaces::infinite);
    CHECK(bound <= t.time * rounding);
    nearest = std::max(nearest, bound / t.time);
  }
  CHECK(nearest > 0.02);
}
}  // namespace

TEST_CASE("what a segment needs at the least, known before any table is made, is no more than what any choice does") {
  constraints given;
  try_needs(model{}, given);
  try_needs(model_with_views{}, given);
  given.schedules = {schedule_kind::zero_bubble_h1, schedule_kind::zero_bubble_h2, schedule_kind::interleaved,
                     schedule_kind::gpipe};
  try_needs(model{}, given);
  try_needs(model_with_views{}, given);
  given.schedules = {schedule_kind::interlaced, schedule_kind::interlaced_in_step};
  try_needs(model{}, given);
  given = {};
  given.coshard = {2, 4};
  try_needs(model{}, given);
  // Of products that are cut into single features by devices and turns together little is left for matrix units.
  constraints thin = constrained<only::devices_per_stage<8>, only::axes<"block.*", inner>, only::micro_batches<1>>();
  thin.coshard = {16};
  try_needs(model{}, thin);
  given.recompute = {{glob("*"), recompute_rule::always}};
  try_needs(model{}, given);
  try_needs(model{}, constrained<only::recompute<recompute_rule::always>>());
  try_needs(model{}, constrained<only::recompute<recompute_rule::never>>());
}

TEST_CASE("a search gives a plan that verifies, with its bound and why") {
  search_result<trained> r{plan<trained>(), 0, 0, 0, {}};
  time_of({}, &r);
  CHECK(r.lower_bound >= r.seconds * (1 - 1e-9));
  CHECK(r.memory <= 80e9);
  CHECK(r.why.configurations > 10);
  CHECK(r.why.bound_by.find("no block runs again") != std::string::npos);
  CHECK(r.why.of_stages.size() == static_cast<std::size_t>(r.why.stages));

  REQUIRE(!r.why.considered.empty());
  REQUIRE(r.why.considered.size() <= 12);
  considered_configuration const& taken = r.why.considered.front();
  CHECK(taken.seconds == r.seconds);
  CHECK(taken.stages == r.why.stages);
  CHECK(taken.devices_per_stage == r.why.devices_per_stage);
  CHECK(taken.micro_batches == r.why.micro_batches);
  for (considered_configuration const& c : r.why.considered) {
    CHECK(c.lower_bound >= r.lower_bound);
    CHECK((c.seconds == 0 || c.seconds >= c.lower_bound));
    CHECK(c.schedule == (c.stages > 1 ? "1F1B" : ""));
  }
}

TEST_CASE("a constrained search is never better, and takes what it is told") {
  const double free = time_of({});
  search_result<trained> r{plan<trained>(), 0, 0, 0, {}};
  CHECK(time_of(constrained<only::stages<2>>(), &r) >= free);
  CHECK(r.why.stages == 2);
  CHECK(time_of(constrained<only::micro_batches<4>, only::devices<4>>(), &r) >= free);
  CHECK(r.why.micro_batches == 4);
  CHECK(r.plan.devices() <= 4);
  CHECK(time_of(constrained<only::devices<1>>(), &r) >= free);
  CHECK(r.plan.devices() == 1);
  CHECK(time_of(constrained<only::recompute<recompute_rule::always>>(), &r) >= free);
  int replayed = 0;
  for (found_stage const& s : r.why.of_stages) replayed += s.replayed;
  CHECK(replayed == 4);
  CHECK(time_of(constrained<only::axes<"block.*", sample>>(), &r) >= free);
  for (int op = 0; op < r.plan.graph().ops.size; ++op)
    if (r.plan.graph().ops[op].when == pass::forward && matches("block.*", r.plan.graph().name(op).view()))
      for (int c = 0; c < r.plan.of(op).cut_count; ++c)
        if (const int d = r.plan.of(op).cuts[c].dim; d >= 0 && r.plan.graph().ops[op].info->source == source_kind::none)
          CHECK(r.plan.graph().ops[op].info->dims[d].axis->name == "sample");
  CHECK(time_of(constrained<only::pieces<"*down*", 1, 2>>()) >= free);
  CHECK(time_of(constrained<only::stages<2>, only::stages_begin_at<"block.3">>(), &r) >= free);
  CHECK(r.why.of_stages[1].first_block == 4);
  time_of(constrained<only::stages<2>, only::devices_per_stage<2>>(), &r);
  CHECK(r.why.of_stages[1].first_block > 2);
  CHECK(time_of(constrained<only::stages<2>, only::devices_per_stage<2>, only::region<"block.1.*", 2, 3>>(), &r) >= free);
  CHECK(r.why.of_stages[1].first_block <= 2);  // block.1, which is the third segment
  CHECK(time_of(constrained<only::zero<0>>()) >= free);
  CHECK(time_of(constrained<only::schedules<schedule_kind::gpipe>>()) >= free);
  CHECK(time_of(constrained<only::devices_per_stage<3>>()) >= free);
}

TEST_CASE("constraints shorten the search") {
  constraints given;
  search_result<trained> free{plan<trained>(), 0, 0, 0, {}}, r = free;
  time_of(given, &free);
  search_report before = free.why;
  for (int more = 1; more < 4; ++more) {  // one thing more that is so of the best plan
    if (more == 1) given.stages = {free.why.stages};
    if (more == 2) given.devices_per_stage = {free.why.devices_per_stage};
    if (more == 3) given.micro_batches = {free.why.micro_batches};
    CHECK(time_of(given, &r) == doctest::Approx(free.seconds));
    CAPTURE(more);
    CHECK(r.why.configurations < before.configurations);
    CHECK(r.why.eliminations <= before.eliminations);
    before = r.why;
  }
}

TEST_CASE("less memory makes plans slower, until none fits") {
  double before = time_of({});
  constraints given;
  double held = 0;
  for (double memory : {4e6, 1e6, 6e5, 4e5}) {
    if (sanitized_briefly && memory > 4e5) continue;
    given.memory = memory;
    search_result<trained> r{plan<trained>(), 0, 0, 0, {}};
    const double seconds = time_of(given, &r);
    CHECK(seconds >= before);
    CHECK(r.memory <= memory);
    before = seconds;
    held = r.memory;
  }
  CHECK(held > 0);
  if (sanitized_briefly) return;  // a minute and more: many searches for the least memory
  given.memory = 1e4;
  try {
    search<trained>(slow_cluster(), given);
    CHECK(false);
  } catch (error const& e) {
    const std::string what = e.what();
    CHECK(what.find("no plan fits into the memory") != std::string::npos);
    CHECK(what.find("constraint 'memory'") != std::string::npos);
    const std::string told = what.substr(what.find("device; ") + 8);
    REQUIRE(told.find(" KiB would do") != std::string::npos);
    const double least = std::stod(told) * 1024;
    given.memory = least * 1.001;
    CHECK(search<trained>(slow_cluster(), given).memory <= given.memory);
    given.memory = least * 0.98;
    CHECK_THROWS_AS(search<trained>(slow_cluster(), given), error);
  }
}

namespace {
// So many devices, and as many that are so many times slower.
cluster unequal_cluster(int devices, double times_slower) {
  cluster c = slow_cluster();
  device_kind slow = c.kinds[0];
  slow.name = "slow";
  slow.flops["f32"] /= times_slower;
  slow.memory_bandwidth /= times_slower;
  slow.launch *= times_slower;
  c.kinds.insert(c.kinds.begin(), slow);  // the order of kinds says nothing
  c.devices = {{c.kinds[1].name, devices}, {"slow", devices}};
  return c;
}
search_result<trained> best_on(cluster const& c, constraints const& given = {}, int layers = 4) {
  return search<trained>(c, given, trained{{layers}, {}, {}, {}}, std::vector<binding>{}, {.tolerance = 0});
}
}  // namespace

TEST_CASE("devices that differ: slow ones stay idle where they cost more") {
  const double fast_ones = best_on(slow_cluster(), constrained<only::devices<4>>()).seconds,
               alike = best_on(unequal_cluster(4, 1)).seconds, all = best_on(slow_cluster()).seconds;
  CHECK(alike == doctest::Approx(all));
  CHECK(all < fast_ones);
  double before = all;
  for (double times : {1.1, 1.3, 2.0, 20.0}) {
    const search_result<trained> r = best_on(unequal_cluster(4, times));
    CAPTURE(times);
    CHECK(r.seconds >= before * (1 - 1e-9));
    CHECK(r.seconds <= fast_ones * (1 + 1e-9));
    CHECK(simulate(r.plan, unequal_cluster(4, times)).seconds <= r.seconds * 1.05);
    before = r.seconds;
  }
  CHECK(before == doctest::Approx(fast_ones));
  CHECK(best_on(unequal_cluster(4, 20)).why.devices <= 4);
  // All of them, where that is asked for.
  const constraints eight = constrained<only::stages<1>, only::devices_per_stage<8>>();
  CHECK(best_on(unequal_cluster(4, 20), eight).seconds > 2 * best_on(slow_cluster(), eight).seconds);
}

TEST_CASE("devices that differ: each stage pays for its own, so that slow ones get fewer blocks") {
  constraints given = constrained<only::stages<2>, only::devices_per_stage<2>, only::micro_batches<8>>();
  const cluster c = unequal_cluster(2, 3);
  const search_result<trained> r = best_on(c, given, 12);
  found_stage const &fast = r.why.of_stages[0], &slow = r.why.of_stages[1];
  CHECK(fast.blocks > 2 * slow.blocks - 2);
  CHECK(fast.blocks < 5 * slow.blocks);
  CHECK(std::max(fast.seconds, slow.seconds) < 1.6 * std::min(fast.seconds, slow.seconds));
  const double simulated = simulate(r.plan, c).seconds;
  CHECK(simulated == doctest::Approx(r.seconds).epsilon(0.05));
  MESSAGE("blocks ", fast.blocks, " and ", slow.blocks, ", ", r.seconds, " s; simulated ", simulated, " s");
  // Better than equal stages, and than all devices as the slowest.
  constraints equal = given;
  equal.stage_begins = glob("block.6");
  CHECK(r.seconds < best_on(c, equal, 12).seconds);
  cluster slowest = c;
  slowest.devices = {{"slow", 4}};
  CHECK(r.seconds < 0.7 * best_on(slowest, given, 12).seconds);
  // In the other order of devices the last stage has more.
  cluster turned = c;
  std::swap(turned.devices[0], turned.devices[1]);
  const search_result<trained> other = best_on(turned, given, 12);
  CHECK(other.why.of_stages[0].blocks < other.why.of_stages[1].blocks);
  CHECK(other.seconds == doctest::Approx(r.seconds).epsilon(0.1));
}

TEST_CASE("devices that differ in the types that they are fast at: a bound says no more than each segment at its best place") {
  const auto at_place = [](double one, double other) {  // seconds of the two kinds of segments
    return spaces::place_needs{0, {one, other}, {1, {{.seconds = one}, {.seconds = other}}}};
  };
  const std::vector<spaces::place_needs> places{at_place(1.0, 0.8), at_place(20.0, 1.0)};
  // Two stages of one device, the first kind of segment on the first and the other on the other: one after the other, or both at
  // once.
  CHECK(spaces::least_time(places, {1, 1}, {1, 1}, 1, 1) == doctest::Approx(1.8));
  CHECK(spaces::least_time(places, {1, 1}, {1, 1}, 1, 0) == doctest::Approx(1.0));
  CHECK(spaces::least_time({places[0]}, {1, 1}, {1}, 1, 0) == doctest::Approx(1.8));
}

TEST_CASE("devices that differ: nothing is missed that looking at every choice finds, and every stage fits where it lies") {
  cluster c = unequal_cluster(2, 3);
  c.kinds[0].memory = 2e6;  // of the slow ones
  c.kinds[1].memory = 6e5;
  const costs k(c);
  constraints given = constrained<only::devices<3>, only::axes<"*", inner>, only::pieces<"table*", 1, 1>, only::zero<0>,
                                  only::micro_batches<4>>();
  const plan<trained> empty(trained{{3}, {}, {}, {}}, std::vector<binding>{});
  int with_limits = 0;
  for (double memory : {0.0, 1e9, 1e6, 5e5, 4e5}) {
    given.memory = memory;
    const spaces::plan_space space(empty.traced(), empty.traced().forward_count, k, given);
    spaces::problem p = space.of();
    std::erase_if(p.configurations, [&](auto const& x) { return space.shapes()[std::size_t(x.shape)].devices > 1; });
    double least_bound = spaces::infinite;
    const spaces::outcome every = spaces::brute_force(p);
    const spaces::exact_outcome found = spaces::exact(p);
    CAPTURE(memory);
    CHECK(found.best.found() == every.best.found());
    if (!every.best.found()) continue;
    CHECK(found.time == doctest::Approx(every.time).epsilon(1e-9));
    CHECK(found.lower_bound == doctest::Approx(every.time).epsilon(1e-9));
    for (spaces::configuration const& x : p.configurations) least_bound = std::min(least_bound, x.bound);
    CHECK(least_bound <= every.time);
    const spaces::shape s = p.make_shape(p.configurations[std::size_t(found.best.configuration)].shape);
    const spaces::total t = spaces::time_and_memory(p, s, found.best);
    CHECK(t.fits);
    for (std::size_t stage = 0; stage < t.stages.size(); ++stage) {
      const double own = c.kind_of(static_cast<int>(stage)).memory;
      CHECK(t.stages[stage].memory <= (memory > 0 ? memory : own));
      with_limits += memory == 0 && t.stages[stage].memory > 6e5;
    }
  }
  CHECK(with_limits > 0);
}

TEST_CASE("constraints that cannot be met, or that name nothing of the model, are told") {
  auto says = [](constraints const& given, char const* words) {
    CHECK_THROWS_WITH_AS(time_of(given), doctest::Contains(words), error);
  };
  says(constrained<only::pieces<"block.*.dwn*", 1, 2>>(), "constraint 'cuts' names 'block.*.dwn*', which matches no op");
  says(constrained<only::recompute<recompute_rule::always, "blok.*">>(),
       "constraint 'recompute' names 'blok.*', which matches no block");
  says(constrained<only::stages_begin_at<"block.9">>(), "constraint 'stage_begins' names 'block.9', which matches no block");
  says(constrained<only::stages_begin_at<"block.0 block.2 block.33">>(),
       "constraint 'stage_begins' names 'block.33', which matches no block");
  says(constrained<only::pieces<"block.* heads.*", 1, 2>>(), "names 'heads.*', which matches no op");
  CHECK_THROWS_WITH_AS(glob(std::string_view(std::string(129, 'b'))), doctest::Contains("more than 128 characters"), error);
  says(constrained<only::region<"head*x", 0, 1>>(), "constraint 'regions' names 'head*x', which matches no op");
  constraints turned;
  turned.regions = {{glob("block.*"), 3, 1}};
  says(turned, "constraint 'regions' has devices 3 to 1");
  // The first block on the last devices, and so all others after it.
  says(constrained<only::stages<2>, only::devices_per_stage<2>, only::region<"block.0.*", 2, 3>,
                   only::region<"block.1.*", 0, 1>>(),
       "no plan, whatever the memory; widen the constraint 'regions'");
  // Each of these leaves a plan without the other, none leaves one that lies on three devices.
  says(constrained<only::stages<4>, only::devices<3>>(),
       "no plan, whatever the memory; widen the constraint 'devices' or 'stages'");
  says(constrained<only::stages<9>, only::devices_per_stage<16>>(),
       "the constraints 'stages', 'devices_per_stage' leave none together");
}

TEST_CASE("where a constraint is why no plan fits into the memory, it is named") {
  // Kept, all blocks hold more than when they run again.
  constraints given = constrained<only::devices<1>, only::micro_batches<1>, only::recompute<recompute_rule::never>>();
  constraints again = given;
  again.recompute.clear();
  given.memory = again.memory = 3e6;
  CHECK_NOTHROW(time_of(again));
  CHECK_THROWS_WITH_AS(time_of(given), doctest::Contains("(constraint 'memory'), or this much without the constraint 'devices'"),
                       error);
  CHECK_THROWS_WITH_AS(time_of(given), doctest::Contains("'recompute'"), error);
  given.memory = 1e4;  // without which there is no plan either
  CHECK_THROWS_WITH_AS(time_of(given), doctest::Contains("would do (constraint 'memory')"), error);
}

TEST_CASE("micro-batches that do not share the batch evenly: the smallest one is cut, too") {
  // 16 samples in micro-batches of 6, 5 and 5.
  const constraints by_samples =
      constrained<only::micro_batches<3>, only::axes<"block.*", sample>, only::no_replicas<"block.*">, only::stages<1>>();
  search_result<trained> r{plan<trained>(), 0, 0, 0, {}};
  time_of(constrained<only::devices_per_stage<5>>(by_samples), &r);
  CHECK(r.why.devices == 5);
  CHECK_THROWS_WITH_AS(time_of(constrained<only::devices_per_stage<6>>(by_samples)), doctest::Contains("no way to lie"), error);
  time_of(constrained<only::micro_batches<32>, only::devices<2>>(), &r);  // some are empty
  CHECK(r.why.micro_batches == 32);
}

TEST_CASE("constraints combine: what all of them allow is left") {
  const constraints both = constrained<only::stages<2, 4, 8>, only::stages<8, 4>, only::memory<1000>, only::memory<500>,
                                       only::devices<8>, only::devices<16>, only::piece_counts<"*", 1, 4>>();
  CHECK(both.stages == std::vector{4, 8});
  CHECK(both.memory == 500);
  CHECK(both.devices == 8);
  constraints more = constrained<only::stages<4>, only::zero<1>>(both);
  CHECK(more.stages == std::vector{4});
  CHECK(more.zero == std::vector{1});
  CHECK(more.cuts.size() == 1);
  constraints other;
  other.zero = {0, 2};
  CHECK_THROWS_WITH_AS(more.narrow(other), doctest::Contains("two of them say of 'zero' has nothing in common"), error);
  CHECK_THROWS_WITH_AS((constrained<only::stages_begin_at<"block.0">, only::stages_begin_at<"block.1">>()),
                       doctest::Contains("'stage_begins' is 'block.0' and 'block.1'"), error);
  // An op in 1 or 4 pieces is not in 2.
  search_result<trained> r{plan<trained>(), 0, 0, 0, {}};
  time_of(constrained<only::stages<1>, only::devices_per_stage<2>, only::piece_counts<"block.*.up", 1, 4>>(), &r);
  for (int op = 0; op < r.plan.graph().ops.size; ++op)
    if (r.plan.graph().ops[op].info->kind == "linear" && matches("block.*.up", r.plan.graph().name(op).view()))
      for (int c = 0; c < r.plan.of(op).cut_count; ++c)
        CHECK((r.plan.of(op).cuts[c].dim < 0 || !r.plan.of(op).in_space(r.plan.of(op).cuts[c].mode)));
}

TEST_CASE("more choices never give a slower plan; where memory binds, co-shard gives a faster one") {
  const double free = time_of({});
  constraints more =
      constrained<only::coshard<2, 4>, only::schedules<schedule_kind::one_f_one_b, schedule_kind::interleaved,
                                                       schedule_kind::zero_bubble_h1, schedule_kind::zero_bubble_h2>>();
  CHECK(time_of(more) <= free);
  // One device and one micro-batch: to hold less, blocks run again, or in turns.
  constraints plain = constrained<only::devices<1>, only::micro_batches<1>>(), turns = plain;
  turns.coshard = {2, 4};
  bool better = false;
  for (double memory = 2.4e6; memory > 1e6; memory *= sanitized_briefly ? 0.85 : 0.95) {
    plain.memory = turns.memory = memory;
    double without = spaces::infinite, with = spaces::infinite;
    search_result<trained> r{plan<trained>(), 0, 0, 0, {}};
    try {
      with = time_of(turns, &r);
      CHECK(r.memory <= memory);
      without = time_of(plain);
    } catch (error const&) {}
    CHECK(with <= without);
    if (with < without)
      better = better ||
               std::any_of(r.why.of_stages.begin(), r.why.of_stages.end(), [](found_stage const& s) { return s.in_turns > 0; });
  }
  CHECK(better);
}

TEST_CASE("a schedule with a smaller bubble is taken where it is allowed") {
  constraints given = constrained<only::stages<2>, only::devices_per_stage<1>, only::micro_batches<4>>();
  search_result<trained> r{plan<trained>(), 0, 0, 0, {}};
  const double plain = time_of(given);
  for (schedule_kind kind : {schedule_kind::interleaved, schedule_kind::zero_bubble_h1, schedule_kind::zero_bubble_h2}) {
    given.schedules = {kind};
    CAPTURE(static_cast<int>(kind));
    CHECK(time_of(given, &r) < plain);
    CHECK(r.why.stages == 2);
  }
}

namespace {
using large_vocabulary = testing::block_model<testing::block_axes<16, 32, 8192, 32, 128>, 4, testing::output_table::of_the_input>;
}  // namespace

TEST_CASE("a vocabulary that no stage can work on alone is spread over all of them") {
  constraints given = constrained<only::devices_per_stage<1>, only::stages<4>, only::micro_batches<8>>();
  const auto without = search<large_vocabulary>(slow_cluster(), given);
  using enum schedule_kind;
  given.schedules = {one_f_one_b, interlaced, interlaced_in_step};
  const auto with = search<large_vocabulary>(slow_cluster(), given);
  CHECK(with.seconds < 0.8 * without.seconds);
  CHECK(with.memory < 0.5 * without.memory);
  CHECK(!with.plan.check());
  CHECK(with.why.bound_by.find("table.weight is in them") != std::string::npos);
  CHECK(with.why.bound_by.find("without that a step takes at least ") != std::string::npos);
  const simulation s = simulate<large_vocabulary>(with.plan, slow_cluster());
  CHECK(s.seconds == doctest::Approx(with.seconds).epsilon(0.05));
  CHECK(static_cast<double>(s.peak_bytes()) <= with.memory);
  // Every device has a part of the table.
  auto const& g = with.plan.graph();
  for (int op = 0; op < g.ops.size; ++op)
    if (g.ops[op].when == pass::forward && g.name(op).view() == "table.weight" && g.ops[op].info->kind == "param")
      CHECK(spaces::lies_of(g, with.plan, op).pieces() == 4);
  // Started from, it is known from the beginning; and a schedule that is allowed worsens nothing.
  const auto from = search_from<large_vocabulary>(with.plan, slow_cluster(), given);
  REQUIRE(from.found);
  CHECK(from.found->why.start == "the start is of the space; it bounds the search from the beginning");
  for (const double memory : {80e9, 4e6, 3e6}) {
    if (sanitized_briefly) break;  // six searches without any constraints
    constraints any, all;
    any.memory = all.memory = memory;
    all.schedules = given.schedules;
    auto time = [&](constraints const& c) {
      try {
        return search<large_vocabulary>(slow_cluster(), c, {}, std::vector<binding>{}, {.tolerance = 0}).seconds;
      } catch (error const&) { return spaces::infinite; }
    };
    CHECK(time(all) <= time(any));
  }
}

TEST_CASE("no plan of a configuration is faster than its bound, which is known before it is looked at") {
  const plan<trained> empty{trained{}};
  constraints given;
  using enum schedule_kind;
  given.schedules = {one_f_one_b, interleaved, zero_bubble_h1, zero_bubble_h2, interlaced, interlaced_in_step};
  if (sanitized_briefly) given.schedules = {one_f_one_b, zero_bubble_h1, interlaced};
  else given.coshard = {2};
  for (const double slower : {1.0, 3.0}) {
    if (sanitized_briefly && slower == 1) continue;
    const costs k(unequal_cluster(4, slower));
    const spaces::plan_space space(empty.traced(), empty.traced().forward_count, k, given);
    double closest = 0;
    for (spaces::configuration const& c : space.of().configurations) {
      spaces::problem alone = space.of();
      alone.configurations = {c};
      alone.limit = spaces::infinite;
      const spaces::exact_outcome o = spaces::exact(alone);
      if (!o.best.found()) continue;
      CAPTURE(c.stages);
      CAPTURE(c.shape);
      CHECK(c.bound > 0);
      CHECK(c.bound <= o.time * (1 + 1e-9));
      closest = std::max(closest, c.bound / o.time);
    }
    CHECK(closest > 0.7);
  }
}

TEST_CASE("what backward ops read through a view is counted as kept") {
  const auto r = search<model_with_views>(slow_cluster(), constrained<only::devices<1>, only::micro_batches<1>>());
  const simulation s = simulate<model_with_views>(r.plan, slow_cluster());
  CHECK(static_cast<double>(s.peak_bytes()) <= r.memory);
  auto const& g = r.plan.traced();
  const spaces::segmented_model m = spaces::find_segments(g, g.forward_count);
  int views = 0;
  for (spaces::segment const& of : m.segments)
    for (spaces::searched_op const& view : of.ops)
      for (spaces::searched_op const& maker : of.ops)
        if (view.info->is_view && view.output_kept[0] && view.inputs.front().tensor == g.ops[maker.op].first_output) {
          ++views;
          CHECK(maker.output_kept[0]);
          CHECK(view.inputs.front().backward_reads);
        }
  CHECK(views == 6);
}

TEST_CASE("what a model gives out is counted, of all micro-batches") {
  for (const int micro_batches : {1, 4, 16}) {
    constraints given = constrained<only::devices<1>>();
    given.micro_batches = {micro_batches};
    const auto r = search<model_that_gives_out>(slow_cluster(), given);
    CAPTURE(micro_batches);
    CHECK(static_cast<double>(simulate<model_that_gives_out>(r.plan, slow_cluster()).peak_bytes()) <= r.memory);
  }
}

TEST_CASE("constraints that leave nothing say which") {
  auto message = [](constraints const& given) {
    try {
      search<trained>(slow_cluster(), given);
    } catch (error const& e) { return std::string(e.what()); }
    return std::string();
  };
  CHECK(message(constrained<only::axes<"block.0.up">, only::pieces<"block.0.up", 2, 8>>()).find("block.0.up") !=
        std::string::npos);
  CHECK(message(constrained<only::micro_batches<4, 0>>()) ==
        "search: the constraint 'micro_batches' has 0; give numbers from 1 on");
  CHECK(message(constrained<only::chunks<-1>>()).find("'chunks' has -1") != std::string::npos);
  CHECK(message(constrained<only::zero<4>>()).find("'zero' has 4; give numbers from 0 to 3") != std::string::npos);
  CHECK(message(constrained<only::devices<-2>>()).find("'devices' is -2") != std::string::npos);
  constraints given;
  given.memory = -1;
  CHECK(message(given).find("'memory' is -1") != std::string::npos);
  if (sanitized_briefly) return;  // a minute: many searches for the least memory
  given.memory = 1e-3;            // however far off, what would do is told
  const std::string least = message(given);
  CHECK(least.rfind("search: no plan fits into the memory of 0.001 bytes per device; ", 0) == 0);
  CHECK(least.find(" KiB would do (constraint 'memory')") != std::string::npos);
}

TEST_CASE("a plan fits into each of unequal devices") {
  cluster c = slow_cluster();
  c.kinds.push_back(c.kinds[0]);
  c.kinds[1].name = "small";
  c.kinds[1].memory = 5e5;
  c.devices = {{c.kinds[0].name, 6}, {"small", 2}};
  CHECK(simulate<trained>(search<trained>(c).plan, c).fits());
  CHECK(search<trained>(c, constrained<only::stages<1>, only::devices_per_stage<8>>()).memory <= 5e5);
  // What does not fit into the small ones may lie on the others.
  const search_result<trained> r = search<trained>(c, constrained<only::stages<4>, only::devices_per_stage<2>>());
  CHECK(r.why.of_stages[3].memory <= 5e5);
  CHECK(r.memory > 5e5);
  CHECK(simulate<trained>(r.plan, c).fits());
  if (sanitized_briefly) return;  // many searches for the least memory
  c.kinds[0].memory = 6e4;
  c.kinds[1].memory = 2e4;
  CHECK_THROWS_WITH_AS(search<trained>(c), doctest::Contains(" on each would do (the cluster's devices)"), error);
}

TEST_CASE("an expert's plans are simulated, and the best of both is no slower than either") {
  cluster c = slow_cluster();
  c.devices = {{c.kinds.front().name, 4}};
  const std::vector<expert_plan> experts = expert_grid<trained>(c);
  REQUIRE(experts.size() > 10);
  for (std::size_t i = 1; i < experts.size(); ++i)
    if (experts[i].fits) CHECK(experts[i - 1].seconds <= experts[i].seconds);
  // What is not simulated is no better.
  expert_options every;
  every.simulate_all = true;
  const std::vector<expert_plan> all = expert_grid<trained>(c, as_training<trained>{}, std::vector<binding>{}, every);
  CHECK(all.front().seconds == experts.front().seconds);
  CHECK(all.size() == experts.size());
  int ordered = 0;  // plans of several stages of which what waits for what says more than what a device does
  for (expert_plan const& x : all) {
    plan<trained> p;
    x.cuts(p);
    completed done;
    REQUIRE(!verify_plan(p.traced(), p, done, false));
    const plan_bound least = bound_of(p.traced(), done, costs(c), std::min(x.cuts.stages, x.cuts.micro_batches));
    CHECK(least.seconds <= x.seconds);
    const double in_order = least_in_order(p.traced(), p, done, costs(c));
    CHECK(in_order <= x.seconds);
    ordered += x.cuts.stages > 1 && in_order > least.seconds;
    CHECK(least.seconds > 0);
    CHECK(least.bytes <= x.memory);
  }
  CHECK(ordered > 20);
  // Only what may be faster than a plan that is known is simulated: nothing, all that matters, or all that a bound leaves.
  auto faster_than = [&](double seconds) {
    expert_options how;
    how.faster_than = seconds;
    return expert_grid<trained>(c, as_training<trained>{}, std::vector<binding>{}, how);
  };
  auto simulated = [](std::vector<expert_plan> const& of) {
    return std::count_if(of.begin(), of.end(), [](expert_plan const& x) { return x.simulated; });
  };
  const double fastest = experts.front().seconds;
  double slowest = 0;
  for (expert_plan const& x : all)
    if (x.fits) slowest = std::max(slowest, x.seconds);
  long before = 0;
  for (double seconds : {fastest / 1e3, fastest, fastest * 1.001, slowest * 2}) {
    if (sanitized_briefly && seconds == fastest) continue;
    const std::vector<expert_plan> some = faster_than(seconds);
    CAPTURE(seconds / fastest);
    REQUIRE(some.size() == all.size());
    CHECK(simulated(some) >= before);
    CHECK(simulated(some) <= simulated(all));
    before = simulated(some);
    for (expert_plan const& x : some) {
      auto same = [&](expert_plan const& y) { return x.cuts.name() == y.cuts.name(); };
      const auto true_of = std::find_if(all.begin(), all.end(), same);
      REQUIRE(true_of != all.end());
      if (x.simulated && x.fits) CHECK(x.seconds == true_of->seconds);
      if (!x.simulated) CHECK((true_of->seconds >= std::min(seconds, fastest) || !true_of->fits));
    }
    if (seconds > fastest) CHECK(some.front().seconds == fastest);
    if (seconds < fastest / 100) CHECK(simulated(some) == 0);
  }
  CHECK(before == simulated(experts));
  // In parts it is the same grid.
  std::size_t plans = 0;
  double best_of_parts = spaces::infinite;
  expert_options part;
  for (part.parts = 3; part.part < part.parts; ++part.part) {
    const std::vector<expert_plan> some = expert_grid<trained>(c, as_training<trained>{}, std::vector<binding>{}, part);
    plans += some.size();
    if (some.front().fits) best_of_parts = std::min(best_of_parts, some.front().seconds);
  }
  CHECK(plans == experts.size());
  CHECK(best_of_parts == fastest);
  CHECK_THROWS_AS(expert_grid<trained>(c, as_training<trained>{}, std::vector<binding>{}, part), error);
  const auto found = search<trained>(c);
  const auto best = rescore(found, experts, c);
  CHECK(best.seconds <= experts.front().seconds);
  CHECK(best.seconds <= best.found_seconds);
  CHECK(!best.plan.check());
  MESSAGE("simulated: found " << best.found_seconds << " s, the expert's best (" << experts.front().cuts.name() << ") "
                              << best.expert_seconds << " s");
}

TEST_CASE("a search from a plan is never worse than the plan") {
  const cluster c = slow_cluster();
  for (int kind = 0; kind < 3; ++kind) {
    plan<trained> start;
    if (kind == 0) expert_cuts{2, 2, 2, 4, 1}(start);
    else if (kind == 1) expert_cuts{1, 8, 1, 1, 0}(start);
    else start = search<trained>(c).plan;
    const double own = simulate<trained>(start, c).seconds;
    const auto r = search_from<trained>(start, c);
    CHECK(r.start_seconds == own);
    CHECK(r.seconds <= own);
    CHECK(!r.plan.check());
    CHECK(simulate<trained>(r.plan, c).seconds == r.seconds);
    REQUIRE(r.found);
    CHECK(r.found->seconds <= r.found->why.start_seconds);
    CHECK(r.found->why.start.find("bounds the search from the beginning") != std::string::npos);
    if (sanitized_briefly) continue;
    // Where the search may not do as well, the start is what comes back.
    const auto narrow = search_from<trained>(start, c, constrained<only::devices_per_stage<1>, only::stages<1>>());
    CHECK(narrow.seconds <= own);
  }
  plan<trained> start;
  expert_cuts{1, 8, 1, 1, 0}(start);
  constraints none;
  none.memory = 1e4;
  if (!sanitized_briefly) CHECK_THROWS_AS(search_from<trained>(start, c, none), error);  // many searches for the least memory
  const auto kept = search_from<trained>(start, c, constrained<only::devices_per_stage<1>, only::stages<1>>());
  CHECK(!kept.by_search);
  CHECK(kept.seconds == kept.start_seconds);
  REQUIRE(kept.found);
  CHECK(kept.found->why.start_seconds == 0);
  CHECK(kept.found->why.start.find("the space has no plan of 1 stages of 8 devices") != std::string::npos);
}

TEST_CASE("a good start leaves the result as it is, and less to look at") {
  const cluster c = slow_cluster();
  constraints given;
  given.schedules = {schedule_kind::one_f_one_b, schedule_kind::interleaved};
  const auto free = search<trained>(c, given);
  const auto from = search_from<trained>(free.plan, c, given);
  REQUIRE(from.found);
  CHECK(from.found->why.start == "the start is of the space; it bounds the search from the beginning");
  CHECK(from.found->why.start_seconds == doctest::Approx(free.seconds));
  CHECK(from.found->seconds == doctest::Approx(free.seconds));
  CHECK(from.found->why.bounded < free.why.bounded);
  CHECK(from.found->why.eliminations < free.why.eliminations);
  MESSAGE("looked at without a start: ", free.why.bounded, " configurations, ", free.why.eliminations,
          " eliminations; with: ", from.found->why.bounded, ", ", from.found->why.eliminations);
}

TEST_CASE("a start whose stages are no runs of blocks bounds nothing") {
  plan<trained> start;  // the table and the head on one device, all blocks on the other
  for (op_ref op : start.ops()) {
    const bool of_block = std::string(op.name().view()).rfind("block.", 0) == 0;
    start.op_assign(op, at{"stage", of_block ? 1 : 0, 2});
  }
  for (const int turns : {1, 2}) {
    constraints given;
    if (turns > 1) given.coshard = {turns};
    const auto from = search_from<trained>(start, slow_cluster(), given);
    REQUIRE(from.found);
    CHECK(from.found->why.start_seconds == 0);
    CHECK(from.found->why.start.find("the blocks of a stage do not follow one another") != std::string::npos);
    CHECK(from.seconds <= from.start_seconds);
  }
}

namespace {
void read_points(constraints const& given) {
  const plan<trained> empty{trained{}};
  const costs k(slow_cluster());
  const spaces::plan_space space(empty.traced(), empty.traced().forward_count, k, given);
  spaces::problem const& p = space.of();
  std::mt19937 random(4);
  for (unsigned i = 0; i < testing::drawn_sanitized(15, 60); ++i) {
    const int c = std::uniform_int_distribution<int>(0, static_cast<int>(p.configurations.size()) - 1)(random);
    spaces::configuration const& configured = p.configurations[static_cast<std::size_t>(c)];
    const spaces::shape s = p.make_shape(configured.shape);
    const spaces::choice x = spaces::random_choice(p, s, c, random);
    if (!x.found()) continue;
    plan_base made(empty.traced());
    spaces::chosen(space, x)(made);
    const spaces::point_of_plan read = spaces::plan_reader(space, made).read();
    CAPTURE(i);
    CHECK(read.differs == "");
    REQUIRE(read.point.found());
    // What the plan leaves open is chosen so that it costs the least.
    if (configured.stages == 1)
      CHECK(spaces::time_and_memory(p, s, read.point).time <= spaces::time_and_memory(p, s, x).time * (1 + 1e-9));
  }
}
}  // namespace

TEST_CASE("a plan of the space is read as a point that makes it") {
  constraints given;
  given.coshard = {2, 4};
  using enum schedule_kind;
  given.schedules = {one_f_one_b, gpipe, interleaved, zero_bubble_h1, zero_bubble_h2};
  read_points(given);
  given.schedules = {interlaced, interlaced_in_step};
  read_points(given);
}

TEST_CASE("where blocks may run in turns the search misses nothing that looking at every choice finds") {
  // Where every device has a part of the batch, and links are slow, turns are faster than blocks that are kept: without
  // micro-batches theirs alone are gradients that go in buckets.
  for (const bool by_samples : {false, true})
    for (int micro_batches : {1, 2}) {
      if (sanitized_briefly && !by_samples) continue;  // more than a million choices
      cluster c = slow_cluster();
      if (by_samples) {
        c.links[0].latency = 1e-2;
        c.kinds[0].flops = {{"f32", 1e13}};
      }
      const costs k(c);
      constraints given = constrained<only::devices<2>, only::zero<0>, only::coshard<2>>();
      const constraints cuts =
          by_samples ? constrained<only::devices_per_stage<2>, only::axes<"*", sample>, only::no_replicas<"block.*">>()
                     : constrained<only::axes<"*", sample, inner>, only::pieces<"table*", 1, 1>>();
      given.cuts = cuts.cuts;
      given.devices_per_stage = cuts.devices_per_stage;
      given.micro_batches = {micro_batches};
      const plan<training<model, adamw, clip_norm>> empty(training<model, adamw, clip_norm>{{1}, {}, {}, {}}, {});
      const spaces::plan_space space(empty.traced(), empty.traced().forward_count, k, given);
      spaces::problem p = space.of();
      struct point {
        double time, memory;
        bool in_turns;
      };
      std::vector<point> all;
      spaces::detail::enumeration::all(p, [&](spaces::choice const& x, spaces::total const& t) {
        bool in_turns = false;
        for (spaces::stage_choice const& s : x.stages)
          for (std::size_t i = 0; i < s.segments.size(); ++i)
            in_turns = in_turns || space.way(s.begin + static_cast<int>(i), s.segments[i].variant).turns > 1;
        all.push_back({t.time, t.memory, in_turns});
      });
      double least = spaces::infinite, most = 0;
      for (point const& x : all) {
        least = std::min(least, x.memory);
        most = std::max(most, x.memory);
      }
      int turned = 0;
      bool turned_freely = false;
      for (int step = 0; step <= 12; ++step) {
        p.limit = step == 12 ? spaces::infinite : least + (most - least) * step * step / 300;
        point best{spaces::infinite, 0, false};
        for (point const& x : all)
          if (x.memory <= p.limit && x.time < best.time) best = x;
        const spaces::exact_outcome found = spaces::exact(p);
        CAPTURE(by_samples);
        CAPTURE(micro_batches);
        CAPTURE(step);
        REQUIRE(found.best.found());
        CHECK(found.time == doctest::Approx(best.time).epsilon(1e-9));
        CHECK(found.lower_bound <= best.time * (1 + 1e-9));
        CHECK(found.lower_bound >= best.time * (1 - 1e-9));
        CHECK(found.memory <= p.limit);
        turned += best.in_turns;
        turned_freely = best.in_turns;
      }
      MESSAGE(all.size(), " choices; the best is in turns under ", turned, " of 13 limits");
      CHECK(turned > 0);
      CHECK(turned_freely == (by_samples && micro_batches == 1));
    }
}
