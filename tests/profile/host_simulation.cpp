// A plan simulated for this machine is the trainer's own: the same instructions, the same bytes.
#include <doctest/doctest.h>

#include "../support/small_net.hpp"

#include <partita/profile/host.hpp>
#include <partita/profile/host_simulation.hpp>

namespace pt = partita;
using namespace pt::testing;

TEST_CASE("the programs of simulate_on_host are those of the trainer") {
  using training = pt::training<small_net, pt::adamw>;
  pt::measure_options quick;
  quick.repetitions = 1;
  quick.pool = 1 << 16;
  const pt::profile measured =
      pt::measure<training>(pt::cpu{.devices = 4, .threads = 1}, {}, quick, pt::bind<small::sample>(small_samples));
  const pt::costs costs(pt::host_cluster(measured), measured);
  for (small_plan const& how : std::vector<small_plan>{{}, {2, 1, 1, 1}, {2, 2, 1, 3}, {1, 1, 2, 4}}) {
    const auto t = small_trainer(how, training{}, {.keep_gradients = false});
    const auto plan = pt::plan<training>::by(how, {}, pt::bind<small::sample>(small_samples));
    const pt::simulation s = pt::simulate_on_host(plan, costs, {.threads = 1, .fuse = true, .keep_gradients = false});
    CHECK(s.seconds > 0);
    REQUIRE(s.devices() == t.devices());
    const auto memory = t.memory();
    for (int rank = 0; rank < t.devices(); ++rank) {
      pt::program const &mine = s.of_rank(rank).what, &its = t.engine().what(rank);
      CHECK(mine.digest == its.digest);
      CHECK(mine.instructions.size() == its.instructions.size());
      CHECK(mine.state_bytes == its.state_bytes);
      CHECK(mine.arena_bytes == its.arena_bytes);
      CHECK(s.of_rank(rank).peak_bytes() >= memory[static_cast<std::size_t>(rank)].measured);
    }
  }
}
