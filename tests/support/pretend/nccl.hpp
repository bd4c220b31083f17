// NCCL as far as communicators call it, between the devices of a pretended machine. A collective ends once every member has
// come to it with the same call; members that come with different calls, which on GPUs hang or move wrong bytes, are an
// error. Reductions are made in the order of members.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <partita/comm/nccl/world.hpp>

#include "machine.hpp"

namespace partita::testing::pretend {

enum class call_kind { all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, receive };

struct nccl_call {
  call_kind kind;
  void const* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  dtype type = f32;
  reduction how = reduction::sum;
  int peer = 0;  // or root
};

// What the members of one communicator share.
class shared_comm {
 public:
  explicit shared_comm(int ranks) : ranks_(ranks) {}

  bool join() {
    std::unique_lock lock(mutex_);
    if (++joined_ == ranks_) changed_.notify_all();
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return joined_ == ranks_; });
  }
  std::string error() const {
    const std::scoped_lock lock(mutex_);
    return error_;
  }
  void breaks(std::string why) {
    const std::scoped_lock lock(mutex_);
    if (error_.empty()) error_ = std::move(why);
  }

  // A rank comes to its number-th collective; its buffers stay until it has ended.
  void arrive(std::uint64_t number, int rank, nccl_call const& c) {
    const std::scoped_lock lock(mutex_);
    std::vector<std::optional<nccl_call>>& all = open_[number];
    all.resize(static_cast<std::size_t>(ranks_));
    for (auto const& other : all)
      if (other && (other->kind != c.kind || other->count != c.count || other->type != c.type || other->how != c.how ||
                    (c.kind == call_kind::broadcast || c.kind == call_kind::reduce ? other->peer != c.peer : false))) {
        if (error_.empty()) error_ = "members of one collective make different calls";
        return;
      }
    all[static_cast<std::size_t>(rank)] = c;
    for (auto const& each : all)
      if (!each) return;
    run(all);
    open_.erase(number);
    ended_ = std::max(ended_, number + 1);
  }
  bool has_ended(std::uint64_t number) const {
    const std::scoped_lock lock(mutex_);
    return number < ended_;
  }
  // The number-th transfer from one rank to another, from either side.
  void arrive(int from, int to, std::uint64_t number, nccl_call const& c) {
    const std::scoped_lock lock(mutex_);
    auto& [send, receive] = transfers_[{from, to, number}];
    (c.kind == call_kind::send ? send : receive) = c;
    if (!send || !receive) return;
    if (send->count != receive->count) {
      if (error_.empty()) error_ = "a receive takes another number of bytes than its send gives";
      return;
    }
    std::memcpy(receive->to, send->from, send->count);
    done_.insert({from, to, number});
  }
  bool has_ended(int from, int to, std::uint64_t number) const {
    const std::scoped_lock lock(mutex_);
    return done_.contains({from, to, number});
  }

 private:
  using transfer_key = std::tuple<int, int, std::uint64_t>;
  struct both_sides {
    std::optional<nccl_call> send, receive;
  };

  template <class T>
  void combine(std::vector<std::optional<nccl_call>> const& all, std::size_t begin, std::size_t count, T* to) const {
    std::vector<T> result(static_cast<T const*>(all[0]->from) + begin, static_cast<T const*>(all[0]->from) + begin + count);
    for (std::size_t m = 1; m < all.size(); ++m) {
      T const* const more = static_cast<T const*>(all[m]->from) + begin;
      for (std::size_t i = 0; i < count; ++i)
        result[i] = all[0]->how == reduction::sum ? static_cast<T>(result[i] + more[i]) : std::max(result[i], more[i]);
    }
    std::copy(result.begin(), result.end(), to);
  }
  template <class T> void run_typed(std::vector<std::optional<nccl_call>>& all) {
    const std::size_t n = all[0]->count, members = all.size();
    std::vector<T> whole;
    switch (all[0]->kind) {
      case call_kind::all_reduce:
        whole.resize(n);
        combine<T>(all, 0, n, whole.data());
        for (auto& c : all) std::copy(whole.begin(), whole.end(), static_cast<T*>(c->to));
        return;
      case call_kind::reduce:
        whole.resize(n);
        combine<T>(all, 0, n, whole.data());
        std::copy(whole.begin(), whole.end(), static_cast<T*>(all[static_cast<std::size_t>(all[0]->peer)]->to));
        return;
      case call_kind::reduce_scatter:
        whole.resize(n * members);
        combine<T>(all, 0, n * members, whole.data());
        for (std::size_t m = 0; m < members; ++m)
          std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(m * n), n, static_cast<T*>(all[m]->to));
        return;
      case call_kind::all_gather:
        for (std::size_t m = 0; m < members; ++m)
          whole.insert(whole.end(), static_cast<T const*>(all[m]->from), static_cast<T const*>(all[m]->from) + n);
        for (auto& c : all) std::copy(whole.begin(), whole.end(), static_cast<T*>(c->to));
        return;
      case call_kind::broadcast: {
        auto const* const root = static_cast<T const*>(all[static_cast<std::size_t>(all[0]->peer)]->from);
        whole.assign(root, root + n);
        for (auto& c : all) std::copy(whole.begin(), whole.end(), static_cast<T*>(c->to));
        return;
      }
      default: return;
    }
  }
  void run(std::vector<std::optional<nccl_call>>& all) {
    if (all[0]->how == reduction::max && all[0]->type == f64) run_typed<std::int64_t>(all);  // keys
    else if (all[0]->how == reduction::max) run_typed<std::int32_t>(all);
    else if (all[0]->type == f64) run_typed<double>(all);
    else if (all[0]->type == bf16) run_typed<bfloat16>(all);
    else if (all[0]->type == i32) run_typed<std::int32_t>(all);
    else run_typed<float>(all);
  }

  int ranks_, joined_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string error_;
  std::map<std::uint64_t, std::vector<std::optional<nccl_call>>> open_;
  std::uint64_t ended_ = 0;
  std::map<transfer_key, both_sides> transfers_;
  std::set<transfer_key> done_;
};

struct rank_comm {
  std::shared_ptr<shared_comm> shared;
  int rank = 0;
  std::uint64_t collectives = 0;
  std::map<std::pair<int, int>, std::uint64_t> transfers;
  bool ended = false;  // by destroy or abort
};

struct nccl {
  enum result { success, failed };
  using stream_type = stream_state*;
  using comm_type = rank_comm*;

  static std::string text(result) { return last_error.empty() ? "failed" : last_error; }

  static result make_unique_id(unique_id_bytes& id) {
    const std::scoped_lock lock(registry_mutex);
    const std::uint64_t number = ++ids_made;
    std::memcpy(id.data(), &number, sizeof number);
    return success;
  }
  static result create(comm_type& made, int ranks, unique_id_bytes const& id, int rank) {
    std::uint64_t number = 0;
    std::memcpy(&number, id.data(), sizeof number);
    made = new rank_comm;
    made->rank = rank;
    {
      const std::scoped_lock lock(registry_mutex);
      auto& shared = registry[number];
      if (!shared) shared = std::make_shared<shared_comm>(ranks);
      made->shared = shared;
    }
    if (made->shared->join()) return success;
    last_error = "not all ranks have come";
    delete std::exchange(made, nullptr);
    return failed;
  }
  static void destroy(comm_type c) { abort(c); }
  static void abort(comm_type c) {
    c->ended = true;  // its tasks end without doing anything; it stays, as they point to it
    const std::scoped_lock lock(registry_mutex);
    ended.emplace_back(c);
  }
  static result asynchronous_error(comm_type c) {
    last_error = c->shared->error();
    return last_error.empty() ? success : failed;
  }

  static result group_start() {
    ++depth;
    return success;
  }
  static result group_end() {
    if (--depth > 0) return success;
    std::vector<posted> all = std::exchange(waiting, {});
    std::vector<stream_type> streams;
    for (posted const& p : all)
      if (std::find(streams.begin(), streams.end(), p.stream) == streams.end()) streams.push_back(p.stream);
    for (stream_type s : streams) {
      std::vector<posted> mine;
      for (posted const& p : all)
        if (p.stream == s) mine.push_back(p);
      machine::here().issue(s, [mine, s] { put(mine, s); });
    }
    return success;
  }

  static result all_reduce(void const* from, void* to, std::size_t n, dtype type, reduction how, comm_type c, stream_type s) {
    return post({call_kind::all_reduce, from, to, n, type, how}, c, s);
  }
  static result all_gather(void const* from, void* to, std::size_t n, dtype type, comm_type c, stream_type s) {
    return post({call_kind::all_gather, from, to, n, type}, c, s);
  }
  static result reduce_scatter(void const* from, void* to, std::size_t n, dtype type, reduction how, comm_type c, stream_type s) {
    return post({call_kind::reduce_scatter, from, to, n, type, how}, c, s);
  }
  static result broadcast(void const* from, void* to, std::size_t n, dtype type, int root, comm_type c, stream_type s) {
    return post({call_kind::broadcast, from, to, n, type, reduction::sum, root}, c, s);
  }
  static result reduce(void const* from, void* to, std::size_t n, dtype type, reduction how, int root, comm_type c,
                       stream_type s) {
    return post({call_kind::reduce, from, to, n, type, how, root}, c, s);
  }
  static result send(void const* from, std::size_t bytes, int peer, comm_type c, stream_type s) {
    return post({call_kind::send, from, nullptr, bytes, f32, reduction::sum, peer}, c, s);
  }
  static result receive(void* to, std::size_t bytes, int peer, comm_type c, stream_type s) {
    return post({call_kind::receive, nullptr, to, bytes, f32, reduction::sum, peer}, c, s);
  }

 private:
  struct posted {
    nccl_call what;
    comm_type comm;
    stream_type stream;
  };

  static result post(nccl_call const& what, comm_type c, stream_type s) {
    const bool alone = depth == 0;
    if (alone) ++depth;
    waiting.push_back({what, c, s});
    return alone ? group_end() : success;
  }
  // One task, which comes to all calls of the group at once and ends when all have. Numbers are given in the order of calls.
  static void put(std::vector<posted> const& group, stream_type s) {
    std::vector<std::uint64_t> numbers;
    for (posted const& p : group) {
      if (p.what.kind == call_kind::send) numbers.push_back(p.comm->transfers[{p.comm->rank, p.what.peer}]++);
      else if (p.what.kind == call_kind::receive) numbers.push_back(p.comm->transfers[{p.what.peer, ~p.comm->rank}]++);
      else numbers.push_back(p.comm->collectives++);
    }
    const bool fails = machine::here().fails_collective();
    machine::here().put(s, [group, numbers, fails, arrived = false]() mutable {
      if (fails) group[0].comm->shared->breaks("a collective failed, as it was told to");
      bool all = true;
      for (std::size_t k = 0; k < group.size(); ++k) {
        auto const& [what, comm, stream] = group[k];
        if (comm->ended) continue;
        const bool sends = what.kind == call_kind::send, moves = sends || what.kind == call_kind::receive;
        const int from = sends ? comm->rank : what.peer, to = sends ? what.peer : comm->rank;
        if (!arrived && !moves) comm->shared->arrive(numbers[k], comm->rank, what);
        if (!arrived && moves) comm->shared->arrive(from, to, numbers[k], what);
        all = all && (moves ? comm->shared->has_ended(from, to, numbers[k]) : comm->shared->has_ended(numbers[k]));
      }
      arrived = true;
      return all;
    });
  }

  inline static thread_local int depth = 0;
  inline static thread_local std::vector<posted> waiting;
  inline static thread_local std::string last_error;
  inline static std::mutex registry_mutex;
  inline static std::uint64_t ids_made = 0;
  inline static std::map<std::uint64_t, std::shared_ptr<shared_comm>> registry;
  inline static std::vector<std::unique_ptr<rank_comm>> ended;
};

}  // namespace partita::testing::pretend
