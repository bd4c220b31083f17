// Point-to-point transfers: matching, order, progress.
#include <doctest/doctest.h>

#include <array>
#include <chrono>

#include "ranks.hpp"

using namespace partita_test;
using partita::message;

TEST_CASE("two ranks that both send first, small and large, step after step with the same tag") {
  for (std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{300}, std::size_t{200000}}) {
    test_world world(2, {});
    std::string failure;
    auto const endings = on_every_rank(world, [&](communicator& comm) {
      const int peer = 1 - comm.rank();
      std::vector<std::int32_t> sent(count), received(count);
      for (int step = 0; step < 20; ++step) {
        for (std::size_t i = 0; i < count; ++i)
          sent[i] = value_of<std::int32_t>(static_cast<std::uint64_t>(step), comm.rank(), i);
        const message send{peer, sent.data(), 4 * count, 3}, receive{peer, received.data(), 4 * count, 3};
        comm.exchange({&send, 1}, {&receive, 1});
        for (std::size_t i = 0; i < count; ++i)
          if (received[i] != value_of<std::int32_t>(static_cast<std::uint64_t>(step), peer, i)) throw partita::error("wrong");
      }
    });
    bool const well = all_well(endings, failure);
    CHECK_MESSAGE(well, failure);
  }
}

TEST_CASE("tags tell messages apart, whatever their order; equal tags keep it") {
  test_world world(2, {});
  auto const endings = on_every_rank(world, [](communicator& comm) {
    std::array<int, 4> received{};
    if (comm.rank() == 0) {
      std::array<int, 4> sent{10, 11, 20, 21};
      const std::array<message, 4> sends{
          message{1, &sent[0], 4, 1}, {1, &sent[2], 4, 2}, {1, &sent[1], 4, 1}, {1, &sent[3], 4, 2}};
      comm.exchange(sends, {});
    } else {
      const std::array<message, 4> receives{
          message{0, &received[2], 4, 2}, {0, &received[3], 4, 2}, {0, &received[0], 4, 1}, {0, &received[1], 4, 1}};
      comm.exchange({}, receives);
      if (received != std::array<int, 4>{10, 11, 20, 21}) throw partita::error("wrong");
    }
  });
  CHECK(endings[0].well());
  CHECK(endings[1].well());
}

TEST_CASE("a pipeline: one side only sends, the other only receives, at different paces") {
  for (std::size_t count : {16u, 100000u}) {
    test_world world(3, {});
    std::string failure;
    auto const endings = on_every_rank(world, [&](communicator& comm) {
      std::vector<float> data(count);
      for (std::uint64_t step = 0; step < 30; ++step) {
        if (mixed(step, static_cast<std::uint64_t>(comm.rank())) % 5 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(300));
        const message from{comm.rank() - 1, data.data(), 4 * count, step % 2},
            to{comm.rank() + 1, data.data(), 4 * count, step % 2};
        if (comm.rank() == 0)
          for (std::size_t i = 0; i < count; ++i) data[i] = value_of<float>(step, 0, i);
        else comm.exchange({}, {&from, 1});
        if (comm.rank() < 2) comm.exchange({&to, 1}, {});
        for (std::size_t i = 0; i < count; ++i)
          if (!same_bits(data[i], value_of<float>(step, 0, i))) throw partita::error("wrong");
      }
    });
    bool const well = all_well(endings, failure);
    CHECK_MESSAGE(well, failure);
  }
}

TEST_CASE("more messages than were reserved") {
  test_world world(2, {}, {.messages = 2});
  auto const endings = on_every_rank(world, [](communicator& comm) {
    std::array<int, 100> sent{}, received{};
    std::vector<message> sends, receives;
    for (std::size_t i = 0; i < 100; ++i) {
      sent[i] = static_cast<int>(i) + 1000 * comm.rank();
      sends.push_back({1 - comm.rank(), &sent[i], 4, i});
      receives.push_back({1 - comm.rank(), &received[99 - i], 4, 99 - i});
    }
    comm.exchange(sends, receives);
    for (std::size_t i = 0; i < 100; ++i)
      if (received[i] != static_cast<int>(i) + 1000 * (1 - comm.rank())) throw partita::error("wrong");
  });
  CHECK(endings[0].well());
  CHECK(endings[1].well());
}

TEST_CASE("sides that disagree on bytes learn it; the other messages arrive") {
  test_world world(3, {});
  auto const endings = on_every_rank(
      world,
      [&](communicator& comm) {
        int value = 42, arrived = 0;
        std::array<int, 2> room{};
        const std::array<message, 2> sends{message{1, &value, 4, 5}, {2, &value, 4, 0}};
        const message wrong{0, room.data(), 8, 5}, right{0, &arrived, 4, 0};
        if (comm.rank() == 0) comm.exchange(sends, {});
        if (comm.rank() == 1) comm.exchange({}, {&wrong, 1});
        if (comm.rank() == 2) comm.exchange({}, {&right, 1});
        if (comm.rank() == 2 && arrived != 42) throw partita::error("wrong");
      },
      false);
  for (std::size_t rank : {0, 1}) {
    if (rank == 0 && !senders_learn) continue;
    CHECK(endings[rank].other_error);
    CHECK(endings[rank].what == "exchange from rank 0 to rank 1 with tag 5: rank 0 sends 4 bytes, but rank 1 receives 8 bytes");
  }
  CHECK(endings[2].well());
}

TEST_CASE("a message to oneself is copied, and refused without its other side") {
  if (senders_learn) return;  // between threads it would wait for the other side
  test_world world(2, {});
  auto const endings = on_every_rank(world, [](communicator& comm) {
    std::vector<int> sent(5000, comm.rank() + 1), received(5000);
    const message to{comm.rank(), sent.data(), 20000, 1}, from{comm.rank(), received.data(), 20000, 1};
    comm.exchange({&to, 1}, {&from, 1});
    if (received != sent) throw partita::error("wrong");
    comm.exchange({&to, 1}, {});
  });
  for (ending const& each : endings)
    CHECK(each.what.find("sends to itself with tag 1 what it does not receive") != std::string::npos);
}
