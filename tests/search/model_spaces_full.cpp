// The spaces of benchmarks/spaces that are made from models are what their models, clusters and constraints make.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <boost/hana.hpp>

#include <partita/search/exact.hpp>

#include "../../benchmarks/space_document.hpp"

using namespace partita;

namespace {
bool alike(double x, double y) { return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y)); }
bool alike(std::integral auto x, std::integral auto y) { return x == y; }
bool alike(std::string const& x, std::string const& y) { return x == y; }
template <class T> bool alike(std::optional<T> const& x, std::optional<T> const& y);
template <class T> bool alike(std::vector<T> const& x, std::vector<T> const& y);
template <class T>
requires boost::hana::Struct<T>::value bool alike(T const& x, T const& y);

template <class T> bool alike(std::optional<T> const& x, std::optional<T> const& y) {
  return x.has_value() == y.has_value() && (!x || alike(*x, *y));
}
template <class T> bool alike(std::vector<T> const& x, std::vector<T> const& y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](T const& one, T const& other) { return alike(one, other); });
}
// Says which members are not.
template <class T>
requires boost::hana::Struct<T>::value bool alike(T const& x, T const& y) {
  bool same = true;
  boost::hana::for_each(boost::hana::accessors<T>(), [&](auto const& member) {
    auto const& of = boost::hana::second(member);
    if (alike(of(x), of(y))) return;
    MESSAGE("not alike: " << boost::hana::to<char const*>(boost::hana::first(member)));
    same = false;
  });
  return same;
}
}  // namespace

TEST_CASE("a file is what its model, cluster and constraints make; if it is not, run benchmark_write_spaces benchmarks/spaces") {
  const auto folder = std::filesystem::path(__FILE__).parent_path() / "../../benchmarks/spaces";
  int cases = 0;
  benchmark_spaces::each_case([&](std::string const& name, auto const&... of) {
    CAPTURE(name);
    ++cases;
    const auto d = spaces::load_space((folder / (name + ".json")).string());
    CHECK(alike(d, benchmark_spaces::document_of(of...)));
    CHECK(alike(spaces::exact(spaces::problem_of(d)).time, d.optimum.value_or(0)));
  });
  CHECK(cases == 10);
}
