// Plans that were found, read back as points of their space.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <partita/search/read_plan.hpp>
#include <partita/search/search.hpp>

#include "../support/block_model.hpp"
#include "../support/number_of.hpp"

using namespace partita;

namespace {
using model = testing::block_model<testing::block_axes<16, 32, 8192, 32, 128>, 4, testing::output_table::of_the_input>;
}  // namespace

TEST_CASE("an interlaced plan is read as a point that fits and is no slower, whichever way to spread it has") {
  const costs prices(testing::slow_cluster());
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

TEST_CASE("a plan is read as a point that makes it where on another grid parameters cannot be in as many parts") {
  // The second stage, on 2 x 2 devices, has ZeRO 3; its ops may be cut alike on 1 x 4, where no parameter has more than ZeRO 2.
  const costs prices(testing::slow_cluster());
  constraints given;
  given.schedules = {schedule_kind::interlaced, schedule_kind::interlaced_in_step};
  given.memory = 4454045;
  const auto found = search<model>(prices, given, {}, std::vector<binding>{}, {.tolerance = 0});
  auto const& g = found.plan.traced();
  const spaces::plan_space space(g, g.forward_count, prices, given);
  const spaces::point_of_plan read = spaces::plan_reader(space, found.plan).read();
  CHECK(read.is_of_space());
  CHECK(read.differs == "");
}

TEST_CASE("an interleaved plan is read as a point that makes it where stages have fewer segments than chunks") {
  const costs prices(testing::slow_cluster());
  constraints given = constrained<only::schedules<schedule_kind::interleaved>, only::chunks<3>, only::stages<6>,
                                  only::devices_per_stage<1>, only::micro_batches<8>>();
  const auto found = search<model>(prices, given, {}, std::vector<binding>{}, {.tolerance = 0});
  auto const& g = found.plan.traced();
  const spaces::plan_space space(g, g.forward_count, prices, given);
  CHECK(spaces::plan_reader(space, found.plan).read().is_of_space());
}

TEST_CASE("a plan whose phases are no chunks is read as the point next to it") {
  const costs prices(testing::slow_cluster());
  const constraints given = constrained<only::stages<2>, only::devices_per_stage<1>, only::micro_batches<4>>();
  auto found = search<model>(prices, given, {}, std::vector<binding>{});
  found.plan.op_assign(found.plan.ops(), phase{"layer", 1});
  auto const& g = found.plan.traced();
  const spaces::plan_space space(g, g.forward_count, prices, given);
  CHECK(spaces::plan_reader(space, found.plan).read().point.found());
}
