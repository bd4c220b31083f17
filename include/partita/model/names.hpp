// Names of ops that do not depend on node ids, which differ between constant evaluation and run time. What
// leaves the process, and every random stream, goes by them.
#pragma once
#include <algorithm>
#include <bit>
#include <span>
#include <string>

#include <partita/core/hash.hpp>
#include <partita/core/list.hpp>
#include <partita/core/sort.hpp>
#include <partita/core/words.hpp>
#include <partita/model/graph_entries.hpp>

#include <partita/core/begin_planning_code.hpp>

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
  const bool ends_with_kind =
      name == kind || (name.size() > kind.size() && name.ends_with(kind) && name[name.size() - kind.size() - 1] == '.');
  if (!own && !ends_with_kind) name += "/" + kind;
  if (!own && e.when == pass::backward) name += ".backward";
  if (!own && e.when == pass::update) name += ".update";
  return name;
}

// A hash of who reads an op's outputs, and who reads theirs: it tells apart ops of one name that read the same. Readers
// of a later pass do not count, so that an op has one name in training and in evaluation.
inline list<std::uint64_t> hash_readers(graph_data const& g, list<std::string> const& names) {
  list<std::uint64_t> readers(static_cast<std::size_t>(g.ops.size), 0);
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
inline list<std::string> unique_names(graph_data const& g) {
  const std::size_t count = static_cast<std::size_t>(g.ops.size);
  list<std::string> names(count);
  list<int> depth(count, 0);
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    names[static_cast<std::size_t>(op)] = detail::name_with_kind(g, op);
    for (int i = 0; i < e.input_count; ++i)
      depth[static_cast<std::size_t>(op)] =
          std::max(depth[static_cast<std::size_t>(op)], depth[static_cast<std::size_t>(g.tensors[g.input(e, i)].op)] + 1);
  }
  const list<std::uint64_t> readers = detail::hash_readers(g, names);

  // which ops share a name, by the first of them
  auto at = [](int op) { return static_cast<std::size_t>(op); };
  list<int> first(count), taken(count, 0);
  const list<int> by_name = sorted_ids(count, [&](int a, int b) { return names[at(a)] < names[at(b)]; });
  for (std::size_t i = 0; i < count; ++i)
    first[at(by_name[i])] = i > 0 && names[at(by_name[i - 1])] == names[at(by_name[i])] ? first[at(by_name[i - 1])] : by_name[i];

  // by depth: the inputs of a depth have their final names when it is their readers' turn
  list<int> order = sorted_ids(count, [&](int a, int b) { return depth[at(a)] < depth[at(b)]; });
  auto before = [&](int a, int b) {
    op_entry const &x = g.ops[a], &y = g.ops[b];
    if (first[at(a)] != first[at(b)]) return names[at(a)] < names[at(b)];
    for (int i = 0; i < x.input_count && i < y.input_count; ++i) {
      tensor_entry const &p = g.tensors[g.input(x, i)], &q = g.tensors[g.input(y, i)];
      if (const int way = names[at(p.op)].compare(names[at(q.op)]); way != 0) return way < 0;
      if (p.output != q.output) return p.output < q.output;
    }
    if (x.input_count != y.input_count) return x.input_count < y.input_count;
    for (int i = 0; i < 6; ++i)
      if (const auto u = std::bit_cast<std::uint64_t>(x.given.values[i]), v = std::bit_cast<std::uint64_t>(y.given.values[i]);
          u != v)
        return u < v;
    if (readers[at(a)] != readers[at(b)]) return readers[at(a)] < readers[at(b)];
    return a < b;
  };
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && depth[at(order[end])] == depth[at(order[begin])]) ++end;
    const std::span<int> level = std::span(order).subspan(begin, end - begin);
    sort_ids(level, before);
    for (int op : level)
      if (const int number = ++taken[at(first[at(op)])]; number > 1) names[at(op)] += words({"#", number});
  }
  return names;
}

// The key of every op's random stream: one for a forward op and the ops that its gradient rule made, so that a mask is
// drawn again and not kept.
inline list<std::uint64_t> random_keys(graph_data const& g, list<std::string> const& names) {
  list<std::uint64_t> keys;
  for (op_entry const& e : g.ops) keys.push_back(hash(names[static_cast<std::size_t>(e.origin)]));
  return keys;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
