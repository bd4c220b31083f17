// How many calls the devices of one process have begun: where one waits too long, this says who is late.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <partita/core/list.hpp>
#include <partita/program/placed_transfer.hpp>

namespace partita::detail::comm {

// What a rank waits for, as others are asked about it.
struct waited_call {
  enum class kind : std::int32_t { collective, exchange, communicator };  // of a group; with anybody; of a group, to be made
  kind what = kind::collective;
  std::int32_t rank = 0;    // who waits
  std::int32_t group = -1;  // -1: all ranks
};
// How far a rank has come, towards a waited_call: calls; of an exchange, transfers to the rank that waits and from it.
struct progress_of_rank {
  std::int32_t rank = 0, unused = 0;
  std::uint64_t calls = 0, taken = 0;
};

// Both travel as their bytes: all processes run one program.
template <class T> std::string bytes_of(list<T> const& all) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<char const*>(all.data()), all.size() * sizeof(T)};
}
template <class T> list<T> read_bytes(std::string_view bytes) {
  list<T> all(bytes.size() / sizeof(T));
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), all.size() * sizeof(T));
  return all;
}

// Counted by each rank's thread, read by any.
class begun_calls {
 public:
  // `here`: the ranks of this process, ascending.
  begun_calls(int ranks, std::size_t groups, list<int> here)
      : here_(std::move(here)),
        groups_(groups),
        ranks_(static_cast<std::size_t>(ranks)),
        counters_(std::make_unique<std::atomic<std::uint64_t>[]>(here_.size() * row())) {}

  void note_collective(int rank, int group) { ++at(rank, collective(group)); }
  void note_communicator(int rank, int group) { ++at(rank, communicator(group)); }
  void note_exchange(int rank, std::span<placed_transfer const> sends, std::span<placed_transfer const> receives) {
    for (placed_transfer const& t : sends)
      if (t.bytes > 0) ++at(rank, given(t.peer));
    for (placed_transfer const& t : receives)
      if (t.bytes > 0) ++at(rank, taken(t.peer));
  }

  // How far a rank of this process has come.
  progress_of_rank of(int rank, waited_call const& call) const {
    using kind = waited_call::kind;
    if (call.what == kind::exchange) return {rank, 0, count(rank, given(call.rank)), count(rank, taken(call.rank))};
    return {rank, 0, count(rank, call.what == kind::collective ? collective(call.group) : communicator(call.group)), 0};
  }
  // How far another has to have come for `call.rank`, of this process, not to wait for it.
  progress_of_rank wanted(int other, waited_call const& call) const {
    if (call.what == waited_call::kind::exchange)
      return {other, 0, count(call.rank, taken(other)), count(call.rank, given(other))};
    progress_of_rank same = of(call.rank, call);
    same.rank = other;
    return same;
  }

 private:
  std::size_t row() const { return 2 * (groups_ + 1) + 2 * ranks_; }
  std::size_t collective(int group) const { return static_cast<std::size_t>(group + 1); }
  std::size_t communicator(int group) const { return groups_ + 1 + static_cast<std::size_t>(group + 1); }
  std::size_t given(int to) const { return 2 * (groups_ + 1) + static_cast<std::size_t>(to); }
  std::size_t taken(int from) const { return given(from) + ranks_; }
  std::atomic<std::uint64_t>& at(int rank, std::size_t what) const {
    const auto place = static_cast<std::size_t>(std::lower_bound(here_.begin(), here_.end(), rank) - here_.begin());
    return counters_[place * row() + what];
  }
  std::uint64_t count(int rank, std::size_t what) const { return at(rank, what).load(); }

  list<int> here_;
  std::size_t groups_, ranks_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> counters_;
};

}  // namespace partita::detail::comm
