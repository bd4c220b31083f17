// From the completed plan to the program of one rank: its projection of the one order.
#pragma once
#include <partita/core/list.hpp>
#include <partita/core/words.hpp>
#include <partita/plan/complete.hpp>
#include <partita/program/fuse.hpp>
#include <partita/program/lower_move.hpp>
#include <partita/program/lower_ring.hpp>
#include <partita/program/memory.hpp>
#include <partita/program/time_sums.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail {

class rank_lowering {
 public:
  rank_lowering(lowering const& shared, int rank, bool forward_only)
      : s_(shared),
        g_(shared.graph()),
        c_(shared.plan_completed()),
        rank_(rank),
        forward_(forward_only),
        build_(p_),
        moves_(shared, build_, rank),
        rings_(shared, build_, rank),
        sums_(shared) {
    values_.resize(static_cast<std::size_t>(c_.values.size));
  }
  program lower() {
    p_.rank = rank_;
    p_.groups = s_.groups();
    p_.digest = s_.digest();
    for (int id = 0; id < c_.nodes.size; ++id) {
      store(id);
      takes_part_.push_back(s_.takes_part(id, rank_) && (!forward_ || s_.in_forward(id)));
    }
    list<instance> const& order = s_.order();
    for (std::size_t k = 0; k < order.size();) {
      const int bucket = order[k].bucket;
      if (bucket >= 0) build_.begin_bucket();
      do {
        if (takes_part_[static_cast<std::size_t>(order[k].node)]) lower(order[k]);
        build_.next_in_bucket();
        ++k;
      } while (bucket >= 0 && k < order.size() && order[k].bucket == bucket);
      if (bucket >= 0) build_.end_bucket();
    }
    publish();
    if (s_.options().arrange) s_.options().arrange(p_);
    if (s_.options().fuse) fuse_chains(p_, g_, s_.options().workers);
    plan_memory(p_);
    return std::move(p_);
  }

 private:
  list<held>& pieces(int value) {
    list<held>& v = values_[static_cast<std::size_t>(value)];
    if (v.empty()) v.resize(static_cast<std::size_t>(times_of(c_.values[value].lay).size()));
    return v;
  }
  op_info const& info(int op) const { return *g_.ops[op].info; }
  // One entry for each box of a piece.
  static void put_outside(list<outside>& list, int tensor, held const& h, box const& whole, dtype type) {
    std::size_t before = 0;
    for (int k = 0; k < h.piece.count(); ++k) {
      box const& b = h.piece[k];
      outside o;
      o.tensor = tensor;
      o.at = {h.at.buffer, h.at.offset + before * size_of(type)};
      o.rank = b.rank;
      for (int a = 0; a < o.rank; ++a) {
        o.begin[a] = b.at[a].begin;
        o.extents[a] = b.at[a].size;
        o.whole[a] = whole.at[a].size;
      }
      list.push_back(o);
      before += b.elements();
    }
  }

  // Sources have no instructions. Stored ones come first and in both programs, so that they lie at the same addresses.
  void store(int id) {
    node const& n = c_.nodes[id];
    if (n.kind != node_kind::compute || info(n.op).source == source_kind::none) return;
    const source_kind kind = info(n.op).source;
    if (kind == source_kind::input && forward_ && !s_.in_forward(id)) return;
    bool here = false;
    const position at = position_at(n.over.where, rank_, n.time, 0, here);
    if (!here) return;
    operand const& x = info(n.op).outputs[0];
    node_value const& v = c_.values[n.first_value];
    held h;
    h.piece = boxes_at(g_, x, v.lay, s_.sizes(), at);
    const bool stored = kind != source_kind::input;
    h.at = {build_.add_buffer(h.piece.elements() * size_of(x.type), x.type, v.tensor, stored ? region::state : region::arena), 0};
    if (!stored) p_.buffers.back().from_start = true;
    pieces(n.first_value)[0] = h;
    put_outside(stored ? p_.stored : p_.inputs, v.tensor, h, whole_of(g_, x), x.type);
  }

  void lower(instance const& i) {
    node const& n = c_.nodes[i.node];
    switch (n.kind) {
      case node_kind::compute: return compute(i, n);
      case node_kind::assemble: return assemble(i, n);
      case node_kind::store: return put(i, n);
      case node_kind::move: {
        const int from = c_.input(n, 0);
        const bool exclusive = s_.readers(from) == 1 && !shared_buffer(from);
        const held made = n.ring != ring_kind::none ? turn(i, n, exclusive) : moves_.lower(i, pieces(from), exclusive);
        if (!made.valid()) return;
        position at;
        at.times = n.time;
        n.time.index(i.index, at.index);
        pieces(n.first_value)[static_cast<std::size_t>(stored_index(times_of(c_.values[n.first_value].lay), at))] = made;
        return;
      }
    }
  }
  held turn(instance const& i, node const& n, bool exclusive) {
    auto index_in = [&](int value, int instance) {
      position at;
      at.times = n.time;
      n.time.index(instance, at.index);
      return static_cast<std::size_t>(stored_index(times_of(c_.values[value].lay), at));
    };
    const int from = c_.input(n, 0);
    const held own = pieces(from)[index_in(from, i.index)];
    const int earlier = n.ring == ring_kind::sums ? i.index : previous_in_ring(n, i.index);
    const held before = earlier < 0 ? held{} : pieces(n.first_value)[index_in(n.first_value, earlier)];
    return n.ring == ring_kind::sums ? rings_.sums(i, own, before, exclusive) : rings_.pieces(i, own, before);
  }
  // May another value lie in the same buffer (a view, a stored tensor)?
  bool shared_buffer(int value) const {
    node const& n = c_.nodes[c_.values[value].node];
    return n.kind == node_kind::compute && (info(n.op).is_view || info(n.op).source != source_kind::none);
  }

  // The wanted piece of a value as one run of memory: a place inside what is held, or a copy of it.
  reference view(int value, position const& at, box_list const& wanted, lane where, instance const& of) {
    layout const& lay = c_.values[value].lay;
    held const& h = pieces(value)[static_cast<std::size_t>(stored_index(times_of(lay), at))];
    const dtype type = g_.operand_of(c_.values[value].tensor).type;
    if (!h.valid())
      throw_error({"lowering: rank ", rank_, " does not hold what op ", g_.name(c_.nodes[of.node].op).view(), " reads"});
    if (const run_in run = find_run(h.piece, wanted); run.one_run) return {h.at.buffer, h.at.offset + run.offset * size_of(type)};
    const std::size_t of_buffer = static_cast<std::size_t>(h.at.buffer);
    if (last_view_.size() <= of_buffer) last_view_.resize(of_buffer + 1, -1);
    for (int v = last_view_[of_buffer]; v >= 0; v = views_[static_cast<std::size_t>(v)].next)
      if (known_view const& k = views_[static_cast<std::size_t>(v)]; k.offset == h.at.offset && k.piece == wanted) return k.made;
    const held made{build_.fresh(wanted, type, c_.values[value].tensor), wanted};
    build_.copy(h, made, type, where, of);
    views_.push_back({h.at.offset, wanted, made.at, last_view_[of_buffer]});
    last_view_[of_buffer] = static_cast<int>(views_.size()) - 1;
    return made.at;
  }

  void compute(instance const& i, node const& n) {
    op_entry const& e = g_.ops[n.op];
    op_info const& f = *e.info;
    if (f.source != source_kind::none) return;
    bool here = false;
    const position at = position_at(n.over.where, rank_, n.time, i.index, here);
    if (!here) return;
    intervals letters[max_dims]{};
    bool empty = false;
    for (int d = 0; d < f.dim_count; ++d) {
      letters[d] = letter_intervals(g_, f, n.over, d, s_.sizes(), at);
      empty = empty || letters[d].size() == 0;
    }
    list<held> outputs;
    bool accumulate = false;
    bool merges = false;  // the op adds this piece to what it has made of earlier ones
    for (int p = 0; p < n.over.count; ++p) merges = merges || f.dims[n.over.parts[p].axis].merged;
    if (merges && empty && operand_boxes(g_, f, f.outputs[0], letters).elements() > 0) return;  // no keys: nothing to add
    const int assembler = sums_.made_directly(n);
    for (int o = 0; o < f.output_count; ++o) {
      operand const& x = f.outputs[o];
      const int v = n.first_value + o;
      node_value const& made = c_.values[v];
      held h;
      h.piece = operand_boxes(g_, f, x, letters);
      const int carried = g_.tensors[made.tensor].carried;
      if (f.is_view) {
        const reference in = view(c_.input(n, 0), at, operand_boxes(g_, f, f.inputs[0], letters), lane::compute, i);
        h.at = in;
        // A result is read after the step, when what is stored has been renewed.
        if (f.is_output && build_.made().buffers[static_cast<std::size_t>(h.at.buffer)].where == region::state) {
          h.at = build_.fresh(h.piece, x.type, made.tensor);
          build_.copy({in, h.piece}, h, x.type, lane::compute, i);
        }
      } else if (carried >= 0 && detail::renews_in_place(c_, carried, made.tensor, x.rank))
        h.at = pieces(c_.source_value[carried])[0].at;
      else if (merges) h.at = into_assembled(sums_.of(v), at, accumulate, x.type, made.tensor);
      else if (assembler >= 0) h.at = into_assembled(assembler, at, accumulate, x.type, made.tensor);
      else h.at = build_.fresh(h.piece, x.type, made.tensor);
      pieces(v)[static_cast<std::size_t>(stored_index(times_of(made.lay), at))] = h;
      if (empty && !f.is_view && !accumulate) fill_empty(h, x, i);
      outputs.push_back(std::move(h));
    }
    if (f.is_view || empty) return;
    run(i, n, at, letters, outputs, accumulate);
  }
  void fill_empty(held const& h, operand const& x, instance const& i) {
    build_.fill(h.at, h.piece.elements(), x.type, x.reduce == reduction::max ? -huge : 0, lane::compute, i);
  }
  // The op on every box of its letters: one call, unless cuts are folded. Where boxes of a folded letter that an output
  // lacks meet in it, they add up.
  void run(instance const& i, node const& n, position const& at, intervals const* letters, list<held> const& outputs,
           bool accumulate) {
    op_info const& f = *g_.ops[n.op].info;
    int calls = 1;
    for (int d = 0; d < f.dim_count; ++d) calls *= letters[d].count;
    list<list<bool>> written(outputs.size());
    for (std::size_t o = 0; o < outputs.size(); ++o) written[o].resize(static_cast<std::size_t>(outputs[o].piece.count()));
    for (int k = 0; k < calls; ++k) {
      compute_call call;
      call.op = n.op;
      intervals one[max_dims]{};
      bool empty = false;
      for (int d = f.dim_count - 1, left = k; d >= 0; --d) {
        const interval x = letters[d].at[left % letters[d].count];
        left /= letters[d].count;
        one[d] = {1, {x}};
        call.extents[d] = x.size;
        call.offsets[d] = x.begin;
        call.wholes[d] = g_.extent(f.dims[d].axis);
        empty = empty || x.size == 0;
      }
      if (empty) continue;
      list<reference> in, out;
      for (int p = 0; p < n.input_count; ++p) {
        const int v = c_.input(n, p);
        if (f.variadic) {
          if (counts_here(c_.values[v].lay)) in.push_back(pieces(v)[0].at);
        } else in.push_back(view(v, at, operand_boxes(g_, f, f.inputs[p], one), lane::compute, i));
      }
      list<int> which(outputs.size());  // box of each output
      bool all_seen = f.accumulates;
      for (int o = 0; o < f.output_count; ++o) {
        const box piece = operand_boxes(g_, f, f.outputs[o], one).first;
        box_list const& boxes = outputs[static_cast<std::size_t>(o)].piece;
        int& at_box = which[static_cast<std::size_t>(o)];
        while (at_box + 1 < boxes.count() && !(boxes[at_box] == piece)) ++at_box;
        all_seen = all_seen && written[static_cast<std::size_t>(o)][static_cast<std::size_t>(at_box)];
      }
      call.accumulate = accumulate || all_seen;
      list<std::pair<held, int>> apart;  // made beside what is there, and combined with it
      for (int o = 0; o < f.output_count; ++o) {
        held const& h = outputs[static_cast<std::size_t>(o)];
        const int box_at = which[static_cast<std::size_t>(o)];
        std::size_t before = 0;
        for (int b = 0; b < box_at; ++b) before += h.piece[b].elements();
        bool& seen = written[static_cast<std::size_t>(o)][static_cast<std::size_t>(box_at)];
        if (seen && !call.accumulate) {
          const box_list piece{h.piece[box_at]};
          apart.push_back({{build_.fresh(piece, f.outputs[o].type, -1), piece}, o});
          out.push_back(apart.back().first.at);
        } else out.push_back({h.at.buffer, h.at.offset + before * size_of(f.outputs[o].type)});
        seen = true;
      }
      if (s_.options().workspace)
        if (const std::size_t bytes = s_.options().workspace(n.op, call.extents); bytes > 0)
          call.scratch = {build_.add_buffer(bytes, f32, -1), 0};
      build_.compute(call, in, out, f.output_count > 0 ? f.outputs[0].type : f32, i);
      for (auto const& [made, o] : apart)
        build_.copy(made, outputs[static_cast<std::size_t>(o)], f.outputs[o].type, lane::compute, i, true, f.outputs[o].reduce);
    }
  }
  // An operand of a sum over all devices counts where it lies, replicas once.
  bool counts_here(layout const& l) const {
    int c[max_levels]{};
    if (!l.where.coordinates_of(rank_, c)) return false;
    for (int level = 0; level < l.where.rank; ++level) {
      bool cut = false;
      for (int p = 0; p < l.count; ++p) cut = cut || l.parts[p].level == level;
      if (!cut && c[level] != 0) return false;
    }
    return true;
  }
  reference into_assembled(int assembler, position const& at, bool& accumulate, dtype type, int tensor) {
    node const& a = c_.nodes[assembler];
    layout const& lay = c_.values[a.first_value].lay;
    held& sum = pieces(a.first_value)[static_cast<std::size_t>(stored_index(times_of(lay), at))];
    accumulate = sum.valid();
    if (!sum.valid()) {
      sum.piece = boxes_at(g_, g_.operand_of(tensor), lay, s_.sizes(), at);
      sum.at = build_.fresh(sum.piece, type, tensor);
    }
    return sum.at;
  }

  void assemble(instance const& i, node const& n) {
    const int from = c_.input(n, 0);
    node_value const& source = c_.values[from];
    bool here = false;
    const position at = position_at(n.over.where, rank_, n.time, i.index, here);
    if (!here) return;
    node const& maker = c_.nodes[source.node];
    for (int p = 0; p < source.lay.count; ++p)
      if (source.lay.parts[p].partial() && source.lay.parts[p].reduce == reduction::merge) return;  // the op has done so
    if (maker.kind == node_kind::compute && sums_.made_directly(maker) == i.node) return;
    operand const& x = g_.operand_of(source.tensor);
    held const& piece = pieces(from)[static_cast<std::size_t>(stored_index(times_of(source.lay), at))];
    node_value const& made = c_.values[n.first_value];
    held& sum = pieces(n.first_value)[static_cast<std::size_t>(stored_index(times_of(made.lay), at))];
    if (!sum.valid()) {
      sum.piece = boxes_at(g_, x, made.lay, s_.sizes(), at);
      sum.at = build_.fresh(sum.piece, x.type, source.tensor);
    }
    bool combine = false;
    reduction reduce = reduction::sum;
    for (int p = 0; p < source.lay.count; ++p)
      if (part const& q = source.lay.parts[p]; q.partial() && q.in_time()) {
        combine = combine || index_of_part(q, at) > 0;
        reduce = q.reduce;
      }
    build_.copy(piece, sum, x.type, lane::compute, i, combine, reduce);
  }

  // A renewed tensor into the place where it is stored.
  void put(instance const& i, node const& n) {
    bool here = false;
    const position at = position_at(n.over.where, rank_, n.time, 0, here);
    if (!here) return;
    held const& to = pieces(n.first_value)[0];
    const int from = c_.input(n, 0);
    const dtype type = g_.operand_of(c_.values[from].tensor).type;
    held const& arrived = pieces(from)[static_cast<std::size_t>(stored_index(times_of(c_.values[from].lay), at))];
    build_.copy(arrived, to, type, lane::compute, i);
  }

  // What the world outside reads after the step.
  void publish() {
    for (int id = 0; id < c_.nodes.size; ++id) {
      node const& n = c_.nodes[id];
      if (n.kind != node_kind::compute) continue;
      op_entry const& e = g_.ops[n.op];
      if (e.info->is_output && (!forward_ || s_.in_forward(id))) {
        held const& h = pieces(n.first_value)[0];
        if (!h.valid()) continue;
        p_.buffers[static_cast<std::size_t>(h.at.buffer)].to_end = true;
        put_outside(p_.outputs, c_.values[n.first_value].tensor, h, whole_of(g_, e.info->outputs[0]), e.info->outputs[0].type);
      }
      if (forward_ || !s_.options().keep_gradients || e.when != pass::update) continue;
      for (int k = 0; k < n.input_count && !e.info->variadic; ++k) {
        const int v = c_.input(n, k), tensor = c_.values[v].tensor;
        const int parameter = e.origin;
        if (g_.tensors[e.first_output].carried < 0) continue;  // as the optimizer reads it
        if (parameter == n.op || g_.tensors[g_.ops[parameter].first_output].gradient != tensor) continue;
        const position at = [&] {
          bool here = false;
          return position_at(c_.values[v].lay.where, rank_, {}, 0, here);
        }();
        held const& h = pieces(v)[static_cast<std::size_t>(stored_index(times_of(c_.values[v].lay), at))];
        if (!h.valid()) continue;
        p_.buffers[static_cast<std::size_t>(h.at.buffer)].to_end = true;
        operand const& x = g_.operand_of(tensor);
        put_outside(p_.gradients, g_.ops[parameter].first_output, h, whole_of(g_, x), x.type);
      }
    }
  }

  static constexpr double huge = 1.7976931348623157e308;
  struct known_view {  // a copy of a piece of a buffer that was made before
    std::size_t offset;
    box_list piece;
    reference made;
    int next;  // of the same buffer, or -1
  };
  lowering const& s_;
  graph_data const& g_;
  completed const& c_;
  int rank_;
  bool forward_;
  program p_;
  program_builder build_;
  move_lowering moves_;
  ring_lowering rings_;
  time_sums sums_;
  list<bool> takes_part_;  // by node
  list<list<held>> values_;
  list<known_view> views_;
  list<int> last_view_;  // by buffer
};

}  // namespace detail

// The program of one rank; `forward_only`: up to the model's outputs.
inline program lower(lowering const& shared, int rank, bool forward_only = false) {
  return detail::rank_lowering(shared, rank, forward_only).lower();
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
