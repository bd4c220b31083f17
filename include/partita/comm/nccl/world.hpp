// What the ranks of a program know of each other, beside what NCCL moves between them: those of one process all, those of
// others whether somebody has failed.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <partita/comm/communicator.hpp>
#include <partita/comm/groups.hpp>
#include <partita/comm/nccl/preparation.hpp>
#include <partita/comm/processes.hpp>
#include <partita/core/list.hpp>
#include <partita/core/words.hpp>

namespace partita {

// The number that a communicator of NCCL begins with: one of its ranks makes it, all are given it.
using unique_id_bytes = std::array<std::byte, 128>;  // NCCL_UNIQUE_ID_BYTES

class nccl_world {
 public:
  // Groups as in a program: ascending ranks. `here`: the ranks of this process, ascending. `timeout_seconds`: in which a call
  // that waits for other ranks has to return.
  nccl_world(int ranks, list<list<int>> groups, list<int> here, double timeout_seconds = 300)
      : size_(ranks), groups_(std::move(groups)), here_(std::move(here)), timeout_seconds_(timeout_seconds) {
    if (ranks < 1) throw_error({"a world has at least one rank, not ", ranks});
    started_ = list<counter>(static_cast<std::size_t>(ranks) * (groups_.size() + 1));
  }
  int size() const { return size_; }
  double timeout_seconds() const { return timeout_seconds_; }
  list<list<int>> const& groups() const { return groups_; }

  // The first reason counts.
  void abort(std::string reason) {
    const std::scoped_lock lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return;
    reason_ = std::move(reason);
    aborted_.store(true, std::memory_order_release);
  }
  bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }
  std::string reason() const {
    const std::scoped_lock lock(mutex_);
    return reason_;
  }

  void note_started(int rank, int group) { ++at(rank, group); }
  // Of this process, the members of a group (-1: all ranks) whose devices have begun fewer of its collectives than `rank`'s.
  list<int> missing(int rank, int group) const {
    list<int> all;
    const std::uint64_t mine = at(rank, group);
    for (int other : here_)
      if (is_member(other, group) && at(other, group) < mine) all.push_back(other);
    return all;
  }
  // The members of a group that are ranks of other processes.
  list<int> elsewhere(int group) const {
    list<int> all;
    for (int other = 0; other < size_; ++other)
      if (is_member(other, group) && !std::binary_search(here_.begin(), here_.end(), other)) all.push_back(other);
    return all;
  }
  // "; rank 2 has not begun it": of the last call of a group that `rank` has begun. Nothing is known here of other processes'
  // ranks.
  std::string words_of_missing(int rank, int group) const {
    const list<int> late = missing(rank, group), others = elsewhere(group);
    std::string all = !late.empty()    ? words({"; ", named(late), late.size() == 1 ? " has" : " have", " not begun it"})
                      : others.empty() ? words({"; all have begun it, of ", words_of_group(group)})
                                       : "; the ranks of this process have begun it";
    if (!others.empty())
      all += words({"; ", named(others), others.size() == 1 ? " is" : " are",
                    " in it too, in other processes, of which is not known here whether they have"});
    return all;
  }
  // "group 1 {0, 2}"
  std::string words_of_group(int group) const {
    if (group < 0) return "all ranks";
    return words({"group ", group, " ", detail::comm::names_of(groups_[static_cast<std::size_t>(group)])});
  }

 private:
  static std::string named(list<int> const& ranks) {
    std::string all = ranks.size() == 1 ? "rank" : "ranks";
    for (std::size_t k = 0; k < ranks.size(); ++k) all += words({k == 0 ? " " : ", ", ranks[k]});
    return all;
  }
  struct counter {
    std::atomic<std::uint64_t> value{0};
    counter() = default;
    counter(counter&& other) noexcept : value(other.value.load()) {}
  };
  std::atomic<std::uint64_t>& at(int rank, int group) {
    return started_[static_cast<std::size_t>(rank) * (groups_.size() + 1) + static_cast<std::size_t>(group + 1)].value;
  }
  std::uint64_t at(int rank, int group) const { return const_cast<nccl_world*>(this)->at(rank, group).load(); }

  bool is_member(int rank, int group) const {
    if (group < 0) return true;
    list<int> const& all = groups_[static_cast<std::size_t>(group)];
    return std::binary_search(all.begin(), all.end(), rank);
  }

  int size_;
  list<list<int>> groups_;
  list<int> here_;
  double timeout_seconds_;
  list<counter> started_;  // by rank, then group
  mutable std::mutex mutex_;
  std::string reason_;
  std::atomic<bool> aborted_{false};
};

// The numbers of the world's communicators: one for each group, then one of all ranks. Made by the process that has a group's
// first rank, and told to all; every process calls it.
template <class Library>
list<unique_id_bytes> make_unique_ids(nccl_world const& world, std::span<int const> here, processes& together) {
  list<int> firsts;
  for (list<int> const& group : world.groups()) firsts.push_back(group.front());
  firsts.push_back(0);
  list<unique_id_bytes> mine(firsts.size());
  if (world.size() == 1) return mine;  // nobody to talk to
  prepare_nccl<Library>();
  list<char> makes;
  for (std::size_t g = 0; g < firsts.size(); ++g) {
    makes.push_back(std::binary_search(here.begin(), here.end(), firsts[g]));
    if (!makes[g]) continue;
    if (const auto answer = Library::make_unique_id(mine[g]); answer != Library::success)
      throw_error({"ncclGetUniqueId: ", Library::text(answer)});
  }
  const list<list<char>> makers = gather_lists(together, makes, "whose number a communicator has");
  const list<list<unique_id_bytes>> ids = gather_lists(together, mine, "numbers of communicators");
  for (std::size_t g = 0; g < firsts.size(); ++g)
    for (std::size_t p = 0; p < ids.size(); ++p)
      if (makers[p][g]) mine[g] = ids[p][g];
  return mine;
}

}  // namespace partita
