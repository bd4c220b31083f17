// Searched plans: what is found verifies, and points of the space drawn at random train as one device does.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <partita/cost/plain_machine.hpp>
#include <partita/cost/presets.hpp>
#include <partita/ops/scale.hpp>
#include <partita/search/at_point.hpp>
#include <partita/search/search.hpp>

#include "../support/drawn_points.hpp"
#include "../support/matrix.hpp"
#include "../support/models/encoder_decoder.hpp"
#include "../support/models/gpt.hpp"

using namespace partita;
using testing::models::gpt;

namespace {
cluster small_cluster(int devices) {
  cluster c = preset::dgx_a100(1);
  c.devices = {{c.kinds.front().name, devices}};
  return c;
}
// Weights reach their readers through an op, as they do through a cast where they are stored in another type.
struct scaled {
  int layers = 2;
  constexpr auto operator()(auto& g) const {
    namespace m = testing::models;
    constexpr normal wide{0.3};
    auto tokens = input<i32, m::sample, m::position>(g, "tokens");
    auto targets = input<i32, m::sample, m::position>(g, "targets");
    auto x = ops::embedding(tokens, param<f32, m::vocabulary, m::hidden>(g, "embedding.weight", wide) * 0.5);
    for (int l = 0; l < layers; ++l) {
      auto s = scope(g, "block", l);
      auto n = layer_norm(x, param<f32, m::hidden>(g, "norm.weight", ones) * 2.0);
      auto h = gelu(ops::linear(n, param<f32, m::hidden, m::inner>(g, "up.weight", wide) * 0.5));
      x = x + ops::linear(h, param<f32, m::inner, m::hidden>(g, "down.weight", wide) * 0.5);
    }
    return cross_entropy(ops::linear(x, param<f32, m::hidden, m::vocabulary>(g, "output.weight", wide) * 0.5), targets);
  }
};

struct encoder_decoder {
  constexpr auto operator()(auto& g) const { return testing::models::encoder_decoder{2}(g); }
};

template <class Model> void try_points(constraints const& given, unsigned seed, int points) {
  const testing::models::sizes sizes{
      .samples = 8, .positions = 6, .vocabulary = 12, .hidden = 8, .heads = 4, .width = 4, .inner = 8};
  testing::tried<Model> both(sizes);
  const costs k(small_cluster(6));
  const spaces::plan_space space(both.graph(), both.forward_ops(), k, given);
  const int tried = testing::at_drawn_points(space, seed, points, [&](spaces::shape const&, spaces::choice const& x) {
    const std::string found = both.fault([&](plan_base& plan) { spaces::chosen(space, x)(plan); });
    CHECK_MESSAGE(found.empty(), found);
  });
  CHECK(tried > points / 3);
}
}  // namespace

TEST_CASE("points of the space, drawn at random, are plans that train as one device does") {
  constraints given;
  given.coshard = {2, 3};
  using enum schedule_kind;
  given.schedules = {one_f_one_b, gpipe, interleaved, zero_bubble_h1, zero_bubble_h2};
  try_points<gpt>(given, 7, 80);
}

TEST_CASE("plans of the space that is searched while compiling train as one device does") {
  namespace m = testing::models;
  testing::tried<gpt> both({.samples = 8, .positions = 6, .vocabulary = 12, .hidden = 8, .heads = 4, .width = 4, .inner = 8});
  using enum schedule_kind;
  const constraints given = constrained<only::axes<"*", m::sample, m::inner>, only::micro_batches<1, 4>, only::zero<0, 2, 3>,
                                        only::schedules<one_f_one_b, gpipe, zero_bubble_h1>, only::devices_per_stage<1, 2, 4>>();
  std::vector<spaces::small_point> points;
  for (double memory : {1e9, 1e3}) {  // nothing has to run again, everything that may
    const plain_machine machine{.memory = memory, .count = 4};
    const spaces::small_space<plain_machine> space(both.graph(), both.forward_ops(), machine, given);
    space.each_point([&](spaces::small_point const& x, double, double) { points.push_back(x); });
  }
  const plain_machine machine{.count = 4};
  const spaces::small_space<plain_machine> space(both.graph(), both.forward_ops(), machine, given);
  std::mt19937 random(5);
  std::shuffle(points.begin(), points.end(), random);
  REQUIRE(points.size() > 40);
  for (std::size_t i = 0; i < 40; ++i) {
    const spaces::at_point<plain_machine> here(space, points[i]);
    const spaces::choice x = here.chosen();
    const std::string found = both.fault([&](plan_base& plan) { spaces::chosen(here, x)(plan); });
    CHECK_MESSAGE(found.empty(), "point ", i, ": ", found);
  }
}

TEST_CASE("the same where embeddings and logits are spread over the devices of all stages") {
  constraints given;
  given.schedules = {schedule_kind::interlaced, schedule_kind::interlaced_in_step};
  given.recompute = {{glob("*.0"), recompute_rule::either}};
  try_points<gpt>(given, 9, 30);
  try_points<encoder_decoder>(given, 10, 50);
}

TEST_CASE("the same with ZeRO 3 where weights reach their readers through an op") {
  constraints given;
  given.zero = {3};
  try_points<scaled>(given, 8, 40);
}
