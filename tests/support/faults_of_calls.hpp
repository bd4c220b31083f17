// Faults in what ranks say to each other: collective calls, messages, groups, and what each rank's executor launches with.
#pragma once
#include <partita/model/names.hpp>

#include "inject.hpp"

namespace partita::testing {

namespace faults {
inline bool is_collective(instruction const& i) {
  return i.kind >= instruction_kind::all_reduce && i.kind <= instruction_kind::all_to_all;
}
inline bool is_reduction(instruction const& i) {
  return i.kind == instruction_kind::all_reduce || i.kind == instruction_kind::reduce_scatter;
}
// Those that move something.
inline std::vector<place_of_instruction> collectives(injection const& x) {
  return x.places([&](program const& p, instruction const& i) {
    if (!is_collective(i)) return false;
    collective_call const& c = x.call_of(p, i);
    std::size_t elements = 0;
    for (auto const* list : {&c.counts, &c.receive_counts})
      for (std::size_t n : *list) elements += n;
    return elements > 0;
  });
}
inline std::vector<place_of_instruction> reductions(injection const& x, reduction how) {
  return x.places([&](program const& p, instruction const& i) { return is_reduction(i) && x.call_of(p, i).reduce == how; });
}
// Picks a place and says so; false when there is none.
inline bool pick(injection& x, std::vector<place_of_instruction> const& all, place_of_instruction& p, char const* what) {
  if (all.empty()) return false;
  p = x.any(all);
  x.say(p, what);
  return true;
}
inline bool drop_call(injection& x, std::vector<place_of_instruction> const& all) {
  place_of_instruction p;
  if (!pick(x, all, p, "dropped on all members")) return false;
  for (place_of_instruction const& m : x.members(p)) x.remove(m);
  return true;
}
inline bool double_call(injection& x) {
  place_of_instruction p;
  if (!pick(x, x.places([&](program const& q, instruction const& i) {
        return i.kind == instruction_kind::all_reduce && x.call_of(q, i).reduce == reduction::sum;
      }),
            p, "done twice"))
    return false;
  for (place_of_instruction const& m : x.members(p)) x.insert(m.rank, m.at + 1, x.at(m));
  return true;
}
inline void for_other_group(injection& x, place_of_instruction const& p, int group) {
  for (int k = 0; k < x.at(p).call_count; ++k) x.of(p).collectives[static_cast<std::size_t>(x.at(p).payload + k)].group = group;
}
// On all ranks that make the call, with groups that part them otherwise.
inline bool wrong_groups(injection& x) {
  place_of_instruction p;
  if (!pick(x, x.places(instruction_kind::all_reduce), p, "over other groups on all ranks")) return false;
  const int node = x.at(p).node, index = x.at(p).index;
  std::vector<int> call(x.programs.size(), -1);  // each rank's instruction
  for (place_of_instruction const& q : x.places(instruction_kind::all_reduce))
    if (x.at(q).node == node && x.at(q).index == index) {
      if (call[static_cast<std::size_t>(q.rank)] >= 0) return false;
      call[static_cast<std::size_t>(q.rank)] = q.at;
    }
  std::vector<int> group(x.programs.size(), -1);
  auto const& groups = x.programs[0].groups;
  for (std::size_t r = 0; r < call.size(); ++r) {
    if (call[r] < 0 || group[r] >= 0) continue;
    int found = -1;
    for (std::size_t k = 0; k < groups.size() && found < 0; ++k) {
      bool free = std::find(groups[k].begin(), groups[k].end(), static_cast<int>(r)) != groups[k].end();
      for (int m : groups[k])
        free = free && call[static_cast<std::size_t>(m)] >= 0 && group[static_cast<std::size_t>(m)] < 0 &&
               x.collective_at({m, call[static_cast<std::size_t>(m)]}).group != static_cast<int>(k);
      if (free) found = static_cast<int>(k);
    }
    if (found < 0) return false;
    for (int m : groups[static_cast<std::size_t>(found)]) group[static_cast<std::size_t>(m)] = found;
  }
  for (std::size_t r = 0; r < call.size(); ++r)
    if (call[r] >= 0) for_other_group(x, {static_cast<int>(r), call[r]}, group[r]);
  return true;
}
inline bool wrong_group_on_one_rank(injection& x) {
  auto others_of = [&](place_of_instruction const& p) {
    std::vector<int> others;
    auto const& groups = x.of(p).groups;
    const int own = x.collective_at(p).group;
    for (std::size_t k = 0; k < groups.size(); ++k)
      if (static_cast<int>(k) != own && groups[k].size() == groups[static_cast<std::size_t>(own)].size() &&
          std::find(groups[k].begin(), groups[k].end(), p.rank) != groups[k].end())
        others.push_back(static_cast<int>(k));
    return others;
  };
  std::vector<place_of_instruction> all = collectives(x);
  std::erase_if(all, [&](place_of_instruction const& p) { return others_of(p).empty(); });
  place_of_instruction p;
  if (!pick(x, all, p, "for another group on one rank")) return false;
  for_other_group(x, p, x.any(others_of(p)));
  return true;
}
// On all ranks, so that they agree.
inline bool members_in_another_order(injection& x) {
  place_of_instruction p;
  if (!pick(x, x.places([](program const&, instruction const& i) {
        return is_collective(i) && i.kind != instruction_kind::all_reduce;
      }),
            p, "with members in another order"))
    return false;
  const int group = x.collective_at(p).group;
  for (program& q : x.programs)
    std::reverse(q.groups[static_cast<std::size_t>(group)].begin(), q.groups[static_cast<std::size_t>(group)].end());
  return true;
}
inline bool another_group_on_one_rank(injection& x) {
  place_of_instruction p;
  if (!pick(x, collectives(x), p, "in a group that one rank lists with fewer members")) return false;
  x.of(p).groups[static_cast<std::size_t>(x.collective_at(p).group)].pop_back();
  return true;
}
inline bool other_reduction(injection& x, reduction from) {
  place_of_instruction p;
  if (!pick(x, reductions(x, from), p, from == reduction::sum ? "a sum taken as a maximum" : "a maximum taken as a sum"))
    return false;
  for (place_of_instruction const& m : x.members(p))
    x.collective_at(m).reduce = from == reduction::sum ? reduction::max : reduction::sum;
  return true;
}
inline bool other_reduction_on_one_rank(injection& x) {
  place_of_instruction p;
  if (!pick(x, reductions(x, reduction::sum), p, "a maximum on one rank")) return false;
  x.collective_at(p).reduce = reduction::max;
  return true;
}
inline bool other_type_on_one_rank(injection& x) {
  place_of_instruction p;
  if (!pick(x, collectives(x), p, "of another type on one rank")) return false;
  x.at(p).type = x.at(p).type == i32 ? f32 : i32;
  return true;
}
inline bool other_type_on_all(injection& x) {
  place_of_instruction p;
  if (!pick(x, x.places([](program const&, instruction const& i) { return is_reduction(i); }), p, "of another type on all ranks"))
    return false;
  for (place_of_instruction const& m : x.members(p)) x.at(m).type = i32;
  return true;
}
inline bool fewer_elements_on_all(injection& x) {
  place_of_instruction p;
  if (!pick(x, x.places([&](program const& q, instruction const& i) {
        return i.kind == instruction_kind::all_reduce && x.call_of(q, i).counts[0] > 1;
      }),
            p, "of one element less"))
    return false;
  for (place_of_instruction const& m : x.members(p)) --x.collective_at(m).counts[0];
  return true;
}
inline bool other_counts_on_one_rank(injection& x) {
  place_of_instruction p;
  if (!pick(x, collectives(x), p, "with another count on one rank")) return false;
  list<std::size_t>& counts = x.collective_at(p).counts;
  std::size_t& count = counts[static_cast<std::size_t>(x.below(static_cast<int>(counts.size())))];
  if (count == 0) return false;
  --count;
  return true;
}
// What two members give and get is told apart by the counts alone.
inline bool counts_in_another_order(injection& x) {
  place_of_instruction p;
  if (!pick(x, x.places([&](program const& q, instruction const& i) {
        if (!is_collective(i)) return false;
        auto const& c = x.call_of(q, i).counts;
        return (i.kind == instruction_kind::all_gather || i.kind == instruction_kind::reduce_scatter) && c.front() != c.back();
      }),
            p, "with counts in another order on all ranks"))
    return false;
  for (place_of_instruction const& m : x.members(p))
    std::reverse(x.collective_at(m).counts.begin(), x.collective_at(m).counts.end());
  return true;
}
inline bool calls_in_another_order(injection& x) {
  std::vector<std::pair<place_of_instruction, place_of_instruction>> pairs;
  const std::vector<place_of_instruction> all = collectives(x);
  for (std::size_t r = 0; r < x.programs.size(); ++r) {
    std::vector<int> last(x.programs[r].groups.size(), -1);
    for (std::size_t i = 0; i < x.programs[r].instructions.size(); ++i) {
      instruction const& now = x.programs[r].instructions[i];
      if (std::none_of(all.begin(), all.end(), [&](place_of_instruction const& p) {
            return p.rank == static_cast<int>(r) && p.at == static_cast<int>(i);
          }))
        continue;
      int& before = last[static_cast<std::size_t>(x.programs[r].collectives[static_cast<std::size_t>(now.payload)].group)];
      if (before >= 0) pairs.push_back({{static_cast<int>(r), before}, {static_cast<int>(r), static_cast<int>(i)}});
      before = static_cast<int>(i);
    }
  }
  if (pairs.empty()) return false;
  const auto [a, b] = x.any(pairs);
  x.say(a, "calls in another order on one rank");
  std::swap(x.at(a), x.at(b));
  std::swap(x.at(a).wait, x.at(b).wait);
  return true;
}
inline bool call_on_another_buffer(injection& x) {
  place_of_instruction p;
  if (!pick(x, collectives(x), p, "of what lies in another buffer on one rank")) return false;
  collective_call& c = x.collective_at(p);
  partita::reference& from = x.at(p).kind == instruction_kind::all_reduce ? c.to : c.from;
  std::vector<int> others;
  program const& q = x.of(p);
  for (std::size_t b = 0; b < q.buffers.size(); ++b)
    if (static_cast<int>(b) != from.buffer && q.buffers[b].bytes == q.buffers[static_cast<std::size_t>(from.buffer)].bytes &&
        q.buffers[b].tensor != q.buffers[static_cast<std::size_t>(from.buffer)].tensor && q.buffers[b].first >= 0 &&
        q.buffers[b].first < p.at)
      others.push_back(static_cast<int>(b));
  if (others.empty()) return false;
  from.buffer = x.any(others);
  return true;
}
// -- calls that are made as one
inline std::vector<place_of_instruction> buckets(injection const& x) {
  return x.places([](program const&, instruction const& i) { return is_collective(i) && i.call_count > 1; });
}
inline bool fewer_calls_as_one(injection& x, bool on_all) {
  place_of_instruction p;
  if (!pick(x, buckets(x), p, on_all ? "without its last call on all ranks" : "without its last call on one rank")) return false;
  for (place_of_instruction const& m : on_all ? x.members(p) : std::vector<place_of_instruction>{p}) --x.at(m).call_count;
  return true;
}
inline bool one_call_is_of_another_group(injection& x) {
  place_of_instruction p;
  if (!pick(x, buckets(x), p, "with one of its calls for another group")) return false;
  if (x.of(p).groups.size() < 2) return false;
  collective_call& c = x.collective_at(p);
  c.group = (c.group + 1) % static_cast<int>(x.of(p).groups.size());
  return true;
}
inline bool calls_as_one_in_another_order(injection& x) {
  place_of_instruction p;
  if (!pick(x, buckets(x), p, "with its first two calls in another order on one rank")) return false;
  list<collective_call>& all = x.of(p).collectives;
  std::swap(all[static_cast<std::size_t>(x.at(p).payload)], all[static_cast<std::size_t>(x.at(p).payload) + 1]);
  return true;
}
inline bool calls_as_one_on_the_same_bytes(injection& x) {
  place_of_instruction p;
  if (!pick(x, buckets(x), p, "with two calls that give what they get in one place")) return false;
  list<collective_call>& all = x.of(p).collectives;
  collective_call &first = all[static_cast<std::size_t>(x.at(p).payload)],
                  &second = all[static_cast<std::size_t>(x.at(p).payload) + 1];
  if (first.counts != second.counts) return false;
  second.to = first.to;
  return true;
}
// Before the last micro-batch has been added to what it reduces.
inline bool reducer_too_early(injection& x) {
  std::vector<std::pair<place_of_instruction, int>> found;  // the call, and the last addition to its buffer
  for (place_of_instruction const& p : x.places([](program const&, instruction const& i) { return is_reduction(i); })) {
    program const& q = x.programs[static_cast<std::size_t>(p.rank)];
    collective_call const& c = x.call_of(q, q.instructions[static_cast<std::size_t>(p.at)]);
    const int buffer =
        q.instructions[static_cast<std::size_t>(p.at)].kind == instruction_kind::all_reduce ? c.to.buffer : c.from.buffer;
    for (int i = p.at - 1; i >= 0; --i) {
      instruction const& now = q.instructions[static_cast<std::size_t>(i)];
      bool adds =
          now.kind == instruction_kind::compute && q.computes[static_cast<std::size_t>(now.payload)].accumulate &&
          q.references[static_cast<std::size_t>(q.computes[static_cast<std::size_t>(now.payload)].first_output)].buffer == buffer;
      if (now.kind == instruction_kind::copy)
        adds = q.boxes[static_cast<std::size_t>(now.first_box)].combine &&
               q.boxes[static_cast<std::size_t>(now.first_box)].to.buffer == buffer;
      if (!adds) continue;
      found.push_back({p, i});
      break;
    }
  }
  if (found.empty()) return false;
  auto const [p, before] = x.any(found);
  x.say(p, "made before the last addition");
  const instruction call = x.at(p);
  x.remove(p);
  x.insert(p.rank, before, call);
  return true;
}

// -- messages
inline std::vector<place_of_instruction> exchanges(injection const& x, bool sends) {
  return x.places([=](program const& p, instruction const& i) {
    if (i.kind != instruction_kind::exchange) return false;
    exchange_call const& e = p.exchanges[static_cast<std::size_t>(i.payload)];
    return sends ? !e.sends.empty() : !e.receives.empty();
  });
}
inline bool swapped(injection& x, bool sends) {
  struct pair {
    place_of_instruction a, b;
    std::size_t i, j;
  };
  std::vector<pair> pairs;
  const auto all = exchanges(x, sends);
  auto half = [&](place_of_instruction const& p) -> list<transfer>& {
    return sends ? x.exchange_at(p).sends : x.exchange_at(p).receives;
  };
  for (std::size_t k = 0; k < all.size(); ++k)
    for (std::size_t l = k; l < all.size() && l < k + 4; ++l) {
      if (all[k].rank != all[l].rank) continue;
      for (std::size_t i = 0; i < half(all[k]).size(); ++i)
        for (std::size_t j = k == l ? i + 1 : 0; j < half(all[l]).size(); ++j)
          if (half(all[k])[i].bytes == half(all[l])[j].bytes) pairs.push_back({all[k], all[l], i, j});
    }
  if (pairs.empty()) return false;
  const pair p = x.any(pairs);
  x.say(p.a, sends ? "two sends swapped" : "two receives swapped");
  std::swap(half(p.a)[p.i].at, half(p.b)[p.j].at);
  return true;
}
inline transfer* any_message(injection& x, bool sends, char const* what) {
  place_of_instruction p;
  if (!pick(x, exchanges(x, sends), p, what)) return nullptr;
  list<transfer>& all = sends ? x.exchange_at(p).sends : x.exchange_at(p).receives;
  return &all[static_cast<std::size_t>(x.below(static_cast<int>(all.size())))];
}
inline bool wrong_peer(injection& x) {
  transfer* t = any_message(x, x.below(2) == 0, "a message to or from another rank");
  if (t == nullptr || x.programs.size() < 3) return false;
  t->peer = (t->peer + 1 + x.below(static_cast<int>(x.programs.size()) - 1)) % static_cast<int>(x.programs.size());
  return true;
}
inline bool wrong_tag(injection& x) {
  transfer* t = any_message(x, x.below(2) == 0, "a message with another tag");
  if (t == nullptr) return false;
  t->tag += 1u << 20;
  return true;
}
inline bool wrong_bytes(injection& x) {
  transfer* t = any_message(x, x.below(2) == 0, "a message of other bytes");
  if (t == nullptr || t->bytes < 8) return false;
  t->bytes -= 4;
  return true;
}
// Both ends of it.
inline bool dropped_message(injection& x) {
  place_of_instruction p;
  if (!pick(x, exchanges(x, true), p, "a message that is neither sent nor received")) return false;
  list<transfer>& sends = x.exchange_at(p).sends;
  const std::size_t k = static_cast<std::size_t>(x.below(static_cast<int>(sends.size())));
  const transfer gone = sends[k];
  sends.erase(sends.begin() + static_cast<std::ptrdiff_t>(k));
  for (exchange_call& e : x.programs[static_cast<std::size_t>(gone.peer)].exchanges)
    e.receives.erase_if([&](transfer const& t) { return t.peer == p.rank && t.tag == gone.tag; });
  return true;
}
inline bool dropped_exchange(injection& x) {
  place_of_instruction p;
  if (!pick(x, x.places(instruction_kind::exchange), p, "not done on one rank")) return false;
  x.remove(p);
  return true;
}

// -- what executors launch with
inline std::vector<int> running_ops(injection const& x, std::function<bool(op_entry const&)> const& wanted) {
  std::vector<int> all;
  for (int op = 0; op < x.g.ops.size; ++op)
    if (wanted(x.g.ops[op])) all.push_back(op);
  return all;
}
inline void same_graphs(injection& x) { x.graphs.assign(x.programs.size(), x.g); }
inline bool other_attribute(injection& x, bool constant) {
  const std::vector<int> all = running_ops(
      x, [=](op_entry const& e) { return (e.info->source == source_kind::constant) == constant && e.given.values[0] != 0; });
  if (all.empty()) return false;
  same_graphs(x);
  const int op = x.any(all);
  x.words = "another attribute of op " + std::string(x.g.name(op).view()) + " on one rank";
  x.graphs[static_cast<std::size_t>(x.below(static_cast<int>(x.graphs.size())))].ops[op].given.values[0] *= 0.5;
  return true;
}
inline bool other_extent(injection& x) {
  if (x.g.bindings.size == 0) return false;
  same_graphs(x);
  const int b = x.below(x.g.bindings.size);
  bool used = false;
  for (op_entry const& e : x.g.ops)
    for (int d = 0; d < e.info->dim_count; ++d) used = used || e.info->dims[d].axis->id == x.g.bindings[b].axis->id;
  if (!used) return false;
  x.words = "another extent of " + std::string(x.g.bindings[b].axis->name) + " on one rank";
  ++x.graphs[static_cast<std::size_t>(x.below(static_cast<int>(x.graphs.size())))].bindings[b].extent;
  return true;
}
inline bool other_key(injection& x) {
  x.keys.assign(x.programs.size(), random_keys(x.g, unique_names(x.g)));
  const int op = x.below(x.g.ops.size);
  x.words = "another random stream of op " + std::string(x.g.name(op).view()) + " on one rank";
  ++x.keys[static_cast<std::size_t>(x.below(static_cast<int>(x.keys.size())))][static_cast<std::size_t>(op)];
  return true;
}
inline bool other_digest(injection& x) {
  if (x.programs.size() < 2) return false;
  x.words = "another digest on one rank";
  ++x.programs[static_cast<std::size_t>(x.below(static_cast<int>(x.programs.size())))].digest;
  return true;
}
}  // namespace faults

inline std::vector<fault_kind> faults_of_calls() {
  using namespace faults;
  return {
      {"an all-reduce is dropped", [](injection& x) { return drop_call(x, x.places(instruction_kind::all_reduce)); }},
      {"another collective is dropped",
       [](injection& x) {
         return drop_call(x, x.places([](program const&, instruction const& i) {
           return is_collective(i) && i.kind != instruction_kind::all_reduce;
         }));
       }},
      {"an all-reduce is done twice", double_call},
      {"a call is for other groups on all ranks", wrong_groups},
      {"a call is for another group on one rank", wrong_group_on_one_rank},
      {"members of a group are in another order", members_in_another_order},
      {"one rank lists a group with fewer members", another_group_on_one_rank},
      {"a sum is taken as a maximum", [](injection& x) { return other_reduction(x, reduction::sum); }},
      {"a maximum is taken as a sum", [](injection& x) { return other_reduction(x, reduction::max); }},
      {"one rank reduces otherwise", other_reduction_on_one_rank},
      {"one rank calls with another type", other_type_on_one_rank},
      {"all ranks reduce as another type", other_type_on_all},
      {"an all-reduce has one element less", fewer_elements_on_all},
      {"one rank gives another count", other_counts_on_one_rank},
      {"counts are in another order", counts_in_another_order},
      {"one rank calls in another order", calls_in_another_order},
      {"one rank calls for another buffer", call_on_another_buffer},
      {"a reducer starts before the last addition", reducer_too_early},
      {"of calls made as one all ranks leave one out", [](injection& x) { return fewer_calls_as_one(x, true); }},
      {"of calls made as one one rank leaves one out", [](injection& x) { return fewer_calls_as_one(x, false); }},
      {"of calls made as one one is for another group", one_call_is_of_another_group},
      {"calls made as one are in another order on one rank", calls_as_one_in_another_order},
      {"calls made as one use the same bytes", calls_as_one_on_the_same_bytes},
      {"two sends are swapped", [](injection& x) { return swapped(x, true); }},
      {"two receives are swapped", [](injection& x) { return swapped(x, false); }},
      {"a message goes to another rank", wrong_peer},
      {"a message has another tag", wrong_tag},
      {"a message has other bytes at one end", wrong_bytes},
      {"a message is dropped at both ends", dropped_message},
      {"an exchange is left out on one rank", dropped_exchange},
      {"one rank has another attribute", [](injection& x) { return other_attribute(x, false); }},
      {"one rank has another constant", [](injection& x) { return other_attribute(x, true); }},
      {"one rank has another extent", other_extent},
      {"one rank draws from another random stream", other_key},
      {"one rank has another digest", other_digest},
  };
}

}  // namespace partita::testing
