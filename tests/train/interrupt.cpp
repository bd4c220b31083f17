#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <partita/train/interrupt.hpp>

namespace {

int own_handler_calls = 0;
void own_handler(int) { ++own_handler_calls; }

auto handler_of(int number) {
  struct sigaction now {};
  REQUIRE(sigaction(number, nullptr, &now) == 0);
  return now.sa_handler;
}

// The signal that ended a child that runs `body`, or 0 when it ended by itself.
template <class Body> int ending_signal(Body body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGINT, SIG_DFL);  // the test framework watches signals too
    signal(SIGTERM, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("the first signal sets the flag") {
  for (int number : {SIGINT, SIGTERM}) {
    partita::interrupt stop;
    CHECK_FALSE(stop.requested());
    raise(number);
    CHECK(stop.requested());
    CHECK(stop.signal_number() == number);
  }
}

TEST_CASE("the second signal ends the process, whichever came first") {
  for (int first : {SIGINT, SIGTERM})
    for (int second : {SIGINT, SIGTERM})
      CHECK(ending_signal([&] {
              partita::interrupt stop;
              raise(first);
              if (!stop.requested()) _exit(1);
              raise(second);
            }) == second);
  CHECK(ending_signal([] {
          partita::interrupt stop;
          raise(SIGINT);
        }) == 0);
}

TEST_CASE("handlers of before are put back, also after a signal") {
  struct sigaction own {
  }, before{};
  own.sa_handler = &own_handler;
  REQUIRE(sigaction(SIGTERM, &own, &before) == 0);
  {
    partita::interrupt stop;
    CHECK((handler_of(SIGTERM) != &own_handler));
    raise(SIGTERM);
    CHECK((handler_of(SIGTERM) == SIG_DFL));
    CHECK(own_handler_calls == 0);
  }
  CHECK((handler_of(SIGTERM) == &own_handler));
  raise(SIGTERM);
  CHECK(own_handler_calls == 1);
  sigaction(SIGTERM, &before, nullptr);
}

TEST_CASE("an ignored signal stays ignored") {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  REQUIRE(sigaction(SIGINT, &ignore, &before) == 0);
  {
    partita::interrupt stop;
    raise(SIGINT);
    CHECK_FALSE(stop.requested());
    raise(SIGTERM);
    CHECK(stop.requested());
    CHECK((handler_of(SIGINT) == SIG_IGN));
  }
  sigaction(SIGINT, &before, nullptr);
}

TEST_CASE("there is one at a time, and each starts afresh") {
  {
    partita::interrupt stop;
    CHECK_THROWS_AS(partita::interrupt(), partita::error);
    raise(SIGINT);
    CHECK(stop.requested());
  }
  partita::interrupt stop;
  CHECK_FALSE(stop.requested());
}
