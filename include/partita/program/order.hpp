// One order of all instances for all ranks: list scheduling in integer time. Every rank runs its projection.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

#include <partita/core/list.hpp>
#include <partita/core/sort.hpp>
#include <partita/plan/instances.hpp>
#include <partita/program/buckets.hpp>
#include <partita/program/device_classes.hpp>
#include <partita/program/ready_queue.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct instance {
  int node = 0, index = 0;
  std::int64_t begin = 0, end = 0;  // in ticks, as the order was made
  int bucket = -1;                  // moves with one number are made as one; they follow one another
};

namespace detail {
inline bool is_stage_send(completed const& c, node const& n) {
  return n.kind == node_kind::move && !(c.values[c.input(n, 0)].lay.where == n.over.where);
}
// Nodes that run once a step and that nothing but the update reads, through other such nodes or not.
inline list<bool> read_by_update_alone(graph_data const& g, completed const& c) {
  list<bool> late(static_cast<std::size_t>(c.nodes.size), true);
  for (int id = c.nodes.size - 1; id >= 0; --id) {
    node const& n = c.nodes[id];
    if (n.kind == node_kind::compute && g.ops[n.op].when != pass::update &&
        (n.time.count > 0 || g.ops[n.op].when == pass::forward))
      late[static_cast<std::size_t>(id)] = false;
    if (late[static_cast<std::size_t>(id)]) continue;
    for (int i = 0; i < n.input_count; ++i) late[static_cast<std::size_t>(c.values[c.input(n, i)].node)] = false;
  }
  return late;
}
// A stage of a pipeline sends its gradients between replicas when it has nothing else left to send. Sent as soon as they
// are there they stand in the way of the last micro-batch, in every stage in turn: a step of GPT-3 175B on 16 stages of
// 64 A100, 64 micro-batches, took 20.8 s instead of 17.0 s (simulated, DGX A100 at peak rates).
class gradients_last {
 public:
  gradients_last(graph_data const& g, completed const& c, instance_graph const& ig, device_classes const& classes)
      : classes_(&classes),
        waits_(static_cast<std::size_t>(c.nodes.size), false),
        left_(static_cast<std::size_t>(classes.count), 0) {
    list<bool> staged(static_cast<std::size_t>(classes.count), false);
    const list<bool> late = read_by_update_alone(g, c);
    for (int id = 0; id < c.nodes.size; ++id) {
      node const& n = c.nodes[id];
      if (n.kind != node_kind::move) continue;
      for (int k : of(id)) {
        if (is_stage_send(c, n)) staged[static_cast<std::size_t>(k)] = true;
        if (!late[static_cast<std::size_t>(id)]) left_[static_cast<std::size_t>(k)] += ig.first[id + 1] - ig.first[id];
      }
    }
    first_ = late;
    for (int id = 0; id < c.nodes.size; ++id) {
      const std::size_t i = static_cast<std::size_t>(id);
      node const& n = c.nodes[id];
      first_[i] = n.kind == node_kind::move && !late[i];
      if (n.kind != node_kind::move || !late[i] || n.time.count > 0 || g.ops[n.op].when != pass::backward) continue;
      for (int k : of(id)) waits_[i] = waits_[i] || staged[static_cast<std::size_t>(k)];
    }
  }
  bool holds(int node, int vertex) {
    if (!waits_[static_cast<std::size_t>(node)] || free(node)) return false;
    held_.emplace_back(node, vertex);
    return true;
  }
  // `node` was put in its place: calls f(vertex) for what need not wait any more.
  template <class F> void placed(int node, F f) {
    if (!first_[static_cast<std::size_t>(node)]) return;
    bool any = false;
    for (int k : of(node)) any = --left_[static_cast<std::size_t>(k)] == 0 || any;
    if (!any) return;
    list<std::pair<int, int>> rest;
    for (auto const& [n, vertex] : held_)
      if (free(n)) f(vertex);
      else rest.emplace_back(n, vertex);
    held_ = std::move(rest);
  }
  // Everything that is held: what comes first may wait for it by a wish.
  template <class F> bool release(F f) {
    const list<std::pair<int, int>> all = std::move(held_);
    held_.clear();
    for (auto const& [n, vertex] : all) f(vertex);
    return !all.empty();
  }

 private:
  list<int> const& of(int node) const { return classes_->of_node[static_cast<std::size_t>(node)]; }
  bool free(int node) const {
    for (int k : of(node))
      if (left_[static_cast<std::size_t>(k)] > 0) return false;
    return true;
  }
  device_classes const* classes_;
  list<bool> waits_, first_;  // by node
  list<int> left_;            // by class: moves that come first
  list<std::pair<int, int>> held_;
};

// The order, made instance by instance: of all queues the one whose next instance can start first gives it.
class list_scheduling {
 public:
  list_scheduling(graph_data const& g, completed const& c, instance_graph const& ig,
                  std::function<std::int64_t(node const&)> const& duration, bucketing const& together)
      : c_(c),
        ig_(ig),
        together_(together),
        classes_(classify(c)),
        gradients_(g, c, ig, classes_),
        queue_of_(at(c.nodes.size)),
        node_of_(at(ig.vertices), -1),
        waits_(ig.waits.begin(), ig.waits.end()),
        ticks_(at(c.nodes.size)),
        free_(at(2 * classes_.count), 0),
        ready_(at(ig.vertices), 0) {
    for (int id = 0; id < c.nodes.size; ++id) {
      const bool source = c.nodes[id].kind == node_kind::compute && g.ops[c.nodes[id].op].info->source != source_kind::none;
      ticks_[at(id)] = source ? 0 : std::max<std::int64_t>(1, duration(c.nodes[id]));
      queue_of_[at(id)] = find_queue(id);
      for (int v = ig.first[id]; v < ig.first[id + 1]; ++v) node_of_[at(v)] = id;
    }
    order_.reserve(at(ig.instances));
  }
  // Shorter than the instances are many where a cycle keeps some back: verification names it.
  list<instance> run() {
    for (int v = 0; v < ig_.vertices; ++v)
      if (waits_[at(v)] == 0) offer(v);
    drain();
    while (static_cast<int>(order_.size()) < ig_.instances) {
      ready_queue* const next = earliest();
      if (next != nullptr) place_next(*next);
      else if (!gradients_.release([this](int v) { enter(v); })) break;
    }
    return std::move(order_);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::size_t node_at(int vertex) const { return at(node_of_[at(vertex)]); }
  int find_queue(int id) {
    const int lane = c_.nodes[id].kind == node_kind::move ? 1 : 0;
    list<int> const& classes = classes_.of_node[at(id)];
    std::size_t q = 0;
    while (q < queues_.size() && !(queues_[q].lane == lane && queues_[q].classes == classes)) ++q;
    if (q == queues_.size()) queues_.push_back({classes, lane});
    return static_cast<int>(q);
  }

  // -- what is ready
  void enter(int v) {
    const int id = node_of_[at(v)];
    node const& n = c_.nodes[id];
    const int kind = n.kind != node_kind::move || is_stage_send(c_, n) ? 0 : n.time.count > 0 ? 1 : 2;
    // A source takes no time and nobody waits for it.
    const int priority = ticks_[at(id)] == 0 ? std::numeric_limits<int>::max() : ig_.priority.size > 0 ? ig_.priority[v] : 0;
    queues_[at(queue_of_[at(id)])].pending.push({ready_[at(v)], priority, v - ig_.first[id], kind, v});
  }
  void offer(int v) {
    if (v >= ig_.instances) finished_.push_back(v);
    else if (!gradients_.holds(node_of_[at(v)], v)) enter(v);
  }
  void complete_vertex(int v, std::int64_t end) {
    for (int e = ig_.begin[v]; e < ig_.begin[v + 1]; ++e) {
      const std::size_t to = at(ig_.to[e]);
      ready_[to] = std::max(ready_[to], end);
      if (--waits_[to] == 0) offer(static_cast<int>(to));
    }
  }
  void drain() {
    while (!finished_.empty()) {
      const int v = finished_.back();
      finished_.pop_back();
      complete_vertex(v, ready_[at(v)]);
    }
  }

  // -- what is next
  std::int64_t free_at(ready_queue const& x) const {
    std::int64_t until = 0;
    for (int k : x.classes) until = std::max(until, free_[at(2 * k + x.lane)]);
    return until;
  }
  bool is_patient(candidate const& x) const {
    return together_.joins(static_cast<int>(node_at(x.vertex))) && together_.patient[node_at(x.vertex)];
  }
  ready_queue* earliest() {
    ready_queue* best = nullptr;
    int best_priority = 0;
    std::int64_t best_start = 0;
    for (ready_queue& x : queues_) {
      if (x.empty()) continue;
      const std::int64_t until = free_at(x);
      x.make_available(until);
      candidate const& next = x.next();
      const std::int64_t start =
          (x.available.empty() ? next.ready : until) + (x.lane == 1 && is_patient(next) ? together_.latency : 0);
      if (best == nullptr || start < best_start || (start == best_start && next.priority > best_priority)) {
        best = &x;
        best_start = start;
        best_priority = next.priority;
      }
    }
    return best;
  }
  void place_next(ready_queue& x) {
    std::int64_t start = x.available.empty() ? x.pending.top().ready : free_at(x);
    x.make_available(start);
    chosen_.assign(1, x.available.top());
    x.available.pop();
    const std::size_t first = node_at(chosen_[0].vertex);
    std::int64_t end = start + ticks_[first];
    if (together_.joins(static_cast<int>(first))) join_others(x, start, end);
    if (ticks_[first] > 0)
      for (int k : x.classes) free_[at(2 * k + x.lane)] = end;
    for (candidate const& one : chosen_) {
      const int id = node_of_[at(one.vertex)];
      order_.push_back({id, one.vertex - ig_.first[id], start, end, chosen_.size() > 1 ? buckets_ : -1});
      gradients_.placed(id, [this](int v) { enter(v); });
    }
    buckets_ += chosen_.size() > 1;
    for (candidate const& one : chosen_) complete_vertex(one.vertex, end);
    drain();
  }

  // -- buckets
  // Does a reader wait for nothing but what is chosen?
  bool wanted_at_once() const {
    list<int> readers;
    for (candidate const& x : chosen_)
      for (int e = ig_.begin[x.vertex]; e < ig_.begin[x.vertex + 1]; ++e) readers.push_back(ig_.to[e]);
    for (int r : readers)
      if (std::count(readers.begin(), readers.end(), r) >= waits_[at(r)]) return true;
    return false;
  }
  // Moves that run with the first one chosen, from `start` to `end`.
  void join_others(ready_queue& x, std::int64_t& start, std::int64_t& end) {
    const candidate first = chosen_[0];
    const std::size_t id = node_at(first.vertex);
    const bool patient = together_.patient[id];
    const std::int64_t until = start, latest = start + (patient ? together_.latency : 0);
    auto alike = [&](candidate const& y) {
      return y.ready <= latest && y.priority == first.priority && together_.kind[node_at(y.vertex)] == together_.kind[id];
    };
    list<candidate> others;
    x.available.take(others, alike);
    x.pending.take(others, alike);
    double bytes = together_.bytes[id];
    std::int64_t beside = 0;  // what the first waits for others
    auto comes_before = [&](int a, int b) { return after{true}(others[at(b)], others[at(a)]); };
    for (int which : sorted_ids(others.size(), comes_before)) {
      candidate const& y = others[at(which)];
      const std::size_t other = node_at(y.vertex);
      const std::int64_t own = std::max<std::int64_t>(0, ticks_[other] - together_.latency);
      const bool fits = bytes + together_.bytes[other] <= together_.most &&
                        (patient || (own <= together_.latency && (beside + own <= together_.latency || !wanted_at_once())));
      if (!fits) {
        (y.ready <= until ? x.available : x.pending).push(y);
        continue;
      }
      chosen_.push_back(y);
      bytes += together_.bytes[other];
      beside += own;
      start = std::max(start, y.ready);
    }
    end = start + ticks_[id] + beside;
  }

  completed const& c_;
  instance_graph const& ig_;
  bucketing const& together_;
  device_classes classes_;
  gradients_last gradients_;
  list<ready_queue> queues_;
  list<int> queue_of_, node_of_;  // by node; by vertex: -1 of a wish
  list<int> waits_;               // by vertex
  list<std::int64_t> ticks_;      // by node
  list<std::int64_t> free_;       // by class and lane
  list<std::int64_t> ready_;      // by vertex
  list<int> finished_;            // vertices that take no time: wishes
  list<candidate> chosen_;        // what is placed next, a bucket together
  int buckets_ = 0;
  list<instance> order_;
};
}  // namespace detail

// `duration(node)` in integer ticks of one instance. Among the instances that could start at the same time: the higher
// priority first, where the plan gives one; then the lower index in time (a micro-batch is finished before the next begins,
// unless wishes say otherwise), stage sends before moves of a micro-batch before others, then the order of the trace, which
// is the same in all processes of one program. Moves that `together` allows are joined.
inline list<instance> order_instances(graph_data const& g, completed const& c, instance_graph const& ig,
                                      std::function<std::int64_t(node const&)> const& duration,
                                      detail::bucketing const& together = {}) {
  return detail::list_scheduling(g, c, ig, duration, together).run();
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
