// Ranks that are threads of one process: the default communicator, without set-up.
//
//   partita::thread_world world(4, {{0, 1, 2, 3}, {0, 1}, {2, 3}});
//   // on the thread of rank r:
//   partita::thread_communicator comm = world.communicator(r);
//   comm.all_reduce(0, gradients.data(), gradients.size(), partita::f32, partita::reduction::sum);
//
// The world outlives every call. A rank whose computation fails calls `abort` with its exception, so that the others
// stop waiting for it.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <partita/comm/communicator.hpp>
#include <partita/comm/groups.hpp>
#include <partita/comm/threads/exchange.hpp>
#include <partita/comm/threads/rendezvous.hpp>
#include <partita/core/list.hpp>
#include <partita/core/patience.hpp>
#include <partita/core/words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct thread_world_options {
  unsigned threads = 0;       // that want a core at a time, compute lanes included; 0: as many as ranks
  std::size_t messages = 64;  // of one exchange that need no allocation
};

class thread_communicator;

class thread_world {
 public:
  // `groups[g]` lists the ranks of group g, ascending. Throws error where it does not.
  thread_world(int ranks, list<list<int>> const& groups, thread_world_options options = {}) : size_(ranks) {
    if (ranks < 1) throw_error({"a world has at least one rank, not ", ranks});
    auto const count = static_cast<std::size_t>(ranks);
    for (std::size_t group = 0; group < groups.size(); ++group) {
      detail::comm::check_group(group, groups[group], size_);
      groups_.emplace_back(group, groups[group]);
    }
    ranks_ = std::make_unique<rank_state[]>(count);
    const unsigned threads = options.threads == 0 ? static_cast<unsigned>(ranks) : options.threads;
    channels_ = std::make_unique<detail::comm::channel[]>(count * count);
    for (std::size_t rank = 0; rank < count; ++rank) {
      ranks_[rank].patience = detail::patience(threads <= std::thread::hardware_concurrency());
      ranks_[rank].exchanges.reserve(options.messages);
    }
  }
  thread_world(thread_world const&) = delete;
  thread_world& operator=(thread_world const&) = delete;

  int size() const { return size_; }
  std::size_t groups() const { return groups_.size(); }
  std::span<int const> members(std::size_t group) const {
    if (group >= groups_.size()) throw_error({"group ", group, " does not exist; there are ", groups_.size()});
    return groups_[group].ranks();
  }

  // A handle, cheap to copy; refers to the world.
  thread_communicator communicator(int rank);

  void abort(std::string reason) { stop({}, std::move(reason)); }
  void abort(std::exception_ptr failure) { stop({}, detail::comm::reason_of(failure)); }
  bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }

  traffic_counts traffic(int rank) const {
    rank_state const& state = ranks_[index_of(rank)];
    traffic_counts counts;
    for (std::size_t kind = 0; kind < communication_kinds; ++kind) {
      counts.bytes[kind] = state.bytes[kind].load(std::memory_order_relaxed);
      counts.calls[kind] = state.calls[kind].load(std::memory_order_relaxed);
    }
    return counts;
  }

 private:
  friend class thread_communicator;

  struct alignas(detail::comm::cache_line) rank_state {
    detail::comm::exchanger exchanges;
    detail::patience patience;
    std::array<std::atomic<std::uint64_t>, communication_kinds> bytes{}, calls{};
  };

  std::size_t index_of(int rank) const {
    if (rank < 0 || rank >= size_) throw_error({"rank ", rank, " does not exist; there are ", size_});
    return static_cast<std::size_t>(rank);
  }

  void stop(std::string_view who, std::string reason) {
    {
      const std::scoped_lock lock(abort_mutex_);
      if (aborted_.load(std::memory_order_relaxed)) return;
      abort_message_ = "all ranks stop, because ";
      abort_message_ += who.empty() ? std::string_view("the world was aborted") : who;
      abort_message_ += ": " + reason;
      aborted_.store(true, std::memory_order_seq_cst);
    }
    for (detail::comm::rendezvous& group : groups_) group.wake();
    for (int rank = 0; rank < size_; ++rank) ranks_[static_cast<std::size_t>(rank)].exchanges.box().wake();
  }

  [[noreturn]] void throw_aborted() const { throw aborted(abort_message_); }

  int size_;
  std::deque<detail::comm::rendezvous> groups_;
  std::unique_ptr<rank_state[]> ranks_;
  std::unique_ptr<detail::comm::channel[]> channels_;  // source * size + destination
  std::mutex abort_mutex_;
  std::string abort_message_;  // written once, before aborted_ is set
  std::atomic<bool> aborted_{false};
};

// A rank's side of a thread_world. See comm/communicator.hpp for what the calls mean.
class thread_communicator {
 public:
  thread_communicator(thread_world& world, int rank) : world_(&world), rank_(rank), state_(&world.ranks_[world.index_of(rank)]) {}

  int rank() const { return rank_; }
  int size() const { return world_->size(); }
  std::span<int const> members(std::size_t group) const { return world_->members(group); }
  traffic_counts traffic() const { return world_->traffic(rank_); }

  void all_reduce(std::size_t group, void* buffer, std::size_t count, dtype type, reduction how) {
    const place own =
        meet(group, {.kind = communication::all_reduce, .type = type, .how = how, .count = count, .from = buffer, .to = buffer});
    record(communication::all_reduce, 2 * (own.members - 1) * count * size_of(type) / own.members);
  }

  void all_gather(std::size_t group, void const* mine, void* all, std::span<const std::size_t> counts, dtype type) {
    const place own = meet(group, {.kind = communication::all_gather, .type = type, .from = mine, .to = all, .counts = counts});
    record(communication::all_gather, (own.members - 1) * counts[own.index] * size_of(type));
  }

  void reduce_scatter(std::size_t group, void const* all, void* mine, std::span<const std::size_t> counts, dtype type,
                      reduction how) {
    const place own =
        meet(group, {.kind = communication::reduce_scatter, .type = type, .how = how, .from = all, .to = mine, .counts = counts});
    record(communication::reduce_scatter, (detail::comm::sum(counts) - counts[own.index]) * size_of(type));
  }

  // Several at once: see joined_call.
  void all_reduce(std::size_t group, std::span<const joined_call> calls, dtype type, reduction how) {
    const place own = meet(group, {.kind = communication::all_reduce, .type = type, .how = how, .joined = calls});
    std::size_t count = 0;
    for (joined_call const& c : calls) count += c.counts[0];
    record(communication::all_reduce, 2 * (own.members - 1) * count * size_of(type) / own.members);
  }

  void all_gather(std::size_t group, std::span<const joined_call> calls, dtype type) {
    const place own = meet(group, {.kind = communication::all_gather, .type = type, .joined = calls});
    std::size_t count = 0;
    for (joined_call const& c : calls) count += c.counts[own.index];
    record(communication::all_gather, (own.members - 1) * count * size_of(type));
  }

  void reduce_scatter(std::size_t group, std::span<const joined_call> calls, dtype type, reduction how) {
    const place own = meet(group, {.kind = communication::reduce_scatter, .type = type, .how = how, .joined = calls});
    std::size_t count = 0;
    for (joined_call const& c : calls) count += detail::comm::sum(c.counts) - c.counts[own.index];
    record(communication::reduce_scatter, count * size_of(type));
  }

  void all_to_all(std::size_t group, void const* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> receive_counts, dtype type) {
    const place own = meet(group, {.kind = communication::all_to_all,
                                   .type = type,
                                   .from = send,
                                   .to = receive,
                                   .counts = send_counts,
                                   .receives = receive_counts});
    record(communication::all_to_all, (detail::comm::sum(send_counts) - send_counts[own.index]) * size_of(type));
  }

  void broadcast(std::size_t group, void* buffer, std::size_t count, dtype type, int root) {
    const place own =
        meet(group, {.kind = communication::broadcast, .type = type, .root = root, .count = count, .from = buffer, .to = buffer});
    bool const last_of_chain = (own.index + 1) % own.members == static_cast<std::size_t>(root);
    record(communication::broadcast, last_of_chain ? 0 : count * size_of(type));
  }

  void exchange(std::span<const message> sends, std::span<const message> receives) {
    if (world_->is_aborted()) world_->throw_aborted();
    std::size_t bytes = 0;
    for (message const& each : sends) {
      world_->index_of(each.peer);
      if (each.peer != rank_) bytes += each.bytes;
    }
    for (message const& each : receives) world_->index_of(each.peer);
    auto channel_of = [&](int source, int destination) -> detail::comm::channel& {
      return world_->channels_[static_cast<std::size_t>(source) * static_cast<std::size_t>(world_->size_) +
                               static_cast<std::size_t>(destination)];
    };
    if (state_->exchanges.run(rank_, sends, receives, channel_of, state_->patience, world_->aborted_) ==
        detail::comm::exchanger::outcome::aborted)
      world_->throw_aborted();
    record(communication::exchange, bytes);
  }

  void barrier(std::size_t group) {
    meet(group, {.kind = communication::barrier});
    record(communication::barrier, 0);
  }

  void abort(std::string reason) { world_->stop(failed(), std::move(reason)); }
  void abort(std::exception_ptr failure) { world_->stop(failed(), detail::comm::reason_of(failure)); }

 private:
  struct place {
    std::size_t index, members;
  };

  std::string failed() const { return words({"rank ", rank_, " failed first"}); }

  place meet(std::size_t group, detail::comm::call const& made) {
    if (world_->is_aborted()) world_->throw_aborted();
    const std::span<int const> ranks = world_->members(group);
    auto const found = std::lower_bound(ranks.begin(), ranks.end(), rank_);
    if (found == ranks.end() || *found != rank_)
      throw_error({"rank ", rank_, " calls ", detail::comm::words(made), " of group ", group, ", of which it is no member"});
    auto const index = static_cast<std::size_t>(found - ranks.begin());
    if (world_->groups_[group].meet(index, made, state_->patience, world_->aborted_) ==
        detail::comm::rendezvous::outcome::aborted)
      world_->throw_aborted();
    return {index, ranks.size()};
  }

  void record(communication kind, std::size_t bytes) {
    state_->bytes[static_cast<std::size_t>(kind)].fetch_add(bytes, std::memory_order_relaxed);
    state_->calls[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  }

  thread_world* world_;
  int rank_;
  thread_world::rank_state* state_;
};

inline thread_communicator thread_world::communicator(int rank) { return {*this, rank}; }

static_assert(communicator<thread_communicator>);

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
