// Where the members of one group meet for its collectives, one after the other.
//
// The last member to arrive finds all calls in place, compares them and opens the work; members that are awake take
// blocks of it, their own share first. Whoever finishes the last block closes the call. So nobody waits for a thread
// that has no core: on fewer cores than ranks a late riser finds the work done. A small call is done by the last to
// arrive before anybody is woken: one hand-over instead of two.
//
// Leaving on abort is safe only while somebody is still missing, since afterwards others read and write the caller's
// buffers. `arrivals_` decides: a member that wants to leave sets its `poison` bit, after which nobody can arrive; if
// all had arrived before, the call runs to its end, which takes no more than its copying.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <partita/comm/communicator.hpp>
#include <partita/comm/groups.hpp>
#include <partita/comm/threads/blocks.hpp>
#include <partita/core/list.hpp>
#include <partita/core/patience.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

class rendezvous {
 public:
  rendezvous(std::size_t index, list<int> ranks)
      : index_(index), ranks_(std::move(ranks)), members_(std::make_unique<member[]>(ranks_.size())) {}

  std::span<int const> ranks() const { return ranks_; }

  enum class outcome { done, aborted };

  // Takes part in the next call of the group as member `me`. Throws error where the members disagree.
  outcome meet(std::size_t me, call const& made, patience& patience, std::atomic<bool> const& aborted) {
    member& own = members_[me];
    own.made = made;
    const std::uint64_t turn = own.turns++;
    const std::uint64_t everybody = (turn + 1) * ranks_.size();
    const std::uint32_t opened = (2 * turn + 1) & ~alarm, closed = (2 * turn + 2) & ~alarm;

    std::uint64_t before = arrivals_.load(std::memory_order_acquire);
    do {
      if (before & poison) return outcome::aborted;
    } while (!arrivals_.compare_exchange_weak(before, before + 1, std::memory_order_acq_rel, std::memory_order_acquire));

    bool helped = false, bound = false;
    if (before + 1 == everybody) {
      if (begin(turn)) {
        publish(opened);
        help(me, closed);
      } else {
        publish(closed);
      }
      helped = bound = true;
    }
    for (;;) {
      const std::uint32_t seen = state_.load(std::memory_order_seq_cst), value = seen & ~alarm;
      if (value == closed) break;
      if (value == opened && !helped) {
        help(me, closed);
        helped = bound = true;
        continue;
      }
      if (!bound && aborted.load(std::memory_order_seq_cst)) {
        const std::uint64_t arrived = arrivals_.fetch_or(poison, std::memory_order_acq_rel) & ~poison;
        if (arrived < everybody) return outcome::aborted;
        bound = true;
      }
      patience.wait_while(state_, seen);
    }
    if (failed_turn_ == turn) throw error(fault_);
    return outcome::done;
  }

  // Wakes everybody who waits here. The caller has set the flag that they look at; both are sequentially consistent,
  // so that a member either sees the flag or finds the word changed.
  void wake() noexcept {
    state_.fetch_or(alarm, std::memory_order_seq_cst);
    state_.notify_all();
  }

 private:
  static constexpr std::uint64_t poison = std::uint64_t{1} << 63;
  static constexpr std::uint32_t alarm = std::uint32_t{1} << 31;

  // Up to this many bytes of buffers the last to arrive does all of the work. Measured on 2 cores of an AMD EPYC
  // (family 26): an all-gather of 64 KiB between 2 ranks takes 1.4 us where 128 KiB here makes it 3.5, an all-reduce
  // 3.8 instead of 4.8; below, 16 KiB gains nothing. 4 ranks on the 2 cores do not care.
  static constexpr std::size_t alone_bytes = 64 * 1024;

  std::span<member> members() { return {members_.get(), ranks_.size()}; }

  // With all members inside: compares the calls and prepares the blocks. False when nothing is left to do. An
  // exception would leave the others waiting; only memory for the words of a mistake can run out.
  bool begin(std::uint64_t turn) noexcept {
    if (std::string fault = fault_of([this](std::size_t m) -> call const& { return members_[m].made; }, ranks_); !fault.empty()) {
      fault_ = partita::words({"group ", index_, " of ranks ", names_of(ranks_), ": ", fault});
      failed_turn_ = turn;
      return false;
    }
    std::size_t blocks = 0, bytes = 0;
    for (std::size_t m = 0; m < ranks_.size(); ++m) {
      call const& made = members_[m].made;
      members_[m].blocks = 0;
      for (std::size_t part = 0; part < made.parts(); ++part) {
        const element_range share = share_of(part_of(made, part), m, ranks_.size());
        members_[m].blocks += blocks_of(share, made.type);
        bytes += (share.end - share.begin) * size_of(made.type);
      }
      blocks += members_[m].blocks;
    }
    if (bytes * ranks_.size() <= alone_bytes || blocks <= 1 || ranks_.size() == 1) {
      for (std::size_t m = 0; m < ranks_.size(); ++m)
        for (std::size_t block = 0; block < members_[m].blocks; ++block) run_block(members(), m, block);
      return false;
    }
    for (std::size_t m = 0; m < ranks_.size(); ++m) members_[m].next_block.store(0, std::memory_order_relaxed);
    unfinished_.store(blocks, std::memory_order_relaxed);
    return true;
  }

  void help(std::size_t me, std::uint32_t closed) {
    std::size_t finished = 0;
    for (std::size_t turn = 0; turn < ranks_.size(); ++turn) {
      const std::size_t m = (me + turn) % ranks_.size();
      member& owner = members_[m];
      for (;;) {
        const std::size_t block = owner.next_block.fetch_add(1, std::memory_order_relaxed);
        if (block >= owner.blocks) break;
        run_block(members(), m, block);
        ++finished;
      }
    }
    if (finished != 0 && unfinished_.fetch_sub(finished, std::memory_order_acq_rel) == finished) publish(closed);
  }

  void publish(std::uint32_t value) noexcept {
    state_.store(value, std::memory_order_seq_cst);
    state_.notify_all();
  }

  const std::size_t index_;
  const list<int> ranks_;
  const std::unique_ptr<member[]> members_;
  std::string fault_;  // written before `closed` is published, read after
  std::uint64_t failed_turn_ = ~std::uint64_t{0};
  alignas(cache_line) std::atomic<std::uint64_t> arrivals_{0};  // of all calls so far
  alignas(cache_line) std::atomic<std::uint32_t> state_{0};     // 2 turn + 1: opened, 2 turn + 2: closed
  alignas(cache_line) std::atomic<std::size_t> unfinished_{0};  // blocks of the open call
};

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
