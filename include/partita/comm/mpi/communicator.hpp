// A rank that is a process, with MPI between processes and hosts. See comm/communicator.hpp for what the calls mean, and
// comm/mpi/world.hpp for the world that it is a part of.
//
// A collective begins with a meeting: every member sends every other one a card that says what it calls. Small data
// travel on the cards, so that the meeting is all there is. Large data follow directly between those that have and those
// that need them; a reduction is made by one member for each element, in the order of members, so that all receive the
// same bits as between threads. MPI's own collectives leave that order to the implementation.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <partita/comm/call.hpp>
#include <partita/comm/communicator.hpp>
#include <partita/comm/groups.hpp>
#include <partita/comm/mpi/cards.hpp>
#include <partita/comm/mpi/exchange.hpp>
#include <partita/comm/mpi/group_of_calls.hpp>
#include <partita/comm/mpi/parts_of_call.hpp>
#include <partita/comm/mpi/transfers.hpp>
#include <partita/comm/mpi/words_of_call.hpp>
#include <partita/comm/reduce.hpp>
#include <partita/core/list.hpp>
#include <partita/core/words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

class mpi_communicator {
  using call = detail::comm::call;
  using card = detail::comm::card;
  using group = detail::comm::group_of_calls;
  using element_range = detail::comm::element_range;

 public:
  // `groups[g]` lists the ranks of group g, ascending; the same in all processes, which make their communicators in one
  // order. A process that is in no group may give an empty list. Throws error where one is no group. The state outlives
  // the communicator.
  mpi_communicator(detail::comm::mpi_state& state, list<list<int>> const& groups, detail::comm::transfer_limits limits = {})
      : state_(state),
        groups_(made_of(groups, state)),
        cards_over_(state.duplicate()),
        data_over_(state.duplicate()),
        box_(state, cards_over_),
        data_(data_over_, limits),
        exchange_(state.size()) {
    std::size_t most = 0;
    for (auto const& g : groups_)
      if (g != groups_.front()) most = std::max(most, g->size());
    staged_ = std::max<std::size_t>(64, limits.reduction / std::max<std::size_t>(most, 1) / 64 * 64);
    if (most > 1) staging_ = std::make_unique_for_overwrite<std::byte[]>(2 * most * staged_);
    while (own_.size() < groups_.front()->size()) own_.push_back(std::make_unique<card>());
    meet(everybody, {.kind = communication::barrier});  // nobody calls before all have a place for cards
  }
  mpi_communicator(mpi_communicator const&) = delete;
  mpi_communicator& operator=(mpi_communicator const&) = delete;
  ~mpi_communicator() {
    const std::scoped_lock lock(state_.calls());
    box_.close();  // or cards that are still on their way would be written to memory that is given back
    if (state_.is_aborted() || std::uncaught_exceptions() > 0) return;  // the job ends: nothing else is closed in order
    MPI_Comm_free(&data_over_);
    MPI_Comm_free(&cards_over_);
  }

  int rank() const { return state_.rank(); }
  int size() const { return state_.size(); }
  std::span<int const> members(std::size_t g) const {
    if (g + 1 >= groups_.size()) throw_error({"group ", g, " does not exist; there are ", groups_.size() - 1});
    return groups_[g + 1]->ranks;
  }
  traffic_counts traffic() const { return counted_; }

  void all_reduce(std::size_t g, void* buffer, std::size_t count, dtype type, reduction how) {
    run(g, {.kind = communication::all_reduce, .type = type, .how = how, .count = count, .from = buffer, .to = buffer});
  }
  void all_gather(std::size_t g, void const* mine, void* all, std::span<const std::size_t> counts, dtype type) {
    run(g, {.kind = communication::all_gather, .type = type, .from = mine, .to = all, .counts = counts});
  }
  // What it is for is compared as well.
  void all_gather_for(std::size_t g, void const* mine, void* all, std::span<const std::size_t> counts, dtype type,
                      std::uint64_t purpose) {
    run(g, {.kind = communication::all_gather,
            .type = type,
            .root = static_cast<int>(purpose % 0x7fffffff),
            .from = mine,
            .to = all,
            .counts = counts});
  }
  void reduce_scatter(std::size_t g, void const* all, void* mine, std::span<const std::size_t> counts, dtype type,
                      reduction how) {
    run(g, {.kind = communication::reduce_scatter, .type = type, .how = how, .from = all, .to = mine, .counts = counts});
  }
  // Several at once: see joined_call.
  void all_reduce(std::size_t g, std::span<const joined_call> calls, dtype type, reduction how) {
    run(g, {.kind = communication::all_reduce, .type = type, .how = how, .joined = calls});
  }
  void all_gather(std::size_t g, std::span<const joined_call> calls, dtype type) {
    run(g, {.kind = communication::all_gather, .type = type, .joined = calls});
  }
  void reduce_scatter(std::size_t g, std::span<const joined_call> calls, dtype type, reduction how) {
    run(g, {.kind = communication::reduce_scatter, .type = type, .how = how, .joined = calls});
  }
  void all_to_all(std::size_t g, void const* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> receive_counts, dtype type) {
    run(g, {.kind = communication::all_to_all,
            .type = type,
            .from = send,
            .to = receive,
            .counts = send_counts,
            .receives = receive_counts});
  }
  void broadcast(std::size_t g, void* buffer, std::size_t count, dtype type, int root) {
    run(g, {.kind = communication::broadcast, .type = type, .root = root, .count = count, .from = buffer, .to = buffer});
  }
  void barrier(std::size_t g) { run(g, {.kind = communication::barrier}); }

  void exchange(std::span<const message> sends, std::span<const message> receives) {
    if (state_.is_aborted()) state_.throw_aborted();
    std::size_t bytes = 0;
    for (auto const* list : {&sends, &receives})
      for (message const& each : *list)
        if (each.peer < 0 || each.peer >= size()) throw_error({"rank ", each.peer, " does not exist; there are ", size()});
    for (message const& each : sends)
      if (each.peer != rank()) bytes += each.bytes;
    {
      const std::scoped_lock lock(state_.calls());
      exchange_.begin(rank(), sends, receives, cards_over_, data_, box_);
    }
    wait([this] { return exchange_.done() && data_.done(); },
         [this](int other) { return exchange_.waits_for(other) || data_.waits_for(other); });
    exchange_.end();
    if (!exchange_.fault().empty()) throw error(exchange_.fault());
    record(communication::exchange, bytes);
  }

  // Every process learns it; what this one throws ends the job if nobody catches it (partita::mpi).
  void abort(std::string reason) { state_.stop(words({"rank ", rank(), " failed first: ", reason})); }
  void abort(std::exception_ptr const& failure) { abort(detail::comm::reason_of(failure)); }

 private:
  static constexpr int tag_of_data = 0, tag_of_words = 32767;
  static constexpr std::size_t everybody = 0;  // of groups_; a caller's group g is the one after g of these

  static list<std::unique_ptr<group>> made_of(list<list<int>> const& groups, detail::comm::mpi_state const& state) {
    list<int> all(static_cast<std::size_t>(state.size()));
    for (int r = 0; r < state.size(); ++r) all[static_cast<std::size_t>(r)] = r;
    list<std::unique_ptr<group>> made;
    made.push_back(std::make_unique<group>(std::move(all), state.rank()));
    for (std::size_t g = 0; g < groups.size(); ++g) {
      detail::comm::check_group(g, groups[g], state.size());
      made.push_back(std::make_unique<group>(groups[g], state.rank()));
    }
    return made;
  }

  template <class Ready, class Missing> void wait(Ready ready, Missing missing) {
    state_.wait(
        [&] {
          box_.take([this](card* c) { sort(c); });
          return ready();
        },
        [this] {
          data_.leave();
          exchange_.end();
        },
        missing);
  }
  void wait_for_data() {
    wait([this] { return data_.done(); }, [this](int other) { return data_.waits_for(other); });
  }
  void sort(card* c) {
    if (c->head.what == card::purpose::message) return exchange_.sort(c, data_, box_);
    group& g = *groups_[c->head.group];
    g.arrived[c->head.turn % 2][g.member(c->head.source)] = c;
  }

  void run(std::size_t index, call const& made) {
    if (state_.is_aborted()) state_.throw_aborted();
    const std::span<int const> ranks = members(index);
    group& g = *groups_[index + 1];
    if (g.me == ranks.size())
      throw_error({"rank ", rank(), " calls ", detail::comm::words(made), " of group ", index, ", of which it is no member"});
    meet(index + 1, made);
    record(made.kind, detail::comm::traffic_of(made, g.me, ranks.size()));
  }

  // A whole collective. Throws error where the members disagree.
  void meet(std::size_t index, call const& made) {
    group& g = *groups_[index];
    std::size_t bytes = 0;
    detail::comm::each_part(made, [&](call const& part) { bytes += detail::comm::elements_of(part) * size_of(made.type); });
    const bool fits = bytes <= card::room && made.kind != communication::all_to_all;  // all who agree find the same
    std::size_t words = 0;
    detail::comm::describe_call(made, [&](std::uint64_t) { ++words; });
    const std::uint64_t digest = detail::comm::digest_of(made), turn = g.turn++;
    {
      const std::scoped_lock lock(state_.calls());
      for (std::size_t m = 0; m < g.size(); ++m) {
        if (m == g.me) continue;
        card& c = *own_[m];
        c.head = {.group = static_cast<std::uint32_t>(index), .turn = turn, .digest = digest, .words = words};
        if (fits && detail::comm::counts_fit(made, g.size())) detail::comm::pack(made, g.me, g.size(), m, c);
        announcements_.emplace_back();
        detail::comm::check_mpi(
            MPI_Isend(&c, static_cast<int>(c.sent_bytes()), MPI_BYTE, g.ranks[m], 0, cards_over_, &announcements_.back()),
            "MPI_Isend");
      }
    }
    list<card*>& cards = g.arrived[turn % 2];
    wait([&] { return all_here(g, cards) && announced(); },
         [&](int other) {
           const std::size_t m = g.member(other);
           return m < g.size() && cards[m] == nullptr;
         });
    bool agreed = true;
    for (std::size_t m = 0; m < g.size(); ++m) agreed = agreed && (m == g.me || cards[m]->head.digest == digest);
    compare(index, made, agreed && made.kind != communication::all_to_all, cards);
    if (fits) detail::comm::unpack(made, g.me, cards, offsets_);
    give_back(cards);
    if (fits) return;
    if (made.kind == communication::all_to_all) return move_all_to_all(made, g);
    detail::comm::each_part(made, [&](call const& part) { move(part, g); });
  }
  static bool all_here(group const& g, list<card*> const& cards) {
    for (std::size_t m = 0; m < g.size(); ++m)
      if (m != g.me && cards[m] == nullptr) return false;
    return true;
  }
  bool announced() {
    int all = 1;
    if (!announcements_.empty())
      detail::comm::check_mpi(
          MPI_Testall(static_cast<int>(announcements_.size()), announcements_.data(), &all, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (all != 0) announcements_.clear();
    return all != 0;
  }
  void give_back(list<card*>& cards) {
    const std::scoped_lock lock(state_.calls());
    for (card*& each : cards)
      if (each != nullptr) box_.give_back(std::exchange(each, nullptr));
  }

  // Where digests tell that all ask the same, the own call stands for the others'; else everybody tells everything.
  void compare(std::size_t index, call const& made, bool agreed, list<card*>& cards) {
    group& g = *groups_[index];
    if (!agreed) {
      detail::comm::described_call& own = g.described[g.me];
      own.numbers.clear();
      detail::comm::describe_call(made, [&](std::uint64_t x) { own.numbers.push_back(x); });
      {
        const std::scoped_lock lock(state_.calls());
        for (std::size_t m = 0; m < g.size(); ++m) {
          if (m == g.me) continue;
          g.described[m].numbers.resize(cards[m]->head.words);
          data_.receive(g.ranks[m], g.described[m].numbers.data(), 8 * g.described[m].numbers.size(), tag_of_words);
          data_.send(g.ranks[m], own.numbers.data(), 8 * own.numbers.size(), tag_of_words);
        }
      }
      wait_for_data();
    }
    for (std::size_t m = 0; m < g.size(); ++m) g.made[m] = agreed || m == g.me ? made : g.described[m].read();
    std::string fault = detail::comm::fault_of([&](std::size_t m) -> call const& { return g.made[m]; }, g.ranks);
    if (fault.empty()) return;
    give_back(cards);
    throw_error({"group ", index == everybody ? 0 : index - 1, " of ranks ", detail::comm::names_of(g.ranks), ": ", fault});
  }

  // One call, or part of one, whose data go by themselves.
  void move(call const& part, group const& g) {
    switch (part.kind) {
      case communication::all_reduce: reduce_own(part, g, part.to, true); return gather(part, g);
      case communication::reduce_scatter: return reduce_own(part, g, part.to, false);
      case communication::all_gather: {
        const element_range own = detail::comm::range_of(part, g.me, g.size());
        detail::comm::copy(detail::comm::at(part.to, own.begin, part.type), part.from,
                           (own.end - own.begin) * size_of(part.type));
        return gather(part, g);
      }
      case communication::broadcast: return spread(part, g);
      default: return;
    }
  }
  // Every member sends its own range of `to` to every other one.
  void gather(call const& part, group const& g) {
    {
      const std::scoped_lock lock(state_.calls());
      const element_range own = detail::comm::range_of(part, g.me, g.size());
      for_others(g, [&](std::size_t m) {
        const element_range its = detail::comm::range_of(part, m, g.size());
        data_.receive(g.ranks[m], detail::comm::at(part.to, its.begin, part.type), (its.end - its.begin) * size_of(part.type),
                      tag_of_data);
        data_.send(g.ranks[m], detail::comm::at(part.to, own.begin, part.type), (own.end - own.begin) * size_of(part.type),
                   tag_of_data);
      });
    }
    wait_for_data();
  }
  void spread(call const& part, group const& g) {
    const auto root = static_cast<std::size_t>(part.root);
    const std::size_t bytes = part.count * size_of(part.type);
    {
      const std::scoped_lock lock(state_.calls());
      if (root != g.me) data_.receive(g.ranks[root], part.to, bytes, tag_of_data);
      else for_others(g, [&](std::size_t m) { data_.send(g.ranks[m], part.from, bytes, tag_of_data); });
    }
    wait_for_data();
  }
  // The own range of the sum, at `to`, or there in place. What the others add arrives a bit at a time: the next while the
  // last is added up.
  void reduce_own(call const& part, group const& g, void* to, bool in_place) {
    const std::size_t width = size_of(part.type), step = staged_ / width;
    std::size_t longest = 0;
    for (std::size_t m = 0; m < g.size(); ++m) {
      const element_range r = detail::comm::range_of(part, m, g.size());
      longest = std::max(longest, r.end - r.begin);
    }
    const std::size_t rounds = (longest + step - 1) / step;
    auto bit = [&](std::size_t m, std::size_t round) {
      const element_range r = detail::comm::range_of(part, m, g.size());
      return element_range{std::min(r.begin + round * step, r.end), std::min(r.begin + (round + 1) * step, r.end)};
    };
    auto staged = [&](std::size_t m, std::size_t round) { return staging_.get() + (round % 2 * g.size() + m) * staged_; };
    auto post = [&](std::size_t round) {
      const std::scoped_lock lock(state_.calls());
      const element_range own = bit(g.me, round);
      for_others(g, [&](std::size_t m) {
        const element_range its = bit(m, round);
        data_.receive(g.ranks[m], staged(m, round), (own.end - own.begin) * width, tag_of_data);
        data_.send(g.ranks[m], detail::comm::at(part.from, its.begin, part.type), (its.end - its.begin) * width, tag_of_data);
      });
    };
    const std::size_t first = detail::comm::range_of(part, g.me, g.size()).begin;
    if (rounds > 0) post(0);
    for (std::size_t round = 0; round < rounds; ++round) {
      wait_for_data();
      if (round + 1 < rounds) post(round + 1);
      const element_range own = bit(g.me, round);
      auto source = [&](std::size_t m) -> void const* {
        return m == g.me ? detail::comm::at(part.from, own.begin, part.type) : staged(m, round);
      };
      detail::comm::reduce_range(
          part.type, part.how, g.size(), source, 1,
          [&](std::size_t) { return detail::comm::at(to, in_place ? own.begin : own.begin - first, part.type); }, 0,
          own.end - own.begin);
    }
  }
  void move_all_to_all(call const& made, group const& g) {
    const std::size_t width = size_of(made.type);
    {
      const std::scoped_lock lock(state_.calls());
      for_others(g, [&](std::size_t m) {
        data_.receive(g.ranks[m], detail::comm::at(made.to, detail::comm::sum(made.receives.first(m)), made.type),
                      made.receives[m] * width, tag_of_data);
        data_.send(g.ranks[m], detail::comm::at(made.from, detail::comm::sum(made.counts.first(m)), made.type),
                   made.counts[m] * width, tag_of_data);
      });
    }
    detail::comm::copy(detail::comm::at(made.to, detail::comm::sum(made.receives.first(g.me)), made.type),
                       detail::comm::at(made.from, detail::comm::sum(made.counts.first(g.me)), made.type),
                       made.counts[g.me] * width);
    wait_for_data();
  }
  // The next member first, so that not everybody sends to the same one.
  template <class F> static void for_others(group const& g, F f) {
    for (std::size_t k = 1; k < g.size(); ++k) f((g.me + k) % g.size());
  }

  void record(communication kind, std::size_t bytes) {
    counted_.bytes[static_cast<std::size_t>(kind)] += bytes;
    ++counted_.calls[static_cast<std::size_t>(kind)];
  }

  detail::comm::mpi_state& state_;
  list<std::unique_ptr<group>> groups_;  // all ranks, then those of the caller
  MPI_Comm cards_over_, data_over_;
  detail::comm::card_box box_;
  detail::comm::transfers data_;
  detail::comm::mpi_exchange exchange_;
  list<std::unique_ptr<card>> own_;  // by member that they go to
  list<MPI_Request> announcements_;
  list<std::size_t> offsets_;
  std::size_t staged_ = 0;                // bytes of one member in `staging_`
  std::unique_ptr<std::byte[]> staging_;  // of two rounds, by member
  traffic_counts counted_;
};

static_assert(communicator<mpi_communicator>);

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
