// The spaces of benchmarks/spaces: what their files say is so, and every searcher reads them.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include <partita/search/exact.hpp>
#include <partita/search/space_file.hpp>

#include "../support/number_of.hpp"
#include "../support/random_space.hpp"

using namespace partita;

TEST_CASE("the files' times, memories and optima are those of the spaces, and the exact searcher finds the optima") {
  const auto folder = std::filesystem::path(__FILE__).parent_path() / "../../benchmarks/spaces";
  int files = 0, models = 0;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    CAPTURE(entry.path().string());
    const auto d = spaces::load_space(entry.path().string());
    const spaces::problem p = spaces::problem_of(d);
    std::size_t at = 0;
    bool same = true;
    spaces::detail::enumeration::all(p, [&](spaces::choice const&, spaces::total const& t) {
      auto as_told = [](double x, double told) { return std::abs(x - told) <= 1e-12 * told; };  // sums may be fused elsewhere
      same = same && at < d.times.size() && as_told(t.time, d.times[at]) && as_told(t.memory, d.memories[at]);
      ++at;
    });
    CHECK(same);
    CHECK(at == d.times.size());
    REQUIRE(d.optimum);
    CHECK(spaces::exact(p).time == doctest::Approx(*d.optimum).epsilon(1e-12));
    if (!testing::sanitized_briefly)  // each of these choices has been looked at above
      CHECK(spaces::brute_force(p).time == doctest::Approx(*d.optimum).epsilon(1e-12));
    models += d.model.has_value();
    CHECK(d.model.has_value() == d.cluster.has_value());
    CHECK(d.model.has_value() == d.constraints.has_value());
  }
  CHECK(files == 12);
  CHECK(models == 10);
}

TEST_CASE("a space comes back from its file as it was") {
  for (unsigned seed = 1; seed < testing::drawn_sanitized(8, 20); ++seed) {
    const spaces::problem p = testing::random_space(seed).make();
    const auto d = spaces::describe_space(p, "random");
    const auto again = from_json_text<spaces::space_file::document>(to_json_text(d));
    CHECK(again.times == d.times);
    CHECK(spaces::exact(spaces::problem_of(again)).time == spaces::exact(p).time);
  }
}

TEST_CASE("what is wrong in a file is told") {
  auto d = spaces::describe_space(testing::random_space(3).make(), "random");
  d.tables[0].variables[0][0].resize(6);
  CHECK_THROWS_WITH_AS(spaces::problem_of(d), "a cost has 6 numbers, 7 or 8 are expected", error);
  // Numbers that do not fit together: nothing is looked up before all of them are known to.
  auto says = [](auto change, char const* words) {
    auto wrong = spaces::describe_space(testing::random_space(3).make(), "random");
    change(wrong);
    CHECK_THROWS_WITH_AS(spaces::problem_of(wrong), doctest::Contains(words), error);
  };
  using document = spaces::space_file::document;
  says([](document& x) { x.configurations[0].shape = 99; }, "configurations[0] is of shape 99, there are ");
  says([](document& x) { x.configurations[0].stages = 0; }, "configurations[0] has 0 stages, not 1 to ");
  says([](document& x) { x.configurations[0].fill = -1; }, "configurations[0]: fill is -1");
  says([](document& x) { x.configurations[0].fill = 1000; }, "has a fill of 1000");
  says([](document& x) { x.configurations[0].holds = "told"; }, "configurations[0]: in_flight has 0 entries of ");
  says([](document& x) { x.configurations[0].chunks = 0; }, "configurations[0] has 0 chunks");
  says([](document& x) { x.chain[0] = 7; }, "chain[0] is of kind 7, shapes[0] has ");
  says([](document& x) { x.chain.clear(); }, "chain has no segment");
  says([](document& x) { x.may_begin.push_back(1); }, "may_begin has ");
  says([](document& x) { x.regions.emplace(5, std::vector<int>{0, 1}); }, "regions has 5 entries, chain has ");
  says([](document& x) { x.regions = {{0, 1, 2}}; }, "regions has an entry of 3 numbers");
  says([](document& x) { x.limit = -1; }, "limit is -1");
  says([](document& x) { x.tables[0].variables[0][0][2] = -1; }, "tables[0]: a cost is -1");
  says([](document& x) { x.tables[0].variables[0].clear(), x.tables[0].pairs.clear(); }, "tables[0]: a variable has no option");
  says([](document& x) { x.tables[0].variables.resize(1), x.tables[0].pairs.clear(); }, "tables[0]: a table needs an entry");
  says(
      [](document& x) {
        x.tables[0].pairs[0].a = x.tables[0].pairs[0].b = 0,
        x.tables[0].pairs[0].costs.assign(std::size_t{1} * x.tables[0].variables[0].size() * x.tables[0].variables[0].size(),
                                          std::vector<double>(7));
      },
      "tables[0]: variable 0 is paired with itself");
  says([](document& x) { x.shapes[0].grids[0].kinds[0][0].table = -1; }, "shapes[0]: table -1 of ");
  says([](document& x) { x.shapes[0].grids[0].kinds[0].clear(); }, "shapes[0], grid 0: kind 0 has no variant");
  says([](document& x) { x.shapes[0].grids.clear(); }, "shapes[0] has no grid");
  says([](document& x) { x.shapes[0].micro_batches = 0; }, "shapes[0] has ");
  says([](document& x) { x.shapes[0].places = {0, 5}; }, "shapes[0] has no grid at place 5");
  says([](document& x) { x.shapes[0].grids[0].limit = -1; }, "shapes[0] has a grid with a limit of -1");
  says(
      [](document& x) {
        x.configurations[0].stages = 2;
        for (auto& s : x.shapes) s.places = {0};
      },
      "has places of 1 stages, and a configuration of 2");
  says([](document& x) { x.shapes[0].crossings.resize(1); }, "shapes[0] has crossings of 1 pairs");
  d.format = "another";
  CHECK_THROWS_AS(spaces::problem_of(d), error);
  CHECK_THROWS_AS(spaces::load_space("/nowhere.json"), error);
}
