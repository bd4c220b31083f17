// Groups of ranks, and the words about them that every communicator says alike.
#pragma once
#include <cstddef>
#include <exception>
#include <span>
#include <string>

#include <partita/core/words.hpp>

namespace partita::detail::comm {

// Throws error unless `ranks` ascend and exist.
inline void check_group(std::size_t group, std::span<int const> ranks, int world) {
  const std::string name = partita::words({"group ", group});
  if (ranks.empty()) throw_error({name, " has no ranks"});
  for (std::size_t m = 0; m < ranks.size(); ++m) {
    if (ranks[m] < 0 || ranks[m] >= world) throw_error({name, " names rank ", ranks[m], "; there are ", world});
    if (m > 0 && ranks[m] <= ranks[m - 1])
      throw_error({name, " lists rank ", ranks[m], " after rank ", ranks[m - 1], "; ranks of a group ascend"});
  }
}

inline std::string names_of(std::span<int const> ranks) {
  std::string text = "{";
  for (std::size_t m = 0; m < ranks.size(); ++m) text += partita::words({m == 0 ? "" : ", ", ranks[m]});
  return text + "}";
}

inline std::string reason_of(std::exception_ptr const& failure) {
  if (!failure) return "no reason given";
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& known) { return known.what(); } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace partita::detail::comm
