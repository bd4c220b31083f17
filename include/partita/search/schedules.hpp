// Pipeline schedules in a space: what they hold, what they wait for, when they can be had (policy/schedule.hpp has their
// orders and sources).
#pragma once
#include <algorithm>
#include <set>
#include <vector>

#include <partita/policy/interlaced_order.hpp>
#include <partita/search/constraints.hpp>
#include <partita/search/own_order.hpp>
#include <partita/search/problem.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

struct searched_schedule {
  schedule_kind kind = schedule_kind::one_f_one_b;
  int chunks = 1;   // of a stage
  own_order own{};  // if it has an order, that one in place of 1F1B's

  static constexpr std::vector<searched_schedule> all_of(constraints const& given) {
    std::vector<searched_schedule> all;
    if (given.schedules.empty() && given.orders.empty()) all.push_back({});
    for (schedule_kind kind : given.schedules) {
      if (kind != schedule_kind::interleaved) all.push_back({kind, 1, {}});
      else if (given.chunks.empty()) all.push_back({kind, 2, {}});
      else
        for (int chunks : given.chunks)
          if (chunks > 1) all.push_back({kind, chunks, {}});
    }
    for (own_order const& o : given.orders) all.push_back({schedule_kind::one_f_one_b, 1, o});
    return all;
  }
  // What stands at the ends of the chain is spread over the devices of all stages.
  constexpr bool spreads() const { return kind == schedule_kind::interlaced || in_step(); }
  constexpr bool in_step() const { return kind == schedule_kind::interlaced_in_step; }
  // No block runs again: what waits for the gradients of weights is there that long; and in an interlaced pipeline nobody waits
  // for the others' slots while backward turns send before they make the gradients of weights.
  constexpr bool keeps_all() const { return splits() || kind == schedule_kind::interlaced; }
  constexpr bool splits() const { return kind == schedule_kind::zero_bubble_h1 || kind == schedule_kind::zero_bubble_h2; }
  // How often the time of a stage's weight gradients fills what would be a bubble: it is (p - 1)(TF + TB - TW) for H1 and
  // (p - 1)(TF + TB - 2 TW) for H2, and (p - 1)(TF + TB + TW) without.
  constexpr int fills() const {
    return kind == schedule_kind::zero_bubble_h1 ? 2 : kind == schedule_kind::zero_bubble_h2 ? 3 : 0;
  }
  // That of all schedules which so many micro-batches may have and whose tables are made with this one's, the least first.
  std::vector<int> fills_beside(constraints const& given, int micro_batches) const {
    std::set<int> all{fills()};
    for (searched_schedule const& x : all_of(given))
      if (x.splits() && splits() && x.possible({}, 2, micro_batches)) all.insert(x.fills());
    return {all.begin(), all.end()};
  }
  constexpr pipeline_schedule rule(int stages, int micro_batches) const {
    if (own.order != nullptr) return order_reader(own, stages, micro_batches).rule();
    switch (kind) {
      case schedule_kind::gpipe: return {pipeline_schedule::all, 1, 1, {}};
      case schedule_kind::interleaved: return {pipeline_schedule::chunks_behind, 1.0 / chunks, chunks, {}};
      case schedule_kind::zero_bubble_h1: return {pipeline_schedule::weights_behind, 1, 1, {}};
      case schedule_kind::zero_bubble_h2: return {pipeline_schedule::weights_twice_behind, 1, 1, {}};
      case schedule_kind::interlaced_in_step: return {pipeline_schedule::twice_behind, 1, 1, {}};
      default: return {};
    }
  }
  // Interleaved: blocks are dealt to chunks, so that between the first segment and the last one all are of one kind.
  constexpr bool possible(std::vector<int> const& chain, int stages, int micro_batches) const {
    if (splits()) return stages > 1 && micro_batches >= 2 * stages - 1;
    if (spreads()) return stages > 1 && micro_batches > 1;
    if (kind != schedule_kind::interleaved) return true;
    bool alike = chain.size() > 2;
    for (std::size_t i = 2; i + 1 < chain.size(); ++i) alike = alike && chain[i] == chain[1];
    return alike && stages > 1 && micro_batches >= stages;
  }
  // Micro-batches of which what all devices run before the first stage has begun, and not ended (policy/interlaced_order.hpp).
  constexpr int spread_in_flight(int stages, int micro_batches) const {
    const policy::detail::interlaced_slots of{stages, in_step()};
    return std::min(micro_batches, (of.spread_backward(0) - of.spread_forward(0)) / 2 + 1);
  }
  // Of the segments of a stage, which go to a chunk: the first one to the first chunk, of the last stage the last one to the
  // last chunk.
  constexpr int begin_of(int chunk, int segments, bool last_stage) const {
    return last_stage ? segments * chunk / chunks : (segments * chunk + chunks - 1) / chunks;
  }
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
