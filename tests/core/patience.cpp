// Waiting for another thread: whoever sleeps only for a moment looks longer the next time.
#include <algorithm>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include <partita/core/patience.hpp>

namespace {

struct seen {
  int looks = 0, sleeps = 0;
};
template <class Sleep> seen wait(partita::detail::patience& patience, int ready_after, Sleep sleep) {
  seen s;
  patience.wait([&] { return s.looks++ >= ready_after; },
                [&] {
                  ++s.sleeps;
                  sleep();
                });
  return s;
}
constexpr int never = 1 << 30;
constexpr auto at_once = [] {};
constexpr auto long_after = [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); };

}  // namespace

TEST_CASE("what is there already is not waited for") {
  for (bool const spare : {false, true}) {
    partita::detail::patience patience(spare);
    const seen s = wait(patience, 0, at_once);
    CHECK(s.looks == 1);
    CHECK(s.sleeps == 0);
  }
}

TEST_CASE("without a core to spare it sleeps at once, else it looks first") {
  partita::detail::patience none(false), some(true);
  for (int repeat = 0; repeat < 3; ++repeat) CHECK(wait(none, never, at_once).looks == 1);
  const seen found = wait(some, 8, at_once);
  CHECK(found.looks == 9);
  CHECK(found.sleeps == 0);
  CHECK(wait(some, never, at_once).sleeps == 1);
}

TEST_CASE("after long sleeps it looks less, but after a short one as long as at first") {
  partita::detail::patience patience;
  for (int repeat = 0; repeat < 40; ++repeat) wait(patience, never, long_after);
  const seen tired = wait(patience, never, at_once);
  CHECK(tired.looks <= 1 + 2 * 16);
  CHECK(tired.sleeps == 1);
  // Of these at least one is not interrupted.
  int most = 0;
  for (int repeat = 0; repeat < 20; ++repeat) most = std::max(most, wait(patience, never, at_once).looks);
  CHECK(most > 10 * tired.looks);
}
