// Random orders that can hold: between single instances along a random order of all of them, between phases where no cycle
// comes of it, and priorities.
#pragma once
#include <random>
#include <string>
#include <vector>

#include <partita/plan/verify.hpp>

namespace partita::testing {

class random_orders {
 public:
  random_orders(plan_base& plan, std::mt19937& random) : plan_(plan), g_(plan.graph()), random_(random) {}

  // Returns what it did, in words.
  std::string make() {
    std::string words;
    if (chance(40)) words += phases();
    completed c;
    instance_graph ig;
    if (verify_plan(g_, plan_, c) || build_instances(g_, plan_, c, ig)) return words;  // somebody else says what is wrong
    words += instances(c, ig);
    if (chance(50)) words += priorities();
    return words;
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  bool chance(int percent) { return below(100) < percent; }

  moment of_instance(completed const& c, instance_graph const& ig, int node_id, int vertex) const {
    node const& n = c.nodes[node_id];
    moment m;
    bool again = n.replayed;
    if (n.kind == node_kind::compute) m.op = n.op;
    else {
      node_value const& v = c.values[n.first_value];
      m.node = {n.kind == node_kind::move ? between::move : between::accumulate, v.tensor, -1};
      again = v.replayed;
    }
    m.when = static_cast<int>(again ? pass::backward : g_.ops[n.op].when);
    int at[max_time_modes]{};
    n.time.index(vertex - ig.first[node_id], at);
    for (int k = 0; k < n.time.count; ++k) m = m.index(plan_.modes()[n.time.modes[k]].view(), at[k]);
    return m;
  }
  // Is a moment of its own enough to name it? What is moved twice has one name.
  bool can_be_named(completed const& c, int id) {
    node const& n = c.nodes[id];
    if (n.kind == node_kind::compute) return g_.ops[n.op].info->source == source_kind::none;
    if (n.kind == node_kind::store || (n.kind == node_kind::assemble && !detail::sums_over_time(c, n))) return false;
    moment_entry m;
    node_value const& v = c.values[n.first_value];
    m.node = {n.kind == node_kind::move ? between::move : between::accumulate, v.tensor, -1};
    m.when = static_cast<signed char>(v.replayed ? pass::backward : g_.ops[n.op].when);
    int named = 0;
    for (int k = 0; k < c.nodes.size; ++k) named += detail::node_matches(g_, plan_, c, k, m);
    return named == 1;
  }
  // Some of the instances of ops, and of moves and sums, each behind the one before, in a random topological order of all.
  std::string instances(completed const& c, instance_graph const& ig) {
    std::vector<int> node_of(static_cast<std::size_t>(ig.vertices), -1), waits(ig.waits.begin(), ig.waits.end()), ready;
    for (int id = 0; id < c.nodes.size; ++id)
      for (int v = ig.first[id]; v < ig.first[id + 1]; ++v) node_of[static_cast<std::size_t>(v)] = id;
    for (int v = 0; v < ig.vertices; ++v)
      if (waits[static_cast<std::size_t>(v)] == 0) ready.push_back(v);
    const int percent = 1 + below(20);
    const bool linked = chance(50);
    sequence links(plan_, 0);
    moment last;
    int made = 0;
    while (!ready.empty()) {
      const std::size_t k = static_cast<std::size_t>(below(static_cast<int>(ready.size())));
      const int v = ready[k], id = node_of[static_cast<std::size_t>(v)];
      ready[k] = ready.back();
      ready.pop_back();
      for (int e = ig.begin[v]; e < ig.begin[v + 1]; ++e)
        if (--waits[static_cast<std::size_t>(ig.to[e])] == 0) ready.push_back(ig.to[e]);
      if (id < 0 || !chance(percent) || !can_be_named(c, id)) continue;
      const moment now = of_instance(c, ig, id, v);
      if (linked) links.then(now);
      else if (made > 0) plan_.op_order(last, now, 0);
      if (linked && chance(20)) links.then(moment{}.index("no such mode", 1));
      last = now;
      ++made;
    }
    return ", orders of " + std::to_string(made) + " instances";
  }
  // Phases of random ops, forward and backward, and an order between two of them, if it can be.
  std::string phases() {
    for (int op = 0; op < g_.ops.size; ++op)
      if (g_.ops[op].info->source == source_kind::none && chance(20)) plan_.op_assign(op_ref{&g_, op}, phase{"any", below(3)});
    int made = 0;
    for (int attempt = 0; attempt < 3; ++attempt) {
      auto any = [&] {
        moment m = moment{}.at("any", below(3));
        return chance(50) ? m.of(chance(50) ? pass::forward : pass::backward) : m;
      };
      plan_base with = plan_;
      with.op_order(any(), any(), 0);
      completed c;
      if (verify_plan(g_, with, c)) continue;
      plan_ = with;
      ++made;
    }
    return ", phases with " + std::to_string(made) + " orders";
  }
  std::string priorities() {
    const int n = 1 + below(8);
    for (int k = 0; k < n; ++k) {
      moment m;
      if (chance(50)) m = m.of(chance(50) ? pass::forward : pass::backward);
      if (chance(50)) m = m.index("micro", below(4));
      if (chance(50)) m.op = below(g_.ops.size);
      plan_.op_order(m, priority{below(20) - 10}, 0);
    }
    return ", " + std::to_string(n) + " priorities";
  }

  plan_base& plan_;
  graph_data const& g_;
  std::mt19937& random_;
};

}  // namespace partita::testing
