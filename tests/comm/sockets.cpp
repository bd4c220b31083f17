#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <partita/comm/sockets/processes.hpp>

#include "../support/free_port.hpp"

namespace pt = partita;
using doctest::Contains;
using partita::testing::free_port;

namespace {
// f(processes) in each of `count` threads that stand for processes; what each throws.
template <class F> std::vector<std::string> each_of(int count, F f, int port = free_port(), double timeout_seconds = 10,
                                                    double silence_seconds = 20) {
  std::vector<std::string> thrown(static_cast<std::size_t>(count));
  std::vector<std::thread> all;
  for (int me = 0; me < count; ++me)
    all.emplace_back([&, me] {
      try {
        pt::socket_processes together(
            {.rank = me, .size = count, .port = port, .timeout_seconds = timeout_seconds, .silence_seconds = silence_seconds});
        f(together);
      } catch (pt::error const& e) { thrown[static_cast<std::size_t>(me)] = e.what(); }
    });
  for (std::thread& t : all) t.join();
  return thrown;
}
// Process 1 of two, by hand: its connection for calls and the one for news, when process 0 has answered.
struct second_process {
  pt::detail::sockets::connection both[2];
  pt::detail::sockets::greeting answer;
  explicit second_process(int port) {
    for (int news : {0, 1}) {
      both[news] = pt::detail::sockets::connect("127.0.0.1", port, pt::detail::sockets::clock::now() + std::chrono::seconds(10));
      pt::detail::sockets::greeting mine;
      mine.rank = 1;
      mine.size = 2;
      mine.news = news;
      both[news].send(&mine, sizeof mine);
    }
    both[0].receive(&answer, sizeof answer);
  }
};
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

TEST_CASE("processes ask one another beside their calls, and who waits in one answers all the same") {
  const auto thrown = each_of(4, [](pt::socket_processes& p) {
    auto answers = [&](char const* word) {
      return p.on_question([&p, word](std::string const& q) { return word + std::to_string(p.rank()) + q; });
    };
    const int first = answers("first "), second = answers("second ");
    pt::barrier(p);
    if (p.rank() != 2)
      for (int which : {second, first, second + 1}) {
        const pt::list<int> whom = which == second ? pt::list<int>{1, 3} : pt::list<int>{0, 1, 2, 3};
        const auto all = p.ask(which, " of " + std::to_string(p.rank()), whom, 10);
        for (int r = 0; r < 4; ++r) {
          const std::string words = std::to_string(r) + " of " + std::to_string(p.rank());
          auto const& answer = all[static_cast<std::size_t>(r)];
          REQUIRE(answer.has_value() == (r != p.rank() && std::find(whom.begin(), whom.end(), r) != whom.end()));
          if (answer) CHECK(*answer == (which == first ? "first " + words : which == second ? "second " + words : ""));
        }
      }
    pt::barrier(p);
  });
  for (std::string const& t : thrown) CHECK(t.empty());
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
    auto [both, answer] = second_process(port);
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

TEST_CASE("a process that says nothing any more is given up, one that computes is not") {
  const int port = free_port();
  std::promise<void> ended;
  std::thread other([&] {  // as one that was stopped: its system keeps what it had open
    auto [both, answer] = second_process(port);
    ended.get_future().wait();
  });
  std::string thrown;
  try {
    pt::socket_processes together({.rank = 0, .size = 2, .port = port, .timeout_seconds = 10, .silence_seconds = 0.2});
    (void)pt::gather(together, 1, "a loss");
  } catch (pt::aborted const& e) { thrown = e.what(); }
  ended.set_value();
  other.join();
  CAPTURE(thrown);
  CHECK(thrown.find("all processes stop: process 1 has not answered for 0.2") == 0);
  CHECK(thrown.find(" s, and process 0 waits for it, for a loss") != std::string::npos);
  for (int busy : {0, 2}) {
    const auto all = each_of(
        3,
        [&](pt::socket_processes& p) {
          if (p.rank() == busy) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
          pt::barrier(p);
        },
        free_port(), 10, 1);
    for (std::string const& t : all) CHECK(t.empty());
  }
}

TEST_CASE("news of a length that no news has end the training, not the process") {
  const int port = free_port();
  std::thread other([port] {
    auto [both, answer] = second_process(port);
    const std::uint32_t first_of_six[6]{0xffffffff};  // the length of a text that follows, and what it is
    both[1].send(&first_of_six, sizeof first_of_six);
    char nothing = 0;
    CHECK_FALSE(both[0].receive(&nothing, 1));  // process 0 stops at once
  });
  std::string thrown;
  try {
    pt::socket_processes together({.rank = 0, .size = 2, .port = port, .timeout_seconds = 10});
    (void)pt::gather(together, 1);
  } catch (pt::aborted const& e) { thrown = e.what(); }
  other.join();
  CHECK(thrown == "all processes stop: process 1 has ended without a word");
}

TEST_CASE("strangers at the port") {
  const int port = free_port();
  std::string thrown[2];
  auto process = [&](int me) {
    try {
      pt::socket_processes p({.rank = me, .size = 2, .port = port, .timeout_seconds = 2});
      // longer than was left for others to come
      if (me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1700));
      CHECK(pt::gather(p, p.rank())[1] == 1);
    } catch (pt::error const& e) { thrown[me] = e.what(); }
  };
  std::thread first(process, 0);
  {  // comes first, says nothing, stays
    using namespace pt::detail::sockets;
    const connection silent = connect("127.0.0.1", port, pt::detail::sockets::clock::now() + std::chrono::seconds(2));
    std::thread second(process, 1);
    char nothing = 0;
    CHECK_FALSE(silent.receive(&nothing, 1));  // sent away
    second.join();
  }
  first.join();
  CHECK((thrown[0].empty() && thrown[1].empty()));
  const int taken = free_port();
  const auto listener = pt::detail::sockets::listen(taken, 1);  // takes in whoever comes, and never says a word
  CHECK_THROWS_WITH_AS(pt::socket_processes({.rank = 1, .size = 2, .port = taken, .timeout_seconds = 0.5}),
                       Contains("that all 2 have come"), pt::error);
}

TEST_CASE("who leaves first neither hides another's failure nor keeps the news from the rest") {
  std::atomic<int> past = 0;
  const auto thrown = each_of(3, [&](pt::socket_processes& p) {
    pt::barrier(p);
    ++past;
    if (p.rank() == 0) return;
    if (p.rank() == 1) {
      while (past < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // process 0 has said goodbye
      throw pt::error("out of paper");
    }
    std::promise<std::string> heard;
    p.on_abort([&](std::string const& reason) { heard.set_value(reason); });
    CHECK(heard.get_future().get() == "process 1 failed first: an exception ended it");
  });
  CHECK(thrown == std::vector<std::string>{"", "out of paper", ""});
}

TEST_CASE("a call that waits for who has left is an error on all that are left") {
  for (int leaves : {0, 1}) {
    const auto thrown = each_of(3, [&](pt::socket_processes& p) {
      pt::barrier(p);
      if (p.rank() == leaves) return;
      (void)pt::gather(p, 1, "a loss");
    });
    CHECK(thrown[static_cast<std::size_t>(leaves)].empty());
    for (int other : {0, 1, 2}) {
      if (other == leaves) continue;
      std::string const& words = thrown[static_cast<std::size_t>(other)];
      CAPTURE(words);
      CHECK(words.find("process " + std::to_string(leaves) + " has ended, and process ") != std::string::npos);
      CHECK(words.find(" waits for it, for a loss") != std::string::npos);
    }
  }
}

TEST_CASE("processes of hosts that are pretended by addresses, and a number that two have") {
  const int port = free_port(), another = free_port();
  std::vector<std::string> thrown(3);
  auto process = [&](int me, int claimed, char const* host, int at) {
    try {
      pt::socket_processes p({.rank = claimed, .size = 3, .host = host, .port = at, .timeout_seconds = 5});
      CHECK(pt::gather(p, me) == pt::list<int>{0, 1, 2});
    } catch (pt::error const& e) { thrown[static_cast<std::size_t>(me)] = e.what(); }
  };
  auto run = [&](int last, int at) {
    std::thread one(process, 1, 1, "127.0.0.1", at), two(process, 2, last, "127.0.0.2", at);
    process(0, 0, "", at);
    one.join();
    two.join();
  };
  run(2, port);
  CHECK(thrown == std::vector<std::string>(3));
  run(1, another);
  CHECK(thrown[0] == "two processes say that their RANK is 1");
  // Of those who were refused one may have been let in by neither connection.
  for (int me : {1, 2}) CHECK_FALSE(thrown[static_cast<std::size_t>(me)].empty());
  CHECK((thrown[1] + thrown[2]).find("process 1 came to process 0 for nothing: two processes say") != std::string::npos);
}

TEST_CASE("processes that do not come, and what the environment lacks") {
  CHECK_THROWS_WITH_AS(pt::socket_processes({.rank = 0, .size = 3, .port = free_port(), .timeout_seconds = 0.2}),
                       Contains("of 3 processes these have not come to port"), pt::error);
  CHECK_THROWS_WITH_AS(pt::socket_processes({.rank = 1, .size = 2, .port = free_port(), .timeout_seconds = 0.1}),
                       Contains("process 1 has not reached process 0 at 127.0.0.1:"), pt::error);
  CHECK_THROWS_WITH_AS(pt::socket_processes({.rank = 1, .size = 2, .host = "no machine", .timeout_seconds = 0.1}),
                       "MASTER_ADDR \"no machine\" is the name of no machine", pt::error);
  CHECK_THROWS_WITH_AS(pt::socket_processes({.rank = 2, .size = 2}), "process 2 of 2 cannot be", pt::error);
  CHECK_THROWS_WITH_AS(pt::socket_processes({.size = 2, .port = 70000}), Contains("at port 70000"), pt::error);
  CHECK_THROWS_WITH_AS(pt::socket_processes({.size = 2, .timeout_seconds = 0}), Contains("give a time above 0"), pt::error);
}

namespace {
// As long as it lives, of all variables by which processes find each other these alone are set.
struct environment {
  static constexpr char const* names[]{"RANK",          "WORLD_SIZE",           "MASTER_ADDR",  "MASTER_PORT",
                                       "PARTITA_PORT",  "LOCAL_RANK",           "SLURM_PROCID", "SLURM_NTASKS",
                                       "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID"};
  environment(std::initializer_list<std::pair<char const*, char const*>> set) {
    for (char const* name : names) unsetenv(name);
    for (auto const& [name, value] : set) setenv(name, value, 1);
  }
  ~environment() {
    for (char const* name : names) unsetenv(name);
  }
};
pt::meeting_place read() { return pt::meeting_place::from_environment(); }
}  // namespace

TEST_CASE("the environment that torchrun gives, and Slurm") {
  {
    const environment torchrun{{"RANK", "1"},       {"WORLD_SIZE", "2"},   {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29400"},
                               {"LOCAL_RANK", "3"}, {"SLURM_PROCID", "7"}, {"SLURM_NTASKS", "9"}};
    const pt::meeting_place at = read();
    CHECK((at.rank == 1 && at.size == 2 && at.host == "localhost" && at.port == 29401));
    CHECK(pt::meeting_place::local_rank_from_environment() == 3);
    setenv("PARTITA_PORT", "5000", 1);
    CHECK(read().port == 5000);
  }
  {
    const environment slurm{{"SLURM_PROCID", "5"},  {"SLURM_NTASKS", "8"},    {"SLURM_STEP_NUM_TASKS", "6"},
                            {"SLURM_LOCALID", "1"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29400"}};
    const pt::meeting_place at = read();
    CHECK((at.rank == 5 && at.size == 6 && at.host == "node7" && at.port == 29401));
    CHECK(pt::meeting_place::local_rank_from_environment() == 1);
  }
  {  // the shell of salloc where it is a step of its own; else it has no SLURM_PROCID. A script of sbatch is no step
    const environment shell{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}};
    CHECK(read().size == 1);
  }
  for (bool script : {false, true}) {
    const environment job{{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}};
    if (script) setenv("SLURM_PROCID", "0", 1);
    CHECK_THROWS_WITH_AS(
        read(), Contains(script ? "WORLD_SIZE is not set; of a job of Slurm" : "RANK is not set; of a job of Slurm"), pt::error);
  }
  const environment alone{{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  CHECK(read().size == 1);
  CHECK(pt::meeting_place::local_rank_from_environment() == 0);
}

TEST_CASE("what the environment lacks, or has wrong, is said by its name") {
  const environment none{};
  CHECK_THROWS_WITH_AS(read(), Contains("RANK is not set; torchrun sets it"), pt::error);
  auto refuses = [](char const* name, char const* value, char const* words) {
    const environment good{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29400"}};
    if (value == nullptr) unsetenv(name);
    else setenv(name, value, 1);
    CHECK_THROWS_WITH_AS(read(), Contains(words), pt::error);
  };
  for (char const* bad : {"", "one", "-1", "1x", "1.5", "99999999999999999999"})
    refuses("RANK", bad, (std::string("RANK is \"") + bad + "\", not a number from 0").c_str());
  for (char const* bad : {"two", "0", "-2"})
    refuses("WORLD_SIZE", bad, (std::string("WORLD_SIZE is \"") + bad + "\", not a number from 1").c_str());
  refuses("RANK", "2", "RANK is 2, but WORLD_SIZE is 2");
  refuses("WORLD_SIZE", nullptr, "WORLD_SIZE is not set");
  refuses("MASTER_ADDR", nullptr, "MASTER_ADDR is not set: the name of the machine of process 0; with Slurm: export");
  refuses("MASTER_ADDR", "", "MASTER_ADDR is not set");
  refuses("MASTER_PORT", nullptr, "MASTER_PORT is not set");
  for (char const* bad : {"0", "65535", "http"}) refuses("MASTER_PORT", bad, "not a number from 1 to 65534");
  refuses("PARTITA_PORT", "65536", "PARTITA_PORT is \"65536\", not a number from 1 to 65535");
  const environment local{{"LOCAL_RANK", "first"}};
  CHECK_THROWS_WITH_AS(pt::meeting_place::local_rank_from_environment(), Contains("LOCAL_RANK is \"first\""), pt::error);
}
