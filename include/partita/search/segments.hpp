// Makes a chain of segments of a traced model: its forward ops with the backward ops that they cause and the parameters that
// they read, cut where a block (an indexed scope: "block.3") begins or ends.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include <partita/core/words.hpp>
#include <partita/grad/training.hpp>
#include <partita/search/beside_chain.hpp>
#include <partita/search/repeated_blocks.hpp>
#include <partita/search/segmented_model.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

namespace detail {

class segmenter {
 public:
  constexpr segmenter(graph_data const& g, int forward_ops)
      : g_(g), forward_(forward_ops), caused_(g, forward_ops), repeated_(g, forward_ops, caused_) {}
  constexpr segmented_model run(bool all_apart) {
    m_.graph = &g_;
    find_batch();
    m_.tensors.resize(at(repeated_.forward_tensors()));
    segment_of_.assign(at(forward_), -1);
    weight_seen_.resize(forward_);
    conversion_seen_ = weight_seen_;
    for (int op = 0; op < forward_;) {
      const int scope = block_scope(op);
      if (scope != block_.scope) {
        const block before = block_;
        block_ = {scope, op, m_.segments.size()};
        if (!all_apart && add_repeated(before)) {
          op += op - before.begin;
          continue;
        }
      }
      add(op++, scope);
    }
    find_shared_weights();
    find_given(m_);
    const beside_chain beside(g_, forward_, caused_);
    beside.find_outputs(m_);
    beside.find_unread(m_, [&](int op) { return segment_of_[at(op)] >= 0; });
    find_crossings();
    join_tied_boundaries();
    find_reads_inside(m_);
    find_turns();
    return std::move(m_);
  }

 private:
  // Ops of one outermost scope with an index, one after another.
  struct block {
    int scope, begin;      // begin: its first op
    std::size_t segments;  // that were there before
  };
  static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }
  constexpr op_entry const& entry(int op) const { return g_.ops[op]; }
  constexpr std::size_t extent(axis_info const* a) const { return g_.extent(a); }

  constexpr void find_batch() {
    for (int op = 0; op < forward_ && m_.batch == nullptr; ++op)
      if (op_info const& f = *entry(op).info; f.source == source_kind::input && f.dim_count > 0) m_.batch = f.dims[0].axis;
    if (m_.batch != nullptr) m_.samples = extent(m_.batch);
  }
  // A block that repeats the one just before it, which is one segment. False: it does not.
  constexpr bool add_repeated(block const& before) {
    const int begin = block_.begin, count = begin - before.begin;
    if (before.scope < 0 || block_.scope < 0 || begin + count > forward_ || m_.segments.size() != before.segments + 1)
      return false;
    for (int op = begin; op < begin + count; ++op)
      if (block_scope(op) != block_.scope) return false;
    if (!repeated_.repeat(before.begin, begin)) return false;
    const int first = entry(before.begin).first_output, tensors = entry(begin).first_output - first;
    const int earlier = static_cast<int>(m_.segments.size()) - 1;
    segment s = named(block_.scope);
    s.ops = segment_ops(m_.segments[at(earlier)].ops, count, tensors, first);
    s.like = m_.segments[at(earlier)].like >= 0 ? m_.segments[at(earlier)].like : earlier;
    for (int op = begin; op < begin + count; ++op)
      if (segment_of_[at(op - count)] >= 0) segment_of_[at(op)] = earlier + 1;
    for (int t = first; t < first + tensors; ++t)
      if (searched_tensor const& x = m_.tensors[at(t)]; x.tensor >= 0) {
        searched_tensor& mine = m_.tensors[at(t + tensors)] = x;
        mine.tensor = t + tensors;
      }
    m_.segments.push_back(std::move(s));
    last_scope_ = block_.scope;
    return true;
  }
  constexpr segment named(int scope) const {
    segment s;
    if (scope < 0) return s;
    text<96> name;
    g_.put_path(name, scope);
    s.name = name.view().substr(0, name.view().size() - 1);
    s.block = g_.scopes[scope].index;
    return s;
  }
  constexpr caused_op caused(int op) const {
    op_entry const& e = entry(op);
    caused_op c;
    c.info = e.info;
    for (int d = 0; d < e.info->dim_count; ++d) {
      c.letter[d] = e.origin_dims[d];
      c.wholes[d] = extent(e.info->dims[d].axis);
    }
    c.of_weights = caused_.of_gradients(op);
    return c;
  }
  constexpr bool reads(int op, int tensor) const {
    bool any = false;
    for (int k = 0; k < entry(op).input_count; ++k) any = any || g_.input(entry(op), k) == tensor;
    return any;
  }
  // The outermost scope that has an index.
  constexpr int block_scope(int op) const {
    int found = -1;
    for (int s = g_.names[entry(op).name].scope; s >= 0; s = g_.scopes[s].parent)
      if (g_.scopes[s].index >= 0) found = s;
    return found;
  }
  constexpr void add(int op, int scope) {
    op_entry const& e = entry(op);
    op_info const& f = *e.info;
    if (f.source != source_kind::none || caused_.of_weights(op)) return;
    if (m_.segments.empty() || scope != last_scope_) {
      m_.segments.push_back(named(scope));
      last_scope_ = scope;
    }
    searched_op x;
    x.inputs.reserve(at(e.input_count));
    x.backward.reserve(caused_.backward(op).size());
    x.op = op;
    x.info = &f;
    for (int d = 0; d < f.dim_count; ++d) {
      x.wholes[d] = extent(f.dims[d].axis);
      x.is_batch[d] = m_.batch != nullptr && f.dims[d].axis->id == m_.batch->id;
      x.may_cut[d] = !f.dims[d].whole && x.wholes[d] != unbound;
    }
    for (int b : caused_.backward(op)) {
      if (!caused_.counts(b)) continue;
      x.backward.push_back(caused(b));
      for (int i = 0; i < std::min<int>(entry(b).input_count, max_inputs); ++i) {
        x.backward.back().waits_with[i] = caused_.waits_with(b, i);
        x.backward.back().waits_again[i] = caused_.waits_again(b, i);
      }
    }
    for (int i = 0; i < e.input_count; ++i) {
      const int t = g_.input(e, i);
      searched_input in;
      in.tensor = t;
      for (int b : caused_.backward(op)) {
        in.backward_reads = in.backward_reads || reads(b, t);
        in.weights_read = in.weights_read || (caused_.of_gradients(b) && reads(b, t));
      }
      in.backward_reads = in.backward_reads || (f.is_view && caused_.read_by_backward(e.first_output));
      in.weights_read = in.weights_read || (f.is_view && caused_.read_by_weights(e.first_output));
      if (caused_.is_weight(t)) {
        in.weight = static_cast<int>(x.weights.size());
        x.weights.push_back(weight(op, f.input(i), t));
      } else in.activation = entry(g_.tensors[t].op).info->source == source_kind::none;
      x.inputs.push_back(in);
    }
    for (int o = 0; o < f.output_count; ++o) {
      const int t = e.first_output + o;
      x.output_kept[o] = caused_.read_by_backward(t);
      x.weights_read_output[o] = caused_.read_by_weights(t);
      for (int b : caused_.backward(op)) {
        x.output_read_by_own[o] = x.output_read_by_own[o] || reads(b, t);
        x.own_weights_read_output[o] = x.own_weights_read_output[o] || (caused_.of_gradients(b) && reads(b, t));
      }
      describe(t);
    }
    segment_of_[at(op)] = static_cast<int>(m_.segments.size()) - 1;
    m_.segments.back().ops.push_back(std::move(x));
  }
  constexpr void describe(int t) {
    searched_tensor& s = m_.tensors[at(t)];
    s.tensor = t;
    s.as = &g_.operand_of(t);
    s.differentiable = g_.tensors[t].differentiable;
    for (int a = 0; a < s.as->rank; ++a) {
      s.wholes[a] = extent(s.as->axes[a]);
      s.is_batch[a] = m_.batch != nullptr && s.as->axes[a]->id == m_.batch->id;
    }
  }
  constexpr double bytes_of(operand const& x) const {
    double b = static_cast<double>(size_of(x.type));
    for (int a = 0; a < x.rank; ++a) b *= static_cast<double>(extent(x.axes[a]));
    return b;
  }
  constexpr searched_weight weight(int reader, operand const& as, int tensor) {
    searched_weight w;
    int t = tensor;
    while (entry(g_.tensors[t].op).info->source != source_kind::parameter) {
      const int through = g_.tensors[t].op;
      w.read_through.push_back(through);
      t = g_.input(entry(through), 0);
    }
    w.op = g_.tensors[t].op;
    op_info const& p = *entry(w.op).info;
    for (int a = 0; a < p.outputs[0].rank; ++a) {
      w.letter[a] = -1;
      for (int b = 0; b < as.rank; ++b)
        if (as.axes[b]->id == p.outputs[0].axes[a]->id && w.letter[a] < 0) w.letter[a] = as.dims[b];
      if (w.letter[a] < 0 && as.rank == p.outputs[0].rank) w.letter[a] = as.dims[a];  // renamed
    }
    w.stored_bytes = bytes_of(p.outputs[0]);
    w.used_bytes = w.read_through.empty() ? 0 : bytes_of(g_.operand_of(tensor));
    w.owned = !weight_seen_[w.op];
    weight_seen_[w.op] = true;
    const int gradient = g_.tensors[t].gradient;
    w.trained = gradient >= 0;
    if (w.trained) {
      w.gradient_bytes = bytes_of(g_.operand_of(gradient));
      w.term_bytes = w.read_through.empty() ? w.gradient_bytes : std::min(w.gradient_bytes, w.used_bytes);
    }
    for (int u : caused_.updates(w.op)) {
      op_info const& f = *entry(u).info;
      if (f.source == source_kind::state) w.state_bytes += bytes_of(f.outputs[0]);
      else if (f.source == source_kind::none && !f.is_view) w.updates.push_back(caused(u));
    }
    add_conversions(w, reader);
    return w;
  }
  constexpr void add_conversions(searched_weight& w, int reader) {
    for (int through : w.read_through) {
      if (entry(through).info->is_view) continue;
      if (!conversion_seen_[through]) w.conversions.push_back(by_axes_of(w.op, through, through));
      conversion_seen_[through] = true;
      for (int b : caused_.backward(through))
        if (!entry(b).info->is_view && !caused_.adds_gradients(b) && made_for(b, reader, w.read_through))
          w.term_conversions.push_back(by_axes_of(w.op, through, b));
    }
  }
  // An op of `through`, which reads a parameter, with the parameter's axes as its letters.
  constexpr caused_op by_axes_of(int parameter, int through, int op) const {
    operand const &stored = entry(parameter).info->outputs[0], &read = entry(through).info->input(0);
    caused_op c = caused(op);
    for (int d = 0; d < c.info->dim_count; ++d) {
      const int letter = c.letter[d], at_axis = letter < 0 ? -1 : read.find(letter);
      c.letter[d] = -1;
      for (int a = 0; a < stored.rank && at_axis >= 0; ++a)
        if (stored.axes[a]->id == read.axes[at_axis]->id || (read.rank == stored.rank && a == at_axis)) c.letter[d] = a;
    }
    return c;
  }
  // Is what this op reads, a term of a parameter's gradient, made by an op that `reader` causes?
  constexpr bool made_for(int op, int reader, std::vector<int> const& read_through) const {
    for (;;) {
      op = g_.tensors[g_.input(entry(op), 0)].op;
      const int origin = entry(op).origin;
      if (origin == reader) return true;
      if (entry(op).when != pass::backward || std::find(read_through.begin(), read_through.end(), origin) == read_through.end())
        return false;
    }
  }
  constexpr void find_shared_weights() {
    std::vector<int> readers(at(forward_), 0);
    auto each = [&](auto&& visit) {
      for (segment& s : m_.segments)
        if (s.like < 0)  // of what is repeated no other segment reads the parameters
          for (searched_op& x : s.ops)
            for (searched_weight& w : x.weights) visit(w);
    };
    each([&](searched_weight const& w) { ++readers[at(w.op)]; });
    each([&](searched_weight& w) { w.readers = readers[at(w.op)]; });
  }
  // Features and heads: axes that an op with a parameter makes, another op of the same block sums, no op of it keeps whole or
  // has twice, and that no tensor has which enters or leaves the block. Of two in one op the one made first is taken.
  constexpr void find_turns() {
    for (segment& s : m_.segments) {
      if (s.block < 0 || s.like >= 0) continue;
      std::vector<axis_info const*> axes;
      for (searched_op const& x : s.ops)
        for (int d = 0; d < x.info->dim_count; ++d)
          if (makes(x, d) && inside(s, x.info->dims[d].axis)) axes.push_back(x.info->dims[d].axis);
      axis_info const* last = nullptr;
      for (axis_info const* axis : axes) {
        auto letter = [&](searched_op const& x) {
          for (int d = 0; d < x.info->dim_count; ++d)
            if (x.info->dims[d].axis->id == axis->id) return d;
          return -1;
        };
        if (std::any_of(s.ops.begin(), s.ops.end(),
                        [&](searched_op const& x) { return letter(x) >= 0 && x.turns_along >= 0 && x.turns_along != letter(x); }))
          continue;
        for (searched_op& x : s.ops)
          if (const int d = letter(x); d >= 0) x.turns_along = d;
      }
      for (std::size_t i = s.ops.size(); i-- > 0;)
        if (searched_op& x = s.ops[i]; x.turns_along >= 0) {
          axis_info const* const mine = x.info->dims[x.turns_along].axis;
          if (last == nullptr) last = mine;
          x.turns_last = mine->id == last->id;
        }
    }
  }
  constexpr bool makes(searched_op const& x, int d) const {
    if (x.weights.empty()) return false;
    bool of_weight = false;
    for (searched_weight const& w : x.weights)
      for (int a = 0; a < entry(w.op).info->outputs[0].rank; ++a) of_weight = of_weight || w.letter[a] == d;
    for (std::size_t i = 0; i < x.inputs.size(); ++i)
      if (x.inputs[i].weight < 0 && x.info->input(static_cast<int>(i)).find(d) >= 0) return false;
    return of_weight && x.info->outputs[0].find(d) >= 0;
  }
  constexpr bool inside(segment const& s, axis_info const* axis) const {
    auto has = [&](int t) {
      operand const& x = *m_.tensors[at(t)].as;
      return std::any_of(x.axes, x.axes + x.rank, [&](axis_info const* a) { return a->id == axis->id; });
    };
    if (std::any_of(s.enters.begin(), s.enters.end(), has) || std::any_of(s.leaves.begin(), s.leaves.end(), has)) return false;
    bool summed = false;
    for (searched_op const& x : s.ops) {
      int found = 0;
      for (int d = 0; d < x.info->dim_count; ++d)
        if (x.info->dims[d].axis->id == axis->id) {
          ++found;
          if (!x.may_cut[d] || x.is_batch[d]) return false;
          summed = summed || (x.info->dims[d].summed && x.info->outputs[0].find(d) < 0);
        }
      if (found > 1) return false;
    }
    return summed;
  }
  // Per boundary, the tensors that are made before it and read after it.
  constexpr void find_crossings() {
    std::vector<int> last(m_.tensors.size(), -1);
    for (int op = 0; op < forward_; ++op)
      if (const int here = segment_of_[at(op)]; here >= 0)
        for (int i = 0; i < entry(op).input_count; ++i)
          if (const int t = g_.input(entry(op), i); !caused_.is_weight(t)) last[at(t)] = here;
    for (int op = 0; op < forward_; ++op)
      if (const int here = segment_of_[at(op)]; here >= 0)
        for (int t = entry(op).first_output; t < entry(op).first_output + entry(op).info->output_count; ++t)
          for (int b = here; b < last[at(t)]; ++b) {
            m_.segments[at(b)].leaves.push_back(t);
            m_.segments[at(b) + 1].enters.push_back(t);
          }
    // What crosses a block without being read there may differ from what crosses the one that it repeats.
    for (segment& s : m_.segments)
      if (s.like >= 0 && !crossed_alike(m_.segments[at(s.like)], s)) keep_apart(s);
  }
  constexpr bool crossed_alike(segment const& a, segment const& b) const {
    auto alike = [&](int t, int u) { return u - t == b.ops.tensors_higher() && repeated_.are_alike(t, u); };
    return std::equal(a.enters.begin(), a.enters.end(), b.enters.begin(), b.enters.end(), alike) &&
           std::equal(a.leaves.begin(), a.leaves.end(), b.leaves.begin(), b.leaves.end(), alike);
  }
  static constexpr void keep_apart(segment& s) {
    s.ops.own();
    s.like = -1;
  }
  // More tensors than two across a boundary would each want a layout of their own: such neighbours are one segment.
  constexpr void join_tied_boundaries() {
    auto is_tied = [](segment const& s) { return s.leaves.size() > 2; };
    if (std::none_of(m_.segments.begin(), m_.segments.end(), is_tied)) return;
    for (segment& s : m_.segments) keep_apart(s);
    std::vector<segment> joined;
    for (segment& s : m_.segments) {
      if (joined.empty() || !is_tied(joined.back())) {
        joined.push_back(std::move(s));
        continue;
      }
      segment& into = joined.back();
      into.name = {};
      into.block = -1;
      for (searched_op& x : s.ops) into.ops.push_back(std::move(x));
      into.leaves = s.leaves;
    }
    m_.segments = std::move(joined);
  }

  graph_data const& g_;
  int forward_;
  caused_ops caused_;
  repeated_blocks repeated_;
  segmented_model m_;
  std::vector<int> segment_of_;  // by forward op: where it is in the chain, or -1
  growing<bool> weight_seen_, conversion_seen_;
  block block_{-2, 0, 0};  // that is being read
  int last_scope_ = -2;
};
}  // namespace detail

// `forward_ops`: how many of the graph's ops are the model's own; they come first. Kinds are named by `name_kinds` when
// rules are set. `all_apart`: every block is read by itself, whatever it repeats.
constexpr segmented_model find_segments(graph_data const& g, int forward_ops, bool all_apart = false) {
  return detail::segmenter(g, forward_ops).run(all_apart);
}

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
