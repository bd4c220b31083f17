// All ranks together: collective calls meet, messages find their other end, and nobody waits for ever. Each rank goes
// through its list in order, as an executor with one thread does; what ends so ends with two lanes too, because every wait
// is for something that comes earlier in the list.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <partita/program/check/compute.hpp>

namespace partita::detail::checking {

class world {
 public:
  world(model_view const& model, std::vector<program> const& programs, workspace_of const& workspace) : model_(model) {
    for (program const& p : programs) {
      ranks_.push_back(std::make_unique<rank_check>(model, sums_, p));
      ops_.emplace_back(*ranks_.back(), workspace);
    }
    calls_.resize(programs.empty() ? 0 : programs[0].groups.size());
    pending_.assign(programs.size(), 0);
    arriving_.resize(programs.size());
  }
  std::vector<std::unique_ptr<rank_check>>& ranks() { return ranks_; }

  void run() {
    for (auto& r : ranks_) r->start();
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) ready_.push_back(r);
    while (!ready_.empty()) {
      const int r = ready_.front();
      ready_.pop_front();
      while (!rank(r).ended() && step(r)) rank(r).advance();
    }
    for (auto& r : ranks_)
      if (!r->ended()) fail_stuck();
    for (auto& [ends, way] : channels_) {
      if (!way.sends.empty())
        rank(ends.first)
            .fail_at(program_fault::deadlock, way.sends.front().instruction,
                     words({"its message to rank ", ends.second, " is never received"}));
      if (!way.receives.empty())
        rank(ends.second)
            .fail_at(program_fault::deadlock, way.receives.front().instruction,
                     words({"rank ", ends.first, " never sends what it waits for"}));
    }
  }

 private:
  struct end_of_message {  // of a send: with what it carries
    std::uint64_t tag;
    std::int64_t bytes;
    int instruction;
    std::size_t number;  // of the receive, in its exchange
    contents carried;
  };
  struct channel {
    std::deque<end_of_message> sends, receives;
  };

  rank_check& rank(int r) { return *ranks_[static_cast<std::size_t>(r)]; }

  // True when the rank may go on to its next instruction.
  bool step(int r) {
    rank_check& me = rank(r);
    instruction const& i = me.current();
    switch (i.kind) {
      case instruction_kind::compute:
        ops_[static_cast<std::size_t>(r)].run(me.item(me.what().computes, i.payload, "computes"));
        return true;
      case instruction_kind::chain:
        ops_[static_cast<std::size_t>(r)].run(me.item(me.what().chains, i.payload, "chains"));
        return true;
      case instruction_kind::copy: me.copy(i); return true;
      case instruction_kind::fill: me.fill(me.item(me.what().fills, i.payload, "fills"), i.type); return true;
      case instruction_kind::exchange: return exchange(r, me.item(me.what().exchanges, i.payload, "exchanges"));
      default: return collective(r, i);
    }
  }

  // -- messages
  bool exchange(int r, exchange_call const& x) {
    rank_check& me = rank(r);
    if (pending_[static_cast<std::size_t>(r)] < 0) {  // all of them were taken while it waited
      pending_[static_cast<std::size_t>(r)] = 0;
      return true;
    }
    int pending = 0;
    auto check_peer = [&](transfer const& t) {
      if (t.peer < 0 || t.peer >= static_cast<int>(ranks_.size()) || t.peer == r)
        me.fail(program_fault::malformed, words({"it exchanges messages with rank ", t.peer}));
    };
    for (transfer const& s : x.sends)
      for (transfer const& t : x.receives)
        if (s.at.buffer == t.at.buffer && s.at.offset < t.at.offset + t.bytes && t.at.offset < s.at.offset + s.bytes)
          me.fail(program_fault::shared_bytes, "a message arrives where another one is sent from");
    for (std::size_t k = 0; k < x.receives.size(); ++k)
      for (std::size_t q = 0; q < k; ++q)
        if (transfer const& s = x.receives[q], &t = x.receives[k];
            s.at.buffer == t.at.buffer && s.at.offset < t.at.offset + t.bytes && t.at.offset < s.at.offset + s.bytes)
          me.fail(program_fault::shared_bytes, "two messages arrive in one place");
    arriving_[static_cast<std::size_t>(r)].assign(x.receives.size(), {});
    for (transfer const& t : x.sends) {
      check_peer(t);
      end_of_message mine{t.tag, static_cast<std::int64_t>(t.bytes), me.position(), 0,
                          me.run_of(t.at, static_cast<std::int64_t>(t.bytes), nullptr)};
      channel& way = channels_[{r, t.peer}];
      if (auto other = find(way.receives, t.tag); other != way.receives.end()) {
        deliver(r, mine, t.peer, *other);
        way.receives.erase(other);
        finish_one(t.peer);
      } else {
        way.sends.push_back(std::move(mine));
        ++pending;
      }
    }
    for (std::size_t k = 0; k < x.receives.size(); ++k) {
      transfer const& t = x.receives[k];
      check_peer(t);
      me.check_place(t.at, static_cast<std::int64_t>(t.bytes));
      end_of_message mine{t.tag, static_cast<std::int64_t>(t.bytes), me.position(), k, {}};
      channel& way = channels_[{t.peer, r}];
      if (auto other = find(way.sends, t.tag); other != way.sends.end()) {
        deliver(t.peer, *other, r, mine);
        way.sends.erase(other);
        finish_one(t.peer);
      } else {
        way.receives.push_back(std::move(mine));
        ++pending;
      }
    }
    pending_[static_cast<std::size_t>(r)] = pending;
    if (pending > 0) return false;
    take_in(r);
    return true;
  }
  static std::deque<end_of_message>::iterator find(std::deque<end_of_message>& list, std::uint64_t tag) {
    return std::find_if(list.begin(), list.end(), [&](end_of_message const& e) { return e.tag == tag; });
  }
  void deliver(int from, end_of_message& send, int to, end_of_message const& receive) {
    if (send.bytes != receive.bytes)
      rank(to).fail_at(program_fault::calls_disagree, receive.instruction,
                       words({"it waits for a message of ", static_cast<long long>(receive.bytes), " bytes, rank ", from,
                              " sends ", static_cast<long long>(send.bytes)}));
    arriving_[static_cast<std::size_t>(to)][receive.number] = std::move(send.carried);
  }
  void finish_one(int r) {
    int& pending = pending_[static_cast<std::size_t>(r)];
    if (--pending > 0) return;
    take_in(r);
    pending = -1;
    ready_.push_back(r);
  }
  // What has arrived is put in its place.
  void take_in(int r) {
    rank_check& me = rank(r);
    exchange_call const& x = me.what().exchanges[static_cast<std::size_t>(me.current().payload)];
    for (std::size_t k = 0; k < x.receives.size(); ++k)
      me.write_run(x.receives[k].at, static_cast<std::int64_t>(x.receives[k].bytes), arriving_[static_cast<std::size_t>(r)][k]);
  }

  // -- collective calls
  struct call_of_group {
    std::vector<int> here;   // ranks that have arrived
    std::vector<bool> done;  // by rank position: it was carried out while they waited
  };
  bool collective(int r, instruction const& i) {
    rank_check& me = rank(r);
    collective_call const& c = me.item(me.what().collectives, i.payload, "collectives");
    list<int> const& members = me.item(me.what().groups, c.group, "groups");
    const auto at = std::find(members.begin(), members.end(), r);
    if (at == members.end())
      me.fail(program_fault::malformed, words({"it calls for group ", c.group, ", which it does not belong to"}));
    const std::size_t own = static_cast<std::size_t>(at - members.begin());
    call_of_group& g = calls_[static_cast<std::size_t>(c.group)];
    if (g.done.empty()) g.done.assign(members.size(), false);
    if (g.done[own]) {
      g.done[own] = false;
      return true;
    }
    if (i.call_count < 1) me.fail(program_fault::malformed, words({"it makes ", i.call_count, " calls"}));
    for (int k = 0; k < i.call_count; ++k) {
      collective_call const& one = me.item(me.what().collectives, i.payload + k, "collectives");
      if (one.group != c.group) me.fail(program_fault::malformed, "the calls that it makes as one are of several groups");
      check_counts(me, one, members.size());
    }
    g.here.push_back(r);
    if (g.here.size() < members.size()) return false;
    g.here.clear();
    const int calls = rank(members[0]).current().call_count;
    for (int m : members)
      if (rank(m).current().call_count != calls)
        rank(m).fail(program_fault::calls_disagree, words({"of the same group rank ", members[0], " makes ", calls,
                                                           " calls as one, not ", rank(m).current().call_count}));
    for (call_ = 0; call_ < calls; ++call_) {
      carry_out(members);
      check_joined(members);
    }
    for (std::size_t m = 0; m < members.size(); ++m)
      if (members[m] != r) {
        g.done[m] = true;
        ready_.push_back(members[m]);
      }
    return true;
  }
  void check_counts(rank_check& me, collective_call const& c, std::size_t members) const {
    const instruction_kind kind = me.current().kind;
    const std::size_t wanted = kind == instruction_kind::all_reduce ? 1 : members;
    if (c.counts.size() != wanted || (kind == instruction_kind::all_to_all && c.receive_counts.size() != members))
      me.fail(program_fault::malformed, words({"it gives ", c.counts.size(), " counts for a group of ", members}));
  }
  collective_call const& call_of(int r) {
    return rank(r).what().collectives[static_cast<std::size_t>(rank(r).current().payload + call_)];
  }
  // Calls that are made as one have no order: none reads or writes what another one writes.
  void check_joined(list<int> const& members) {
    struct place {
      reference at;
      std::size_t bytes;
      bool meets(place const& other) const {
        return bytes > 0 && other.bytes > 0 && at.buffer == other.at.buffer && at.offset < other.at.offset + other.bytes &&
               other.at.offset < at.offset + bytes;
      }
    };
    for (std::size_t m = 0; m < members.size(); ++m) {
      rank_check& me = rank(members[m]);
      instruction const& i = me.current();
      auto places = [&](collective_call const& c) {
        const std::size_t size = size_of(i.type);
        std::size_t given = 0, got = 0;
        for (std::size_t n : c.counts) given += n * size;
        for (std::size_t n : c.receive_counts) got += n * size;
        const std::size_t own = i.kind == instruction_kind::all_reduce ? given : c.counts[m] * size;
        switch (i.kind) {
          case instruction_kind::all_reduce: return std::pair<place, place>{{c.to, given}, {c.to, given}};
          case instruction_kind::all_gather: return std::pair<place, place>{{c.from, own}, {c.to, given}};
          case instruction_kind::reduce_scatter: return std::pair<place, place>{{c.from, given}, {c.to, own}};
          default: return std::pair<place, place>{{c.from, given}, {c.to, got}};
        }
      };
      const auto [read, written] = places(call_of(members[m]));
      for (int k = 0; k < call_; ++k) {
        const auto [other_read, other_written] = places(me.what().collectives[static_cast<std::size_t>(i.payload + k)]);
        if (written.meets(other_read) || written.meets(other_written) || read.meets(other_written))
          me.fail(program_fault::shared_bytes, words({"calls ", k, " and ", call_, " that it makes as one use the same bytes"}));
      }
    }
  }

  void carry_out(list<int> const& members) {
    rank_check& first = rank(members[0]);
    const instruction kind = first.current();
    collective_call const& c = call_of(members[0]);
    for (int m : members) {
      instruction const& i = rank(m).current();
      collective_call const& other = call_of(m);
      if (i.kind != kind.kind || i.type != kind.type || (kind.kind != instruction_kind::all_to_all && other.counts != c.counts))
        rank(m).fail(program_fault::calls_disagree,
                     words({"of the same group rank ", members[0], " calls ", name_of(kind.kind), " of ", name_of(kind.type),
                            " at its instruction ", first.position(), ", with other counts, type or kind"}));
      if (is_reduction(kind.kind) && other.reduce != c.reduce)
        rank(m).fail(program_fault::calls_disagree, words({"of the same group rank ", members[0], " reduces in another way"}));
    }
    const std::int64_t size = bytes_of(kind.type);
    const std::size_t n = members.size();
    std::vector<std::int64_t> begin(n + 1, 0);
    for (std::size_t m = 0; m < c.counts.size(); ++m) begin[m + 1] = begin[m] + static_cast<std::int64_t>(c.counts[m]) * size;
    switch (kind.kind) {
      case instruction_kind::all_reduce: {
        contents sum;
        for (std::size_t m = 0; m < n; ++m)
          add(sum, m == 0, rank(members[m]).run_of(call_of(members[m]).to, begin[1], &kind.type), c.reduce, rank(members[m]));
        for (int m : members) rank(m).write_run(call_of(m).to, begin[1], sum);
        return;
      }
      case instruction_kind::all_gather: {
        std::vector<contents> parts;
        for (std::size_t m = 0; m < n; ++m)
          parts.push_back(rank(members[m]).run_of(call_of(members[m]).from, begin[m + 1] - begin[m], &kind.type));
        for (std::size_t to = 0; to < n; ++to)
          write_parts(members, to, call_of(members[to]).to, parts, begin, &collective_call::from);
        return;
      }
      case instruction_kind::reduce_scatter: {
        contents sum;
        for (std::size_t m = 0; m < n; ++m)
          add(sum, m == 0, rank(members[m]).run_of(call_of(members[m]).from, begin[n], &kind.type), c.reduce, rank(members[m]));
        for (std::size_t m = 0; m < n; ++m) {
          contents own;
          (void)take_run(sum, begin[m], begin[m + 1] - begin[m], own);
          check_apart(rank(members[m]), call_of(members[m]).from, begin[n], call_of(members[m]).to, begin[m + 1] - begin[m],
                      begin[m]);
          rank(members[m]).write_run(call_of(members[m]).to, begin[m + 1] - begin[m], own);
        }
        return;
      }
      default: all_to_all(members, kind);
    }
  }
  static bool is_reduction(instruction_kind k) {
    return k == instruction_kind::all_reduce || k == instruction_kind::reduce_scatter;
  }
  void add(contents& sum, bool first, contents part, reduction how, rank_check& whose) {
    if (first) sum = std::move(part);
    else sum = whose.combine_or_fail(sum, part, how, " of its group");
  }
  // Input and output of a call may share bytes only where a member's own piece is its piece of the whole.
  static void check_apart(rank_check& me, reference const& together, std::int64_t all, reference const& piece, std::int64_t bytes,
                          std::int64_t begin) {
    if (bytes == 0 || all == 0 || together.buffer != piece.buffer) return;
    const std::int64_t a = static_cast<std::int64_t>(together.offset), b = static_cast<std::int64_t>(piece.offset);
    if (a < b + bytes && b < a + all && b != a + begin)
      me.fail(program_fault::shared_bytes, "what it gives and what it gets lie on the same bytes");
  }
  void write_parts(list<int> const& members, std::size_t to, reference const& at, std::vector<contents> const& parts,
                   std::vector<std::int64_t> const& begin, reference collective_call::*mine) {
    rank_check& me = rank(members[to]);
    check_apart(me, at, begin.back(), call_of(members[to]).*mine, begin[to + 1] - begin[to], begin[to]);
    contents all;
    for (std::size_t m = 0; m < parts.size(); ++m)
      for (patch p : parts[m]) {
        p.where.place += begin[m];
        all.push_back(p);
      }
    me.write_run(at, begin.back(), all);
  }
  void all_to_all(list<int> const& members, instruction const& kind) {
    const std::size_t n = members.size();
    const std::int64_t size = bytes_of(kind.type);
    auto bytes = [&](std::size_t elements) { return static_cast<std::int64_t>(elements) * size; };
    std::vector<std::vector<contents>> parts(n);  // by receiver, then sender
    for (std::size_t from = 0; from < n; ++from) {
      collective_call const& c = call_of(members[from]);
      reference at = c.from;
      for (std::size_t to = 0; to < n; ++to) {
        if (c.counts[to] != call_of(members[to]).receive_counts[from])
          rank(members[from])
              .fail(program_fault::calls_disagree, words({"it sends ", c.counts[to], " elements to rank ", members[to],
                                                          ", which expects ", call_of(members[to]).receive_counts[from]}));
        parts[to].push_back(rank(members[from]).run_of(at, bytes(c.counts[to]), &kind.type));
        at.offset += static_cast<std::size_t>(bytes(c.counts[to]));
      }
    }
    for (std::size_t to = 0; to < n; ++to) {
      std::vector<std::int64_t> begin(1, 0);
      for (std::size_t count : call_of(members[to]).receive_counts) begin.push_back(begin.back() + bytes(count));
      std::int64_t sent = 0;
      for (std::size_t count : call_of(members[to]).counts) sent += bytes(count);
      check_apart(rank(members[to]), call_of(members[to]).to, begin.back(), call_of(members[to]).from, sent, -1);
      contents all;
      for (std::size_t m = 0; m < n; ++m)
        for (patch p : parts[to][m]) {
          p.where.place += begin[m];
          all.push_back(p);
        }
      rank(members[to]).write_run(call_of(members[to]).to, begin.back(), all);
    }
  }

  [[noreturn]] void fail_stuck() {
    int first = -1;
    std::string all;
    int named = 0;
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
      if (rank(r).ended()) continue;
      if (first < 0) first = r;
      if (++named > 4) continue;
      instruction const& i = rank(r).current();
      all += words({named > 1 ? "; rank " : "rank ", r, " at instruction ", rank(r).position(), ", ",
                    words_of(rank(r).what(), model_.graph, i)});
      if (i.kind == instruction_kind::exchange)
        for (transfer const& t : rank(r).what().exchanges[static_cast<std::size_t>(i.payload)].receives)
          all += words({", from rank ", t.peer});
      else all += words({", for group ", rank(r).what().collectives[static_cast<std::size_t>(i.payload)].group});
    }
    if (named > 4) all += words({"; and ", named - 4, " more"});
    rank(first).fail(program_fault::deadlock, words({"it waits for ever: ", all}));
  }

  model_view const& model_;
  pieces_summed sums_;
  std::vector<std::unique_ptr<rank_check>> ranks_;
  std::vector<op_check> ops_;
  std::vector<call_of_group> calls_;
  int call_ = 0;  // of those that are made as one
  std::map<std::pair<int, int>, channel> channels_;
  std::vector<int> pending_;                     // messages that a waiting rank's exchange still lacks; -1: none, it may go on
  std::vector<std::vector<contents>> arriving_;  // of the exchange in progress
  std::deque<int> ready_;
};

}  // namespace partita::detail::checking
