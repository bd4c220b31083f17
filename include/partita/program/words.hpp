// What instructions are called in messages and reports.
#pragma once
#include <string>
#include <string_view>

#include <partita/core/words.hpp>
#include <partita/model/graph_entries.hpp>
#include <partita/program/program.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

constexpr std::string_view name_of(pass when) {
  switch (when) {
    case pass::forward: return "forward";
    case pass::backward: return "backward";
    case pass::update: return "update";
  }
  return "?";
}
constexpr std::string_view name_of(instruction_kind kind) {
  switch (kind) {
    case instruction_kind::compute: return "op";
    case instruction_kind::chain: return "chain";
    case instruction_kind::copy: return "copy";
    case instruction_kind::fill: return "fill";
    case instruction_kind::all_reduce: return "all_reduce";
    case instruction_kind::all_gather: return "all_gather";
    case instruction_kind::reduce_scatter: return "reduce_scatter";
    case instruction_kind::all_to_all: return "all_to_all";
    case instruction_kind::exchange: return "exchange";
  }
  return "?";
}
constexpr bool is_communication(instruction_kind kind) { return kind >= instruction_kind::all_reduce; }

// The tensor that an instruction makes, moves or fills: of the first buffer it writes, else reads, that belongs to one.
inline int tensor_of(program const& p, instruction const& i) {
  auto find = [&](int first, int count) {
    for (int a = first; a < first + count; ++a) {
      const int t = p.buffers[static_cast<std::size_t>(p.accesses[static_cast<std::size_t>(a)])].tensor;
      if (t >= 0) return t;
    }
    return -1;
  };
  const int written = find(i.first_access + i.read_count, i.write_count);
  return written >= 0 ? written : find(i.first_access, i.read_count);
}

// "op block.0.fc1 (linear, backward)", "all_reduce of block.0.fc1 (linear, backward)".
[[gnu::cold]] inline std::string words_of(program const& p, graph_data const& graph, instruction const& i) {
  const std::string_view kind = name_of(i.kind);
  int op = -1;
  std::string_view of = "";
  const std::string others = is_communication(i.kind) && i.call_count > 1 ? words({" and ", i.call_count - 1, " more"}) : "";
  if (i.kind == instruction_kind::compute) op = p.computes[static_cast<std::size_t>(i.payload)].op;
  else {
    const int tensor = tensor_of(p, i);
    if (tensor < 0) return std::string(kind);
    of = " of";
    if (tensor >= graph.tensors.size) return words({kind, " of tensor ", tensor, others});
    op = graph.tensors[tensor].op;
  }
  if (op < 0 || op >= graph.ops.size) return words({kind, of, " ", op});
  op_entry const& e = graph.ops[op];
  const std::string_view what = e.info != nullptr ? e.info->kind : "";
  return words({kind, of, " ", graph.name(op).view(), " (", what, what.empty() ? "" : ", ", name_of(e.when), ")", others});
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
