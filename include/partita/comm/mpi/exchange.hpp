// Point-to-point transfers of one rank over MPI.
//
// A send is announced by a card, which carries the data if they are small. The receiver matches cards with receives by
// our own tags; data that did not fit follow under an MPI tag that counts the transfers of the pair.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <partita/comm/mpi/cards.hpp>
#include <partita/comm/mpi/transfers.hpp>
#include <partita/core/list.hpp>
#include <partita/core/words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

class mpi_exchange {
 public:
  explicit mpi_exchange(int ranks) : sent_(static_cast<std::size_t>(ranks)), waiting_(static_cast<std::size_t>(ranks)) {}

  // With mpi_state::calls held, as all below. Throws error, before anything is sent, where a message to oneself lacks its
  // other side or differs from it.
  void begin(int me, std::span<const message> sends, std::span<const message> receives, MPI_Comm cards, transfers& data,
             card_box& box) {
    me_ = me;
    receives_ = receives;
    matched_.assign(receives.size(), false);
    open_ = receives.size();
    fault_.clear();
    for (message const& each : sends)
      if (each.peer == me) give_to_self(each);
    for (std::size_t i = 0; i < receives.size(); ++i)
      if (receives[i].peer == me && !matched_[i]) refuse("receives from itself", receives[i].tag, "send");
    while (cards_.size() < sends.size()) cards_.push_back(std::make_unique<card>());
    std::size_t next = 0;
    for (message const& each : sends)
      if (each.peer != me) announce(each, *cards_[next++], cards, data);
    for (message const& each : receives) {
      list<card*>& from = waiting_[static_cast<std::size_t>(each.peer)];
      for (std::size_t i = 0; i < from.size();)
        if (match(*from[i], data)) {
          box.give_back(from[i]);
          from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
        } else ++i;
    }
  }
  // A card of an exchange has arrived.
  void sort(card* arrived, transfers& data, card_box& box) {
    if (open_ > 0 && match(*arrived, data)) box.give_back(arrived);
    else waiting_[static_cast<std::size_t>(arrived->head.source)].push_back(arrived);
  }
  bool waits_for(int source) const {
    for (std::size_t i = 0; i < receives_.size(); ++i)
      if (!matched_[i] && receives_[i].peer == source) return true;
    return false;
  }
  bool done() {
    if (open_ > 0) return false;
    if (announcements_.empty()) return true;
    int all = 0;
    check_mpi(MPI_Testall(static_cast<int>(announcements_.size()), announcements_.data(), &all, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (all != 0) announcements_.clear();
    return all != 0;
  }
  // Once all is done, or somebody has failed.
  void end() {
    open_ = 0;
    receives_ = {};
    lost_.clear();
  }
  // Where the sides of a message disagree. Only the receiver learns it.
  std::string const& fault() const { return fault_; }

 private:
  void announce(message const& each, card& c, MPI_Comm cards, transfers& data) {
    const std::uint64_t turn = sent_[static_cast<std::size_t>(each.peer)]++;
    const bool fits = each.bytes <= card::room;
    c.head = {.what = card::purpose::message,
              .turn = turn,
              .tag = each.tag,
              .bytes = each.bytes,
              .carried = fits ? static_cast<std::uint32_t>(each.bytes) : 0};
    if (fits && each.bytes > 0) std::memcpy(c.data, each.data, each.bytes);
    announcements_.emplace_back();
    check_mpi(MPI_Isend(&c, static_cast<int>(c.sent_bytes()), MPI_BYTE, each.peer, 0, cards, &announcements_.back()),
              "MPI_Isend");
    if (!fits) data.send(each.peer, each.data, each.bytes, tag_of(turn));
  }
  static int tag_of(std::uint64_t turn) { return 1 + static_cast<int>(turn % 16384); }  // MPI has tags up to 32767 at least

  // The first receive that is open and has this source and tag.
  std::size_t find(int source, std::uint64_t tag) const {
    std::size_t i = 0;
    while (i < receives_.size() && (matched_[i] || receives_[i].peer != source || receives_[i].tag != tag)) ++i;
    return i;
  }
  void close(std::size_t i) {
    matched_[i] = true;
    --open_;
  }
  bool match(card const& c, transfers& data) {
    const std::size_t i = find(c.head.source, c.head.tag);
    if (i == receives_.size()) return false;
    message const& mine = receives_[i];
    close(i);
    if (mine.bytes != c.head.bytes) {
      if (fault_.empty()) fault_ = disagreement(c.head.source, mine, c.head.bytes);
      if (c.head.carried == 0 && c.head.bytes > 0) {  // taken all the same, or its sender would wait
        lost_.push_back(std::make_unique<std::byte[]>(c.head.bytes));
        data.receive(c.head.source, lost_.back().get(), c.head.bytes, tag_of(c.head.turn));
      }
    } else if (c.head.carried == c.head.bytes) {
      if (mine.bytes > 0) std::memcpy(mine.data, c.data, mine.bytes);
    } else data.receive(c.head.source, mine.data, mine.bytes, tag_of(c.head.turn));
    return true;
  }
  void give_to_self(message const& sent) {
    const std::size_t i = find(me_, sent.tag);
    if (i == receives_.size()) refuse("sends to itself", sent.tag, "receive");
    close(i);
    if (receives_[i].bytes != sent.bytes) throw_error({disagreement(me_, receives_[i], sent.bytes)});
    if (sent.bytes > 0 && sent.data != receives_[i].data) std::memcpy(receives_[i].data, sent.data, sent.bytes);
  }
  [[noreturn]] void refuse(std::string_view does, std::uint64_t tag, std::string_view other) {
    end();
    throw_error({"rank ", me_, " ", does, " with tag ", tag, " what it does not ", other, " in the same exchange"});
  }
  std::string disagreement(int source, message const& mine, std::size_t sent) const {
    return partita::words({"exchange from rank ", source, " to rank ", me_, " with tag ", mine.tag, ": rank ", source, " sends ",
                           sent, " bytes, but rank ", me_, " receives ", mine.bytes, " bytes"});
  }

  int me_ = 0;
  list<std::uint64_t> sent_;   // messages so far, by destination
  list<list<card*>> waiting_;  // arrived and not asked for yet, by source, in order
  std::span<const message> receives_;
  list<bool> matched_;
  std::size_t open_ = 0;
  std::string fault_;
  list<std::unique_ptr<card>> cards_;  // of the sends in progress
  list<MPI_Request> announcements_;
  list<std::unique_ptr<std::byte[]>> lost_;
};

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
