// What of a model no op of its chain runs or reads: parameters that are given out, and what nothing reads. Devices hold it.
#pragma once
#include <utility>
#include <vector>

#include <partita/search/caused_ops.hpp>
#include <partita/search/segmented_model.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces::detail {

class beside_chain {
 public:
  constexpr beside_chain(graph_data const& g, int forward_ops, caused_ops const& caused)
      : g_(g), forward_(forward_ops), caused_(caused) {}

  // Outputs that are parameters count where these are read first, and so does what is made of a parameter for an output alone.
  constexpr void find_outputs(segmented_model& m) const {
    growing<bool> seen;  // what lies as the chain's ops, or an earlier output, want it
    seen.resize(forward_);
    for (segment const& s : m.segments)
      if (s.like < 0)  // nothing of what is repeated is given out
        for (searched_op const& x : s.ops)
          for (searched_weight const& w : x.weights)
            for (int through : w.read_through) seen[through] = true;
    for (int op = 0; op < forward_; ++op)
      if (gives_out_a_weight(op))
        for (segment& s : m.segments)
          if (s.like < 0)
            for (searched_op& x : s.ops)
              for (searched_weight& w : x.weights)
                if (w.owned && w.op == parameter_of(op)) w.outputs.push_back(output_of(w.op, op, seen));
  }
  // Parameters and inputs that nothing reads, and what is made of them, lie whole on the first stage.
  // `in_chain(op)`: is the op of some segment?
  template <class InChain> constexpr void find_unread(segmented_model& m, InChain&& in_chain) const {
    growing<bool> read;
    read.resize(g_.ops.size);
    for (int op = 0; op < forward_; ++op)
      for (int i = 0; i < g_.ops[op].input_count && in_chain(op); ++i) {
        const int tensor = g_.input(g_.ops[op], i), maker = g_.tensors[tensor].op;
        read[caused_.is_weight(tensor) ? parameter_of(maker) : maker] = true;
      }
    for (int op = 0; op < forward_; ++op) {
      op_info const& f = *g_.ops[op].info;
      const bool source = f.source == source_kind::parameter || f.source == source_kind::input;
      if (!source && !takes_room(op)) continue;
      if (!read[source ? op : parameter_of(op)]) m.unread += bytes_of(f.outputs[0]);
    }
  }

 private:
  constexpr bool gives_out_a_weight(int op) const { return g_.ops[op].info->is_output && caused_.of_weights(op); }
  // Is it made of parameters, and no view of what is there already? An output is a copy of a parameter, which changes.
  constexpr bool takes_room(int op) const {
    if (!caused_.of_weights(op)) return false;
    if (!g_.ops[op].info->is_view) return true;
    int from = op;
    while (g_.ops[from].info->is_view) from = maker_of(from);
    return g_.ops[op].info->is_output && g_.ops[from].info->source == source_kind::parameter;
  }
  constexpr int parameter_of(int op) const {
    while (g_.ops[op].info->source == source_kind::none) op = maker_of(op);
    return op;
  }
  constexpr given_out output_of(int parameter, int op, growing<bool>& seen) const {
    given_out out;
    out.op = op;
    out.as = by_axes_of(parameter, op);
    caused_op const* made = &out.as;
    auto has = [](caused_op const& x, int axis) {
      for (int d = 0; d < x.info->dim_count; ++d)
        if (x.letter[d] == axis && !x.info->dims[d].whole) return true;
      return false;
    };
    for (int from = maker_of(op); from != parameter; from = maker_of(from)) {
      const op_of_weight before{from, by_axes_of(parameter, from)};
      for (int a = 0; a < g_.ops[parameter].info->outputs[0].rank; ++a)
        out.moved = out.moved || (has(before.as, a) && !has(*made, a));
      if (std::exchange(seen[from], true)) break;
      out.through.insert(out.through.begin(), before);
      made = &out.through.front().as;
    }
    return out;
  }
  constexpr int maker_of(int op) const { return g_.tensors[g_.input(g_.ops[op], 0)].op; }
  // An op with the parameter's axes as its letters, by name or, where the parameter has none of that name, by place.
  constexpr caused_op by_axes_of(int parameter, int op) const {
    op_info const& f = *g_.ops[op].info;
    operand const &stored = g_.ops[parameter].info->outputs[0], &given = f.outputs[0];
    caused_op c;
    c.info = &f;
    for (int d = 0; d < f.dim_count; ++d) {
      c.wholes[d] = g_.extent(f.dims[d].axis);
      c.letter[d] = -1;
      for (int a = 0; a < stored.rank; ++a)
        if (stored.axes[a]->id == f.dims[d].axis->id) c.letter[d] = a;
      if (c.letter[d] < 0 && given.rank == stored.rank) c.letter[d] = given.find(d);
    }
    return c;
  }
  constexpr double bytes_of(operand const& x) const {
    double bytes = static_cast<double>(size_of(x.type));
    for (int a = 0; a < x.rank; ++a) bytes *= static_cast<double>(g_.extent(x.axes[a]));
    return bytes;
  }

  graph_data const& g_;
  int forward_;
  caused_ops const& caused_;
};

}  // namespace partita::spaces::detail

#include <partita/core/end_planning_code.hpp>
