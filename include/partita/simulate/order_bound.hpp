// How long a plan's step takes at the least, by what its instances wait for: the longest way through them. What a schedule says
// of a stage's forward and backward passes makes them come one after another, with all that is sent inside them.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include <partita/plan/instance_edges.hpp>
#include <partita/simulate/least_seconds.hpp>
#include <partita/simulate/simulate.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail::bounds {

// Ways through all instances and wishes of a plan. An instance has a device's time when it holds for each device that it runs on;
// so an edge counts where those who wait are among those who are waited for.
class ways {
 public:
  ways(graph_data const& g, plan_base const& plan, completed const& c, least_seconds const& least)
      : plan_(plan), c_(c), least_(least), named_{g, plan, c, ig_} {
    for (int id = 0; id < c.nodes.size; ++id) {
      ig_.first.push(ig_.instances);
      ig_.instances += c.nodes[id].time.size();
      set_of_.push_back(set_of(c.nodes[id].over.where));
    }
    ig_.first.push(ig_.instances);
    vertices_ = static_cast<std::size_t>(ig_.instances + plan.wishes().size);
    node_of_.assign(static_cast<std::size_t>(ig_.instances), 0);
    for (int id = 0; id < c.nodes.size; ++id)
      std::fill(node_of_.begin() + ig_.first[id], node_of_.begin() + ig_.first[id + 1], id);
    add_data();
    add_wishes();
  }
  double longest() {
    sort();
    std::vector<double> begin(vertices_, 0);
    std::vector<int> ready;
    for (std::size_t v = 0; v < vertices_; ++v)
      if (waits_[v] == 0) ready.push_back(static_cast<int>(v));
    double most = 0;
    for (std::size_t i = 0; i < ready.size(); ++i) {
      const std::size_t v = static_cast<std::size_t>(ready[i]);
      double end = begin[v];
      if (ready[i] < ig_.instances) end += least_.seconds(node_of_[v]);
      else {
        // All that a stage computes between two wishes it has computed when the second is fulfilled.
        for (auto const& [before, work] : turns_[v - static_cast<std::size_t>(ig_.instances)])
          begin[v] = std::max(begin[v], begin[static_cast<std::size_t>(before)] + work);
        end = begin[v];
      }
      most = std::max(most, end);
      for (std::size_t e = first_[v]; e < first_[v + 1]; ++e) {
        const std::size_t to = static_cast<std::size_t>(to_[e]);
        begin[to] = std::max(begin[to], end);
        if (--waits_[to] == 0) ready.push_back(to_[e]);
      }
    }
    for (auto const& [before, work] : last_turns_) most = std::max(most, begin[static_cast<std::size_t>(before)] + work);
    return most;
  }

 private:
  // Placements of the same devices have one number.
  int set_of(placement const& w) {
    for (std::size_t k = 0; k < places_.size(); ++k)
      if (places_[k].first == w) return places_[k].second;
    std::vector<int> devices;
    for (int i = 0, n = w.size(); i < n; ++i) devices.push_back(w.device_at(i));
    std::sort(devices.begin(), devices.end());
    const auto known = std::find(sets_.begin(), sets_.end(), devices);
    const int number = static_cast<int>(known - sets_.begin());
    if (known == sets_.end()) sets_.push_back(std::move(devices));
    places_.push_back({w, number});
    return number;
  }
  bool is_source(int id) const {
    node const& n = c_.nodes[id];
    return n.kind == node_kind::compute && named_.g.ops[n.op].info->source != source_kind::none;
  }
  void add(int from, int to) { edges_.push_back({from, to}); }
  void add_data() {
    for (int id = 0; id < c_.nodes.size; ++id) {
      node const& n = c_.nodes[id];
      const int own = ig_.first[id], count = ig_.first[id + 1] - own;
      for (int k = 0; k < n.input_count; ++k) {
        const int value = c_.input(n, k);
        node_value const& v = c_.values[value];
        if (is_source(v.node)) continue;
        if (n.kind != node_kind::move && set_of(v.lay.where) != set_of_[static_cast<std::size_t>(id)]) continue;
        const int made = ig_.first[v.node];
        if (waits_for_its_own_index(c_, v, n)) {
          for (int i = 0; i < count; ++i) add(made + i, own + i);
          continue;
        }
        for (int i = 0; i < count; ++i) {
          int at[max_time_modes]{};
          n.time.index(i, at);
          each_producer(c_, ig_, value, n.time, at, [&](int from) { add(from, own + i); });
        }
      }
    }
  }
  // The devices that all of a moment's ops run on; -1: they differ; `before`, where it names none.
  int set_of(moment_entry const& m, int before) {
    int set = before;
    for (int id : named_.nodes_of(m)) {
      const int own = c_.nodes[id].kind == node_kind::compute ? set_of_[static_cast<std::size_t>(id)] : -1;
      set = set == none || set == own ? own : -1;
    }
    return set;
  }
  void add_wishes() {
    const std::size_t wishes = static_cast<std::size_t>(plan_.wishes().size);
    std::vector<int> after(static_cast<std::size_t>(ig_.instances), -1);  // by instance: the wish that it comes after
    std::vector<int> sets(wishes, -1);
    turns_.resize(wishes);
    bool any = true;
    for (std::size_t w = 0; w < wishes; ++w) {
      wish const& x = plan_.wishes()[static_cast<int>(w)];
      const int vertex = ig_.instances + static_cast<int>(w);
      sets[w] = set_of(x.second, set_of(x.first, none));
      if (x.continues && !any && sets[w] >= 0 && (sets[w - 1] == sets[w])) add(vertex - 1, vertex);
      const bool counts = sets[w] >= 0;
      named_.each(x.first, [&](int i) {
        if (!counts) return;
        add(i, vertex);
        int& before = after[static_cast<std::size_t>(i)];
        if (before < 0) return;
        auto& turns = turns_[w];
        if (turns.empty() || turns.back().first != before) turns.push_back({before, 0.0});
        turns.back().second += work_of(i);
        before = -2;  // counted once
      });
      any = named_.each(x.second, [&](int i) {
        if (!counts) return;
        op_info const& f = *named_.g.ops[c_.nodes[node_of_[static_cast<std::size_t>(i)]].op].info;
        if (f.is_view) return;  // no instruction waits there
        add(vertex, i);
        after[static_cast<std::size_t>(i)] = vertex;
      });
    }
    // What no other wish comes after.
    std::vector<double> rest(wishes, 0);
    for (std::size_t i = 0; i < after.size(); ++i)
      if (after[i] >= 0) rest[static_cast<std::size_t>(after[i] - ig_.instances)] += work_of(static_cast<int>(i));
    for (std::size_t w = 0; w < wishes; ++w)
      if (rest[w] > 0) last_turns_.push_back({ig_.instances + static_cast<int>(w), rest[w]});
  }
  double work_of(int instance) const { return least_.work(node_of_[static_cast<std::size_t>(instance)]); }
  void sort() {
    first_.assign(vertices_ + 1, 0);
    waits_.assign(vertices_, 0);
    for (auto const& [from, to] : edges_) {
      ++first_[static_cast<std::size_t>(from) + 1];
      ++waits_[static_cast<std::size_t>(to)];
    }
    for (std::size_t v = 0; v < vertices_; ++v) first_[v + 1] += first_[v];
    to_.resize(edges_.size());
    std::vector<std::size_t> next = first_;
    for (auto const& [from, to] : edges_) to_[next[static_cast<std::size_t>(from)]++] = to;
  }

  static constexpr int none = -2;
  plan_base const& plan_;
  completed const& c_;
  least_seconds const& least_;
  instance_graph ig_;
  moments named_;
  std::vector<std::pair<placement, int>> places_;
  std::vector<std::vector<int>> sets_;
  std::vector<int> set_of_, node_of_;  // by node; by instance
  std::size_t vertices_ = 0;
  std::vector<std::pair<int, int>> edges_;
  std::vector<std::vector<std::pair<int, double>>> turns_;  // by wish: since which other one, and what was computed
  std::vector<std::pair<int, double>> last_turns_;
  std::vector<std::size_t> first_;
  std::vector<int> to_, waits_;
};

}  // namespace detail::bounds

// Seconds that no simulated step of a plan takes less than. It looks at every instance: some hundred thousand in a tenth of a
// second. 0 where pieces differ in size.
inline double least_in_order(graph_data const& g, plan_base const& plan, completed const& c, costs const& k) {
  const least_seconds least(g, c, k, rates_of(k, g, c.devices).link);
  return least.even() ? detail::bounds::ways(g, plan, c, least).longest() : 0;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
