// What the ranks of a program know of each other, beside what NCCL moves between them: whether somebody has failed, and where one
// waits too long for the others, how far these have come.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <partita/comm/communicator.hpp>
#include <partita/comm/groups.hpp>
#include <partita/comm/nccl/begun_calls.hpp>
#include <partita/comm/nccl/preparation.hpp>
#include <partita/comm/processes.hpp>
#include <partita/core/list.hpp>
#include <partita/core/words.hpp>

namespace partita {

// The number that a communicator of NCCL begins with: one of its ranks makes it, all are given it.
using unique_id_bytes = std::array<std::byte, 128>;  // NCCL_UNIQUE_ID_BYTES

class nccl_world {
 public:
  using waited_call = detail::comm::waited_call;
  static constexpr double most_answer_seconds =
      3;  // in which other processes say how far they have come; no more than a time-out

  // Groups as in a program: ascending ranks. `here`: the ranks of this process, ascending. `timeout_seconds`: in which a call
  // that waits for other ranks has to return.
  nccl_world(int ranks, list<list<int>> groups, list<int> here, double timeout_seconds = 300)
      : size_(ranks),
        groups_(std::move(groups)),
        here_(std::move(here)),
        timeout_seconds_(timeout_seconds),
        begun_(std::max(ranks, 0), groups_.size(), here_) {
    if (ranks < 1) throw_error({"a world has at least one rank, not ", ranks});
  }
  nccl_world(nccl_world const&) = delete;
  nccl_world& operator=(nccl_world const&) = delete;
  int size() const { return size_; }
  double timeout_seconds() const { return timeout_seconds_; }
  list<list<int>> const& groups() const { return groups_; }

  // Where other processes have ranks of this world: from now on a failure here is told to them and theirs stops this world, and a
  // time-out asks them how far they have come. They outlive the world. All processes call it.
  static void join(std::shared_ptr<nccl_world> const& world, processes& together) {
    if (together.size() == 1) return;
    world->ranks_of_ = gather_lists(together, world->here_, "the ranks of each process");
    world->together_ = &together;
    const std::weak_ptr<nccl_world> mine = world;
    together.on_abort([mine](std::string const& reason) {
      if (const auto still_there = mine.lock()) still_there->hear(reason);
    });
    world->question_ = together.on_question([mine](std::string const& question) {
      const auto still_there = mine.lock();
      return still_there ? still_there->answer(question) : std::string();
    });
  }

  // The first reason counts. Other processes hear `told` before anything here acts on the reason: who does may end its process.
  void abort(std::string reason, std::string const& told) {
    if (is_aborted()) return;
    if (together_ != nullptr) together_->abort(told);
    hear(std::move(reason));
  }
  void abort(std::string const& reason) { abort(reason, reason); }
  bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }
  std::string reason() const {
    const std::scoped_lock lock(mutex_);
    return reason_;
  }

  // What a rank of this process has begun.
  detail::comm::begun_calls& begun() { return begun_; }
  // Of what a rank of this process waits for: "; rank 2 has not begun it", or "; rank 2 of process 1 has not begun it", or which
  // processes do not answer. Takes up to most_answer_seconds where other processes have a part in it.
  std::string words_of_missing(waited_call const& call) const {
    const std::size_t count = std::max<std::size_t>(ranks_of_.size(), 1);
    const auto me = static_cast<std::size_t>(together_ != nullptr ? together_->rank() : 0);
    list<list<int>> members(count), late(count);
    bool others = false;
    list<int> whom;  // of a large job few have a part in it
    for (std::size_t p = 0; p < count; ++p) {
      for (int rank : p == me ? here_ : ranks_of_[p])
        if (rank != call.rank && takes_part(rank, call)) members[p].push_back(rank);
      const bool has_part = p != me && !members[p].empty();
      others = others || has_part;
      if (has_part || (together_ != nullptr && together_->passes_on() == static_cast<int>(p)))
        whom.push_back(static_cast<int>(p));
    }
    list<std::optional<std::string>> answers(count);
    if (others) answers = together_->ask(question_, detail::comm::bytes_of(list<waited_call>{call}), whom, answer_seconds());
    if (others && is_aborted()) return {};  // nobody waits for answers then; the reason says who has failed
    answers[me] = answer(call);
    std::string all;
    list<int> unknown;
    for (std::size_t p = 0; p < count; ++p) {
      if (members[p].empty()) continue;
      const std::string whose = count > 1 ? words({" of process ", p}) : std::string();
      if (answers[p]) {
        late[p] = those_late(members[p], *answers[p], call);
        if (!late[p].empty())
          all += words({"; ", named(late[p]), whose, late[p].size() == 1 ? " has" : " have", " not begun it"});
      } else unknown.append(members[p]);
    }
    if (!unknown.empty()) all += words_of_silence(answers, members, unknown, me);
    else if (all.empty() && call.what == waited_call::kind::exchange) all = "; the ranks it exchanges with have begun it";
    else if (all.empty()) all = words({"; all have begun it, of ", words_of_group(call.group)});
    return all;
  }
  // "group 1 {0, 2}"
  std::string words_of_group(int group) const {
    if (group < 0) return "all ranks";
    return words({"group ", group, " ", detail::comm::names_of(groups_[static_cast<std::size_t>(group)])});
  }

 private:
  void hear(std::string reason) {
    const std::scoped_lock lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return;
    reason_ = std::move(reason);
    aborted_.store(true, std::memory_order_release);
  }
  double answer_seconds() const { return std::min(timeout_seconds_, most_answer_seconds); }
  static std::string named(list<int> const& ranks) {
    std::string all = ranks.size() == 1 ? "rank" : "ranks";
    for (std::size_t k = 0; k < ranks.size(); ++k) all += words({k == 0 ? " " : ", ", ranks[k]});
    return all;
  }
  bool is_member(int rank, int group) const {
    if (group < 0) return true;
    list<int> const& all = groups_[static_cast<std::size_t>(group)];
    return std::binary_search(all.begin(), all.end(), rank);
  }
  bool takes_part(int rank, waited_call const& call) const {
    if (call.what != waited_call::kind::exchange) return is_member(rank, call.group);
    const auto wanted = begun_.wanted(rank, call);
    return wanted.calls > 0 || wanted.taken > 0;
  }
  // How far the ranks of this process have come.
  std::string answer(waited_call const& call) const {
    if (call.rank < 0 || call.rank >= size_ || call.group < -1 || call.group >= static_cast<int>(groups_.size())) return {};
    list<detail::comm::progress_of_rank> all;
    for (int rank : here_)
      if (call.what == waited_call::kind::exchange || is_member(rank, call.group)) all.push_back(begun_.of(rank, call));
    return detail::comm::bytes_of(all);
  }
  std::string answer(std::string const& question) const {
    const auto asked = detail::comm::read_bytes<waited_call>(question);
    return asked.size() == 1 ? answer(asked[0]) : std::string();
  }
  // Who says nothing of a member has not begun.
  list<int> those_late(list<int> const& members, std::string const& answered, waited_call const& call) const {
    const auto all = detail::comm::read_bytes<detail::comm::progress_of_rank>(answered);
    list<int> late;
    for (int rank : members) {
      const auto wanted = begun_.wanted(rank, call);
      const bool is_there = std::any_of(all.begin(), all.end(), [&](detail::comm::progress_of_rank const& p) {
        return p.rank == rank && p.calls >= wanted.calls && p.taken >= wanted.taken;
      });
      if (!is_there) late.push_back(rank);
    }
    return late;
  }
  std::string words_of_silence(list<std::optional<std::string>> const& answers, list<list<int>> const& members,
                               list<int> const& unknown, std::size_t me) const {
    const std::string in_time = words({" has not answered within ", answer_seconds(), " s"});
    if (const int by = together_->passes_on();
        by >= 0 && static_cast<std::size_t>(by) != me && !answers[static_cast<std::size_t>(by)])
      return words(
          {"; process ", by, ", which passes on what others say,", in_time, ", so nothing is known of ", named(unknown)});
    std::string all;
    for (std::size_t p = 0; p < answers.size(); ++p)
      if (!answers[p] && !members[p].empty()) all += words({"; process ", p, ", which has ", named(members[p]), ",", in_time});
    return all;
  }

  int size_;
  list<list<int>> groups_;
  list<int> here_;
  double timeout_seconds_;
  detail::comm::begun_calls begun_;
  processes* together_ = nullptr;  // where others have ranks
  list<list<int>> ranks_of_;       // by process, then
  int question_ = -1;
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
