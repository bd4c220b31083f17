// Ranks whose devices are GPUs, with NCCL between them. `Library` is comm/nccl/library.hpp's, or a test's.
#pragma once
#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <partita/comm/groups.hpp>
#include <partita/comm/nccl/watchdog.hpp>
#include <partita/comm/nccl/world.hpp>
#include <partita/comm/stream_communicator.hpp>
#include <partita/core/list.hpp>
#include <partita/core/words.hpp>

namespace partita {

// Lives and ends on its rank's thread, whose device is set. `ids` are make_unique_ids'. Makes one communicator of NCCL for each
// group that the rank is a member of, and one of all ranks, in the order of the groups: the same on all ranks, so that none waits
// in a circle. `first_use`, of a group or -1 for all ranks: what the program calls it for first, for errors.
template <class Library> class nccl_communicator {
 public:
  using stream_type = typename Library::stream_type;

  nccl_communicator(nccl_world& world, std::span<unique_id_bytes const> ids, int rank,
                    std::function<std::string(int group)> first_use = {})
      : world_(&world), rank_(rank), first_use_(std::move(first_use)), watchdog_(world, [this](call const& c, double waited) {
          return words({"rank ", rank_, ", ", c.what, ", ", c.is_of_all ? "all its communicators" : words_of(c.group),
                        ", has not returned within ", waited, " s", c.what == making ? words_of_makers(c.group) : ""});
        }) {
    comms_.reserve(world.groups().size() + 1);
    try {
      for (std::size_t g = 0; g < world.groups().size(); ++g) {
        list<int> const& ranks = world.groups()[g];
        const bool is_member = std::binary_search(ranks.begin(), ranks.end(), rank);
        comms_.push_back(is_member ? make(static_cast<int>(g), ranks, ids[g]) : no_comm);
      }
      list<int> all(static_cast<std::size_t>(world.size()));
      std::iota(all.begin(), all.end(), 0);
      comms_.push_back(all.size() > 1 ? make(-1, all, ids.back()) : no_comm);
    } catch (...) {
      world.abort(detail::comm::reason_of(std::current_exception()));  // the others may wait for this rank
      end();
      throw;
    }
  }
  nccl_communicator(nccl_communicator const&) = delete;
  nccl_communicator& operator=(nccl_communicator const&) = delete;
  ~nccl_communicator() { end(); }

  int rank() const { return rank_; }
  int size() const { return world_->size(); }
  traffic_counts traffic() const { return traffic_; }
  void count_again(traffic_counts const& of_graph) { traffic_ += of_graph; }

  void all_reduce(std::size_t group, std::span<joined_call const> calls, dtype type, reduction how, stream_type stream) {
    const grouped whole(*this, static_cast<int>(group));
    const std::size_t members = world_->groups()[group].size();
    for (joined_call const& c : calls) {
      check(Library::all_reduce(c.to, c.to, c.counts[0], type, how, comms_[group], stream), "ncclAllReduce");
      count(communication::all_reduce, 2 * (members - 1) * c.counts[0] * size_of(type) / members);
    }
  }
  void all_gather(std::size_t group, std::span<joined_call const> calls, dtype type, stream_type stream) {
    const grouped whole(*this, static_cast<int>(group));
    for (joined_call const& c : calls) {
      count(communication::all_gather, (c.counts.size() - 1) * c.counts[member(group)] * size_of(type));
      if (even(c.counts)) {
        check(Library::all_gather(c.from, c.to, c.counts[0], type, comms_[group], stream), "ncclAllGather");
        continue;
      }
      const std::size_t me = member(group);  // uneven: each member's piece from it to all
      auto* to = static_cast<std::byte*>(c.to);
      for (std::size_t m = 0; m < c.counts.size(); to += c.counts[m++] * size_of(type))
        if (c.counts[m] > 0)
          check(Library::broadcast(m == me ? c.from : to, to, c.counts[m], type, static_cast<int>(m), comms_[group], stream),
                "ncclBroadcast");
    }
  }
  void reduce_scatter(std::size_t group, std::span<joined_call const> calls, dtype type, reduction how, stream_type stream) {
    const grouped whole(*this, static_cast<int>(group));
    for (joined_call const& c : calls) {
      const std::size_t all = std::accumulate(c.counts.begin(), c.counts.end(), std::size_t{0});
      count(communication::reduce_scatter, (all - c.counts[member(group)]) * size_of(type));
      if (even(c.counts)) {
        check(Library::reduce_scatter(c.from, c.to, c.counts[0], type, how, comms_[group], stream), "ncclReduceScatter");
        continue;
      }
      auto* from = static_cast<std::byte const*>(c.from);  // uneven: each member's piece from all to it
      for (std::size_t m = 0; m < c.counts.size(); from += c.counts[m++] * size_of(type))
        if (c.counts[m] > 0)
          check(Library::reduce(from, c.to, c.counts[m], type, how, static_cast<int>(m), comms_[group], stream), "ncclReduce");
    }
  }
  void all_to_all(std::size_t group, void const* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> receive_counts, dtype type, stream_type stream) {
    const grouped whole(*this, static_cast<int>(group));
    auto* from = static_cast<std::byte const*>(send);
    auto* to = static_cast<std::byte*>(receive);
    const std::size_t all = std::accumulate(send_counts.begin(), send_counts.end(), std::size_t{0});
    count(communication::all_to_all, (all - send_counts[member(group)]) * size_of(type));
    for (std::size_t m = 0; m < send_counts.size(); ++m) {
      const int peer = static_cast<int>(m);
      const std::size_t sent = send_counts[m] * size_of(type), received = receive_counts[m] * size_of(type);
      if (sent > 0) check(Library::send(from, sent, peer, comms_[group], stream), "ncclSend");
      if (received > 0) check(Library::receive(to, received, peer, comms_[group], stream), "ncclRecv");
      from += sent;
      to += received;
    }
  }
  void exchange(std::span<placed_transfer const> sends, std::span<placed_transfer const> receives, stream_type stream) {
    const grouped whole(*this, -1);
    std::size_t bytes = 0;
    for (placed_transfer const& t : sends) bytes += t.peer == rank_ ? 0 : t.bytes;
    count(communication::exchange, bytes);
    for (placed_transfer const& t : sends)
      if (t.bytes > 0) check(Library::send(t.data, t.bytes, t.peer, comms_.back(), stream), "ncclSend");
    for (placed_transfer const& t : receives)
      if (t.bytes > 0) check(Library::receive(t.data, t.bytes, t.peer, comms_.back(), stream), "ncclRecv");
  }

  void look() {
    if (world_->is_aborted()) throw aborted("all ranks stop: " + world_->reason());
    for (std::size_t g = 0; g < comms_.size(); ++g)
      if (comms_[g] != no_comm)
        if (const auto answer = Library::asynchronous_error(comms_[g]); answer != Library::success)
          throw communication_error(group_of(g),
                                    words({"NCCL, in ", world_->words_of_group(group_of(g)), ": ", Library::text(answer)}));
  }
  [[nodiscard]] auto watch_launches() {
    return typename watchdog<Library>::watched(watchdog_, {"launching a step", -1, false, true});
  }
  void note_started(int group) { world_->begun().note_collective(rank_, group); }
  void note_started(std::span<placed_transfer const> sends, std::span<placed_transfer const> receives) {
    world_->begun().note_exchange(rank_, sends, receives);
  }
  std::string words_of_missing(int group) const {
    using kind = detail::comm::waited_call::kind;
    return world_->words_of_missing({group < 0 ? kind::exchange : kind::collective, rank_, group});
  }
  void abort(std::string reason) {
    world_->abort(words({"rank ", rank_, " failed first: ", reason}), words({"rank ", rank_, ", ", reason}));
    abort_comms();
  }

 private:
  using comm_type = typename Library::comm_type;
  using call = typename watchdog<Library>::call;
  static constexpr comm_type no_comm{};
  static constexpr std::string_view making = "ncclCommInitRank";

  // Between these NCCL only notes what is wanted; it begins at the end, with everything together.
  class grouped {
   public:
    grouped(nccl_communicator& of, int group) : of_(&of), group_(group) {
      of.look_aborted();
      of.check(Library::group_start(), "ncclGroupStart");
    }
    ~grouped() noexcept(false) {
      const auto answer = [&] {
        const typename watchdog<Library>::watched while_it_connects(of_->watchdog_, {"ncclGroupEnd", group_});
        return Library::group_end();
      }();
      if (std::uncaught_exceptions() == before_) of_->check(answer, "ncclGroupEnd");
    }

   private:
    nccl_communicator* of_;
    int group_;
    int before_ = std::uncaught_exceptions();
  };

  void count(communication kind, std::size_t bytes) {
    traffic_.bytes[static_cast<std::size_t>(kind)] += bytes;
    ++traffic_.calls[static_cast<std::size_t>(kind)];
  }
  void look_aborted() {
    if (world_->is_aborted()) look();
  }
  static void check(typename Library::result answer, std::string_view what) {
    if (answer != Library::success) throw_error({what, ": ", Library::text(answer)});
  }
  static bool even(std::span<const std::size_t> counts) {
    return std::all_of(counts.begin(), counts.end(), [&](std::size_t n) { return n == counts[0]; });
  }
  std::size_t member(std::size_t group) const {
    list<int> const& ranks = world_->groups()[group];
    return static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), rank_) - ranks.begin());
  }
  int group_of(std::size_t comm) const { return comm == world_->groups().size() ? -1 : static_cast<int>(comm); }
  std::string words_of_use(int group) const {
    const std::string use = first_use_ ? first_use_(group) : std::string();
    return use.empty() ? use : words({" (first for ", use, ")"});
  }
  std::string words_of(int group) const { return world_->words_of_group(group) + words_of_use(group); }
  comm_type make(int group, list<int> const& ranks, unique_id_bytes const& id) {
    const auto me = static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank_) - ranks.begin());
    comm_type made{};
    world_->begun().note_communicator(rank_, group);
    const typename watchdog<Library>::watched until_all_come(watchdog_, {making, group});
    if (const auto answer = Library::create(made, static_cast<int>(ranks.size()), id, me); answer != Library::success)
      throw communication_error(group, words({"rank ", rank_, ", ", making, ", ", words_of(group), ": ", Library::text(answer)}));
    return made;
  }
  std::string words_of_makers(int group) const {
    return world_->words_of_missing({detail::comm::waited_call::kind::communicator, rank_, group});
  }
  // Each waits until the device has done what NCCL gave it, and until no graph holds calls of it any more. The device may be in
  // a call of another communicator, for ranks that never come: only when all are told to stop does any of them end
  // (github.com/NVIDIA/nccl/issues/1013).
  void abort_comms() {
    if (std::all_of(comms_.begin(), comms_.end(), [](comm_type c) { return c == no_comm; })) return;
    const typename watchdog<Library>::watched until_all_have_ended(
        watchdog_, {.what = "ncclCommAbort", .group = -1, .may_wait = true, .is_of_all = true});
    (void)Library::group_start();
    for (comm_type& c : comms_)
      if (c != no_comm) Library::abort(std::exchange(c, no_comm));
    (void)Library::group_end();
  }
  void end() {
    for (std::size_t c = 0; c < comms_.size() && !world_->is_aborted(); ++c) {
      if (comms_[c] == no_comm) continue;
      const typename watchdog<Library>::watched until_it_has_ended(watchdog_, {"ncclCommDestroy", group_of(c), true});
      Library::destroy(std::exchange(comms_[c], no_comm));
    }
    abort_comms();  // what is left, where a rank has failed
  }

  nccl_world* world_;
  int rank_;
  traffic_counts traffic_;
  list<comm_type> comms_;  // by group, then that of all ranks
  std::function<std::string(int group)> first_use_;
  watchdog<Library> watchdog_;
};

}  // namespace partita
