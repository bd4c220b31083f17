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
    int first = 0;   // its first vertex; one for every index
    int alike = -1;  // which nodes wishes treat so; -1: it is of one node, and what goes with it
    int level = 0;   // how often data comes from nodes that they treat otherwise; -1: from nothing that has an index
  };
  struct of_moment {
    list<int> timed, timeless;  // groups
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static list<int> shape_of(time_modes const& t) {
    list<int> shape;
    for (int m = 0; m < t.count; ++m) {
      shape.push_back(t.modes[m]);
      shape.push_back(t.extents[m]);
    }
    return shape;
  }

  int moment_of(moment_entry const& m) {
    for (std::size_t k = 0; k < moments_.size(); ++k)
      if (same_ops(moments_[k], m)) return static_cast<int>(k);
    moments_.push_back(m);
    return static_cast<int>(moments_.size()) - 1;
  }
  void find_moments() {
    for (wish const& w : plan_.wishes()) {
      moment_of(w.first);
      moment_of(w.second);
    }
    for (preference const& p : plan_.preferences()) moment_of(p.which);
  }
  // What no wish names, a move as a rule, goes with what it reads. What runs once is a group of its own: it may come before all
  // indices of a stage, as inputs do, or after.
  void find_groups() {
    list<list<int>> named(at(c_.nodes.size));
    for (std::size_t k = 0; k < moments_.size(); ++k)
      for (int id : named_.nodes_of(moments_[k])) named[at(id)].push_back(static_cast<int>(k));
    std::map<std::pair<list<int>, list<int>>, int> treated;
    std::map<std::pair<int, int>, int> known;  // by what is alike, and level
    groups_of_moment_.resize(moments_.size());
    group_of_.assign(at(c_.nodes.size), -1);
    for (int id = 0; id < c_.nodes.size; ++id) {
      node const& n = c_.nodes[id];
      list<int> const& names = named[at(id)];
      int& mine = group_of_[at(id)];
      group made{n.time, vertices_, -1, -1};
      if (n.time.count > 0 && !names.empty()) {
        made.alike = treated.try_emplace({shape_of(n.time), names}, static_cast<int>(treated.size())).first->second;
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
  enum relation { same_index, from_one, to_one };
  // Edges between all vertices of two groups, once.
  bool add_all(int from, int to, relation how) {
    if (from == to) return how == same_index;
    if (!known_.insert({from, to, how}).second) return true;
    group const &a = groups_[at(from)], &b = groups_[at(to)];
    if ((how == from_one && a.time.count > 0) || (how == to_one && b.time.count > 0)) return false;
    for (int i = 0, count = (how == to_one ? a : b).time.size(); i < count; ++i)
      add(a.first + (how == from_one ? 0 : i), b.first + (how == to_one ? 0 : i));
    return true;
  }
  bool add_data() {
    instance_graph places;  // vertices as if they were instances
    for (int id = 0; id < c_.nodes.size; ++id) places.first.push(groups_[at(group_of_[at(id)])].first);
    std::set<std::pair<int, int>> stepped;  // vertices of what comes one after another
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
      if (n.kind != node_kind::assemble && n.ring == ring_kind::none) continue;
      for (int i = 0; i < count; ++i) {
        const int before = n.kind == node_kind::assemble ? previous_assembled(c_, n, i) : -1;
        const int turned = n.ring != ring_kind::none ? previous_in_ring(n, i) : -1;
        const int earlier[]{before, turned};
        for (int from : earlier)
          if (from >= 0 && stepped.insert({own + from, own + i}).second) add(own + from, own + i);
      }
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
  // Calls `visit` with the vertices that a moment names; returns whether there are any.
  template <class F> bool each(moment_entry const& m, F visit) {
    bool hit = false;
    of_moment const& of = groups_of_moment_[at(moment_of(m))];
    if (m.index_count == 0)
      for (int q : of.timeless) {
        hit = true;
        visit(groups_[at(q)].first);
      }
    for (int q : of.timed) {
      group const& x = groups_[at(q)];
      int fixed[max_time_modes], index[max_time_modes]{};
      std::fill(fixed, fixed + max_time_modes, -1);
      bool there = true;
      for (int k = 0; k < m.index_count && there; ++k) {
        const int mode = x.time.find(m.indices[k].mode);
        there = mode >= 0 && m.indices[k].index < x.time.extents[mode];
        if (there) fixed[mode] = m.indices[k].index;
      }
      if (!there) continue;
      hit = true;
      for (int i = 0, count = x.time.size(); i < count; ++i) {
        x.time.index(i, index);
        bool named = true;
        for (int mode = 0; mode < x.time.count; ++mode) named = named && (fixed[mode] < 0 || fixed[mode] == index[mode]);
        if (named) visit(x.first + i);
      }
    }
    return hit;
  }
  bool add_wishes() {
    bool any = true;
    for (int w = 0; w < plan_.wishes().size; ++w, ++vertices_) {
      wish const& x = plan_.wishes()[w];
      if (x.continues && !any) add(vertices_ - 1, vertices_);
      const bool begins = each(x.first, [&](int i) { add(i, vertices_); });
      any = each(x.second, [&](int i) { add(vertices_, i); });
      if (!x.lenient && x.line != 0 && !(begins && any)) return false;
    }
    return true;
  }
  bool names_something() {
    for (preference const& p : plan_.preferences())
      if (p.line != 0 && !each(p.which, [](int) {})) return false;
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
  list<moment_entry> moments_;
  list<group> groups_;
  list<int> group_of_;  // per node
  list<of_moment> groups_of_moment_;
  list<std::pair<int, int>> edges_;
  std::set<std::tuple<int, int, int>> known_;  // what was added between groups
  int vertices_ = 0;
  bool proved_ = false;
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
