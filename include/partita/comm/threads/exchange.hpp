// Grouped point-to-point transfers between threads.
//
// Every ordered pair of ranks has a channel, where sends and receives wait for each other. Whoever comes second takes
// the other side out of the channel; from then on exactly one thread does the transfer and reports it to both. A
// small one is done by who came second, one hand-over in all. A large one is done by the receiver, so that in a ring
// every rank copies its own share instead of the last one copying everything.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include <partita/comm/call.hpp>
#include <partita/comm/communicator.hpp>
#include <partita/core/patience.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

enum class side : std::uint8_t { send, receive };

// The part of a rank that others reach: who does the last of its transfers wakes it.
struct alignas(cache_line) mailbox {
  std::atomic<std::uint32_t> event{0};  // changes whenever there is something to look at
  std::atomic<std::size_t> pending{0};  // own messages of the exchange in progress that are not done

  void wake() noexcept {
    event.fetch_add(1, std::memory_order_seq_cst);
    event.notify_all();
  }
  // The last touch of one of this rank's parcels: afterwards its owner may leave.
  void finish_one() noexcept {
    if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) wake();
  }
};

// One message that waits in a channel or is being transferred. Belongs to the rank that posted it.
struct parcel {
  message what;
  side direction = side::send;
  mailbox* owner = nullptr;
  parcel* next = nullptr;                 // in the channel; guarded by its mutex
  std::size_t other_bytes = 0;            // what the other side gave; differs from what.bytes on a mismatch
  std::atomic<parcel*> to_copy{nullptr};  // a large receive: the send that it has met
};

class channel {
 public:
  // The first parcel of the other side with the same tag, taken out; or null, and then `mine` waits here.
  parcel* meet(parcel& mine) {
    const std::scoped_lock lock(mutex_);
    queue& others = mine.direction == side::send ? receives_ : sends_;
    for (parcel** link = &others.head; *link != nullptr; link = &(*link)->next)
      if ((*link)->what.tag == mine.what.tag) return others.take(link);
    (mine.direction == side::send ? sends_ : receives_).append(mine);
    return nullptr;
  }

  // False when it has met its other side already.
  bool withdraw(parcel& mine) {
    const std::scoped_lock lock(mutex_);
    queue& own = mine.direction == side::send ? sends_ : receives_;
    for (parcel** link = &own.head; *link != nullptr; link = &(*link)->next)
      if (*link == &mine) {
        own.take(link);
        return true;
      }
    return false;
  }

 private:
  struct queue {  // first in, first out
    parcel* head = nullptr;
    parcel** tail = &head;

    void append(parcel& last) {
      last.next = nullptr;
      *tail = &last;
      tail = &last.next;
    }
    parcel* take(parcel** link) {
      parcel* taken = *link;
      *link = taken->next;
      if (tail == &taken->next) tail = link;
      return taken;
    }
  };
  std::mutex mutex_;
  queue sends_, receives_;
};

// One rank's exchanges.
class exchanger {
 public:
  mailbox& box() { return box_; }
  void reserve(std::size_t messages) {
    if (messages <= capacity_) return;
    parcels_ = std::make_unique<parcel[]>(messages);
    capacity_ = messages;
  }

  enum class outcome { done, aborted };

  // `channel_of(source, destination)` gives the channel of a pair. Throws error where the bytes of a message differ
  // between its two sides, once everything else has been transferred.
  template <class ChannelOf> outcome run(int me, std::span<const message> sends, std::span<const message> receives,
                                         ChannelOf channel_of, patience& patience, std::atomic<bool> const& aborted) {
    const std::size_t count = sends.size() + receives.size();
    if (count == 0) return outcome::done;
    reserve(count);
    auto channel_at = [&](parcel const& each) -> channel& {
      return each.direction == side::send ? channel_of(me, each.what.peer) : channel_of(each.what.peer, me);
    };
    for (std::size_t i = 0; i < count; ++i) {
      parcel& each = parcels_[i];
      each.direction = i < receives.size() ? side::receive : side::send;
      each.what = i < receives.size() ? receives[i] : sends[i - receives.size()];
      each.owner = &box_;
      each.other_bytes = each.what.bytes;
      each.to_copy.store(nullptr, std::memory_order_relaxed);
    }
    box_.pending.store(count, std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i) {
      parcel& mine = parcels_[i];
      if (parcel* other = channel_at(mine).meet(mine)) {
        if (mine.direction == side::send) start(mine, *other, false);
        else start(*other, mine, true);
      }
    }

    bool withdrawn = false;
    std::size_t left = 0;
    for (;;) {
      const std::uint32_t seen = box_.event.load(std::memory_order_seq_cst);
      for (std::size_t i = 0; i < receives.size(); ++i)
        if (parcel* send = parcels_[i].to_copy.exchange(nullptr, std::memory_order_acquire)) transfer(*send, parcels_[i]);
      if (box_.pending.load(std::memory_order_acquire) == 0) break;
      if (!withdrawn && aborted.load(std::memory_order_seq_cst)) {
        withdrawn = true;
        for (std::size_t i = 0; i < count; ++i)
          if (channel_at(parcels_[i]).withdraw(parcels_[i])) {
            ++left;
            box_.finish_one();
          }
        continue;
      }
      patience.wait_while(box_.event, seen);
    }
    if (left != 0) return outcome::aborted;
    for (std::size_t i = 0; i < count; ++i)
      if (parcels_[i].other_bytes != parcels_[i].what.bytes) throw error(fault_of(me, parcels_[i]));
    return outcome::done;
  }

 private:
  // Up to this many bytes, who comes second copies at once.
  static constexpr std::size_t at_once_bytes = 64 * 1024;

  static void start(parcel& send, parcel& receive, bool by_receiver) {
    if (send.what.bytes <= at_once_bytes || send.what.bytes != receive.what.bytes) return transfer(send, receive);
    mailbox* receiver = receive.owner;
    receive.to_copy.store(&send, std::memory_order_release);
    if (!by_receiver) receiver->wake();
  }

  static void transfer(parcel& send, parcel& receive) {
    if (send.what.bytes == receive.what.bytes) {
      copy(receive.what.data, send.what.data, send.what.bytes);
    } else {
      send.other_bytes = receive.what.bytes;
      receive.other_bytes = send.what.bytes;
    }
    mailbox *sender = send.owner, *receiver = receive.owner;
    sender->finish_one();
    receiver->finish_one();
  }

  static std::string fault_of(int me, parcel const& mine) {
    bool const sends = mine.direction == side::send;
    const int source = sends ? me : mine.what.peer, destination = sends ? mine.what.peer : me;
    return partita::words({"exchange from rank ", source, " to rank ", destination, " with tag ", mine.what.tag, ": rank ",
                           source, " sends ", sends ? mine.what.bytes : mine.other_bytes, " bytes, but rank ", destination,
                           " receives ", sends ? mine.other_bytes : mine.what.bytes, " bytes"});
  }

  mailbox box_;
  std::unique_ptr<parcel[]> parcels_;
  std::size_t capacity_ = 0;
};

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
