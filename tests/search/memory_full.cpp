// What a plan of the space holds, lowered, is no more than what the search counts: at points drawn at random.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <partita/cost/presets.hpp>
#include <partita/search/search.hpp>

#include "../../benchmarks/models/encoder_decoder.hpp"
#include "../../benchmarks/models/gpt.hpp"
#include "../support/drawn_points.hpp"
#include "../support/number_of.hpp"

using namespace partita;

namespace {
bool runs_in_turns(spaces::plan_space const& space, spaces::choice const& x) {
  for (spaces::stage_choice const& s : x.stages)
    for (std::size_t i = 0; i < s.segments.size(); ++i)
      if (space.way(s.begin + static_cast<int>(i), s.segments[i].variant).turns > 1) return true;
  return false;
}
// How much more than it holds is counted for a plan, at the most: of `points` in a long run, of two fifths in others.
template <class Model>
double try_points(Model const& model, std::vector<binding> const& sizes, unsigned seed, int points, constraints const& given) {
  using training_type = training<Model, adamw, clip_norm>;
  const plan<training_type> empty(training_type{model, {}, {}, {}}, sizes);
  const costs k(preset::dgx_a100(1));
  const spaces::plan_space space(empty.traced(), empty.traced().forward_count, k, given);
  double closest = spaces::infinite, farthest = 0;
  int lowered = 0;
  const int all = static_cast<int>(testing::drawn(static_cast<unsigned>(points * 2 / 5), static_cast<unsigned>(points)));
  testing::at_drawn_points(space, seed, all, [&](spaces::shape const& s, spaces::choice const& x) {
    if (!given.coshard.empty() && !runs_in_turns(space, x)) return;
    plan_base p(empty.traced());
    spaces::chosen(space, x)(p);
    const double counted = spaces::time_and_memory(space.of(), s, x).memory, held = testing::lowered_bytes(empty.traced(), p);
    CHECK(held <= counted);
    ++lowered;
    closest = std::min(closest, counted / held);
    farthest = std::max(farthest, counted / held);
  });
  CHECK(lowered > 0);
  MESSAGE("counted over held: " << closest << " to " << farthest);
  return farthest;
}
template <dtype Type>
double try_points(benchmark_model::gpt<Type> const& model, unsigned seed, int points, constraints const& given = {}) {
  return try_points(model, benchmark_model::gpt_sizes{model.layers, 4096, 1024, 8, 16, 256}.bindings(), seed, points, given);
}
}  // namespace

TEST_CASE("the same where blocks run in turns (co-shard)") {
  constraints given;
  given.coshard = {2, 4};
  given.recompute = {{glob("*"), recompute_rule::either}};
  try_points(benchmark_model::gpt<bf16>{3}, 3, 40, given);
  try_points(benchmark_model::gpt<f32>{3}, 4, 40, given);
}

TEST_CASE("the same under interleaved and zero-bubble schedules") {
  constraints given;
  given.schedules = {schedule_kind::interleaved, schedule_kind::zero_bubble_h1, schedule_kind::zero_bubble_h2};
  given.chunks = {2, 3};
  try_points(benchmark_model::gpt<bf16>{6}, 5, 40, given);
  try_points(benchmark_model::gpt<f32>{6}, 6, 40, given);
  // Deep pipelines, where most is in flight.
  given.stages = {4, 8};
  given.devices_per_stage = {1, 2};
  given.micro_batches = {16};
  try_points(benchmark_model::gpt<bf16>{6}, 7, 20, given);
}

TEST_CASE("the same under zero bubble, and not much more than that: of what waits only what gradients of weights read counts") {
  constraints given;
  given.schedules = {schedule_kind::zero_bubble_h1, schedule_kind::zero_bubble_h2};
  given.stages = {3, 4, 6};
  given.devices_per_stage = {1, 2};
  given.micro_batches = {16};
  CHECK(try_points(benchmark_model::gpt<bf16>{6}, 9, 20, given) < 1.15);
  CHECK(try_points(benchmark_model::gpt<f32>{6}, 10, 20, given) < 1.15);
}

TEST_CASE("the same where embeddings and logits are spread over the devices of all stages") {
  constraints given;
  given.schedules = {schedule_kind::interlaced, schedule_kind::interlaced_in_step};
  given.micro_batches = {2, 4, 16};
  try_points(benchmark_model::gpt<bf16>{6}, 9, 10, given);
  const benchmark_model::encoder_decoder model{4};
  try_points(model, benchmark_model::encoder_decoder_sizes{4, 32768, 256, 4, 16, 64}.bindings(), 10, 20, given);
}

TEST_CASE("the memory that a search counts is no less than what the lowered plan needs") {
  try_points(benchmark_model::gpt<bf16>{3}, 1, 40);
  try_points(benchmark_model::gpt<f32>{3}, 2, 40);
}

TEST_CASE("the same where no number of devices divides an extent: the largest piece is what counts") {
  const std::vector<binding> sizes = benchmark_model::gpt_sizes{2, 4099, 1022, 7, 15, 247}.bindings();
  try_points(benchmark_model::gpt<bf16>{2}, sizes, 21, 30, {});
  try_points(benchmark_model::gpt<f32>{2}, sizes, 22, 30, {});
}

namespace {
namespace weights_given_out {
struct sample : axis<"sample", 16> {};
struct hidden : axis<"hidden", 256> {};
struct inner : axis<"inner", 1024> {};
struct model {
  constexpr auto operator()(auto& g) const {
    auto up = param<f32, hidden, inner>(g, "up.weight");
    auto down = param<f32, inner, hidden>(g, "down.weight");
    auto unread = param<f32, hidden, inner>(g, "unread.weight");
    auto x = linear(gelu(linear(input<f32, sample, hidden>(g, "x"), up)), down);
    return outputs(loss("loss", mean(x * x)), output("up", cast<bf16>(up)), output("down", transpose<hidden, inner>(down)),
                   output("turned", cast<f32>(transpose<inner, hidden>(cast<bf16>(up)))), output("unread", cast<bf16>(unread)));
  }
};
}  // namespace weights_given_out
}  // namespace

TEST_CASE("the same where what is made of parameters is given out, and read by nothing else") {
  try_points(weights_given_out::model{}, std::vector<binding>{}, 23, 60, {});
  try_points(weights_given_out::model{}, std::vector<binding>{}, 24, 60, constrained<only::stages<1>, only::zero<3>>());
}

namespace {
// Of one layer: most of what a device holds is what the model is given, and what it gives out.
namespace thin {
struct sample : axis<"sample", 24> {};
struct position : axis<"position", 64> {};
struct hidden : axis<"hidden", 16> {};
struct given : axis<"given"> {};
struct word : axis<"word"> {};
struct model {
  constexpr auto operator()(auto& g) const {
    auto x = linear(input<f32, sample, position, given>(g, "x"), param<f32, given, hidden>(g, "in.weight"));
    auto logits = linear(gelu(x), param<f32, hidden, word>(g, "words.weight"));
    return outputs(loss("loss", mean(x * x)), output("logits", logits));
  }
};
}  // namespace thin
}  // namespace

TEST_CASE("the same where most of it is given, or given out") {
  constraints given;
  given.micro_batches = {2, 4, 5, 12};
  for (std::size_t wide : {0, 1}) {
    const std::vector<binding> sizes{bind<thin::given>(wide == 0 ? 256 : 16), bind<thin::word>(wide == 1 ? 256 : 16)};
    try_points(thin::model{}, sizes, 25, 60, given);
  }
}

TEST_CASE("the same where stages far apart read one large table, the sums of whose gradients meet at the end of a step") {
  constraints given;
  given.stages = {2, 4};
  given.devices_per_stage = {1, 2};
  given.micro_batches = {4, 16};
  given.recompute = {{glob("*"), recompute_rule::always}};
  const benchmark_model::encoder_decoder model{3};
  try_points(model, benchmark_model::encoder_decoder_sizes{3, 32768, 256, 4, 16, 64}.bindings(), 8, 30, given);
}
