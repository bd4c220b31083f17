// The communicators of the pretended NCCL. A collective ends once every member has come to it with the same call; members that
// come with different calls, which on GPUs hang or move wrong bytes, are an error. Reductions are made in the order of members.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <partita/comm/communicator.hpp>
#include <partita/core/narrow_float.hpp>

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
  int peer = 0;              // or root
  bool is_captured = false;  // which is so for all its members or for none
};

// One communicator, as the devices of this process share it.
class shared_comm {
 public:
  explicit shared_comm(int ranks) : ranks_(ranks) {}
  shared_comm(shared_comm const&) = delete;
  shared_comm& operator=(shared_comm const&) = delete;
  virtual ~shared_comm() = default;

  std::string error() const {
    const std::scoped_lock lock(mutex_);
    return error_;
  }
  void breaks(std::string why) {
    const std::scoped_lock lock(mutex_);
    note(std::move(why));
  }

  // Whether all ranks have come, after a while.
  virtual bool join(int rank) = 0;
  // A rank comes to its number-th collective; its buffers stay until it has ended.
  virtual void arrive(std::uint64_t number, int rank, nccl_call const& c) = 0;
  virtual bool has_ended(std::uint64_t number, int rank) = 0;
  // The number-th transfer from one rank to another, from either side.
  virtual void arrive(int from, int to, std::uint64_t number, nccl_call const& c) = 0;
  virtual bool has_ended(int from, int to, std::uint64_t number, bool sends) = 0;
  // A rank's communicator has ended, and its memory may go: what it has come to and others have not is not done any more.
  virtual void leave(int rank) { static_cast<void>(rank); }

 protected:
  void note(std::string why) {
    if (error_.empty()) error_ = std::move(why);
  }
  // Notes what makes a call another one than its members' elsewhere.
  bool agrees(nccl_call const& a, nccl_call const& b) {
    const bool has_root = a.kind == call_kind::broadcast || a.kind == call_kind::reduce;
    if (a.kind != b.kind || a.count != b.count || a.type != b.type || a.how != b.how || (has_root && a.peer != b.peer))
      note("members of one collective make different calls");
    else if (a.is_captured != b.is_captured) note("some members of a collective have captured it and others not");
    else return true;
    return false;
  }
  bool fit(nccl_call const& send, nccl_call const& receive) {
    if (send.count != receive.count) note("a receive takes another number of bytes than its send gives");
    else if (send.is_captured != receive.is_captured) note("one side of a transfer was captured and the other not");
    else return true;
    return false;
  }
  static void run(std::vector<std::optional<nccl_call>>& all) {
    if (all[0]->how == reduction::max && all[0]->type == f64) run_typed<std::int64_t>(all);  // keys
    else if (all[0]->how == reduction::max) run_typed<std::int32_t>(all);
    else if (all[0]->type == f64) run_typed<double>(all);
    else if (all[0]->type == bf16) run_typed<bfloat16>(all);
    else if (all[0]->type == i32) run_typed<std::int32_t>(all);
    else run_typed<float>(all);
  }

  const int ranks_;
  mutable std::mutex mutex_;
  std::string error_;

 private:
  template <class T>
  static void combine(std::vector<std::optional<nccl_call>> const& all, std::size_t begin, std::size_t count, T* to) {
    std::vector<T> result(static_cast<T const*>(all[0]->from) + begin, static_cast<T const*>(all[0]->from) + begin + count);
    for (std::size_t m = 1; m < all.size(); ++m) {
      T const* const more = static_cast<T const*>(all[m]->from) + begin;
      for (std::size_t i = 0; i < count; ++i)
        result[i] = all[0]->how == reduction::sum ? static_cast<T>(result[i] + more[i]) : std::max(result[i], more[i]);
    }
    std::copy(result.begin(), result.end(), to);
  }
  template <class T> static void run_typed(std::vector<std::optional<nccl_call>>& all) {
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
};

// All ranks in this process.
class comm_in_memory final : public shared_comm {
 public:
  using shared_comm::shared_comm;

  bool join(int) override {
    std::unique_lock lock(mutex_);
    if (++joined_ == ranks_) changed_.notify_all();
    for (int turn = 0; turn < 500 && machine::present->last_words().empty(); ++turn)
      if (changed_.wait_for(lock, std::chrono::milliseconds(20), [&] { return joined_ == ranks_; })) return true;
    return false;
  }
  void arrive(std::uint64_t number, int rank, nccl_call const& c) override {
    const std::scoped_lock lock(mutex_);
    std::vector<std::optional<nccl_call>>& all = open_[number];
    all.resize(static_cast<std::size_t>(ranks_));
    for (auto const& other : all)
      if (other && !agrees(*other, c)) return;
    all[static_cast<std::size_t>(rank)] = c;
    for (auto const& each : all)
      if (!each) return;
    run(all);
    open_.erase(number);
    ended_ = std::max(ended_, number + 1);
  }
  bool has_ended(std::uint64_t number, int) override {
    const std::scoped_lock lock(mutex_);
    return number < ended_;
  }
  void arrive(int from, int to, std::uint64_t number, nccl_call const& c) override {
    const std::scoped_lock lock(mutex_);
    auto& [send, receive] = transfers_[{from, to, number}];
    (c.kind == call_kind::send ? send : receive) = c;
    if (!send || !receive) return;
    if (!fit(*send, *receive)) return;
    std::memcpy(receive->to, send->from, send->count);
    done_.insert({from, to, number});
  }
  bool has_ended(int from, int to, std::uint64_t number, bool) override {
    const std::scoped_lock lock(mutex_);
    return done_.contains({from, to, number});
  }
  void leave(int rank) override {
    const std::scoped_lock lock(mutex_);
    for (auto& [number, all] : open_) all[static_cast<std::size_t>(rank)].reset();
    for (auto& [key, sides] : transfers_) {
      if (std::get<0>(key) == rank) sides.send.reset();
      if (std::get<1>(key) == rank) sides.receive.reset();
    }
  }

 private:
  using transfer_key = std::tuple<int, int, std::uint64_t>;
  struct both_sides {
    std::optional<nccl_call> send, receive;
  };

  int joined_ = 0;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::vector<std::optional<nccl_call>>> open_;
  std::uint64_t ended_ = 0;
  std::map<transfer_key, both_sides> transfers_;
  std::set<transfer_key> done_;
};

}  // namespace partita::testing::pretend
