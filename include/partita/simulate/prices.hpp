// What every instruction of a class's program costs, and with whom it communicates.
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include <partita/simulate/events.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct simulate_options {
  // 1: a device communicates and computes in turn, in the program's order. 0: as the CPU's devices do where every core has
  // one: in turn, but at once in plans where a device sends and does not receive at the same time.
  int lanes = 2;
  // Durations of one's own, instead of the cost model's; negative: the cost model's.
  std::function<double(program const&, instruction const&)> seconds{};
  // Programs, and when their instructions run, are kept in the result. Without, a class's program is gone once it is priced:
  // that of a plan of a thousand micro-batches takes gigabytes.
  bool keep_programs = true;
  // A plan that does not fit into the devices' memory takes infinitely long: it is simulated no further than to know that, and
  // the result holds the classes up to the first that does not fit.
  bool fitting_only = false;
};

namespace detail::simulating {

class pricing {
 public:
  pricing(lowering const& s, costs const& k, rank_classes const& classes, simulate_options const& how)
      : s_(s), costs_(k), classes_(classes), how_(how) {
    cluster const& c = k.of();
    for (std::size_t l = 0; l < c.links.size(); ++l) {
      first_link_.push_back(links_);
      const int below = l == 0 ? 1 : c.links[l - 1].devices;
      if (c.links[l].shared_seconds_per_byte) links_ += 2 * (c.size() / below + 1);
    }
  }
  // The program of class `c`; one after another, each once.
  void add(int c, program const& p, runner& r) {
    r.rank = p.rank;
    const std::size_t count = p.instructions.size();
    r.prices.resize(count);
    r.waits_for.reserve(count);
    r.moves.reserve(count);
    known_.assign(static_cast<std::size_t>(s_.graph().ops.size), {});
    chains_.assign(static_cast<std::size_t>(s_.plan_completed().nodes.size), {});
    begin_class(c);
    for (std::size_t at = 0; at < count; ++at) {
      instruction const& i = p.instructions[at];
      r.waits_for.push_back(i.wait);
      r.moves.push_back(i.where == lane::communication);
      price& mine = r.prices[at];
      if (is_communication(i.kind)) mine = communication(p, i, c, static_cast<int>(at));
      else mine.seconds = compute(p, i, p.rank);
      if (how_.seconds)
        if (const double own = how_.seconds(p, i); own >= 0) mine.seconds = own;
    }
    for (exchange_call const& e : p.exchanges) one_way_ = one_way_ || e.sends.empty() != e.receives.empty();
  }
  // When all have been added: who meets whom, and which lane everything runs in.
  void finish(std::vector<runner>& runners) {
    for (waiting_exchange& e : exchanges_)
      runners[static_cast<std::size_t>(e.of)].prices[static_cast<std::size_t>(e.at)].meeting = meet(
          {e.node, e.index, -1 - e.step, e.local ? -1 - e.of : leader_of_exchange(e.node, e.of)}, e.of, e.at, std::move(e.uses));
    exchanges_.clear();
    for (meeting& m : meetings_) m.missing = static_cast<int>(m.members.size());
    const bool two_lanes = how_.lanes > 1 || (how_.lanes < 1 && one_way_);
    for (runner& r : runners) {
      r.times.resize(r.prices.size());
      const std::size_t moving = two_lanes ? static_cast<std::size_t>(std::count(r.moves.begin(), r.moves.end(), true)) : 0;
      r.lanes[0].reserve(r.prices.size() - moving);
      r.lanes[1].reserve(moving);
      for (std::size_t at = 0; at < r.prices.size(); ++at)
        r.lanes[two_lanes && r.moves[at] ? 1 : 0].push_back(static_cast<int>(at));
    }
  }
  std::vector<meeting>& meetings() { return meetings_; }
  int links() const { return links_; }

 private:
  // --- compute lane
  struct known_price {
    std::size_t extents[max_dims]{};
    bool accumulates = false;
    double seconds = -1;
  };
  struct known_chain {
    int links = 0, last = -1;
    std::size_t inner = 0, outer[max_rank]{};
    double seconds = -1;
  };
  double compute(program const& p, instruction const& i, int device) {
    const std::size_t payload = static_cast<std::size_t>(i.payload);
    const double size = static_cast<double>(size_of(i.type));
    switch (i.kind) {
      case instruction_kind::compute: {
        compute_call const& call = p.computes[payload];
        known_price& known = known_[static_cast<std::size_t>(call.op)];
        if (known.seconds < 0 || known.accumulates != call.accumulate ||
            std::memcmp(known.extents, call.extents, sizeof known.extents) != 0) {
          std::memcpy(known.extents, call.extents, sizeof known.extents);
          known.accumulates = call.accumulate;
          known.seconds = costs_.op(*s_.graph().ops[call.op].info, call.extents, device, call.input_count, call.accumulate);
        }
        return known.seconds;
      }
      case instruction_kind::chain: {
        chain_call const& chain = p.chains[payload];
        known_chain& known = chains_[static_cast<std::size_t>(i.node)];
        const int last = p.computes[static_cast<std::size_t>(
                                        p.links[static_cast<std::size_t>(chain.first_link + chain.link_count - 1)].compute)]
                             .op;
        if (known.seconds < 0 || known.links != chain.link_count || known.last != last || known.inner != chain.inner ||
            std::memcmp(known.outer, chain.outer, sizeof known.outer) != 0) {
          known = {chain.link_count, last, chain.inner, {}, chain_seconds(p, chain, device)};
          std::memcpy(known.outer, chain.outer, sizeof known.outer);
        }
        return known.seconds;
      }
      case instruction_kind::copy: {
        double bytes = 0;
        for (int b = 0; b < i.box_count; ++b) {
          box_copy const& box = p.boxes[static_cast<std::size_t>(i.first_box + b)];
          double n = size * (box.combine ? 3 : 2);
          for (int a = 0; a < box.rank; ++a) n *= static_cast<double>(box.extents[a]);
          bytes += n;
        }
        return seconds_of_copy(bytes, device);
      }
      case instruction_kind::fill: return costs_.pass_over(size * static_cast<double>(p.fills[payload].elements), device);
      default: return 0;
    }
  }
  double seconds_of_copy(double bytes, int device) {
    if (bytes != copied_.bytes) copied_ = {bytes, costs_.pass_over(bytes, device)};
    return copied_.seconds;
  }
  double chain_seconds(program const& p, chain_call const& chain, int device) const {
    if (const double tiles = in_tiles(p, chain); tiles >= 0) return tiles;
    op_work sum;
    for (int l = 0; l < chain.link_count; ++l) {
      chain_link const& link = p.links[static_cast<std::size_t>(chain.first_link + l)];
      compute_call const& call = p.computes[static_cast<std::size_t>(link.compute)];
      const op_work w = work_of(*s_.graph().ops[call.op].info, call.extents, call.input_count);
      sum.flops += w.flops;
      sum.type = w.type;
    }
    sum.bytes = outside_bytes(p, chain);
    return costs_.op(sum, device);
  }
  // What a chain reads and writes in memory.
  double outside_bytes(program const& p, chain_call const& chain) const {
    double bytes = 0;
    for (int l = 0; l < chain.link_count; ++l) {
      chain_link const& link = p.links[static_cast<std::size_t>(chain.first_link + l)];
      compute_call const& call = p.computes[static_cast<std::size_t>(link.compute)];
      op_info const& f = *s_.graph().ops[call.op].info;
      for (int k = 0; k < call.input_count + call.output_count; ++k) {
        if (link.operands[k] == tile_operand::internal) continue;
        operand const& x = k < call.input_count ? f.input(k) : f.outputs[k - call.input_count];
        bytes += elements_of(x, call.extents) * static_cast<double>(size_of(x.type));
      }
    }
    return bytes;
  }
  // By what its ops take in a tile, or by the memory it moves, where those were measured; negative elsewhere.
  double in_tiles(program const& p, chain_call const& chain) const {
    double seconds = 0, rows = static_cast<double>(chain.inner);
    for (int d = 0; d + 1 < chain.depth; ++d) rows *= static_cast<double>(chain.outer[d]);
    for (int l = 0; l < chain.link_count; ++l) {
      chain_link const& link = p.links[static_cast<std::size_t>(chain.first_link + l)];
      compute_call const& call = p.computes[static_cast<std::size_t>(link.compute)];
      std::size_t extents[max_dims]{};
      std::memcpy(extents, call.extents, sizeof extents);
      for (int d = 0; d + 1 < chain.depth; ++d) extents[static_cast<int>(link.letters[d])] = 1;
      extents[static_cast<int>(link.letters[chain.depth - 1])] = chain.tile_rows;
      const double one = costs_.tile(*s_.graph().ops[call.op].info, extents);
      if (one < 0) return -1;
      seconds += one * rows / static_cast<double>(chain.tile_rows);
    }
    return std::max(seconds, costs_.pass_over(outside_bytes(p, chain)));
  }

  // --- communication
  struct known_group {
    bool known = false, local = true;
    int leader = 0;
    group_shape shape;
    list<int> sorted;
    int asked_for = -1;  // the node for which `flows` were counted
    double flows = 1;
  };
  using meeting_key = std::tuple<int, int, int, int>;  // node, index, which of the instance's, leader

  void begin_class(int c) {
    class_ = c;
    copied_ = {};
    groups_.assign(s_.groups().size(), {});
  }
  known_group& group(int id) {
    known_group& g = groups_[static_cast<std::size_t>(id)];
    if (g.known) return g;
    g.known = true;
    g.sorted = s_.groups()[static_cast<std::size_t>(id)];
    std::sort(g.sorted.begin(), g.sorted.end());
    g.shape = group_shape::of(costs_.of(), g.sorted);
    g.leader = class_;
    for (int d : g.sorted) {
      const int c = classes_.of[static_cast<std::size_t>(d)];
      g.local = g.local && c == class_;
      g.leader = std::min(g.leader, c);
    }
    return g;
  }
  price communication(program const& p, instruction const& i, int c, int at) {
    if (i.kind == instruction_kind::exchange) return exchange(p, i, c, at);
    collective_call const& call = p.collectives[static_cast<std::size_t>(i.payload)];
    known_group& g = group(call.group);
    double elements = 0;
    for (int k = 0; k < i.call_count; ++k)
      for (std::size_t n : p.collectives[static_cast<std::size_t>(i.payload + k)].counts) elements += static_cast<double>(n);
    collective_kind kind = collective_kind::all_reduce;
    if (i.kind == instruction_kind::all_gather) kind = collective_kind::all_gather;
    if (i.kind == instruction_kind::reduce_scatter) kind = collective_kind::reduce_scatter;
    if (i.kind == instruction_kind::all_to_all) {
      kind = collective_kind::all_to_all;
      elements *= g.shape.members;  // counts are what one member sends; all hold as much
    }
    if (g.asked_for != i.node) {
      g.asked_for = i.node;
      g.flows = concurrent(i, g);
    }
    const double flows = g.flows;
    price made{-1, costs_.collective(kind, g.shape, elements * static_cast<double>(size_of(i.type)), flows)};
    std::vector<link_use> uses;
    if (links_ > 0)
      for (int l = 0; l <= g.shape.top; ++l)
        if (g.shape.fan[l] > 1) {
          use_link(l, rank_of(c), true, flows, made.seconds, uses);
          use_link(l, rank_of(c), false, flows, made.seconds, uses);
        }
    if (g.local && uses.empty()) return made;
    made.meeting = meet({i.node, i.index, call.step, g.local ? -1 - c : g.leader}, c, at, std::move(uses));
    return made;
  }
  // Sends at once and receives at once, each direction at the speed of its links.
  price exchange(program const& p, instruction const& i, int c, int at) {
    exchange_call const& call = p.exchanges[static_cast<std::size_t>(i.payload)];
    const int rank = p.rank;
    double latency = 0, directions[2]{}, bytes[2]{};
    bool local = true;
    std::vector<link_use> uses;
    for (int d = 0; d < 2; ++d)
      for (transfer const& t : d == 0 ? call.sends : call.receives) {
        const int other = classes_.of[static_cast<std::size_t>(t.peer)];
        local = local && other == c;
        join(i.node, c, other);
        if (t.peer == rank) continue;
        const int level = costs_.of().level_between(rank, t.peer);
        link_level const& l = costs_.of().links[static_cast<std::size_t>(level)];
        const double flows = l.shared_seconds_per_byte ? alike_in_unit(c, level) : 1;
        const double seconds = static_cast<double>(t.bytes) * l.beta(flows);
        bytes[d] += static_cast<double>(t.bytes);
        latency = std::max(latency, l.latency);
        directions[d] += seconds;
        if (links_ > 0) {
          use_link(level, rank, d == 0, flows, seconds, uses);
          use_link(level, t.peer, d != 0, flows, seconds, uses);
        }
      }
    price made{-1, latency + std::max(directions[0], directions[1])};
    if (const double measured = costs_.exchange(bytes[0], bytes[1]); measured >= 0) made.seconds = measured;
    if (local && uses.empty()) return made;
    exchanges_.push_back({c, at, i.node, i.index, call.step, local, std::move(uses)});
    return made;
  }
  int meet(meeting_key const& key, int c, int at, std::vector<link_use> uses) {
    const auto [found, fresh] = meeting_of_.emplace(key, static_cast<int>(meetings_.size()));
    if (fresh) meetings_.push_back({});
    meeting& m = meetings_[static_cast<std::size_t>(found->second)];
    m.members.emplace_back(c, at);
    for (link_use const& u : uses) {  // both ends name the same links
      const auto same = std::find_if(m.uses.begin(), m.uses.end(), [&](link_use const& other) { return other.link == u.link; });
      if (same == m.uses.end()) m.uses.push_back(u);
      else same->seconds = std::max(same->seconds, u.seconds);
    }
    return found->second;
  }
  // Groups of the same grid that leave one unit together.
  double concurrent(instruction const& i, known_group const& g) const {
    if (g.shape.top == 0) return 1;
    completed const& c = s_.plan_completed();
    node const& n = c.nodes[i.node];
    placement const* w = &n.over.where;
    int at[max_levels]{};
    if (n.kind == node_kind::move && !w->coordinates_of(g.sorted.front(), at)) w = &c.values[c.input(n, 0)].lay.where;
    const int unit = costs_.of().links[static_cast<std::size_t>(g.shape.top) - 1].devices;
    double here = 0, own = 0;
    for (int k = 0, size = w->size(); k < size; ++k) here += w->device_at(k) / unit == g.sorted.front() / unit;
    for (int d : g.sorted) own += d / unit == g.sorted.front() / unit;
    return std::max(1.0, here / own);
  }
  double alike_in_unit(int c, int level) const {
    const int unit = level == 0 ? 1 : costs_.of().links[static_cast<std::size_t>(level) - 1].devices;
    double n = 0;
    for (int d : classes_.all[static_cast<std::size_t>(c)].ranks) n += d / unit == rank_of(c) / unit;
    return std::max(1.0, n);
  }
  void use_link(int level, int device, bool outward, double flows, double seconds, std::vector<link_use>& uses) const {
    link_level const& l = costs_.of().links[static_cast<std::size_t>(level)];
    if (!l.shared_seconds_per_byte) return;
    const int unit = level == 0 ? device : device / costs_.of().links[static_cast<std::size_t>(level) - 1].devices;
    const double beta = l.beta(flows), share = beta > 0 ? std::min(1.0, flows * *l.shared_seconds_per_byte / beta) : 1;
    uses.push_back({first_link_[static_cast<std::size_t>(level)] + 2 * unit + (outward ? 0 : 1), seconds * share});
  }

  // Classes that send to one another in an instance of a node come together: which, is known when all have been seen.
  struct waiting_exchange {
    int of, at, node, index, step;  // class, instruction
    bool local;
    std::vector<link_use> uses;
  };
  int leader_of_exchange(int node, int c) {
    for (;;) {
      const auto above = joined_.find({node, c});
      if (above == joined_.end() || above->second == c) return c;
      c = above->second;
    }
  }
  void join(int node, int a, int b) {
    a = leader_of_exchange(node, a);
    b = leader_of_exchange(node, b);
    if (a != b) joined_[{node, std::max(a, b)}] = std::min(a, b);
  }

  int rank_of(int c) const { return classes_.all[static_cast<std::size_t>(c)].rank; }

  lowering const& s_;
  costs const& costs_;
  rank_classes const& classes_;
  simulate_options const& how_;
  std::vector<known_price> known_;   // by op, of the class at hand
  std::vector<known_chain> chains_;  // by node
  struct {
    double bytes = -1, seconds = 0;
  } copied_;  // the last copy's, of the class at hand
  std::vector<known_group> groups_;
  int class_ = 0;
  std::vector<meeting> meetings_;
  std::map<meeting_key, int> meeting_of_;
  std::map<std::pair<int, int>, int> joined_;
  std::vector<waiting_exchange> exchanges_;
  bool one_way_ = false;  // some device sends and does not receive at the same time
  std::vector<int> first_link_;
  int links_ = 0;
};

}  // namespace detail::simulating
}  // namespace partita

#include <partita/core/end_planning_code.hpp>
