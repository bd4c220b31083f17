// Runs a body once per rank, each on its own thread, as an executor does: a rank that throws aborts the world. Where
// PARTITA_TEST_MPI is defined ranks are processes (mpi_ranks.hpp), and the same tests run over MPI: a body touches nothing
// of other ranks, and throws where it finds something wrong.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <partita/comm/threads/world.hpp>

#include "../support/number_of.hpp"

namespace partita_test {

// What rank r threw: its words, and whether it was stopped by another one.
struct ending {
  std::string what;
  bool aborted = false, other_error = false;
  bool well() const { return !aborted && !other_error; }
};

// Of how many drawn cases one is run: processes share few cores and wait for each other awake, and under sanitizers a call takes
// ten times as long.
#if defined(PARTITA_TEST_MPI)
inline const int one_of = static_cast<int>(partita::testing::drawn(3, 1));
#elif defined(PARTITA_SANITIZED)
inline const int one_of = static_cast<int>(partita::testing::drawn_sanitized(3, 1));
#else
inline constexpr int one_of = 1;
#endif

}  // namespace partita_test

#ifdef PARTITA_TEST_MPI
#include "mpi_ranks.hpp"
#else
namespace partita_test {

using test_world = partita::thread_world;
using communicator = partita::thread_communicator;
inline constexpr bool senders_learn = true;  // that a receiver expects other bytes
inline int most_ranks() { return 16; }

template <class Body> std::vector<ending> on_every_rank(test_world& world, Body body, bool abort_on_error = true) {
  std::vector<ending> endings(static_cast<std::size_t>(world.size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.size(); ++rank)
    threads.emplace_back([&, rank] {
      ending& mine = endings[static_cast<std::size_t>(rank)];
      communicator comm = world.communicator(rank);
      try {
        body(comm);
      } catch (const partita::aborted& stopped) { mine = {stopped.what(), true, false}; } catch (const std::exception& failure) {
        mine = {failure.what(), false, true};
        if (abort_on_error) comm.abort(std::current_exception());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return endings;
}

}  // namespace partita_test
#endif

namespace partita_test {

inline bool all_well(std::vector<ending> const& endings, std::string& first_failure) {
  for (ending const& each : endings)
    if (!each.well()) {
      first_failure = each.what;
      return false;
    }
  return true;
}

// splitmix64
inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xBF58476D1CE4E5B9u + c * 0x94D049BB133111EBu + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Element `index` of what `rank` contributes to operation `op`: floats of many exponents, so that the order of a sum
// shows in its bits.
template <class T> T value_of(std::uint64_t op, int rank, std::size_t index) {
  const std::uint64_t bits = mixed(op, static_cast<std::uint64_t>(rank), index);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    double const mantissa = static_cast<double>(static_cast<std::int64_t>(bits >> 12) - (std::int64_t{1} << 51));
    return T(std::ldexp(mantissa, -51 + static_cast<int>(bits & 15)));
  }
}

template <class T> T combined(partita::reduction how, T left, T right) {
  if (how == partita::reduction::max) return left < right ? right : left;
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint32_t>(left) + static_cast<std::uint32_t>(right));
  else return left + right;
}

// What a reduction over `ranks` must give, in member order.
template <class T, class Ranks> T reduced(partita::reduction how, std::uint64_t op, Ranks const& ranks, std::size_t index) {
  using held = std::conditional_t<sizeof(T) == 2, float, T>;  // narrow types are added in float
  held result = value_of<T>(op, ranks[0], index);
  for (std::size_t m = 1; m < ranks.size(); ++m) result = combined<held>(how, result, value_of<T>(op, ranks[m], index));
  return T(result);
}

template <class T> bool same_bits(const T& a, const T& b) { return std::memcmp(&a, &b, sizeof(T)) == 0; }

}  // namespace partita_test
