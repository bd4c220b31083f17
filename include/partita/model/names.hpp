// Names of ops that do not depend on node ids, which differ between constant evaluation and run time (DESIGN D2). What
// leaves the process, and every random stream, goes by them.
#pragma once
#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <partita/core/hash.hpp>
#include <partita/model/graph_entries.hpp>

namespace partita {

namespace detail {
// "block.3.fc1/linear", "block.3.fc1/linear.backward"; sources and ops without a name of their own are not told apart
// by their kind: "fc1.weight", "block.3.relu".
inline std::string name_with_kind(graph_data const& g, int op) {
  op_entry const& e = g.ops[op];
  std::string name(g.name(op).view());
  const std::string kind(e.info->kind);
  const bool own = e.info->source == source_kind::input || e.info->source == source_kind::parameter ||
                   e.info->source == source_kind::state || e.info->is_output;
  const bool ends_with_kind = name == kind || (name.size() > kind.size() && name.ends_with(kind) &&
                                               name[name.size() - kind.size() - 1] == '.');
  if (!own && !ends_with_kind) name += "/" + kind;
  if (!own && e.when == pass::backward) name += ".backward";
  if (!own && e.when == pass::update) name += ".update";
  return name;
}

// A hash of who reads an op's outputs, and who reads theirs: it tells apart ops of one name that read the same. Readers
// of a later pass do not count, so that an op has one name in training and in evaluation.
inline std::vector<std::uint64_t> hash_readers(graph_data const& g, std::vector<std::string> const& names) {
  std::vector<std::uint64_t> readers(static_cast<std::size_t>(g.ops.size), 0);
  for (int op = g.ops.size - 1; op >= 0; --op) {
    op_entry const& e = g.ops[op];
    const std::uint64_t own = hash(readers[static_cast<std::size_t>(op)], hash(names[static_cast<std::size_t>(op)]));
    for (int i = 0; i < e.input_count; ++i) {
      tensor_entry const& x = g.tensors[g.input(e, i)];
      if (g.ops[x.op].when < e.when) continue;
      // a sum, because the order of readers is that of ids
      readers[static_cast<std::size_t>(x.op)] +=
          hash(static_cast<std::uint64_t>(i), hash(static_cast<std::uint64_t>(x.output), own));
    }
  }
  return readers;
}
}  // namespace detail

// A name for every op, no two the same: further ops of one name and kind are numbered #2, #3, in topological order, by
// the depth of their inputs, then the inputs' names, attributes and readers.
inline std::vector<std::string> unique_names(graph_data const& g) {
  const std::size_t count = static_cast<std::size_t>(g.ops.size);
  std::vector<std::string> names(count);
  std::vector<int> depth(count, 0);
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    names[static_cast<std::size_t>(op)] = detail::name_with_kind(g, op);
    for (int i = 0; i < e.input_count; ++i)
      depth[static_cast<std::size_t>(op)] = std::max(
          depth[static_cast<std::size_t>(op)], depth[static_cast<std::size_t>(g.tensors[g.input(e, i)].op)] + 1);
  }
  const std::vector<std::uint64_t> readers = detail::hash_readers(g, names);

  // by depth: the inputs of a depth have their final names when it is their readers' turn
  std::vector<int> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return depth[static_cast<std::size_t>(a)] < depth[static_cast<std::size_t>(b)];
  });
  std::map<std::string, int> taken;
  using key = std::tuple<std::string, std::vector<std::string>, std::vector<std::uint64_t>, std::uint64_t, int>;
  for (std::size_t begin = 0; begin < count;) {
    std::vector<key> level;
    std::size_t end = begin;
    for (; end < count && depth[static_cast<std::size_t>(order[end])] == depth[static_cast<std::size_t>(order[begin])];
         ++end) {
      const int op = order[end];
      op_entry const& e = g.ops[op];
      std::vector<std::string> inputs;
      for (int i = 0; i < e.input_count; ++i) {
        tensor_entry const& x = g.tensors[g.input(e, i)];
        inputs.push_back(names[static_cast<std::size_t>(x.op)] + ":" + std::to_string(x.output));
      }
      std::vector<std::uint64_t> given;
      for (double value : e.given.values) given.push_back(std::bit_cast<std::uint64_t>(value));
      level.emplace_back(names[static_cast<std::size_t>(op)], std::move(inputs), std::move(given),
                         readers[static_cast<std::size_t>(op)], op);
    }
    std::sort(level.begin(), level.end());
    for (key const& k : level)
      if (const int number = ++taken[std::get<0>(k)]; number > 1)
        names[static_cast<std::size_t>(std::get<4>(k))] += "#" + std::to_string(number);
    begin = end;
  }
  return names;
}

// The key of every op's random stream: one for a forward op and the ops that its gradient rule made, so that a mask is
// drawn again and not kept.
inline std::vector<std::uint64_t> random_keys(graph_data const& g, std::vector<std::string> const& names) {
  std::vector<std::uint64_t> keys;
  for (op_entry const& e : g.ops) keys.push_back(hash(names[static_cast<std::size_t>(e.origin)]));
  return keys;
}

}  // namespace partita
