// One order of all instances for all ranks (DESIGN D8): list scheduling in integer time. Every rank runs its projection.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

#include <partita/core/list.hpp>
#include <partita/core/sort.hpp>
#include <partita/plan/instances.hpp>
#include <partita/program/buckets.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct instance {
  int node = 0, index = 0;
  std::int64_t begin = 0, end = 0;  // in ticks, as the order was made
  int bucket = -1;  // moves with one number are made as one; they follow one another
};

namespace detail {
// Devices that belong to the same nodes are one resource.
struct device_classes {
  list<list<int>> of_node;  // per node: its classes
  int count = 0;
};
inline void add_devices(placement const& w, list<int>& to) {
  for (int i = 0, n = w.size(); i < n; ++i) to.push_back(w.device_at(i));
}
inline device_classes classify(completed const& c) {
  list<list<int>> sets;  // distinct device sets
  list<int> set_of(static_cast<std::size_t>(c.nodes.size));
  list<std::pair<placement, placement>> seen;
  list<int> seen_set;
  for (int id = 0; id < c.nodes.size; ++id) {
    node const& n = c.nodes[id];
    placement const& to = n.over.where;
    placement const& from = n.kind == node_kind::move ? c.values[c.input(n, 0)].lay.where : to;
    std::size_t k = 0;
    while (k < seen.size() && !(seen[k].first == from && seen[k].second == to)) ++k;
    if (k == seen.size()) {
      list<int> devices;
      add_devices(from, devices);
      add_devices(to, devices);
      sort_ids(devices, [](int a, int b) { return a < b; });
      devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
      seen.emplace_back(from, to);
      const auto known = std::find(sets.begin(), sets.end(), devices);
      seen_set.push_back(static_cast<int>(known - sets.begin()));
      if (known == sets.end()) sets.push_back(std::move(devices));
    }
    set_of[static_cast<std::size_t>(id)] = seen_set[k];
  }
  list<list<int>> signature(static_cast<std::size_t>(c.devices));
  for (std::size_t s = 0; s < sets.size(); ++s)
    for (int d : sets[s]) signature[static_cast<std::size_t>(d)].push_back(static_cast<int>(s));
  list<list<int>> distinct;
  for (int d : sorted_ids(signature.size(), [&](int a, int b) {
         return signature[static_cast<std::size_t>(a)] < signature[static_cast<std::size_t>(b)];
       }))
    if (distinct.empty() || distinct.back() != signature[static_cast<std::size_t>(d)])
      distinct.push_back(signature[static_cast<std::size_t>(d)]);
  device_classes r;
  r.count = static_cast<int>(distinct.size());
  list<list<int>> classes_of_set(sets.size());
  for (std::size_t k = 0; k < distinct.size(); ++k)
    for (int s : distinct[k]) classes_of_set[static_cast<std::size_t>(s)].push_back(static_cast<int>(k));
  for (int id = 0; id < c.nodes.size; ++id)
    r.of_node.push_back(classes_of_set[static_cast<std::size_t>(set_of[static_cast<std::size_t>(id)])]);
  return r;
}

inline bool is_stage_send(completed const& c, node const& n) {
  return n.kind == node_kind::move && !(c.values[c.input(n, 0)].lay.where == n.over.where);
}
// Nodes that run once a step and that nothing but the update reads, through other such nodes or not.
inline list<bool> read_by_update_alone(graph_data const& g, completed const& c) {
  list<bool> late(static_cast<std::size_t>(c.nodes.size), true);
  for (int id = c.nodes.size - 1; id >= 0; --id) {
    node const& n = c.nodes[id];
    if (n.kind == node_kind::compute && g.ops[n.op].when != pass::update && (n.time.count > 0 || g.ops[n.op].when == pass::forward))
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
      : classes_(&classes), waits_(static_cast<std::size_t>(c.nodes.size), false), left_(static_cast<std::size_t>(classes.count), 0) {
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

struct candidate {
  std::int64_t ready;
  int priority, index, kind, vertex;
};
struct after {  // one type for both heaps of a queue: a heap is compiled once
  bool by_rank;
  bool operator()(candidate const& a, candidate const& b) const {
    if (!by_rank && a.ready != b.ready) return a.ready > b.ready;
    if (a.priority != b.priority) return a.priority < b.priority;
    if (a.index != b.index) return a.index > b.index;
    if (a.kind != b.kind) return a.kind > b.kind;
    return a.vertex > b.vertex;
  }
};
class heap {  // on top stands what comes after none
 public:
  explicit heap(bool by_rank) : after_{by_rank} {}
  bool empty() const { return all_.empty(); }
  candidate const& top() const { return all_.front(); }
  void push(candidate x) {
    all_.push_back(x);
    std::size_t at = all_.size() - 1;
    for (; at > 0 && after_(all_[(at - 1) / 2], x); at = (at - 1) / 2) all_[at] = all_[(at - 1) / 2];
    all_[at] = x;
  }
  void pop() {
    all_.front() = all_.back();
    all_.pop_back();
    if (!all_.empty()) sink(0);
  }
  // Those that `wanted` holds for, taken out.
  template <class F> void take(list<candidate>& to, F wanted) {
    const std::size_t before = to.size();
    for (candidate const& x : all_)
      if (wanted(x)) to.push_back(x);
    if (to.size() == before) return;
    all_.erase_if(wanted);
    for (std::size_t at = all_.size() / 2; at-- > 0;) sink(at);
  }

 private:
  void sink(std::size_t at) {
    const candidate x = all_[at];
    for (std::size_t below; (below = 2 * at + 1) < all_.size(); at = below) {
      if (below + 1 < all_.size() && after_(all_[below], all_[below + 1])) ++below;
      if (!after_(x, all_[below])) break;
      all_[at] = all_[below];
    }
    all_[at] = x;
  }

  list<candidate> all_;
  after after_;
};
struct queue {  // of the same device classes and lane
  list<int> classes;
  int lane;
  heap pending{false}, available{true};
};
}  // namespace detail

// `duration(node)` in integer ticks of one instance. Among the instances that could start at the same time: the higher
// priority first, where the plan gives one; then the lower index in time (a micro-batch is finished before the next begins,
// unless wishes say otherwise), stage sends before moves of a micro-batch before others, then the order of the trace, which
// is the same in all processes of one program. Moves that `together` allows are joined.
inline list<instance> order_instances(graph_data const& g, completed const& c, instance_graph const& ig,
                                      std::function<std::int64_t(node const&)> const& duration,
                                      detail::bucketing const& together = {}) {
  const detail::device_classes classes = detail::classify(c);
  using detail::candidate, detail::queue;
  list<queue> queues;
  list<int> queue_of(static_cast<std::size_t>(c.nodes.size)), node_of(static_cast<std::size_t>(ig.vertices), -1);
  list<std::int64_t> ticks(static_cast<std::size_t>(c.nodes.size));
  for (int id = 0; id < c.nodes.size; ++id) {
    const std::size_t i = static_cast<std::size_t>(id);
    const int lane = c.nodes[id].kind == node_kind::move ? 1 : 0;
    std::size_t q = 0;
    while (q < queues.size() && !(queues[q].lane == lane && queues[q].classes == classes.of_node[i])) ++q;
    if (q == queues.size()) queues.push_back({classes.of_node[i], lane});
    queue_of[i] = static_cast<int>(q);
    const bool source = c.nodes[id].kind == node_kind::compute && g.ops[c.nodes[id].op].info->source != source_kind::none;
    ticks[i] = source ? 0 : std::max<std::int64_t>(1, duration(c.nodes[id]));
    for (int v = ig.first[id]; v < ig.first[id + 1]; ++v) node_of[static_cast<std::size_t>(v)] = id;
  }
  list<std::int64_t> free(static_cast<std::size_t>(2 * classes.count), 0),
      ready(static_cast<std::size_t>(ig.vertices), 0);
  list<int> waits(ig.waits.begin(), ig.waits.end());
  list<instance> order;
  order.reserve(static_cast<std::size_t>(ig.instances));
  list<int> finished;  // vertices that take no time: wishes
  std::size_t left = static_cast<std::size_t>(ig.instances);
  detail::gradients_last gradients(g, c, ig, classes);
  auto enter = [&](int v) {
    const int id = node_of[static_cast<std::size_t>(v)];
    node const& n = c.nodes[id];
    const int kind = n.kind != node_kind::move || detail::is_stage_send(c, n) ? 0 : n.time.count > 0 ? 1 : 2;
    // A source takes no time and nobody waits for it.
    const int priority = ticks[static_cast<std::size_t>(id)] == 0 ? std::numeric_limits<int>::max()
                         : ig.priority.size > 0                   ? ig.priority[v]
                                                                  : 0;
    queues[static_cast<std::size_t>(queue_of[static_cast<std::size_t>(id)])].pending.push(
        {ready[static_cast<std::size_t>(v)], priority, v - ig.first[id], kind, v});
  };
  auto offer = [&](int v) {
    if (v >= ig.instances) finished.push_back(v);
    else if (!gradients.holds(node_of[static_cast<std::size_t>(v)], v)) enter(v);
  };
  auto complete_vertex = [&](int v, std::int64_t end) {
    for (int e = ig.begin[v]; e < ig.begin[v + 1]; ++e) {
      const std::size_t to = static_cast<std::size_t>(ig.to[e]);
      ready[to] = std::max(ready[to], end);
      if (--waits[to] == 0) offer(static_cast<int>(to));
    }
  };
  auto drain = [&] {
    while (!finished.empty()) {
      const int v = finished.back();
      finished.pop_back();
      complete_vertex(v, ready[static_cast<std::size_t>(v)]);
    }
  };
  for (int v = 0; v < ig.vertices; ++v)
    if (waits[static_cast<std::size_t>(v)] == 0) offer(v);
  drain();
  auto free_at = [&](queue const& x) {
    std::int64_t until = 0;
    for (int k : x.classes) until = std::max(until, free[static_cast<std::size_t>(2 * k + x.lane)]);
    return until;
  };
  auto make_available = [](queue& x, std::int64_t until) {
    while (!x.pending.empty() && x.pending.top().ready <= until) {
      x.available.push(x.pending.top());
      x.pending.pop();
    }
  };
  auto node_at = [&](int vertex) { return static_cast<std::size_t>(node_of[static_cast<std::size_t>(vertex)]); };
  auto is_patient = [&](candidate const& x) {
    return together.joins(static_cast<int>(node_at(x.vertex))) && together.patient[node_at(x.vertex)];
  };
  // Does a reader wait for nothing but these?
  auto wanted_at_once = [&](list<candidate> const& moves) {
    list<int> readers;
    for (candidate const& x : moves)
      for (int e = ig.begin[x.vertex]; e < ig.begin[x.vertex + 1]; ++e) readers.push_back(ig.to[e]);
    for (int r : readers)
      if (std::count(readers.begin(), readers.end(), r) >= waits[static_cast<std::size_t>(r)]) return true;
    return false;
  };
  // Moves that run with the first of them, from `start` to `end`.
  auto join_others = [&](queue& x, list<candidate>& bucket, std::int64_t& start, std::int64_t& end) {
    const candidate first = bucket[0];
    const std::size_t id = node_at(first.vertex);
    const bool patient = together.patient[id];
    const std::int64_t until = start, latest = start + (patient ? together.latency : 0);
    auto alike = [&](candidate const& y) {
      return y.ready <= latest && y.priority == first.priority && together.kind[node_at(y.vertex)] == together.kind[id];
    };
    list<candidate> others;
    x.available.take(others, alike);
    x.pending.take(others, alike);
    double bytes = together.bytes[id];
    std::int64_t beside = 0;  // what the first waits for others
    auto comes_before = [&](int a, int b) {
      return detail::after{true}(others[static_cast<std::size_t>(b)], others[static_cast<std::size_t>(a)]);
    };
    for (int which : sorted_ids(others.size(), comes_before)) {
      candidate const& y = others[static_cast<std::size_t>(which)];
      const std::size_t other = node_at(y.vertex);
      const std::int64_t own = std::max<std::int64_t>(0, ticks[other] - together.latency);
      const bool fits = bytes + together.bytes[other] <= together.most &&
                        (patient || (own <= together.latency && (beside + own <= together.latency || !wanted_at_once(bucket))));
      if (!fits) {
        (y.ready <= until ? x.available : x.pending).push(y);
        continue;
      }
      bucket.push_back(y);
      bytes += together.bytes[other];
      beside += own;
      start = std::max(start, y.ready);
    }
    end = start + ticks[id] + beside;
  };
  list<candidate> chosen;
  int buckets = 0;
  while (left > 0) {
    int best = -1, best_priority = 0;
    std::int64_t best_start = 0;
    for (std::size_t q = 0; q < queues.size(); ++q) {
      queue& x = queues[q];
      if (x.pending.empty() && x.available.empty()) continue;
      const std::int64_t until = free_at(x);
      make_available(x, until);
      candidate const& next = (x.available.empty() ? x.pending : x.available).top();
      const std::int64_t start = (x.available.empty() ? next.ready : until) + (x.lane == 1 && is_patient(next) ? together.latency : 0);
      if (best < 0 || start < best_start || (start == best_start && next.priority > best_priority)) {
        best = static_cast<int>(q);
        best_start = start;
        best_priority = next.priority;
      }
    }
    if (best < 0 && gradients.release(enter)) continue;
    if (best < 0) break;  // a cycle: verification has named it
    queue& x = queues[static_cast<std::size_t>(best)];
    std::int64_t start = x.available.empty() ? x.pending.top().ready : free_at(x);
    make_available(x, start);
    chosen.assign(1, x.available.top());
    x.available.pop();
    const std::size_t first = node_at(chosen[0].vertex);
    std::int64_t end = start + ticks[first];
    if (together.joins(static_cast<int>(first))) join_others(x, chosen, start, end);
    if (ticks[first] > 0)
      for (int k : x.classes) free[static_cast<std::size_t>(2 * k + x.lane)] = end;
    for (candidate const& one : chosen) {
      const int id = static_cast<int>(node_at(one.vertex));
      order.push_back({id, one.vertex - ig.first[id], start, end, chosen.size() > 1 ? buckets : -1});
      --left;
      gradients.placed(id, enter);
    }
    buckets += chosen.size() > 1;
    for (candidate const& one : chosen) complete_vertex(one.vertex, end);
    drain();
  }
  return order;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
