// Searched plans: what is found verifies, and points of the space drawn at random train as one device does.
#include <doctest/doctest.h>

#include <partita/cost/presets.hpp>
#include <partita/ops/scale.hpp>
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
