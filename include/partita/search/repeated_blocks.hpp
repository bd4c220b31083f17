// Recognises a block that is traced as the one before it was: what has been read of the one holds for the other, with every
// id so much higher.
#pragma once
#include <algorithm>
#include <vector>

#include <partita/search/caused_ops.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces::detail {

class repeated_blocks {
 public:
  constexpr repeated_blocks(graph_data const& g, int forward_ops, caused_ops const& caused) : g_(g), caused_(caused) {
    forward_tensors_ = forward_ops < g.ops.size ? g.ops[forward_ops].first_output : g.tensors.size;
    last_reader_.assign(static_cast<std::size_t>(forward_tensors_), -1);
    for (int op = 0; op < forward_ops; ++op)
      for (int i = 0; i < g.ops[op].input_count; ++i) last_reader_[static_cast<std::size_t>(g.input(g.ops[op], i))] = op;
  }
  // Tensors that forward ops make come first.
  constexpr int forward_tensors() const { return forward_tensors_; }
  // Are two tensors of one form?
  constexpr bool are_alike(int t, int u) const {
    operand const &x = g_.operand_of(t), &y = g_.operand_of(u);
    return x.type == y.type && g_.tensors[t].differentiable == g_.tensors[u].differentiable &&
           std::equal(x.axes, x.axes + x.rank, y.axes, y.axes + y.rank,
                      [](axis_info const* p, axis_info const* q) { return p->id == q->id; });
  }
  // Do as many forward ops from `begin` on repeat those from `earlier` up to it? Their infos, wiring, names of axes and extents
  // (which infos have), what they cause and what reads them are compared, so that reading would find the same. Parameters that
  // others read too are not taken for repeated: who reads them first, and how many do, does not follow from the block.
  constexpr bool repeat(int earlier, int begin) {
    ops_ = begin - earlier;
    first_ = g_.ops[earlier].first_output;
    tensors_ = g_.ops[begin].first_output - first_;
    end_ = begin;
    gradients_known_ = false;
    for (int op = earlier; op < begin; ++op)
      if (!is_alike(op, op + ops_)) return false;
    return true;
  }

 private:
  constexpr bool is_alike(int a, int b) {
    op_entry const &x = g_.ops[a], &y = g_.ops[b];
    if (x.info != y.info || x.input_count != y.input_count || y.first_output - x.first_output != tensors_) return false;
    for (int i = 0; i < x.input_count; ++i)
      if (!reads_alike(g_.input(x, i), g_.input(y, i))) return false;
    for (int o = 0; o < x.info->output_count; ++o)
      if (!is_read_alike(x.first_output + o)) return false;
    return causes_alike(caused_.backward(a), caused_.backward(b), true) &&
           causes_alike(caused_.updates(a), caused_.updates(b), false);
  }
  constexpr bool reads_alike(int t, int u) const {
    if (t >= first_) return u - t == tensors_;
    if (caused_.is_weight(t) || caused_.is_weight(u)) return false;
    if (t == u) return is_source(t);
    return u - t == tensors_ && !is_source(t) && !is_source(u) && are_alike(t, u);
  }
  // A tensor that the earlier block makes, and its like.
  constexpr bool is_read_alike(int t) {
    const int u = t + tensors_, last = last_reader_[static_cast<std::size_t>(t)],
              next = last_reader_[static_cast<std::size_t>(u)];
    tensor_entry const &x = g_.tensors[t], &y = g_.tensors[u];
    if (last < 0 ? next >= 0 : next - last != ops_) return false;
    if (last >= end_ && caused_.is_weight(t)) return false;
    if (x.differentiable != y.differentiable || caused_.read_by_backward(t) != caused_.read_by_backward(u) ||
        caused_.read_by_weights(t) != caused_.read_by_weights(u))
      return false;
    return x.gradient < 0 || y.gradient < 0 ? x.gradient < 0 && y.gradient < 0 : is_gradient_alike(x.gradient, y.gradient);
  }
  constexpr bool causes_alike(std::span<int const> some, std::span<int const> others, bool backward) {
    if (some.size() != others.size()) return false;
    for (std::size_t k = 0; k < some.size(); ++k) {
      op_entry const &x = g_.ops[some[k]], &y = g_.ops[others[k]];
      if (x.info != y.info || !std::equal(x.origin_dims, x.origin_dims + max_dims, y.origin_dims)) return false;
      if (!backward) continue;
      if (x.input_count != y.input_count || caused_.of_gradients(some[k]) != caused_.of_gradients(others[k])) return false;
      if (x.info->output_count > 0 && !is_gradient_alike(x.first_output, y.first_output)) return false;
      for (int i = 0; i < x.input_count; ++i)
        if (!is_read_backward_alike(g_.input(x, i), g_.input(y, i)) ||
            caused_.waits_with(some[k], i) != caused_.waits_with(others[k], i) ||
            caused_.waits_again(some[k], i) != caused_.waits_again(others[k], i))
          return false;
    }
    return true;
  }
  constexpr bool is_read_backward_alike(int t, int u) {
    if (t == u) return is_source(t);
    if (t >= forward_tensors_) return u >= forward_tensors_ && is_gradient_alike(t, u);
    return u - t == tensors_;
  }
  // Backward ops stand in the other order, at a distance of their own.
  constexpr bool is_gradient_alike(int t, int u) {
    if (!gradients_known_) gradients_ = u - t;
    gradients_known_ = true;
    return u - t == gradients_;
  }
  constexpr bool is_source(int t) const { return g_.ops[g_.tensors[t].op].info->source != source_kind::none; }

  graph_data const& g_;
  caused_ops const& caused_;
  int forward_tensors_ = 0;
  std::vector<int> last_reader_;               // by tensor, the last forward op that reads it
  int ops_ = 0, tensors_ = 0, gradients_ = 0;  // so much higher
  int first_ = 0, end_ = 0;                    // the earlier block's first tensor; the op behind it
  bool gradients_known_ = false;
};

}  // namespace partita::spaces::detail

#include <partita/core/end_planning_code.hpp>
