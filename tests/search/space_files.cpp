// The spaces of benchmarks/spaces: what their files say is so, and every searcher reads them.
#include <doctest/doctest.h>

#include <filesystem>

#include <partita/search/exact.hpp>
#include <partita/search/space_file.hpp>

#include "../support/random_space.hpp"

using namespace partita;

TEST_CASE("the files' times, memories and optima are those of the spaces, and the exact searcher finds the optima") {
  const auto folder = std::filesystem::path(__FILE__).parent_path() / "../../benchmarks/spaces";
  int files = 0;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    CAPTURE(entry.path().string());
    const auto d = spaces::load_space(entry.path().string());
    const spaces::problem p = spaces::problem_of(d);
    std::size_t at = 0;
    bool same = true;
    spaces::detail::enumeration::all(p, [&](spaces::choice const&, spaces::total const& t) {
      same = same && at < d.times.size() && t.time == d.times[at] && t.memory == d.memories[at];
      ++at;
    });
    CHECK(same);
    CHECK(at == d.times.size());
    CHECK(spaces::exact(p).time == d.optimum.value_or(spaces::infinite));
  }
  CHECK(files == 12);
}

TEST_CASE("a space comes back from its file as it was") {
  for (unsigned seed = 1; seed < 20; ++seed) {
    const spaces::problem p = testing::random_space(seed).make();
    const auto d = spaces::describe_space(p, "random");
    const auto again = from_json_text<spaces::space_file::document>(to_json_text(d));
    CHECK(again.times == d.times);
    CHECK(spaces::exact(spaces::problem_of(again)).time == spaces::exact(p).time);
  }
}

TEST_CASE("what is wrong in a file is told") {
  auto d = spaces::describe_space(testing::random_space(3).make(), "random");
  d.tables[0].variables[0][0].pop_back();
  CHECK_THROWS_WITH_AS(spaces::problem_of(d), "a cost has 6 numbers, 7 are expected", error);
  d.format = "another";
  CHECK_THROWS_AS(spaces::problem_of(d), error);
  CHECK_THROWS_AS(spaces::load_space("/nowhere.json"), error);
}
