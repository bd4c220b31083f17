// Graphs and completed plans as Graphviz text: `dot -Tsvg`.
#pragma once
#include <string>
#include <vector>

#include <partita/plan/instance_edges.hpp>

namespace partita {

namespace detail {
inline std::string dot_text(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return out;
}
inline const char* dot_colour(graph_data const& g, int op) {
  switch (g.ops[op].when) {
    case pass::forward: return g.ops[op].info->source == source_kind::none ? "#cfe0f1" : "#eeeeee";
    case pass::backward: return "#fbd9b5";
    case pass::update: return "#cfe8cb";
  }
  return "#ffffff";
}
// A change of layout, of a parameter its use; a sum of pieces in time, or pieces one after another.
inline std::string name_between(graph_data const& g, completed const& c, node const& n) {
  if (n.kind == node_kind::store) return "store";
  if (n.kind == node_kind::move) return g.ops[n.op].info->source == source_kind::parameter ? "use" : "move";
  return sums_over_time(c, n) ? "accumulate" : "assemble";
}
inline std::string shape_text(graph_data const& g, operand const& x) {
  std::string out;
  for (int a = 0; a < x.rank; ++a) {
    const std::size_t n = g.extent(x.axes[a]);
    out += (a > 0 ? " " : "") + std::string(x.axes[a]->name) + (n == unbound ? "" : " " + std::to_string(n));
  }
  return out;
}
}  // namespace detail

// The graph: an op is a box (grey sources, blue forward, orange backward, green update), a tensor an arrow with its axes.
inline std::string graph_dot(graph_data const& g, bool forward_only = false) {
  std::string out =
      "digraph graph_of_ops {\n  rankdir=TB; node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n"
      "  edge [fontname=\"sans-serif\", fontsize=8];\n";
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    if (forward_only && e.when != pass::forward) continue;
    out += "  n" + std::to_string(op) + " [label=\"" + detail::dot_text(g.name(op).view()) + "\\n" +
           detail::dot_text(e.info->kind) + "\", fillcolor=\"" + detail::dot_colour(g, op) + "\"];\n";
    for (int i = 0; i < e.input_count; ++i) {
      const int t = g.input(e, i);
      out += "  n" + std::to_string(g.tensors[t].op) + " -> n" + std::to_string(op) + " [label=\"" +
             detail::dot_text(detail::shape_text(g, g.operand_of(t))) + "\"];\n";
    }
  }
  return out + "}\n";
}

// The completed plan: ops grouped by the devices they run on, every change of layout a node of its own, with a
// thick line where the policy said how the tensor lies there.
inline std::string plan_dot(graph_data const& g, plan_base const& plan, completed const& c, bool forward_only = false) {
  auto words_of = [&](layout const& l) {
    std::string out;
    for (int p = 0; p < l.count; ++p) {
      part const& x = l.parts[p];
      out += "\\n" + detail::dot_text(x.mode >= 0 ? plan.modes()[x.mode].view() : std::string_view("devices")) +
             (x.partial() ? " partial" : " cut") + " in " + std::to_string(x.pieces) + (x.in_time() ? " over time" : "");
    }
    return out;
  };
  auto shown = [&](int node) {
    return !forward_only || (g.ops[c.nodes[node].op].when == pass::forward && !c.nodes[node].replayed);
  };
  std::string out =
      "digraph completed_plan {\n  rankdir=TB; node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n";
  std::vector<placement> places;
  for (int id = 0; id < c.nodes.size; ++id) {
    if (!shown(id)) continue;
    bool known = false;
    for (placement const& w : places) known = known || w == c.nodes[id].over.where;
    if (!known) places.push_back(c.nodes[id].over.where);
  }
  for (std::size_t k = 0; k < places.size(); ++k) {
    out += "  subgraph cluster_" + std::to_string(k) + " {\n    label=\"devices";
    for (int i = 0, n = places[k].size(); i < n && i < 16; ++i) out += " " + std::to_string(places[k].device_at(i));
    out += places[k].size() > 16 ? " ...\";\n" : "\";\n";
    for (int id = 0; id < c.nodes.size; ++id) {
      node const& n = c.nodes[id];
      if (!shown(id) || !(n.over.where == places[k])) continue;
      const bool op = n.kind == node_kind::compute;
      out += "    n" + std::to_string(id) + " [label=\"" + detail::dot_text(g.name(n.op).view()) + "\\n" +
             (op ? detail::dot_text(g.ops[n.op].info->kind) : detail::name_between(g, c, n)) + words_of(n.over) +
             "\", fillcolor=\"" + (op ? detail::dot_colour(g, n.op) : "#e0cde0") + "\"" + (op ? "" : ", shape=ellipse") +
             (n.said >= 0 ? ", penwidth=3" : "") + "];\n";
    }
    out += "  }\n";
  }
  for (int id = 0; id < c.nodes.size; ++id)
    if (shown(id))
      for (int i = 0; i < c.nodes[id].input_count; ++i)
        if (const int from = c.values[c.input(c.nodes[id], i)].node; shown(from))
          out += "  n" + std::to_string(from) + " -> n" + std::to_string(id) + ";\n";
  return out + "}\n";
}

}  // namespace partita
