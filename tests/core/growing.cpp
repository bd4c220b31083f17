#include <doctest/doctest.h>
#include <partita/core/growing.hpp>

#include <utility>

namespace pt = partita;

namespace {

constexpr pt::growing<int> counted(int n) {
  pt::growing<int> result;
  for (int i = 0; i < n; ++i) result.push(i);
  return result;
}

constexpr bool holds_count(pt::growing<int> const& values, int n) {
  if (values.size != n) return false;
  int expected = 0;
  for (int value : values)
    if (value != expected++) return false;
  return true;
}

}  // namespace

TEST_CASE("what is pushed is kept, in order, at either time") {
  static_assert(holds_count(counted(0), 0) && holds_count(counted(100), 100));
  for (int n = 0; n < 200; ++n) CHECK(holds_count(counted(n), n));
}

TEST_CASE("a copy is independent, a move leaves an empty array") {
  auto first = counted(20);
  auto second = first;
  second[0] = 7;
  CHECK(holds_count(first, 20));
  auto third = std::move(first);
  CHECK(holds_count(third, 20));
  CHECK(first.size == 0);
  first = third;
  CHECK(holds_count(first, 20));
}

TEST_CASE("an element of the array may be pushed while the array moves") {
  for (int n = 1; n < 100; ++n) {
    auto values = counted(n);
    values.push(values[n - 1]);
    CHECK(values.back() == n - 1);
  }
}
