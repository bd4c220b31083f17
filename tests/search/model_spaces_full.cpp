// The spaces of benchmarks/spaces that are made from models are what their models, clusters and constraints make.
#include <doctest/doctest.h>

#include <filesystem>

#include <partita/search/exact.hpp>

#include "../../benchmarks/space_document.hpp"

using namespace partita;

TEST_CASE("a file is what its model, cluster and constraints make; if it is not, run benchmark_write_spaces benchmarks/spaces") {
  const auto folder = std::filesystem::path(__FILE__).parent_path() / "../../benchmarks/spaces";
  auto alike = [](double x, double y) { return std::abs(x - y) <= 1e-9 * std::abs(y); };
  benchmark_spaces::each_case([&](std::string const& name, std::string const& words, auto const& model, auto const& extents,
                                  cluster const& on, constraints const& given) {
    CAPTURE(name);
    const auto d = spaces::load_space((folder / (name + ".json")).string());
    const benchmark_spaces::made_space made(model, extents, on, given);
    CHECK(d.model.value_or("") == words);
    CHECK(d.cluster.value_or("") == on.name);
    CHECK(d.constraints.value_or("") == benchmark_spaces::in_words(given));
    std::size_t at = 0;
    bool same = true;
    spaces::detail::enumeration::all(made.space().of(), [&](spaces::choice const&, spaces::total const& t) {
      same = same && at < d.times.size() && alike(t.time, d.times[at]) && alike(t.memory, d.memories[at]);
      ++at;
    });
    CHECK(same);
    CHECK(at == d.times.size());
    CHECK(spaces::exact(made.space().of()).time == doctest::Approx(d.optimum.value_or(0)).epsilon(1e-9));
  });
}
