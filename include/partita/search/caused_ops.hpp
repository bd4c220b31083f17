// What the forward ops of a traced model cause, found in one pass over its graph: their backward ops and updates, and what
// those read.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include <partita/policy/weight_gradients.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces::detail {

class caused_ops {
 public:
  // `forward_ops`: how many of the graph's ops are the model's own; they come first.
  constexpr caused_ops(graph_data const& g, int forward_ops) : g_(g), forward_(forward_ops) {
    of_gradients_.resize(g.ops.size);
    const selection of_parameters = policy::detail::weight_gradients(g);
    for (int i = 0; i < of_parameters.ids.size; ++i) of_gradients_[of_parameters.ids[i]] = true;
    collect();
    find_weights();
    find_waits();
  }
  // Of a forward op, in the graph's order.
  constexpr std::span<int const> backward(int op) const { return between(2 * op); }
  constexpr std::span<int const> updates(int op) const { return between(2 * op + 1); }
  // Is a tensor a parameter, or what an op makes of parameters alone?
  constexpr bool is_weight(int tensor) const {
    const int op = g_.tensors[tensor].op;
    return op < forward_ && (g_.ops[op].info->source == source_kind::parameter || of_weights_[op]);
  }
  constexpr bool of_weights(int op) const { return of_weights_[op]; }
  // Do the gradients of parameters alone wait for it?
  constexpr bool of_gradients(int op) const { return of_gradients_[op]; }
  // Of what backward ops read, a view is followed to what it is a view of.
  constexpr bool read_by_backward(int tensor) const { return read_by_backward_[tensor]; }
  // The same of ops that the gradients of parameters alone wait for.
  constexpr bool read_by_weights(int tensor) const { return read_by_weights_[tensor]; }
  // What stands with caused_op::waits_with and waits_again.
  constexpr bool waits_with(int op, int input) const { return waits_[g_.ops[op].first_input + input]; }
  constexpr bool waits_again(int op, int input) const { return again_[g_.ops[op].first_input + input]; }
  // Does a backward op count where its forward op does? A sum of what several readers give counts where they read.
  constexpr bool counts(int op) const {
    op_info const& f = *g_.ops[op].info;
    return f.source == source_kind::none && !f.is_view && !adds_gradients(op);
  }
  constexpr bool adds_gradients(int op) const {
    op_entry const& e = g_.ops[op];
    if (!e.info->passes_partial || e.info->kind != "add") return false;
    op_entry const& maker = g_.ops[e.origin];
    for (int o = 0; o < maker.info->output_count; ++o)
      for (int t = g_.tensors[maker.first_output + o].gradient; t >= 0;) {
        if (g_.tensors[t].op == op) return true;
        op_entry const& sum = g_.ops[g_.tensors[t].op];
        t = sum.origin == e.origin && sum.info->kind == "add" && sum.input_count == 2 ? g_.input(sum, 0) : -1;
      }
    return false;
  }

 private:
  static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }
  constexpr std::span<int const> between(int list) const {
    int const* const begin = &begin_[at(list)];
    return {ops_.data() + begin[0], ops_.data() + begin[1]};
  }
  constexpr void collect() {
    begin_.assign(2 * at(forward_) + 2, 0);
    read_by_backward_.resize(g_.tensors.size);
    read_by_weights_ = read_by_backward_;
    std::vector<int> list(at(g_.ops.size - forward_), -1);
    for (int op = forward_; op < g_.ops.size; ++op) {
      op_entry const& e = g_.ops[op];
      const bool backward = e.when == pass::backward;
      for (int i = 0; backward && i < e.input_count; ++i) {
        mark_as_read(g_.input(e, i), read_by_backward_);
        if (of_gradients_[op]) mark_as_read(g_.input(e, i), read_by_weights_);
      }
      if (e.origin >= forward_) continue;
      ++begin_[at(list[at(op - forward_)] = 2 * e.origin + !backward) + 1];
    }
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    ops_.assign(at(begin_.back()), -1);
    std::vector<int> next = begin_;
    for (int op = forward_; op < g_.ops.size; ++op)
      if (const int mine = list[at(op - forward_)]; mine >= 0) ops_[at(next[at(mine)]++)] = op;
  }
  constexpr void mark_as_read(int tensor, growing<bool>& read) const {
    for (int t = tensor; !read[t];) {
      read[t] = true;
      if (op_entry const& maker = g_.ops[g_.tensors[t].op]; maker.info->is_view) t = g_.input(maker, 0);
    }
  }
  constexpr void find_weights() {
    of_weights_.resize(forward_);
    for (int op = 0; op < forward_; ++op) {
      op_entry const& e = g_.ops[op];
      bool alone = e.info->source == source_kind::none && e.input_count > 0;
      for (int i = 0; i < e.input_count && alone; ++i) alone = is_weight(g_.input(e, i));
      of_weights_[op] = alone;
    }
  }
  constexpr void find_waits() {
    waits_.resize(g_.edges.size);
    again_ = waits_;
    std::vector<int> waits_first(at(g_.tensors.size), -1);  // the first op whose gradients of weights wait with a tensor, or -1
    for (int op = 0; op < forward_; ++op) {
      if (g_.ops[op].info->source != source_kind::none || of_weights_[op]) continue;
      for (int b : backward(op)) {
        if (!of_gradients_[b] || !counts(b)) continue;
        op_entry const& e = g_.ops[b];
        for (int i = 0; i < std::min<int>(e.input_count, max_inputs); ++i) {
          const int t = g_.input(e, i), maker = g_.tensors[t].op;
          if (g_.ops[maker].when != pass::backward || of_gradients_[maker]) continue;
          int& first = waits_first[at(t)];
          waits_[e.first_input + i] = first != op;
          again_[e.first_input + i] = first >= 0 && first != op && reads_of(op, first);
          if (first < 0) first = op;
        }
      }
    }
  }
  constexpr bool reads_of(int op, int maker) const {
    for (int k = 0; k < g_.ops[op].input_count; ++k)
      if (g_.tensors[g_.input(g_.ops[op], k)].op == maker) return true;
    return false;
  }

  graph_data const& g_;
  int forward_;
  std::vector<int> begin_, ops_;  // lists of ops: of a forward op's backward ops, of its updates, of the next one's and so on
  growing<bool> of_weights_, of_gradients_, read_by_backward_, read_by_weights_;
  growing<bool> waits_, again_;  // by edge of the graph
};

}  // namespace partita::spaces::detail

#include <partita/core/end_planning_code.hpp>
