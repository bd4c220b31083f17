// Plans that were found, read back as points of their space.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/search/read_plan.hpp>
#include <partita/search/search.hpp>

#include "../support/number_of.hpp"

using namespace partita;

namespace {
struct sample : axis<"sample", 16> {};
struct position : axis<"position", 32> {};
struct word : axis<"word", 8192> {};
struct hidden : axis<"hidden", 32> {};
struct inner : axis<"inner", 128> {};

struct model {
  constexpr auto operator()(auto& g) const {
    auto table = param<f32, word, hidden>(g, "table.weight");
    auto x = embedding(input<i32, sample, position>(g, "tokens"), table);
    for (int l = 0; l < 4; ++l) {
      auto s = scope(g, "block", l);
      auto h = gelu(linear(x, param<f32, hidden, inner>(g, "up.weight")));
      x = x + linear(h, param<f32, inner, hidden>(g, "down.weight"));
    }
    return cross_entropy(linear(x, table), input<i32, sample, position>(g, "targets"));
  }
};
cluster slow_cluster() {
  cluster c = preset::dgx_a100(1);
  c.kinds[0].flops = {{"f32", 1e9}};
  c.kinds[0].memory_bandwidth = 1e9;
  c.kinds[0].launch = 1e-6;
  c.links[0].seconds_per_byte = 1e-9;
  return c;
}
}  // namespace

TEST_CASE("an interlaced plan is read as a point that fits and is no slower, whichever way to spread it has") {
  const costs prices(slow_cluster());
  for (int micro_batches : {8, 16}) {
    constraints given;
    given.schedules = {schedule_kind::interlaced, schedule_kind::interlaced_in_step};
    given.stages = given.devices_per_stage = {2};
    given.micro_batches = {micro_batches};
    given.memory = 1e12;
    for (unsigned i = 0; i < testing::drawn_sanitized(3, 10); ++i) {  // each with a little less memory than the last plan holds
      const auto found = search<model>(prices, given, {}, std::vector<binding>{}, {.tolerance = 0});
      auto const& g = found.plan.traced();
      const spaces::plan_space space(g, g.forward_count, prices, given);
      const spaces::point_of_plan read = spaces::plan_reader(space, found.plan).read();
      CAPTURE(given.memory);
      CHECK(read.differs == "");
      REQUIRE(read.point.found());
      spaces::problem const& p = space.of();
      const spaces::total t = spaces::time_and_memory(
          p, p.make_shape(p.configurations[static_cast<std::size_t>(read.point.configuration)].shape), read.point);
      CHECK(t.fits);
      CHECK(t.time <= found.seconds * (1 + 1e-9));
      given.memory = 0.999 * found.memory;
    }
  }
}
