#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <partita/comm/sockets/processes.hpp>

namespace pt = partita;
using doctest::Contains;

namespace {
int free_port() {
  static int next = 10000 + static_cast<int>(getpid()) * 7 % 20000;  // below those that systems give away
  return next++;
}
// f(processes) in each of `count` threads that stand for processes; what each throws.
template <class F> std::vector<std::string> each_of(int count, F f, int port = free_port(), double timeout_seconds = 10) {
  std::vector<std::string> thrown(static_cast<std::size_t>(count));
  std::vector<std::thread> all;
  for (int me = 0; me < count; ++me)
    all.emplace_back([&, me] {
      try {
        pt::socket_processes together({.rank = me, .size = count, .port = port, .timeout_seconds = timeout_seconds});
        f(together);
      } catch (pt::error const& e) { thrown[static_cast<std::size_t>(me)] = e.what(); }
    });
  for (std::thread& t : all) t.join();
  return thrown;
}
}  // namespace

TEST_CASE("processes tell each other numbers, lists and texts, in their order") {
  for (int count : {1, 2, 5}) {
    const auto thrown = each_of(count, [&](pt::socket_processes& p) {
      for (int turn = 0; turn < 3; ++turn) {
        const pt::list<int> all = pt::gather(p, 10 * p.rank() + turn);
        if (all.size() != static_cast<std::size_t>(count)) throw pt::error("another number of processes");
        for (int r = 0; r < count; ++r) CHECK(all[static_cast<std::size_t>(r)] == 10 * r + turn);
        const auto lists = pt::gather_lists(p, pt::list<double>(static_cast<std::size_t>(p.rank()), p.rank()));
        for (int r = 0; r < count; ++r)
          CHECK(lists[static_cast<std::size_t>(r)] == pt::list<double>(static_cast<std::size_t>(r), r));
        CHECK(pt::broadcast(p, "of " + std::to_string(p.rank()), count - 1) == "of " + std::to_string(count - 1));
        CHECK(pt::any(p, p.rank() == turn) == (turn < count));
      }
      pt::barrier(p);
    });
    for (std::string const& t : thrown) CHECK(t.empty());
  }
}

TEST_CASE("who fails stops all, also those that make no call") {
  const auto thrown = each_of(3, [](pt::socket_processes& p) {
    std::promise<std::string> heard;
    p.on_abort([&](std::string const& reason) { heard.set_value(reason); });
    pt::barrier(p);
    if (p.rank() == 2) p.abort("no memory");
    CHECK(heard.get_future().get() == "process 2 failed first: no memory");
    pt::barrier(p);
  });
  for (std::string const& t : thrown) CHECK(t == "all processes stop: process 2 failed first: no memory");
}

TEST_CASE("processes that want different things are told so") {
  const auto thrown = each_of(3, [](pt::socket_processes& p) { (void)pt::gather(p, 1, p.rank() == 1 ? "a loss" : "a norm"); });
  for (std::string const& t : thrown)
    CHECK(t ==
          "all processes stop: process 0 failed first: process 1 makes another call than \"a norm\", which process 0 "
          "makes");
}

TEST_CASE("a process that ends without a word is noticed") {
  const int port = free_port();
  std::thread other([port] {  // as a process whose system closes what it had open
    using namespace pt::detail::sockets;
    connection both[2];
    for (int news : {0, 1}) {
      both[news] = connect("127.0.0.1", port, pt::detail::sockets::clock::now() + std::chrono::seconds(10));
      greeting mine;
      mine.rank = 1;
      mine.size = 2;
      mine.news = news;
      both[news].send(&mine, sizeof mine);
    }
    greeting answer;
    both[0].receive(&answer, sizeof answer);
    CHECK(answer.rank == 0);
    int one = 1, all[2]{};
    const std::uint64_t purpose = pt::hash("a number of each");
    both[0].send(&purpose, sizeof purpose);
    both[0].send(&one, sizeof one);
    both[0].receive(all, sizeof all);
    CHECK(all[1] == 1);
  });
  std::string thrown;
  try {
    pt::socket_processes together({.rank = 0, .size = 2, .port = port, .timeout_seconds = 10});
    (void)pt::gather(together, 1);
    for (int turn = 0; turn < 1000; ++turn) (void)pt::gather(together, turn);
  } catch (pt::aborted const& e) { thrown = e.what(); }
  other.join();
  CAPTURE(thrown);
  CHECK(thrown.find("all processes stop: ") == 0);
  CHECK(thrown.find("has ended") != std::string::npos);
}

TEST_CASE("strangers at the port") {
  const int port = free_port();
  std::thread silent([port] {  // comes first, says nothing, stays
    const auto it = pt::detail::sockets::connect("127.0.0.1", port, pt::detail::sockets::clock::now() + std::chrono::seconds(10));
    char nothing = 0;
    CHECK_FALSE(it.receive(&nothing, 1));  // sent away
  });
  const auto thrown = each_of(
      2,
      [](pt::socket_processes& p) {
        if (p.rank() == 1)
          std::this_thread::sleep_for(std::chrono::milliseconds(1700));  // longer than was left for others to come
        CHECK(pt::gather(p, p.rank())[1] == 1);
      },
      port, 2);
  for (std::string const& t : thrown) CHECK(t.empty());
  silent.join();
  const int taken = free_port();
  const auto listener = pt::detail::sockets::listen(taken, 1);  // takes in whoever comes, and never says a word
  CHECK_THROWS_WITH_AS(pt::socket_processes({.rank = 1, .size = 2, .port = taken, .timeout_seconds = 0.2}),
                       Contains("that all 2 have come"), pt::error);
}

TEST_CASE("processes that do not come, and what the environment lacks") {
  CHECK_THROWS_WITH_AS(pt::socket_processes({.rank = 0, .size = 3, .port = free_port(), .timeout_seconds = 0.2}),
                       Contains("of 3 processes these have not come to port"), pt::error);
  CHECK_THROWS_WITH_AS(pt::socket_processes({.rank = 1, .size = 2, .port = free_port(), .timeout_seconds = 0.1}),
                       Contains("process 1 has not reached process 0 at 127.0.0.1:"), pt::error);
  for (char const* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PARTITA_PORT"}) unsetenv(name);
  auto read = [] { return pt::meeting_place::from_environment(); };
  CHECK_THROWS_WITH_AS(read(), Contains("RANK is not set; torchrun sets it"), pt::error);
  setenv("RANK", "2", 1);
  setenv("WORLD_SIZE", "two", 1);
  CHECK_THROWS_WITH_AS(read(), "WORLD_SIZE is \"two\", not a number of 1 or more", pt::error);
  setenv("WORLD_SIZE", "2", 1);
  CHECK_THROWS_WITH_AS(read(), "RANK is 2, but WORLD_SIZE is 2", pt::error);
  setenv("RANK", "1", 1);
  CHECK_THROWS_WITH_AS(read(), Contains("MASTER_ADDR is not set"), pt::error);
  setenv("MASTER_ADDR", "localhost", 1);
  setenv("MASTER_PORT", "29400", 1);
  CHECK(read().port == 29401);
  setenv("PARTITA_PORT", "5000", 1);
  const pt::meeting_place at = read();
  CHECK((at.rank == 1 && at.size == 2 && at.host == "localhost" && at.port == 5000));
}
