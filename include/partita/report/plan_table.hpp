// A plan as a person reads it: which layers run where, how their ops are cut, what is run again, how state is kept.
// Layers that are planned alike are one entry.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <partita/plan/completed.hpp>

namespace partita {

struct planned_op {
  std::string name, kind;     // within its layer: "attention.q", "linear"
  std::string cuts;           // "sample 64 in time (micro), head 8 over tensor"
  bool again = false;         // run again for the backward pass
  std::string weight, state;  // how its parameter and its moments lie, where it has one
  bool operator==(planned_op const&) const = default;
};
struct planned_layers {
  std::string first, last;  // "block.0", "block.11"; where ops belong to no layer: the first op and the last
  int count = 0;            // of layers that are planned alike
  bool alone = false;       // ops that belong to no layer
  std::string devices;      // "0 to 7", "0, 8, 16"
  std::vector<planned_op> ops;
  std::string name() const { return first == last ? first : first + " to " + last; }
  bool planned_like(planned_layers const& o) const { return alone == o.alone && devices == o.devices && ops == o.ops; }
};

namespace detail {
class plan_reader {
 public:
  plan_reader(graph_data const& g, plan_base const& plan, completed const& c) : g_(g), plan_(plan), c_(c) {
    again_.resize(static_cast<std::size_t>(g.ops.size));
    update_.assign(static_cast<std::size_t>(g.ops.size), -1);
    for (node const& n : c.nodes)
      if (n.kind == node_kind::compute && n.replayed) again_[static_cast<std::size_t>(n.op)] = true;
    for (int op = 0; op < g.ops.size; ++op)  // the last op of an update has all of the state beside it
      if (g.ops[op].when == pass::update && g.ops[op].origin != op && g.ops[op].info->source == source_kind::none)
        update_[static_cast<std::size_t>(g.ops[op].origin)] = op;
  }
  std::vector<planned_layers> read() const {
    std::vector<planned_layers> all;
    for (int op = 0; op < g_.ops.size; ++op) {
      op_info const& f = *g_.ops[op].info;
      if (g_.ops[op].when != pass::forward || f.source != source_kind::none || f.is_view || f.is_output) continue;
      const int id = c_.node_of_op[op];
      if (id < 0) continue;
      const std::string name(g_.name(op).view()), layer = layer_of(name), devices = devices_of_node(c_.nodes[id]);
      const bool alone = layer.empty();
      if (all.empty() || all.back().alone != alone || (!alone && all.back().first != layer) || all.back().devices != devices)
        all.push_back({alone ? name : layer, alone ? name : layer, 1, alone, devices, {}});
      if (alone) all.back().last = name;
      all.back().ops.push_back(describe(op, c_.nodes[id], alone ? name : name.substr(std::min(name.size(), layer.size() + 1))));
    }
    std::vector<planned_layers> merged;
    for (planned_layers& l : all) {
      if (!merged.empty() && !l.alone && merged.back().planned_like(l)) {
        merged.back().last = l.first;
        ++merged.back().count;
      } else merged.push_back(std::move(l));
    }
    return merged;
  }

 private:
  // Up to the first number in a name, which a loop has put there; without one, nothing.
  static std::string layer_of(std::string const& name) {
    for (std::size_t begin = 0; begin < name.size();) {
      std::size_t end = name.find('.', begin);
      if (end == std::string::npos) end = name.size();
      bool digits = end > begin;
      for (std::size_t i = begin; i < end; ++i) digits = digits && name[i] >= '0' && name[i] <= '9';
      if (digits) return name.substr(0, end);
      begin = end + 1;
    }
    return "";
  }
  std::string mode(short m) const { return m >= 0 ? std::string(plan_.modes()[m].view()) : std::string("devices"); }
  // "axis 4 over mode", "axis 8 in time (mode)", by the order of the cuts; `axis_name(i)` of a part's axis.
  template <class Name> std::string words_of(layout const& l, Name axis_name) const {
    std::string out;
    for (int p = 0; p < l.count; ++p) {
      part const& x = l.parts[p];
      if (x.axis < 0) continue;  // partial results, copies
      if (!out.empty()) out += ", ";
      out += std::string(axis_name(x.axis)) + " " + std::to_string(x.pieces) + (x.in_time() ? " in time (" : " over ") +
             mode(x.mode) + (x.in_time() ? ")" : "");
    }
    return out;
  }
  std::string lies(int tensor) const {
    const int v = c_.source_value[tensor];
    if (v < 0) return "";
    operand const& x = g_.operand_of(tensor);
    const std::string w = words_of(c_.values[v].lay, [&](int a) { return x.axes[a]->name; });
    return w.empty() ? "whole" : w;
  }
  planned_op describe(int op, node const& n, std::string name) const {
    op_entry const& e = g_.ops[op];
    op_info const& f = *e.info;
    planned_op r;
    r.name = std::move(name);
    r.kind = std::string(f.kind);
    r.cuts = words_of(n.over, [&](int d) { return f.dims[d].axis->name; });
    r.again = again_[static_cast<std::size_t>(op)];
    for (int i = 0; i < e.input_count; ++i) {
      const int t = g_.input(e, i), maker = g_.tensors[t].op;
      if (g_.ops[maker].info->source != source_kind::parameter) continue;
      r.weight = lies(t);
      const int update = update_[static_cast<std::size_t>(maker)];
      if (update < 0) continue;
      op_entry const& u = g_.ops[update];
      for (int k = 0; k < u.input_count; ++k)
        if (const int s = g_.input(u, k); g_.ops[g_.tensors[s].op].info->source == source_kind::state) r.state = lies(s);
    }
    return r;
  }
  static std::string devices_of_node(node const& n) {
    std::vector<int> all;
    for (int i = 0, count = n.over.where.size(); i < count; ++i) all.push_back(n.over.where.device_at(i));
    if (all.size() == 1) return std::to_string(all[0]);
    const int step = all[1] - all[0];
    bool even = step > 0;
    for (std::size_t i = 1; i < all.size(); ++i) even = even && all[i] - all[i - 1] == step;
    if (even)
      return std::to_string(all.front()) + " to " + std::to_string(all.back()) + (step > 1 ? " by " + std::to_string(step) : "");
    std::string out;
    for (std::size_t i = 0; i < all.size() && i < 16; ++i) out += (i > 0 ? ", " : "") + std::to_string(all[i]);
    return all.size() > 16 ? out + ", ... (" + std::to_string(all.size()) + ")" : out;
  }

  graph_data const& g_;
  plan_base const& plan_;
  completed const& c_;
  std::vector<bool> again_;
  std::vector<int> update_;  // by parameter op
};
}  // namespace detail

inline std::vector<planned_layers> plan_table(graph_data const& g, plan_base const& plan, completed const& c) {
  return detail::plan_reader(g, plan, c).read();
}

}  // namespace partita
