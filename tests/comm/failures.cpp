// Nothing hangs: mistakes are reported to every member, and an abort reaches whoever waits.
#include <doctest/doctest.h>

#include <array>
#include <chrono>

#include "ranks.hpp"

using namespace partita_test;
using partita::dtype;
using partita::reduction;

namespace {

void check_mismatch(std::vector<ending> const& endings, std::initializer_list<char const*> words) {
  for (ending const& each : endings) {
    CHECK(each.other_error);
    for (char const* word : words) CHECK_MESSAGE(each.what.find(word) != std::string::npos, each.what, " lacks ", word);
  }
}

[[maybe_unused]] void wait_a_while() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

}  // namespace

TEST_CASE("members that disagree all learn how, and the group goes on") {
  test_world world(4, {{0, 1, 2, 3}, {1, 3}});
  std::array<std::array<float, 16>, 4> buffers{};
  auto buffer = [&](communicator const& comm) { return buffers[static_cast<std::size_t>(comm.rank())].data(); };
  auto run = [&](auto body) { return on_every_rank(world, body, false); };

  check_mismatch(
      run([&](auto& comm) { comm.all_reduce(0, buffer(comm), comm.rank() == 2 ? 12 : 10, dtype::f32, reduction::sum); }),
      {"group 0 of ranks {0, 1, 2, 3}", "rank 0 calls all_reduce of 10 f32 by sum", "rank 2 calls all_reduce of 12 f32 by sum"});
  check_mismatch(run([&](auto& comm) {
                   if (comm.rank() == 3) comm.barrier(0);
                   else comm.broadcast(0, buffer(comm), 4, dtype::f64, 1);
                 }),
                 {"rank 0 calls broadcast of 4 f64 from member 1", "rank 3 calls barrier"});
  check_mismatch(
      run([&](auto& comm) { comm.all_reduce(0, buffer(comm), 4, comm.rank() == 1 ? dtype::i32 : dtype::f32, reduction::sum); }),
      {"all_reduce of 4 f32", "rank 1 calls all_reduce of 4 i32"});
  check_mismatch(run([&](auto& comm) {
                   const std::array<std::size_t, 4> counts{1, 2, comm.rank() == 1 ? 3u : 2u, 4};
                   comm.reduce_scatter(0, buffer(comm), buffer(comm), counts, dtype::f32, reduction::max);
                 }),
                 {"pieces {1, 2, 2, 4} f32 by max", "rank 1 calls reduce_scatter of pieces {1, 2, 3, 4}"});
  check_mismatch(run([&](auto& comm) {
                   const std::array<std::size_t, 4> sends{1, 1, 1, 1}, receives{1, 1, 1, comm.rank() == 2 ? 2u : 1u};
                   comm.all_to_all(0, buffer(comm), sends, buffer(comm), receives, dtype::f32);
                 }),
                 {"rank 3 sends 1 elements to rank 2, which receives 2"});
  check_mismatch(run([&](auto& comm) {
                   const std::array<std::size_t, 3> counts{1, 1, 1};
                   comm.all_gather(0, buffer(comm), buffer(comm), counts, dtype::f32);
                 }),
                 {"pieces {1, 1, 1}", "4 members"});
  check_mismatch(run([&](auto& comm) { comm.broadcast(0, buffer(comm), 4, dtype::f32, 4); }), {"member 4", "4 members"});

  std::string failure;
  bool const well = all_well(run([&](auto& comm) { comm.barrier(0); }), failure);
  CHECK_MESSAGE(well, failure);
}

#ifndef PARTITA_TEST_MPI  // where an abort is for good; and what these rely on besides: a world's own names

TEST_CASE("a group that is not one is rejected") {
  using groups = partita::list<partita::list<int>>;
  CHECK_THROWS_WITH_AS(test_world(2, groups{{0, 2}}), "group 0 names rank 2; there are 2", partita::error);
  CHECK_THROWS_WITH_AS(test_world(2, groups{{0}, {1, 0}}), "group 1 lists rank 0 after rank 1; ranks of a group ascend",
                       partita::error);
  CHECK_THROWS_WITH_AS(test_world(2, groups{{}}), "group 0 has no ranks", partita::error);
  CHECK_THROWS_AS(test_world(0, groups{}), partita::error);
}

TEST_CASE("a call that concerns nobody else is rejected at once") {
  test_world world(2, {{0}, {0, 1}});
  auto comm = world.communicator(1);
  CHECK_THROWS_WITH_AS(comm.barrier(0), "rank 1 calls barrier of group 0, of which it is no member", partita::error);
  CHECK_THROWS_WITH_AS(comm.barrier(2), "group 2 does not exist; there are 2", partita::error);
  const partita::message nowhere{5, nullptr, 0, 0};
  CHECK_THROWS_WITH_AS(comm.exchange({&nowhere, 1}, {}), "rank 5 does not exist; there are 2", partita::error);
}

TEST_CASE("an abort reaches whoever waits in a collective, an exchange or a barrier") {
  test_world world(5, {{0, 1, 2, 3, 4}, {1, 4}, {2, 4}});
  auto const endings = on_every_rank(world, [&](communicator& comm) {
    std::vector<float> mine(1000);  // freed while unwinding
    const partita::message receive{4, mine.data(), 4000, 7};
    const partita::message send{4, mine.data(), 4000, 7};
    switch (comm.rank()) {
      case 0: comm.barrier(0); break;
      case 1: comm.all_reduce(1, mine.data(), 1000, dtype::f32, reduction::sum); break;
      case 2: comm.exchange({}, {&receive, 1}); break;
      case 3: comm.exchange({&send, 1}, {}); break;
      default: wait_a_while(); throw std::runtime_error("out of paper");
    }
  });
  CHECK(endings[4].other_error);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(endings[rank].aborted);
    CHECK(endings[rank].what == "all ranks stop, because rank 4 failed first: out of paper");
  }
  for (ending const& later : on_every_rank(world, [](auto& comm) { comm.barrier(0); })) CHECK(later.aborted);
  for (ending const& later : on_every_rank(world, [](auto& comm) { comm.exchange({}, {}); })) CHECK(later.aborted);
}

TEST_CASE("the first abort counts; a thread that is no rank may abort") {
  test_world world(2, {{0, 1}});
  std::thread outsider([&] {
    wait_a_while();
    world.abort("enough");
    world.abort(std::make_exception_ptr(std::runtime_error("too late")));
  });
  auto const endings = on_every_rank(world, [](auto& comm) {
    if (comm.rank() == 0) comm.barrier(0);
  });
  outsider.join();
  CHECK(endings[0].what == "all ranks stop, because the world was aborted: enough");
  CHECK(endings[1].well());
  CHECK(world.is_aborted());
}

TEST_CASE("an abort at any moment stops everybody, and buffers may be freed") {
  for (int round = 0; round < 60; ++round) {
    test_world world(6, {{0, 1, 2, 3, 4, 5}, {0, 2, 4}, {1, 2, 3}});
    std::thread outsider([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(mixed(static_cast<std::uint64_t>(round)) % 2000));
      world.abort("now");
    });
    auto const endings = on_every_rank(world, [&](communicator& comm) {
      for (std::uint64_t op = 0;; ++op) {
        const std::size_t count = mixed(op, 3) % 3 == 0 ? 50000 : 10;
        std::vector<float> sent(count), received(count);
        if (mixed(op) % 2 == 0) {
          const int size = comm.size(), rank = comm.rank();
          const partita::message send{(rank + 1) % size, sent.data(), 4 * count, 0};
          const partita::message receive{(rank + size - 1) % size, received.data(), 4 * count, 0};
          comm.exchange({&send, 1}, {&receive, 1});
        } else {
          const std::size_t group = mixed(op, 1) % 3;
          const auto ranks = comm.members(group);
          if (std::binary_search(ranks.begin(), ranks.end(), comm.rank()))
            comm.all_reduce(group, sent.data(), count, dtype::f32, reduction::sum);
        }
      }
    });
    outsider.join();
    for (ending const& each : endings) REQUIRE(each.aborted);
  }
}

#endif
