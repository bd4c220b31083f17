// Searched plans: what is found verifies, and points of the space drawn at random train as one device does.
#include <doctest/doctest.h>

#include <partita/cost/presets.hpp>
#include <partita/search/mcmc.hpp>
#include <partita/search/search.hpp>

#include "../support/matrix.hpp"
#include "../support/models/gpt.hpp"

using namespace partita;
using testing::models::gpt;

namespace {
cluster small_cluster(int devices) {
  cluster c = preset::dgx_a100(1);
  c.devices = {{c.kinds.front().name, devices}};
  return c;
}
}  // namespace

TEST_CASE("points of the space, drawn at random, are plans that train as one device does") {
  const testing::models::sizes sizes{.samples = 8, .positions = 6, .vocabulary = 12, .hidden = 8, .heads = 4, .width = 4, .inner = 8};
  testing::tried<gpt> both(sizes);
  const costs k(small_cluster(6));
  constraints given;
  given.coshard = {2, 3};
  using enum schedule_kind;
  given.schedules = {one_f_one_b, gpipe, interleaved, zero_bubble_h1, zero_bubble_h2};
  const spaces::plan_space space(both.graph(), both.forward_ops(), k, given);
  std::mt19937 random(7);
  for (int i = 0; i < 80; ++i) {
    const int c = std::uniform_int_distribution<int>(0, static_cast<int>(space.of().configurations.size()) - 1)(random);
    const spaces::shape s = space.of().make_shape(space.of().configurations[static_cast<std::size_t>(c)].shape);
    const spaces::choice x = spaces::random_choice(space.of(), s, c, random);
    if (!x.found()) continue;
    if (spaces::time_and_memory(space.of(), s, x).time > spaces::changes::impossible) continue;
    const std::string found = both.fault([&](plan_base& plan) { spaces::chosen(space, x)(plan); });
    CHECK_MESSAGE(found.empty(), "choice ", i, ": ", found);
  }
}
