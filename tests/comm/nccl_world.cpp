// What the ranks of NCCL know of each other, in one process and over several, which are threads here.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <partita/comm/nccl/world.hpp>
#include <partita/comm/sockets/processes.hpp>

#include "../support/free_port.hpp"

namespace pt = partita;
using call = pt::nccl_world::waited_call;

namespace {
pt::placed_transfer with(int peer, std::size_t bytes = 4) { return {peer, nullptr, bytes}; }
call collective(int rank, int group) { return {call::kind::collective, rank, group}; }
call exchange(int rank) { return {call::kind::exchange, rank, -1}; }

// f(processes, make) in each of `count` threads that stand for processes, with two ranks each; what each throws. make(processes)
// is the world.
template <class F> std::vector<std::string> each_of(int count, pt::list<pt::list<int>> const& groups, F f) {
  std::vector<std::string> thrown(static_cast<std::size_t>(count));
  std::vector<std::thread> all;
  const int port = partita::testing::free_port();
  for (int me = 0; me < count; ++me)
    all.emplace_back([&, me] {
      try {
        pt::socket_processes together({.rank = me, .size = count, .port = port, .timeout_seconds = 10});
        f(together, [&](pt::processes& with) {
          auto world = std::make_shared<pt::nccl_world>(2 * count, groups, pt::list<int>{2 * me, 2 * me + 1}, 2);
          pt::nccl_world::join(world, with);
          return world;
        });
      } catch (pt::error const& e) { thrown[static_cast<std::size_t>(me)] = e.what(); }
    });
  for (std::thread& t : all) t.join();
  return thrown;
}
}  // namespace

TEST_CASE("of one process: who has not begun a collective, or the making of a communicator") {
  pt::nccl_world world(4, {{0, 1}, {0, 1, 2}, {0, 3}}, {0, 1, 2, 3});
  for (int group = 0; group < 3; ++group) world.begun().note_collective(0, group);
  world.begun().note_collective(1, 0);
  CHECK(world.words_of_missing(collective(0, 0)) == "; all have begun it, of group 0 {0, 1}");
  CHECK(world.words_of_missing(collective(0, 1)) == "; ranks 1, 2 have not begun it");
  CHECK(world.words_of_missing(collective(0, 2)) == "; rank 3 has not begun it");
  world.begun().note_communicator(0, -1);
  world.begun().note_communicator(2, -1);
  CHECK(world.words_of_missing({call::kind::communicator, 0, -1}) == "; ranks 1, 3 have not begun it");
}

TEST_CASE("of an exchange those are missing that a rank gives to or takes from, not those that exchange more seldom") {
  pt::nccl_world world(4, {}, {0, 1, 2, 3});
  auto note = [&](int rank, pt::list<pt::placed_transfer> const& sends, pt::list<pt::placed_transfer> const& receives) {
    world.begun().note_exchange(rank, sends, receives);
  };
  note(0, {with(1)}, {});
  note(1, {}, {with(0)});
  CHECK(world.words_of_missing(exchange(0)) == "; the ranks it exchanges with have begun it");
  note(1, {with(2), with(3, 0)}, {});  // no bytes: nobody waits for them
  CHECK(world.words_of_missing(exchange(1)) == "; rank 2 has not begun it");
  note(2, {}, {with(3)});  // another one than rank 1 waits for
  CHECK(world.words_of_missing(exchange(1)) == "; rank 2 has not begun it");
  CHECK(world.words_of_missing(exchange(2)) == "; rank 3 has not begun it");
  note(2, {}, {with(1)});
  CHECK(world.words_of_missing(exchange(1)) == "; the ranks it exchanges with have begun it");
}

TEST_CASE("over processes: the others are asked, also one that waits elsewhere") {
  const auto thrown = each_of(3, {{0, 1, 2, 3, 4, 5}, {1, 4}}, [](pt::socket_processes& together, auto make) {
    const int me = together.rank();
    const auto shared = make(together);
    pt::nccl_world& world = *shared;
    if (me != 1)
      for (int rank : {2 * me, 2 * me + 1}) world.begun().note_collective(rank, 0);
    if (me == 0) world.begun().note_collective(1, 1);
    if (me == 2) world.begun().note_collective(4, 1);
    if (me == 0) world.begun().note_exchange(0, pt::list<pt::placed_transfer>{with(5)}, pt::list<pt::placed_transfer>{with(1)});
    if (me == 2) world.begun().note_exchange(5, pt::list<pt::placed_transfer>{}, pt::list<pt::placed_transfer>{with(0)});
    pt::barrier(together);
    if (me != 1) CHECK(world.words_of_missing(collective(2 * me, 0)) == "; ranks 2, 3 of process 1 have not begun it");
    if (me == 0) {
      CHECK(world.words_of_missing(collective(1, 1)) == "; all have begun it, of group 1 {1, 4}");
      CHECK(world.words_of_missing(exchange(0)) == "; rank 1 of process 0 has not begun it");
    }
    pt::barrier(together);
  });
  for (std::string const& t : thrown) CHECK(t.empty());
}

namespace {
// A process that hears questions and comes to nothing: as one that was stopped, until `released`.
struct stuck : pt::processes {
  pt::processes* of;
  std::shared_future<void> released;
  stuck(pt::processes& which, std::shared_future<void> until) : of(&which), released(std::move(until)) {}
  int rank() const override { return of->rank(); }
  int size() const override { return of->size(); }
  void all_gather(void const* mine, void* all, std::span<std::size_t const> bytes, std::string_view what) override {
    of->all_gather(mine, all, bytes, what);
  }
  void abort(std::string reason) override { of->abort(std::move(reason)); }
  int on_question(std::function<std::string(std::string const&)>) override {
    return of->on_question([until = released](std::string const&) { return until.wait(), std::string(); });
  }
};
}  // namespace

TEST_CASE("over processes: one that does not answer is named, and does not keep the others waiting") {
  for (int silent : {0, 1}) {
    std::promise<void> release;
    const std::shared_future<void> released = release.get_future().share();
    std::atomic<int> asked = 0;
    const auto thrown = each_of(3, {{0, 1, 2, 3, 4, 5}}, [&](pt::socket_processes& together, auto make) {
      const int me = together.rank();
      stuck instead(together, released);
      const auto world = make(me == silent ? static_cast<pt::processes&>(instead) : together);
      if (me != 2) world->begun().note_collective(2 * me, 0);
      if (me == 1 - silent) world->begun().note_collective(2 * me + 1, 0);
      pt::barrier(together);
      if (me == 1 - silent) {
        const auto begin = std::chrono::steady_clock::now();
        const std::string words = world->words_of_missing(collective(2 * me, 0));
        CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
        if (silent == 1)
          CHECK(words ==
                "; ranks 4, 5 of process 2 have not begun it; process 1, which has ranks 2, 3, has not answered within 2 s");
        else
          CHECK(
              words ==
              "; process 0, which passes on what others say, has not answered within 2 s, so nothing is known of ranks 0, 1, 4, 5");
        release.set_value();
      }
      released.wait();
      pt::barrier(together);
      asked += me;
    });
    for (std::string const& t : thrown) CHECK(t.empty());
    CHECK(asked == 3);
  }
}

TEST_CASE("over processes: a failure of one is told before anything of it acts, and ends the wait for answers") {
  std::atomic<int> ready = 0;
  const auto thrown = each_of(3, {{0, 1, 2, 3, 4, 5}}, [&](pt::socket_processes& together, auto make) {
    const auto world = make(together);
    for (++ready; ready < 3;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (together.rank() == 1) world->abort("rank 2 failed first: out of paper", "rank 2, out of paper");
    while (!world->is_aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(world->reason() == "process 1 failed first: rank 2, out of paper");
    const auto begin = std::chrono::steady_clock::now();
    (void)together.ask(0, "", {0, 1, 2}, 20);  // an answer may have been quicker
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  });
  for (std::string const& t : thrown) CHECK(t.empty());
}
