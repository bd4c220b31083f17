// Faults put into plans, and into completed plans, at random places. A fault in a plan's words breaks a rule of the
// primitives. One in a completed plan may leave the function as it was (a piece that is moved twice): then its programs
// pass the check of programs, which knows nothing of plans.
#pragma once
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <partita/program/check.hpp>

#include "random_programs.hpp"

namespace partita::testing {

class plan_injection {
 public:
  plan_injection(graph_data const& graph, plan_base const& of, completed const& made, unsigned seed)
      : g(graph), plan(of), c(made), random(seed) {}
  graph_data const& g;
  plan_base plan;
  completed c;
  std::mt19937 random;
  std::string words;
  std::vector<std::vector<int>> lists;  // of devices, that faults make

  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); }
  template <class T> T const& any(std::vector<T> const& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  }
  std::vector<int> ops(std::function<bool(int)> const& wanted) const { return chosen(g.ops.size, wanted); }
  std::vector<int> nodes(std::function<bool(node const&)> const& wanted) const {
    return chosen(c.nodes.size, [&](int id) { return wanted(c.nodes[id]); });
  }
  bool is_variadic(node const& n) const { return n.kind == node_kind::compute && g.ops[n.op].info->variadic; }
  op_ref ref(int op) const { return {&g, op}; }
  void say_op(int op, char const* what) { words = std::string(what) + ": op " + std::string(g.name(op).view()); }
  void say_node(int id, char const* what) {
    words = std::string(what) + ": node " + std::to_string(id) + " of op " + std::string(g.name(c.nodes[id].op).view()) + " (" +
            std::string(g.ops[c.nodes[id].op].info->kind) + ", kind " + std::to_string(static_cast<int>(c.nodes[id].kind)) + ")";
  }

 private:
  static std::vector<int> chosen(int count, std::function<bool(int)> const& wanted) {
    std::vector<int> all;
    for (int i = 0; i < count; ++i)
      if (wanted(i)) all.push_back(i);
    return all;
  }
};
struct plan_fault {
  std::string name;
  bool in_words;  // of the plan; else in the completed plan
  std::function<bool(plan_injection&)> put;
};

namespace plan_faults {
inline bool is_forward_op(plan_injection const& x, int op) {
  return x.g.ops[op].when == pass::forward && x.g.ops[op].info->source == source_kind::none;
}
// A cut in time of what is whole in time says nothing, and is passed over.
inline bool is_cut_in_time(plan_injection const& x, int op) {
  return is_forward_op(x, op) && !x.g.ops[op].info->whole_in_time && !x.g.ops[op].info->is_output;
}
// A letter that an op may be cut along in space, with the extent of its axis.
struct cuttable {
  int op, dim;
  std::size_t extent;
};
inline bool any_letter(plan_injection& x, bool whole, cuttable& found) {
  std::vector<cuttable> all;
  for (int op = 0; op < x.g.ops.size; ++op) {
    op_info const& f = *x.g.ops[op].info;
    for (int d = 0; d < f.dim_count; ++d)
      if (is_cut_in_time(x, op) && f.dims[d].whole == whole && x.plan.of(op).cut_count < max_parts - 1)
        all.push_back({op, d, x.g.extent(f.dims[d].axis)});
  }
  if (all.empty()) return false;
  found = x.any(all);
  return true;
}
inline axis_info const* axis_of_letter(plan_injection const& x, cuttable const& l) {
  return x.g.ops[l.op].info->dims[l.dim].axis;
}
inline cut_axis cut_of(plan_injection const& x, cuttable const& l, int pieces, std::string_view mode) {
  return {axis_of_letter(x, l), pieces, mode_name(mode), x.g.ops[l.op].info->dims[l.dim].letter};
}

inline bool other_number_of_pieces(plan_injection& x) {
  struct place {
    int op, cut;
  };
  std::vector<place> all;
  for (int op = 0; op < x.g.ops.size; ++op)
    for (int k = 0; k < x.plan.of(op).cut_count; ++k)
      for (int l = 0; l < x.plan.of(op).level_count; ++l)
        if (x.plan.of(op).levels[l].mode == x.plan.of(op).cuts[k].mode && x.plan.of(op).levels[l].extent > 1)
          all.push_back({op, k});
  if (all.empty()) return false;
  const place p = x.any(all);
  x.say_op(p.op, "another number of pieces than its grid has");
  ++x.plan.of(p.op).cuts[p.cut].pieces;
  return true;
}
inline bool sizes_that_do_not_sum(plan_injection& x) {
  cuttable l;
  if (!any_letter(x, false, l) || l.extent < 2) return false;
  x.say_op(l.op, "sizes that do not sum");
  const int sizes[2]{1, static_cast<int>(l.extent)};
  cut_axis c = cut_of(x, l, 2, "faulty");
  c.sizes = sizes;
  c.size_count = 2;
  x.plan.op_trans(x.ref(l.op), c);
  return true;
}
inline bool cut_of_a_whole_axis(plan_injection& x) {
  cuttable l;
  if (!any_letter(x, true, l)) return false;
  op_info const& f = *x.g.ops[l.op].info;
  for (int d = 0; d < f.dim_count; ++d)
    if (f.dims[d].axis->id == f.dims[l.dim].axis->id && !f.dims[d].whole) return false;
  x.say_op(l.op, "a cut of a whole axis");
  x.plan.op_trans(x.ref(l.op), cut_of(x, l, 2, "faulty"));
  return true;
}
inline bool more_pieces_than_elements(plan_injection& x) {
  cuttable l;
  if (!any_letter(x, false, l)) return false;
  op_plan const& p = x.plan.of(l.op);
  if (p.level_count == max_levels) return false;
  const int pieces = static_cast<int>(l.extent) + 1;
  x.say_op(l.op, "more pieces in space than elements");
  x.plan.op_trans(x.ref(l.op), cut_of(x, l, pieces, "faulty"));
  x.plan.op_assign(x.ref(l.op), grid{{"faulty", pieces}});
  return true;
}
inline bool mode_twice(plan_injection& x) {
  cuttable l;
  if (!any_letter(x, false, l) || x.plan.of(l.op).cut_count + 2 > max_parts) return false;
  x.say_op(l.op, "one mode twice");
  for (int k = 0; k < 2; ++k) x.plan.op_trans(x.ref(l.op), cut_of(x, l, 1, "faulty"));
  return true;
}
inline bool dimension_twice(plan_injection& x) {
  const std::vector<int> all = x.ops([&](int op) { return is_forward_op(x, op) && x.plan.of(op).level_count + 2 <= max_levels; });
  if (all.empty()) return false;
  const int op = x.any(all);
  x.say_op(op, "one dimension twice");
  for (int k = 0; k < 2; ++k) x.plan.op_assign(x.ref(op), grid{{"faulty", 1}});
  return true;
}
inline bool nowhere(plan_injection& x) {
  const std::vector<int> all = x.ops([&](int op) { return x.g.ops[op].when == pass::forward && x.plan.of(op).assigned; });
  if (all.empty()) return false;
  const int op = x.any(all);
  x.say_op(op, "an op on no device");
  x.plan.of(op).assigned = false;
  x.plan.of(op).level_count = 0;
  return true;
}
inline bool outside_of_the_grid(plan_injection& x) {
  const std::vector<int> all = x.ops([&](int op) { return is_forward_op(x, op) && x.plan.of(op).level_count < max_levels; });
  if (all.empty()) return false;
  const int op = x.any(all);
  x.say_op(op, "a coordinate outside the grid");
  x.plan.op_assign(x.ref(op), at{"faulty", x.below(2) == 0 ? -1 : 2, 2});
  return true;
}
inline bool unknown_name(plan_injection& x) {
  x.words = "an op that is not there";
  (void)x.plan.ops("no such op*");
  return true;
}
inline bool axis_that_an_op_lacks(plan_injection& x) {
  cuttable l;
  if (!any_letter(x, false, l)) return false;
  const std::vector<int> all = x.ops([&](int op) { return is_forward_op(x, op) && !x.ref(op).has(axis_of_letter(x, l)); });
  if (all.empty()) return false;
  const int op = x.any(all);
  x.say_op(op, "a cut along an axis that the op lacks");
  x.plan.op_trans(x.ref(op), cut_axis{axis_of_letter(x, l), 2, mode_name("faulty")});
  return true;
}
inline bool order_of_nothing(plan_injection& x) {
  x.words = "an order of what is not there";
  x.plan.op_order(moment{}.at("no such stage", 0), moment{}.of(pass::update));
  return true;
}
// An op before one whose result it needs.
inline bool order_against_data(plan_injection& x) {
  const std::vector<int> all = x.ops([&](int op) {
    op_entry const& e = x.g.ops[op];
    if (!is_forward_op(x, op) || e.input_count == 0 || e.info->is_output) return false;
    return x.g.ops[x.g.tensors[x.g.input(e, 0)].op].info->source == source_kind::none;
  });
  if (all.empty()) return false;
  const int op = x.any(all);
  x.say_op(op, "an order against the data");
  x.plan.op_order(x.ref(op), x.ref(x.g.tensors[x.g.input(x.g.ops[op], 0)].op));
  return true;
}
inline bool orders_in_a_circle(plan_injection& x) {
  const std::vector<int> all = x.ops([&](int op) { return is_forward_op(x, op); });
  if (all.size() < 3) return false;
  const int a = x.any(all), b = x.any(all), c = x.any(all);
  if (a == b || b == c || a == c) return false;
  x.say_op(a, "orders in a circle");
  x.plan.op_order(x.ref(a), x.ref(b));
  x.plan.op_order(x.ref(b), x.ref(c));
  x.plan.op_order(x.ref(c), x.ref(a));
  return true;
}
inline bool backward_first(plan_injection& x) {
  x.words = "all backward ops before all forward ops";
  x.plan.op_order(moment{}.of(pass::backward), moment{}.of(pass::forward));
  return true;
}

// -- of moves, sums over time and lists of devices
inline node_selection any_node(plan_injection& x, bool sums, int& id) {
  std::vector<int> all;
  for (int k = 0; k < x.c.nodes.size; ++k) {
    node const& n = x.c.nodes[k];
    if (sums ? !detail::sums_over_time(x.c, n) : n.kind != node_kind::move) continue;
    bool said = false;
    for (node_plan const& e : x.plan.nodes()) said = said || e.key.tensor == x.c.values[n.first_value].tensor;
    if (!said && x.g.operand_of(x.c.values[n.first_value].tensor).rank > 0) all.push_back(k);
  }
  node_selection s;
  id = all.empty() ? -1 : x.any(all);
  if (id >= 0) s.keys.push({sums ? between::accumulate : between::move, x.c.values[x.c.nodes[id].first_value].tensor, -1});
  return s;
}
inline bool node_cut_in_time(plan_injection& x, bool sums) {
  int id = -1;
  const node_selection s = any_node(x, sums, id);
  if (id < 0) return false;
  x.say_node(id, "a node cut by a mode that is no dimension");
  x.plan.op_assign(s, grid{}, 1);
  x.plan.op_trans(s, cut_axis{x.g.operand_of(s.keys[0].tensor).axes[0], 2, mode_name("faulty")}, 1);
  return true;
}
inline bool node_with_other_pieces(plan_injection& x, bool sums) {
  int id = -1;
  const node_selection s = any_node(x, sums, id);
  if (id < 0) return false;
  x.say_node(id, "a node of more pieces than its grid");
  x.plan.op_assign(s, grid{{"faulty", 2}}, 1);
  x.plan.op_trans(s, cut_axis{x.g.operand_of(s.keys[0].tensor).axes[0], 3, mode_name("faulty")}, 1);
  return true;
}
inline bool sum_of_no_terms(plan_injection& x) {
  const std::vector<int> all = x.ops([&](int op) {
    for (int id = 0; id < x.c.nodes.size; ++id)
      if (detail::sums_over_time(x.c, x.c.nodes[id]) && x.c.nodes[id].op == op) return false;
    return is_forward_op(x, op) && x.g.ops[op].info->output_count == 1;
  });
  if (all.empty()) return false;
  const int op = x.any(all);
  x.say_op(op, "a sum of what is no sum");
  x.plan.op_assign(x.plan.accumulates(x.ref(op)), grid{}, 1);
  return true;
}
inline bool order_against_a_move(plan_injection& x) {
  int id = -1;
  const node_selection s = any_node(x, false, id);
  const int maker = id < 0 ? -1 : x.c.nodes[id].op;
  if (maker < 0 || x.g.ops[maker].info->source != source_kind::none) return false;
  x.say_node(id, "a move before what it moves is made");
  x.plan.op_order(s.keys[0], x.ref(maker), 1);
  return true;
}
inline bool list_too_short(plan_injection& x) {
  const std::vector<int> all =
      x.ops([&](int op) { return x.plan.of(op).assigned && x.plan.of(op).list < 0 && is_forward_op(x, op); });
  if (all.empty()) return false;
  const int op = x.any(all);
  std::vector<int> list;
  for (int d = 0; d <= detail::places_of(x.plan.of(op)); ++d) list.push_back(d);
  x.say_op(op, "a list of another number of devices");
  x.plan.op_assign(x.ref(op), device_list(list.data(), static_cast<int>(list.size())), 1);
  return true;
}
inline bool device_twice(plan_injection& x) {
  const std::vector<int> all = x.ops([&](int op) {
    return x.plan.of(op).assigned && x.plan.of(op).list < 0 && detail::places_of(x.plan.of(op)) > 1 && is_forward_op(x, op);
  });
  if (all.empty()) return false;
  const int op = x.any(all);
  std::vector<int> list(static_cast<std::size_t>(detail::places_of(x.plan.of(op))));
  for (std::size_t d = 0; d < list.size(); ++d) list[d] = static_cast<int>(d);
  list.back() = list.front();
  x.say_op(op, "one device twice");
  x.plan.op_assign(x.ref(op), device_list(list.data(), static_cast<int>(list.size())), 1);
  return true;
}

// -- in completed plans
// Two devices of a layout's grid in each other's place.
inline bool devices_in_another_order(plan_injection& x, bool of_value) {
  const std::vector<int> all =
      x.nodes([&](node const& n) { return n.value_count > 0 && n.kind != node_kind::store && n.over.where.size() > 1; });
  if (all.empty()) return false;
  const int id = x.any(all);
  node& n = x.c.nodes[id];
  placement& w = of_value ? x.c.values[n.first_value + x.below(n.value_count)].lay.where : n.over.where;
  if (w.size() < 2) return false;
  std::vector<int> list;
  for (int i = 0; i < w.size(); ++i) list.push_back(w.device_at(i));
  const std::size_t a = static_cast<std::size_t>(x.below(w.size()));
  std::swap(list[a], list[(a + 1) % list.size()]);
  x.lists.push_back(std::move(list));
  w.list = x.lists.back().data();
  w.base = 0;
  for (int l = w.rank - 1, stride = 1; l >= 0; stride *= w.extents[l--]) w.strides[l] = stride;
  x.say_node(id, "two devices in each other's place");
  return true;
}
// A node that a policy has said something about, made in another way.
inline bool not_as_said(plan_injection& x) {
  const std::vector<int> all = x.nodes([](node const& n) { return n.said >= 0; });
  if (all.empty()) return false;
  const int id = x.any(all);
  node& n = x.c.nodes[id];
  layout& made = x.c.values[n.first_value].lay;
  for (int p = 0; p < made.count; ++p) {
    if (made.parts[p].in_time()) continue;
    for (int q = p; q + 1 < made.count; ++q) made.parts[q] = made.parts[q + 1];
    --made.count;
    n.over = without_copies(made);
    x.say_node(id, "whole, and said to be cut");
    return true;
  }
  return false;
}
inline bool change_left_out(plan_injection& x, node_kind kind) {
  struct place {
    int node, input;
  };
  std::vector<place> all;
  for (int id = 0; id < x.c.nodes.size; ++id)
    for (int i = 0; i < x.c.nodes[id].input_count; ++i)
      if (!x.is_variadic(x.c.nodes[id]) && x.c.nodes[x.c.values[x.c.input(x.c.nodes[id], i)].node].kind == kind)
        all.push_back({id, i});
  if (all.empty()) return false;
  const place p = x.any(all);
  x.say_node(p.node, kind == node_kind::move ? "a move left out" : "pieces in time not put together");
  int& input = x.c.inputs[x.c.nodes[p.node].first_input + p.input];
  input = x.c.input(x.c.nodes[x.c.values[input].node], 0);
  return true;
}
inline bool other_value(plan_injection& x, bool same_tensor) {
  const std::vector<int> all = x.nodes([&](node const& n) { return n.input_count > 0 && !x.is_variadic(n); });
  if (all.empty()) return false;
  const int id = x.any(all);
  int& input = x.c.inputs[x.c.nodes[id].first_input + x.below(x.c.nodes[id].input_count)];
  std::vector<int> others;
  for (int v = 0; v < x.c.values.size; ++v)
    if (v != input && (x.c.values[v].tensor == x.c.values[input].tensor) == same_tensor) others.push_back(v);
  if (others.empty()) return false;
  x.say_node(id, same_tensor ? "the tensor in another layout" : "another tensor");
  input = x.any(others);
  return true;
}
// `of_value`: in the layout of what is made, else in the cuts of the node that makes it.
inline bool layout_otherwise(plan_injection& x, bool of_value, int which) {
  const std::vector<int> all = x.nodes([&](node const& n) { return n.value_count > 0 && n.kind != node_kind::store; });
  if (all.empty()) return false;
  const int id = x.any(all);
  node& n = x.c.nodes[id];
  layout& l = of_value ? x.c.values[n.first_value + x.below(n.value_count)].lay : n.over;
  if (which == 5) {
    if (x.c.devices < 2 || l.where.list != nullptr) return false;
    x.say_node(id, "another device");
    l.where.base = l.where.base > 0 ? l.where.base - 1 : 1;
    return true;
  }
  if (l.count == 0) return false;
  const int k = x.below(l.count);
  part& p = l.parts[k];
  switch (which) {
    case 0:  // a part less
      for (int q = k; q + 1 < l.count; ++q) l.parts[q] = l.parts[q + 1];
      --l.count;
      x.say_node(id, "a part less");
      return true;
    case 1:
      ++p.pieces;
      x.say_node(id, "a piece more");
      return true;
    case 2:
      if (l.where.rank < 2 || p.level < 0) return false;
      p.level = static_cast<signed char>((p.level + 1) % l.where.rank);
      x.say_node(id, "another dimension of the grid");
      return true;
    case 3:
      p.axis = p.axis < 0 ? 0 : -1;
      x.say_node(id, "partial for whole, or whole for partial");
      return true;
    default:
      if (p.level < 0 || l.where.rank == 0) return false;
      p.level = -1;
      x.say_node(id, "in time instead of space");
      return true;
  }
}
inline bool time_otherwise(plan_injection& x) {
  const std::vector<int> all = x.nodes([](node const& n) { return n.time.count > 0; });
  if (all.empty()) return false;
  const int id = x.any(all);
  x.say_node(id, "an index in time less");
  time_modes& t = x.c.nodes[id].time;
  if (x.below(2) == 0) --t.count;
  else --t.extents[x.below(t.count)];
  return true;
}
inline bool not_renewed(plan_injection& x) {
  std::vector<int> all;
  for (int t = 0; t < x.c.renewed_by.size; ++t)
    if (x.c.renewed_by[t] >= 0) all.push_back(t);
  if (all.empty()) return false;
  const int t = x.any(all);
  x.words = "no node renews " + std::string(x.g.name(x.g.tensors[t].op).view());
  x.c.renewed_by[t] = -1;
  return true;
}
inline bool renewed_by_another(plan_injection& x) {
  std::vector<int> all;
  for (int t = 0; t < x.c.renewed_by.size; ++t)
    if (x.c.renewed_by[t] >= 0) all.push_back(t);
  if (all.size() < 2) return false;
  const int t = x.any(all), other = x.any(all);
  if (x.c.renewed_by[t] == x.c.renewed_by[other]) return false;
  x.words = "another node is said to renew " + std::string(x.g.name(x.g.tensors[t].op).view());
  x.c.renewed_by[t] = x.c.renewed_by[other];
  return true;
}
}  // namespace plan_faults

inline std::vector<plan_fault> all_plan_faults() {
  using namespace plan_faults;
  std::vector<plan_fault> all{
      {"another number of pieces than the grid has", true, other_number_of_pieces},
      {"sizes that do not sum to the extent", true, sizes_that_do_not_sum},
      {"a whole axis is cut", true, cut_of_a_whole_axis},
      {"more pieces in space than elements", true, more_pieces_than_elements},
      {"one mode cuts twice", true, mode_twice},
      {"one dimension is assigned twice", true, dimension_twice},
      {"an op is on no device", true, nowhere},
      {"a coordinate is outside the grid", true, outside_of_the_grid},
      {"an op is named that is not there", true, unknown_name},
      {"a cut is along an axis that the op lacks", true, axis_that_an_op_lacks},
      {"an order names nothing", true, order_of_nothing},
      {"an order is against the data", true, order_against_data},
      {"orders go in a circle", true, orders_in_a_circle},
      {"backward comes before forward", true, backward_first},
      {"a sum is cut by a mode that is no dimension", true, [](plan_injection& x) { return node_cut_in_time(x, true); }},
      {"a move is cut by a mode that is no dimension", true, [](plan_injection& x) { return node_cut_in_time(x, false); }},
      {"a sum has more pieces than its grid", true, [](plan_injection& x) { return node_with_other_pieces(x, true); }},
      {"a move has more pieces than its grid", true, [](plan_injection& x) { return node_with_other_pieces(x, false); }},
      {"a sum is said of what is no sum", true, sum_of_no_terms},
      {"a move comes before what it moves", true, order_against_a_move},
      {"a list has another number of devices than the grid", true, list_too_short},
      {"a device stands twice in a list", true, device_twice},
      {"a node lies otherwise than it was said", false, not_as_said},
      {"what is made is on devices in another order", false, [](plan_injection& x) { return devices_in_another_order(x, true); }},
      {"a node runs on devices in another order", false, [](plan_injection& x) { return devices_in_another_order(x, false); }},
      {"a move is left out", false, [](plan_injection& x) { return change_left_out(x, node_kind::move); }},
      {"pieces in time are not put together", false, [](plan_injection& x) { return change_left_out(x, node_kind::assemble); }},
      {"the tensor is read in another layout", false, [](plan_injection& x) { return other_value(x, true); }},
      {"another tensor is read", false, [](plan_injection& x) { return other_value(x, false); }},
      {"a node has an index in time less", false, time_otherwise},
      {"no node renews a stored tensor", false, not_renewed},
      {"another node is said to renew a stored tensor", false, renewed_by_another},
  };
  const char* names[]{"a part less",       "a piece more",   "another dimension",
                      "partial for whole", "time for space", "another device"};
  for (bool of_value : {true, false})
    for (int which = 0; which < 6; ++which)
      all.push_back({std::string(of_value ? "what is made has " : "a node has ") + names[which], false,
                     [=](plan_injection& x) { return layout_otherwise(x, of_value, which); }});
  return all;
}

// Is a completed plan wrong by the programs made of it?
inline bool makes_wrong_programs(graph_data const& g, plan_base const& plan, completed const& c) {
  try {
    const lowering shared(g, plan, c);
    std::vector<program> programs;
    for (int rank = 0; rank < c.devices; ++rank) programs.push_back(lower(shared, rank));
    return static_cast<bool>(check_programs(g, programs));
  } catch (std::exception const&) { return true; }
}

}  // namespace partita::testing
