// What processes tell each other outside of steps; one process, and where PARTITA_TEST_MPI is defined several.
#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include <partita/comm/processes.hpp>

#include "ranks.hpp"

namespace pt = partita;

namespace {
pt::processes& together() {
#ifdef PARTITA_TEST_MPI
  return *partita_test::processes;
#else
  static pt::one_process alone;
  return alone;
#endif
}
}  // namespace

TEST_CASE("everybody learns what each has, in the order of processes") {
  const int size = together().size(), me = together().rank();
  pt::list<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  CHECK(pt::gather(together(), me) == ranks);

  struct odd {
    char bytes[3];
  };
  for (odd const& each : pt::gather(together(), odd{{'a', 'b', 'c'}})) CHECK(std::string(each.bytes, 3) == "abc");

  // Lists of 0, 1, 2, ... elements of 2 bytes, and one that is long.
  for (std::size_t longest : {std::size_t{0}, std::size_t{100'000}}) {
    auto length = [&](int rank) { return static_cast<std::size_t>(rank) + (rank == size - 1 ? longest : 0); };
    const auto lists = pt::gather_lists(together(), pt::list<std::uint16_t>(length(me), static_cast<std::uint16_t>(me)));
    REQUIRE(lists.size() == ranks.size());
    for (int rank : ranks)
      CHECK(lists[static_cast<std::size_t>(rank)] == pt::list<std::uint16_t>(length(rank), static_cast<std::uint16_t>(rank)));
  }
}

TEST_CASE("everybody learns what one has, and whether any says so") {
  const int size = together().size(), me = together().rank();
  CHECK(pt::broadcast(together(), me == size - 1 ? "from the last" : "not this", size - 1) == "from the last");
  CHECK(pt::broadcast(together(), "") == "");
  CHECK(pt::any(together(), me == size - 1));
  CHECK(!pt::any(together(), false));
  pt::barrier(together());
}

TEST_CASE("who is asked answers beside its calls, also while it waits in one") {
  const int size = together().size(), me = together().rank();
  const int which = together().on_question([me](std::string const& question) { return question + std::to_string(me); });
  CHECK((size == 1 || which >= 0));
  pt::barrier(together());
  if (me == size - 1) {
    pt::list<int> whom;
    for (int rank = 0; rank < size; ++rank) whom.push_back(rank);
    const auto answers = together().ask(which, "number ", whom, 10);
    REQUIRE(answers.size() == static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      auto const& answer = answers[static_cast<std::size_t>(rank)];
      CHECK(answer.has_value() == (rank != me));
      if (answer) CHECK(*answer == "number " + std::to_string(rank));
    }
  }
  pt::barrier(together());
}
