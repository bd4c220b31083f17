// Prints a completed plan, one line a node: what it is, the op, and how the work or the tensor is cut.
#pragma once
#include <cstdio>
#include <string>

#include <partita/model/names.hpp>
#include <partita/plan/verify.hpp>

namespace show {

// "sample/2 over data, parts of a sum/2 over tensor @ 0..3": the cuts in the order in which they were made, the
// devices.
template <class AxisName> std::string words_of(partita::plan_base const& plan, partita::layout const& l, AxisName axis_name) {
  std::string words;
  for (int i = 0; i < l.count; ++i) {
    partita::part const& p = l.parts[i];
    words += (words.empty() ? "" : ", ") + (p.partial() ? "parts of a sum" : axis_name(p.axis)) + "/" + std::to_string(p.pieces) +
             (p.in_time() ? " in time by " : " over ") + std::string(p.mode < 0 ? "devices" : plan.modes()[p.mode].view());
  }
  if (words.empty()) words = "whole";
  words += " @";
  const int n = l.where.size(), first = l.where.device_at(0), last = l.where.device_at(n - 1);
  if (n > 2 && last - first == n - 1) return words + " " + std::to_string(first) + ".." + std::to_string(last);
  for (int i = 0; i < n; ++i) words += " " + std::to_string(l.where.device_at(i));
  return words;
}

inline const char* kind_of(partita::node_kind kind) {
  switch (kind) {
    case partita::node_kind::assemble: return "assemble";
    case partita::node_kind::move: return "move";
    case partita::node_kind::store: return "store";
    default: return "compute";
  }
}

// Only ops of one pass, and what changes the layout of their outputs.
inline std::string completed_plan(partita::plan_base const& plan, partita::pass pass) {
  partita::graph_data const& g = plan.graph();
  partita::completed c;
  if (const partita::finding f = partita::verify_plan(g, plan, c)) return partita::describe(f) + "\n";
  const partita::list<std::string> names = partita::unique_names(g);
  std::string lines;
  for (partita::node const& n : c.nodes) {
    if (g.ops[n.op].when != pass) continue;
    partita::op_info const& f = *g.ops[n.op].info;
    const std::string name = names[static_cast<std::size_t>(n.op)];
    char line[256];
    if (n.kind == partita::node_kind::compute) {
      const std::string cuts = words_of(plan, n.over, [&](int letter) { return std::string(f.dims[letter].axis->name); });
      std::snprintf(line, sizeof line, "%-42s %s\n", name.c_str(), cuts.c_str());
    } else {
      partita::node_value const &before = c.values[c.input(n, 0)], &after = c.values[n.first_value];
      auto axis = [&](int a) { return std::string(g.operand_of(after.tensor).axes[a]->name); };
      std::snprintf(line, sizeof line, "  %-8s %-31s %s  ->  %s\n", kind_of(n.kind), name.c_str(),
                    words_of(plan, before.lay, axis).c_str(), words_of(plan, after.lay, axis).c_str());
    }
    lines += line;
  }
  return lines;
}

}  // namespace show
