// The order of a plan, proved without looking at every instance: nodes that wishes treat alike, and between which data passes
// no others, are one group at each index in time. A group's own edges go from earlier nodes to later ones; where no cycle runs
// through groups none runs through instances. Where one does, it may be the groups' alone: then every instance has to be looked
// at.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <partita/core/list.hpp>
#include <partita/core/sort.hpp>
#include <partita/plan/instance_edges.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

class order_by_groups {
 public:
  order_by_groups(graph_data const& g, plan_base const& plan, completed const& c)
      : g_(g), plan_(plan), c_(c), named_{g, plan, c, none_} {
    find_moments();
    find_groups();
    proved_ = add_data() && add_renewals() && add_wishes() && names_something() && is_acyclic();
  }
  // No cycle, and wishes and priorities name what there is. False: not known.
  bool proved() const { return proved_; }

 private:
  struct group {
    time_modes time;
    int first = 0;                // its first vertex; one for every index
    int alike = -1;               // which nodes wishes treat so; -1: it is of one node, and what goes with it
    int level = 0;                // how often data comes from nodes that they treat otherwise; -1: from nothing that has an index
    int before = -1, after = -1;  // vertices that come before its first and after its last, made where something waits so
  };
  struct of_moment {
    list<int> timed, timeless;  // groups
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  using numbered = std::map<std::pair<list<int>, list<int>>, int>;
  static int number_of(numbered& known, list<int> a, list<int> b) {
    return known.try_emplace({std::move(a), std::move(b)}, static_cast<int>(known.size())).first->second;
  }
  static list<int> shape_of(time_modes const& t) {
    list<int> shape;
    for (int m = 0; m < t.count; ++m) {
      shape.push_back(t.modes[m]);
      shape.push_back(t.extents[m]);
    }
    return shape;
  }

  // Moments that wishes and priorities mention, each once; `moment_of_`: by mention.
  void find_moments() {
    list<moment_entry const*> mentioned;
    for (wish const& w : plan_.wishes()) {
      mentioned.push_back(&w.first);
      mentioned.push_back(&w.second);
    }
    for (preference const& p : plan_.preferences()) mentioned.push_back(&p.which);
    const list<int> sorted =
        sorted_ids(mentioned.size(), [&](int a, int b) { return by_ops(*mentioned[at(a)], *mentioned[at(b)]); });
    moment_of_.resize(sorted.size());
    for (int i : sorted) {
      if (moments_.empty() || !same_ops(*moments_.back(), *mentioned[at(i)])) moments_.push_back(mentioned[at(i)]);
      moment_of_[at(i)] = static_cast<int>(moments_.size()) - 1;
    }
  }
  // Any order in which those of the same ops stand together.
  static bool by_ops(moment_entry const& a, moment_entry const& b) {
    if (a.op != b.op) return a.op < b.op;
    if (a.node.tensor != b.node.tensor) return a.node.tensor < b.node.tensor;
    if (a.node.reader != b.node.reader) return a.node.reader < b.node.reader;
    if (a.node.what != b.node.what) return a.node.what < b.node.what;
    if (a.when != b.when) return a.when < b.when;
    if (a.place_count != b.place_count) return a.place_count < b.place_count;
    for (int p = 0; p < a.place_count; ++p) {
      op_phase const &x = a.places[p], &y = b.places[p];
      if (x.mode != y.mode) return x.mode < y.mode;
      if (x.index != y.index) return x.index < y.index;
    }
    return false;
  }
  // Per node, the moments that name it. Those that name no op of their own tell ops apart by pass and coordinates alone: they are
  // compared with one op of all that have these in common.
  list<list<int>> named() {
    list<list<int>> names(at(c_.nodes.size));
    list<int> of_all, modes;  // modes: that coordinates are asked of
    for (std::size_t k = 0; k < moments_.size(); ++k) {
      moment_entry const& m = *moments_[k];
      if (m.op >= 0 || m.node.what != between::nothing) {
        for (int id : named_.nodes_of(m)) names[at(id)].push_back(static_cast<int>(k));
        continue;
      }
      of_all.push_back(static_cast<int>(k));
      for (int p = 0; p < m.place_count; ++p)
        if (const int mode = m.places[p].mode; std::find(modes.begin(), modes.end(), mode) == modes.end()) modes.push_back(mode);
    }
    if (of_all.empty()) return names;
    numbered alike;  // by pass and coordinates
    list<list<int>> names_of_alike;
    for (int id = 0; id < c_.nodes.size; ++id) {
      node const& n = c_.nodes[id];
      if (n.kind != node_kind::compute) continue;
      list<int> about{static_cast<int>(n.replayed ? pass::backward : g_.ops[n.op].when)};
      for (int mode : modes) about.push_back(coordinate_of(g_, plan_, n.placed_as, static_cast<short>(mode)));
      const int number = number_of(alike, std::move(about), {});
      if (at(number) == names_of_alike.size()) {
        names_of_alike.emplace_back();
        for (int k : of_all)
          if (node_matches(g_, plan_, c_, id, *moments_[at(k)])) names_of_alike.back().push_back(k);
      }
      names[at(id)].append({names_of_alike[at(number)].begin(), names_of_alike[at(number)].end()});
    }
    return names;
  }
  // What no wish names, a move as a rule, goes with what it reads. What runs once is a group of its own: it may come before all
  // indices of a stage, as inputs do, or after.
  void find_groups() {
    const list<list<int>> named = this->named();
    numbered treated;
    std::map<std::pair<int, int>, int> known;  // by what is alike, and level
    groups_of_moment_.resize(moments_.size());
    group_of_.assign(at(c_.nodes.size), -1);
    for (int id = 0; id < c_.nodes.size; ++id) {
      node const& n = c_.nodes[id];
      list<int> const& names = named[at(id)];
      int& mine = group_of_[at(id)];
      group made{n.time, vertices_, -1, -1, -1, -1};
      if (n.time.count > 0 && !names.empty()) {
        made.alike = number_of(treated, shape_of(n.time), names);
        made.level = level_of(n, made.alike);
        const auto [place, fresh] = known.try_emplace({made.alike, made.level}, static_cast<int>(groups_.size()));
        mine = place->second;
        if (!fresh) continue;
        for (int k : names) groups_of_moment_[at(k)].timed.push_back(mine);
      } else if ((mine = group_read_by(n)) >= 0) continue;
      else {
        made.level = level_of(n, -1);
        mine = static_cast<int>(groups_.size());
        for (int k : names) groups_of_moment_[at(k)].timeless.push_back(mine);
      }
      vertices_ += n.time.size();
      groups_.push_back(std::move(made));
    }
  }
  int level_of(node const& n, int alike) const {
    int level = n.time.count > 0 ? 0 : -1;
    for (int k = 0; k < n.input_count; ++k) {
      const int its = group_of_[at(c_.values[c_.input(n, k)].node)];
      if (its < 0) continue;
      group const& from = groups_[at(its)];
      if (from.level >= 0) level = std::max(level, from.level + (alike < 0 || from.alike != alike));
    }
    return level;
  }
  // The group of all that it reads at its own index; -1: there are several, or none.
  int group_read_by(node const& n) const {
    int found = -1;
    for (int k = 0; k < n.input_count && n.time.count > 0; ++k) {
      node_value const& v = c_.values[c_.input(n, k)];
      if (c_.nodes[v.node].time.count == 0) continue;
      const int its = group_of_[at(v.node)];
      if (its < 0 || !waits_for_its_own_index(c_, v, n) || (found >= 0 && found != its)) return -1;
      found = its;
    }
    return found;
  }

  void add(int from, int to) { edges_.push_back({from, to}); }
  enum relation { same_index, from_one, to_one, in_turns, round };
  // Edges between all vertices of two groups, once. What comes before all indices of a group, or after them, as a thousand
  // parameters do, has one edge to a vertex that stands there.
  bool add_all(int from, int to, relation how) {
    if (from == to) return how == same_index;
    group &a = groups_[at(from)], &b = groups_[at(to)];
    if ((how == from_one && a.time.count > 0) || (how == to_one && b.time.count > 0)) return false;
    if (a.time.count == 0 && b.time.count == 0) add(a.first, b.first);
    else if (known_.insert({from, to, how}).second) {
      if (how == from_one) add(a.first, before_all(b));
      else if (how == to_one) add(after_all(a), b.first);
      else
        for (int i = 0, count = b.time.size(); i < count; ++i) add(a.first + i, b.first + i);
    }
    return true;
  }
  int before_all(group& x) {
    if (x.before >= 0) return x.before;
    x.before = vertices_++;
    for (int i = 0, count = x.time.size(); i < count; ++i) add(x.before, x.first + i);
    return x.before;
  }
  int after_all(group& x) {
    if (x.after >= 0) return x.after;
    x.after = vertices_++;
    for (int i = 0, count = x.time.size(); i < count; ++i) add(x.first + i, x.after);
    return x.after;
  }
  // Of what is put together, bit by bit: by which modes in time is it cut still?
  int kept_modes(node const& n) const {
    int kept = 0;
    const time_modes made = times_of(c_.values[n.first_value].lay);
    for (int m = 0; m < n.time.count; ++m) kept |= (made.find(n.time.modes[m]) >= 0) << m;
    return kept;
  }
  bool add_data() {
    instance_graph places;  // vertices as if they were instances
    for (int id = 0; id < c_.nodes.size; ++id) places.first.push(groups_[at(group_of_[at(id)])].first);
    for (int id = 0; id < c_.nodes.size; ++id) {
      node const& n = c_.nodes[id];
      const int mine = group_of_[at(id)], own = groups_[at(mine)].first, count = n.time.size();
      for (int k = 0; k < n.input_count; ++k) {
        const int value = c_.input(n, k);
        node_value const& v = c_.values[value];
        if (v.node >= id) return false;
        const int its = group_of_[at(v.node)];
        bool good = true;
        if (waits_for_its_own_index(c_, v, n)) good = add_all(its, mine, same_index);
        else if (c_.nodes[v.node].time.count == 0) good = add_all(its, mine, from_one);
        else
          for (int i = 0; i < count; ++i) {
            int index[max_time_modes]{};
            n.time.index(i, index);
            each_producer(c_, places, value, n.time, index, [&](int from) {
              if (from != own + i) add(from, own + i);
            });
          }
        if (!good) return false;
      }
      if (n.kind == node_kind::assemble && known_.insert({mine, kept_modes(n), in_turns}).second)
        for (int i = 0; i < count; ++i)
          if (const int before = previous_assembled(c_, n, i); before >= 0) add(own + before, own + i);
      if (n.ring != ring_kind::none && known_.insert({mine, n.time.find(n.ring_mode), round}).second)
        for (int i = 0; i < count; ++i)
          if (const int before = previous_in_ring(n, i); before >= 0) add(own + before, own + i);
    }
    return true;
  }
  // Readers of a stored tensor before the op that renews it, also through its views.
  bool add_renewals() {
    list<int> stored;
    for (int t = 0; t < g_.tensors.size; ++t) {
      op_entry const& e = g_.ops[g_.tensors[t].op];
      stored.push_back(e.info->source != source_kind::none ? t : e.info->is_view ? stored[at(g_.input(e, 0))] : -1);
    }
    for (int id = 0; id < c_.nodes.size; ++id)
      for (int k = 0; k < c_.nodes[id].input_count; ++k) {
        const int of = stored[at(c_.values[c_.input(c_.nodes[id], k)].tensor)], writer = of < 0 ? -1 : c_.renewed_by[of];
        if (writer >= 0 && writer != id && !add_all(group_of_[at(id)], group_of_[at(writer)], to_one)) return false;
      }
    return true;
  }
  // Calls `visit` with the vertices that a mentioned moment names; returns whether there are any.
  template <class F> bool each(int mention, moment_entry const& m, F visit) {
    bool hit = false;
    of_moment const& of = groups_of_moment_[at(moment_of_[at(mention)])];
    if (m.index_count == 0)
      for (int q : of.timeless) {
        hit = true;
        visit(groups_[at(q)].first);
      }
    for (int q : of.timed) {
      group const& x = groups_[at(q)];
      if (each_index(x.time, m, [&](int i) { visit(x.first + i); })) hit = true;
    }
    return hit;
  }
  bool add_wishes() {
    bool any = true;
    for (int w = 0; w < plan_.wishes().size; ++w, ++vertices_) {
      wish const& x = plan_.wishes()[w];
      if (x.continues && !any) add(vertices_ - 1, vertices_);
      const bool begins = each(2 * w, x.first, [&](int i) { add(i, vertices_); });
      any = each(2 * w + 1, x.second, [&](int i) { add(vertices_, i); });
      if (!x.lenient && x.line != 0 && !(begins && any)) return false;
    }
    return true;
  }
  bool names_something() {
    for (int k = 0; k < plan_.preferences().size; ++k)
      if (preference const& p = plan_.preferences()[k]; p.line != 0 && !each(2 * plan_.wishes().size + k, p.which, [](int) {}))
        return false;
    return true;
  }
  bool is_acyclic() const {
    list<int> begin(at(vertices_) + 1, 0), to(edges_.size()), waits(at(vertices_), 0), ready;
    for (auto const& e : edges_) {
      ++begin[at(e.first) + 1];
      ++waits[at(e.second)];
    }
    for (int v = 0; v < vertices_; ++v) begin[at(v) + 1] += begin[at(v)];
    list<int> next = begin;
    for (auto const& e : edges_) to[at(next[at(e.first)]++)] = e.second;
    for (int v = 0; v < vertices_; ++v)
      if (waits[at(v)] == 0) ready.push_back(v);
    for (std::size_t i = 0; i < ready.size(); ++i)
      for (int e = begin[at(ready[i])]; e < begin[at(ready[i]) + 1]; ++e)
        if (--waits[at(to[at(e)])] == 0) ready.push_back(to[at(e)]);
    return static_cast<int>(ready.size()) == vertices_;
  }

  graph_data const& g_;
  plan_base const& plan_;
  completed const& c_;
  instance_graph none_{};
  moments named_;
  list<moment_entry const*> moments_;
  list<int> moment_of_;
  list<group> groups_;
  list<int> group_of_;  // per node
  list<of_moment> groups_of_moment_;
  list<std::pair<int, int>> edges_;
  std::set<std::tuple<int, int, int>> known_;  // what was added between groups, or within one
  int vertices_ = 0;
  bool proved_ = false;
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
