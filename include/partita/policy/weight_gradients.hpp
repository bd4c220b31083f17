// The ops that only the gradients of parameters wait for: those half of the backward pass that no other stage needs.
#pragma once
#include <partita/plan/plan.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::policy::detail {

// An op belongs to them if it makes the gradient of a parameter, of a view of one or of a parameter under another type, or a
// term of it, and everything that reads what it makes belongs to them or to the update. (A norm's op that makes the gradients
// of its input and of its scale at once does not.)
constexpr selection weight_gradients(graph_data const& g) {
  growing<bool> of_parameters, makes;  // per op
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    bool all = e.info->source == source_kind::parameter ||
               (e.info->source == source_kind::none && e.when == pass::forward && e.input_count > 0);
    for (int i = 0; i < e.input_count; ++i) all = all && of_parameters[g.tensors[g.input(e, i)].op];
    of_parameters.push(all);
    makes.push(false);
  }
  for (tensor_entry const& t : g.tensors)
    if (t.gradient >= 0 && of_parameters[t.op]) makes[g.tensors[t.gradient].op] = true;
  growing<bool> others;  // per op: something else reads what it makes
  others.resize(g.ops.size);
  selection found{&g, {}, false};
  for (int op = g.ops.size - 1; op >= 0; --op) {
    op_entry const& e = g.ops[op];
    const bool weight = e.when == pass::backward && e.info->source == source_kind::none && makes[op] && !others[op];
    if (weight) found.ids.push(op);
    const bool sum = weight && e.info->passes_partial;  // of terms, each of which makes the gradient too
    for (int i = 0; i < e.input_count; ++i) {
      const int maker = g.tensors[g.input(e, i)].op;
      if (sum) makes[maker] = true;
      if (!weight && e.when != pass::update) others[maker] = true;
    }
  }
  return found;
}

}  // namespace partita::policy::detail

#include <partita/core/end_planning_code.hpp>
