// list does what std::vector does: the same random calls to both leave the same elements, for elements that are bytes
// and for those that own memory.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <partita/core/list.hpp>

namespace {
template <class T> bool same(partita::list<T> const& a, std::vector<T> const& b) {
  if (a.size() != b.size() || a.empty() != b.empty() || a.capacity() < a.size()) return false;
  for (std::size_t i = 0; i < b.size(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}
// How many live: every one that was made has to be destroyed once.
struct counted {
  static inline int living = 0;
  int value = 0;
  std::string text = std::string(40, 'x');  // not in place
  counted() { ++living; }
  counted(int v) : value(v) { ++living; }
  counted(counted const& o) : value(o.value), text(o.text) { ++living; }
  counted(counted&& o) noexcept : value(o.value), text(std::move(o.text)) { ++living; }
  counted& operator=(counted const&) = default;
  counted& operator=(counted&&) = default;
  ~counted() { --living; }
  bool operator==(counted const&) const = default;
};

template <class T> void compare(unsigned seed) {
  std::mt19937 random(seed);
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  auto some = [&] { return T(static_cast<int>(random() % 100)); };
  partita::list<T> mine;
  std::vector<T> theirs;
  for (int step = 0; step < 400; ++step) {
    const std::size_t n = theirs.size();
    const auto to = [&](std::size_t i) { return theirs.begin() + static_cast<std::ptrdiff_t>(i); };
    switch (random() % 14) {
      case 0:
      case 1:
      case 2: {
        const T x = some();
        mine.push_back(x);
        theirs.push_back(x);
        break;
      }
      case 3: {
        T x = some();
        theirs.push_back(x);
        mine.push_back(std::move(x));
        break;
      }
      case 4:
        if (n > 0) {
          const std::size_t i = below(n);
          mine.push_back(mine[i]);
          theirs.push_back(T(theirs[i]));
        }
        break;  // its own
      case 5: {
        const std::size_t at = below(n + 1);
        const T x = some();
        mine.insert(mine.begin() + at, x);
        theirs.insert(to(at), x);
        break;
      }
      case 6:
        if (n > 0) {
          const std::size_t at = below(n);
          mine.erase(mine.begin() + at);
          theirs.erase(to(at));
        }
        break;
      case 7: {
        const std::size_t a = below(n + 1), b = a + below(n - a + 1);
        mine.erase(mine.begin() + a, mine.begin() + b);
        theirs.erase(to(a), to(b));
        break;
      }
      case 8: {
        const std::size_t wanted = below(30);
        mine.resize(wanted);
        theirs.resize(wanted);
        break;
      }
      case 9: {
        const std::size_t wanted = below(30);
        const T x = some();
        mine.resize(wanted, x);
        theirs.resize(wanted, x);
        break;
      }
      case 10: {
        const partita::list<T> copy = mine;
        const std::vector<T> more(theirs);
        mine.append(copy);
        theirs.insert(theirs.end(), more.begin(), more.end());
        break;
      }
      case 11: {
        const T x = some();
        mine.erase_if([&](T const& y) { return y == x; });
        std::erase(theirs, x);
        break;
      }
      case 12: {
        partita::list<T> moved(std::move(mine));
        mine = std::move(moved);
        if (n > 40) {
          mine.clear();
          theirs.clear();
        }
        break;
      }
      case 13: {
        const T x = some();
        const std::size_t count = below(6);
        if (random() % 8 == 0) {
          mine.assign(count, x);
          theirs.assign(count, x);
        }
        break;
      }
    }
    REQUIRE(same(mine, theirs));
    const partita::list<T> other(theirs.data(), theirs.data() + theirs.size());
    CHECK(mine == other);
  }
}
}  // namespace

TEST_CASE("a list holds what a std::vector holds after the same calls") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    compare<int>(seed);
    compare<std::uint64_t>(seed);
    compare<counted>(seed);
    CHECK(counted::living == 0);
  }
}

TEST_CASE("lists are made of elements, counts and other lists, and compared as words are") {
  using partita::list;
  CHECK(list<int>{3, 5} == list<int>{3, 5});
  CHECK(list<int>(3, 5) == list<int>{5, 5, 5});
  CHECK(list<int>(2) == list<int>{0, 0});
  CHECK(list<int>{} < list<int>{0});
  CHECK(list<int>{1, 2} < list<int>{1, 3});
  CHECK(list<int>{1} < list<int>{1, 0});
  CHECK_FALSE(list<int>{1, 2} < list<int>{1, 2});
  const list<list<int>> nested{{1}, {2, 3}, {}};
  list<list<int>> copy = nested;
  copy[1][0] = 7;
  CHECK(nested[1][0] == 2);
  CHECK(copy != nested);
}

TEST_CASE("a list holds what can only be moved") {
  partita::list<std::unique_ptr<int>> owners;
  for (int i = 0; i < 100; ++i) owners.push_back(std::make_unique<int>(i));
  partita::list<std::unique_ptr<int>> taken = std::move(owners);
  CHECK(owners.empty());
  for (int i = 0; i < 100; ++i) CHECK(*taken[static_cast<std::size_t>(i)] == i);
}
