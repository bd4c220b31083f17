// The processes that train together, and what they tell each other outside of steps: whether they agree, what a loss
// was, whole tensors. One process alone is the default; MPI is comm/mpi/world.hpp.
#pragma once
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <partita/core/list.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// Every process makes the same calls in the same order, each for the same thing: `what`, which is compared as far as the
// processes can, and said in an error. After `abort`, or once a process has ended with an error, every call of every process
// throws `aborted` (comm/communicator.hpp), which says who failed first.
class processes {
 public:
  virtual ~processes() = default;
  virtual int rank() const = 0;  // of this process
  virtual int size() const = 0;
  // mine[bytes[rank()]] -> all[sum of bytes], in the order of processes. `bytes` is the same everywhere.
  virtual void all_gather(void const* mine, void* all, std::span<std::size_t const> bytes, std::string_view what) = 0;
  // From any thread, at any time; the first call counts.
  virtual void abort(std::string reason) = 0;
  // `then` is called at most once, on any thread, with the reason when a process has failed: by models that hear of it while
  // no call is made.
  virtual void on_abort(std::function<void(std::string const&)> then) { static_cast<void>(then); }

  // Questions stand beside the order of calls: one process asks, at any time, and the others answer while they compute or wait.
  // `answer` is called on any thread and waits for nobody. Every process gives its answers in the same order; returns which it
  // is, for `ask`. By models that cannot ask: below 0.
  virtual int on_question(std::function<std::string(std::string const&)> answer) {
    static_cast<void>(answer);
    return -1;
  }
  // From any thread: what each of `whom` has answered when all have, when `seconds` are over or when a process has failed. Of
  // those that have not, of others and of this one, nothing.
  virtual list<std::optional<std::string>> ask(int which, std::string const& question, list<int> const& whom, double seconds) {
    static_cast<void>(which), static_cast<void>(question), static_cast<void>(whom), static_cast<void>(seconds);
    return list<std::optional<std::string>>(static_cast<std::size_t>(size()));
  }
  // The process without which the others do not hear of one another; below 0 where there is none.
  virtual int passes_on() const { return -1; }
};

class one_process final : public processes {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_gather(void const* mine, void* all, std::span<std::size_t const> bytes, std::string_view) override {
    if (bytes[0] > 0) std::memcpy(all, mine, bytes[0]);
  }
  void abort(std::string) override {}
};

// What every process has, in their order.
template <class T> list<T> gather(processes& together, T const& mine, std::string_view what = "a number of each") {
  static_assert(std::is_trivially_copyable_v<T>);
  list<T> all(static_cast<std::size_t>(together.size()));
  together.all_gather(&mine, all.data(), list<std::size_t>(all.size(), sizeof(T)), what);
  return all;
}
// Lists of any lengths.
template <class T>
list<list<T>> gather_lists(processes& together, list<T> const& mine, std::string_view what = "a list of each") {
  static_assert(std::is_trivially_copyable_v<T>);
  list<std::size_t> bytes = gather(together, mine.size() * sizeof(T), what);
  list<std::byte> all(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}));
  together.all_gather(mine.data(), all.data(), bytes, what);
  list<list<T>> lists;
  std::size_t at = 0;
  for (std::size_t each : bytes) {
    lists.emplace_back(each / sizeof(T));
    if (each > 0) std::memcpy(lists.back().data(), all.data() + at, each);
    at += each;
  }
  return lists;
}
// The text of one process, on all.
inline std::string broadcast(processes& together, std::string const& mine, int from = 0) {
  list<std::size_t> bytes(static_cast<std::size_t>(together.size()), 0);
  const bool gives = together.rank() == from;
  bytes[static_cast<std::size_t>(from)] =
      gather(together, gives ? mine.size() : 0, "the text of one")[static_cast<std::size_t>(from)];
  std::string text(bytes[static_cast<std::size_t>(from)], '\0');
  together.all_gather(gives ? mine.data() : nullptr, text.data(), bytes, "the text of one");
  return text;
}
// Whether any process says so: what all of them act on, as on a signal that one of them received.
inline bool any(processes& together, bool mine) {
  for (char each : gather(together, static_cast<char>(mine), "whether any says so"))
    if (each != 0) return true;
  return false;
}
inline void barrier(processes& together) { (void)gather(together, char{0}, "a barrier"); }

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
