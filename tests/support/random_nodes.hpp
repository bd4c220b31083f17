// What a random plan says beside its ops: lists of devices in any order, and how moves and sums over time lie.
#pragma once
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <partita/plan/verify.hpp>

namespace partita::testing {

class random_nodes {
 public:
  random_nodes(plan_base& plan, std::mt19937& random, int most_devices)
      : plan_(plan), g_(plan.graph()), random_(random), most_(most_devices) {}

  // Devices of every grid in another order, or others; one list for all grids of a size, or some of a few.
  std::string lists() {
    struct known_lists {
      int places;
      std::vector<std::vector<int>> lists;
    };
    std::vector<known_lists> all;
    const bool several = chance(30);
    const int percent = chance(50) ? 100 : 20 + below(80);
    int made = 0;
    for (int op = 0; op < g_.ops.size; ++op) {
      op_plan const& p = plan_.of(op);
      if (!p.assigned || p.list >= 0) continue;
      const int n = detail::places_of(p);
      std::size_t k = 0;
      while (k < all.size() && all[k].places != n) ++k;
      if (k == all.size()) all.push_back({n, {}});
      if (!chance(percent)) continue;
      std::vector<std::vector<int>>& known = all[k].lists;
      if (known.empty() || (several && known.size() < 3 && chance(20))) known.push_back(any_list(n));
      std::vector<int> const& list = known[static_cast<std::size_t>(below(static_cast<int>(known.size())))];
      plan_.op_assign(op_ref{&g_, op}, device_list(list.data(), n), 0);
      ++made;
    }
    return ", lists of devices for " + std::to_string(made) + " ops";
  }
  // Some of the moves and sums that the plan comes to.
  std::string nodes() {
    completed c;
    if (verify_plan(g_, plan_, c)) return "";  // somebody else says what is wrong
    const int percent = 5 + below(60);
    int made = 0, cannot = 0;
    for (int id = 0; id < c.nodes.size; ++id) {
      node const& n = c.nodes[id];
      const bool sum = detail::sums_over_time(c, n);
      if ((!sum && n.kind != node_kind::move) || !chance(percent)) continue;
      plan_base with = plan_;
      say(with, c, id, sum);
      completed other;
      const finding f = verify_plan(g_, with, other);
      // What depends on what the plan comes to: terms that are themselves pieces in time, and readers that stand elsewhere now.
      if (f.what == wrong::sum_is_cut_where_its_pieces_are || f.what == wrong::node_is_cut_in_time ||
          f.what == wrong::pieces_differ_from_the_grid || f.what == wrong::cyclic_order)
        ++cannot;
      else {
        plan_ = with;
        ++made;
      }
    }
    return ", " + std::to_string(made) + " nodes said" + (cannot > 0 ? ", " + std::to_string(cannot) + " that cannot be" : "");
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  bool chance(int percent) { return below(100) < percent; }

  std::vector<int> any_list(int n) {
    const int out_of = chance(50) ? n : std::max(n, most_);
    std::vector<int> all(static_cast<std::size_t>(out_of));
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random_);
    all.resize(static_cast<std::size_t>(n));
    return all;
  }
  struct dimension_of {
    std::string name;
    int extent;
  };
  void say(plan_base& plan, completed const& c, int id, bool sum) {
    node const& n = c.nodes[id];
    node_selection s;
    s.keys.push({sum ? between::accumulate : between::move, c.values[n.first_value].tensor, -1});
    const int tensor = s.keys[0].tensor;
    for (node_plan const& e : plan.nodes())
      if (e.key.tensor == tensor) return;  // a policy has been here, or this
    if (!sum && chance(30)) {
      plan.op_trans(s, replicate{2, "moved again"}, 0);
      if (chance(50)) return;
    }
    int reader = -1;
    for (int k = id + 1; k < c.nodes.size && !sum; ++k)
      for (int i = 0; i < c.nodes[k].input_count && c.nodes[k].kind == node_kind::compute; ++i)
        if (g_.input(g_.ops[c.nodes[k].op], i) == tensor && c.input(c.nodes[k], i) == n.first_value) reader = c.nodes[k].op;
    if (reader >= 0 && chance(50)) s.keys[0].reader = reader;
    std::vector<dimension_of> on;
    if (chance(30)) {  // elsewhere
      int devices = 1;
      for (const char* name : {"a", "data", "n"})
        if (chance(50)) {
          const int extent = 1 + below(std::min(4, most_ / devices));
          if (chance(20)) plan.op_assign(s, at{name, below(extent), extent}, 0);
          else {
            plan.op_assign(s, grid{{name, extent}}, 0);
            on.push_back({name, extent});
          }
          devices *= extent;
        }
      if (devices == 1 && on.empty()) plan.op_assign(s, grid{}, 0);
      if (chance(40)) {
        const std::vector<int> list = any_list(devices);
        plan.op_assign(s, device_list(list.data(), devices), 0);
      }
    } else {
      placement const& w = sum ? c.values[c.input(n, 0)].lay.where : n.over.where;
      if (!sum && s.keys[0].reader < 0) {  // other readers may stand elsewhere
        plan.op_assign(s, grid{}, 0);
        return;
      }
      for (int l = 0; l < w.rank; ++l)
        if (w.modes[l] >= 0) on.push_back({std::string(plan.modes()[w.modes[l]].view()), w.extents[l]});
    }
    operand const& x = g_.operand_of(tensor);
    op_info const& f = *g_.ops[g_.tensors[tensor].op].info;
    for (dimension_of const& d : on) {
      if (x.rank == 0 || !chance(75)) continue;
      const int a = below(x.rank);
      std::size_t least = g_.extent(x.axes[a]) / (x.inner[a] < 0 ? 1 : g_.extent(f.dims[x.inner[a]].axis));
      bool twice = false;
      for (int b = 0; b < x.rank; ++b) twice = twice || (b != a && x.axes[b]->id == x.axes[a]->id);
      for (node_plan const& e : plan.nodes())
        for (int k = 0; k < e.own.cut_count && e.key == s.keys[0]; ++k)
          if (e.own.cuts[k].dim == a) least /= static_cast<std::size_t>(e.own.cuts[k].pieces);
      if (twice || least < static_cast<std::size_t>(d.extent) || has_mode(plan, s.keys[0], d.name)) continue;
      plan.op_trans(s, cut_axis{x.axes[a], d.extent, mode_name(d.name)}, 0);
    }
  }
  static bool has_mode(plan_base const& plan, node_key const& key, std::string const& name) {
    for (node_plan const& e : plan.nodes())
      for (int k = 0; k < e.own.cut_count && e.key == key; ++k)
        if (plan.modes()[e.own.cuts[k].mode].view() == name) return true;
    return false;
  }

  plan_base& plan_;
  graph_data const& g_;
  std::mt19937& random_;
  int most_;
};

}  // namespace partita::testing
