// A call as numbers that can be sent, to be compared by those who make it together.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <partita/comm/call.hpp>
#include <partita/core/hash.hpp>
#include <partita/core/list.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

// Every number that `fault_of` compares, given to put(number) one after the other.
template <class Put> void describe_call(call const& made, Put put) {
  put(static_cast<std::uint64_t>(made.kind));
  put(static_cast<std::uint64_t>(made.type));
  put(static_cast<std::uint64_t>(made.how));
  put(static_cast<std::uint64_t>(made.root));
  put(made.count);
  auto list = [&](std::span<const std::size_t> counts) {
    put(counts.size());
    for (std::size_t c : counts) put(c);
  };
  list(made.counts);
  list(made.receives);
  put(made.joined.size());
  for (joined_call const& j : made.joined) list(j.counts);
}
inline std::uint64_t digest_of(call const& made) {
  std::uint64_t digest = hash_seed;  // words at a time: tens of thousands of counts may be in a joined call
  describe_call(made, [&](std::uint64_t x) { digest = (digest ^ x) * 1099511628211u + (digest >> 47); });
  return digest;
}

// The call that numbers describe, without addresses. Refers to itself.
class described_call {
 public:
  list<std::uint64_t> numbers;

  call const& read() {
    std::size_t at = 0;
    auto next = [&] { return numbers[at++]; };
    auto list = [&]() -> std::span<const std::size_t> {
      const auto count = static_cast<std::size_t>(next());
      at += count;
      return std::span<const std::size_t>(numbers).subspan(at - count, count);
    };
    made_.kind = static_cast<communication>(next());
    made_.type = static_cast<dtype>(next());
    made_.how = static_cast<reduction>(next());
    made_.root = static_cast<int>(next());
    made_.count = static_cast<std::size_t>(next());
    made_.counts = list();
    made_.receives = list();
    joined_.resize(static_cast<std::size_t>(next()));
    for (joined_call& j : joined_) j.counts = list();
    made_.joined = joined_;
    return made_;
  }

 private:
  static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));
  call made_;
  list<joined_call> joined_;
};

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
