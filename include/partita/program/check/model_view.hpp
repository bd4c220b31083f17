// What the graph says of its tensors, as numbers that are looked up often.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <partita/model/graph_entries.hpp>
#include <partita/program/check/lattice.hpp>
#include <partita/program/check/pieces_summed.hpp>

namespace partita::detail::checking {

struct tensor_view {
  int root = -1;  // the tensor whose bytes it is: itself, or what it is a view of
  int rank = 0;
  dtype type = f32;
  reduction how = reduction::sum;
  std::int64_t extents[max_rank]{}, strides[max_rank]{}, elements = 1;  // strides: elements, of the whole tensor
};
struct part_of_tensor {
  int rank = 0;
  span_of at[max_rank];
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int a = 0; a < rank; ++a) n *= at[a].end - at[a].begin;
    return n;
  }
};

class model_view {
 public:
  explicit model_view(graph_data const& g) : graph(g) {
    tensors_.reserve(static_cast<std::size_t>(g.tensors.size));
    wholes_.reserve(static_cast<std::size_t>(g.ops.size));
    for (op_entry const& e : g.ops) {
      std::vector<std::int64_t> extents;
      for (int d = 0; d < e.info->dim_count; ++d) extents.push_back(static_cast<std::int64_t>(g.extent(e.info->dims[d].axis)));
      wholes_.push_back(std::move(extents));
    }
    for (int t = 0; t < g.tensors.size; ++t) {
      op_entry const& e = g.ops[g.tensors[t].op];
      operand const& x = e.info->outputs[g.tensors[t].output];
      tensor_view v;
      v.root = e.info->is_view ? tensors_[static_cast<std::size_t>(g.input(e, 0))].root : t;
      v.rank = x.rank;
      v.type = x.type;
      v.how = x.reduce;
      for (int a = x.rank - 1; a >= 0; --a) {
        v.strides[a] = v.elements;
        v.extents[a] = static_cast<std::int64_t>(g.extent(x.axes[a]));
        v.elements *= v.extents[a];
      }
      tensors_.push_back(v);
    }
    renewed_.assign(tensors_.size(), -1);
    for (int t = 0; t < g.tensors.size; ++t)
      if (const int stored = g.tensors[t].carried; stored >= 0) renewed_[static_cast<std::size_t>(stored)] = t;
  }

  tensor_view const& tensor(int t) const { return tensors_[static_cast<std::size_t>(t)]; }
  int tensor_count() const { return static_cast<int>(tensors_.size()); }
  std::int64_t whole_of(int op, int letter) const {
    return wholes_[static_cast<std::size_t>(op)][static_cast<std::size_t>(letter)];
  }
  // The tensor that a stored one is after the step, or -1.
  int renewed(int stored) const { return renewed_[static_cast<std::size_t>(stored)]; }

  // A part of a tensor as one dense array that begins at `place`.
  lattice dense(tensor_view const& t, part_of_tensor const& part, std::int64_t place) const {
    lattice x;
    x.place = place;
    std::int64_t step[max_rank]{}, bytes = static_cast<std::int64_t>(size_of(t.type));
    for (int a = t.rank - 1; a >= 0; --a) {
      step[a] = bytes;
      bytes *= part.at[a].end - part.at[a].begin;
      x.index += part.at[a].begin * t.strides[a];
    }
    for (int a = 0; a < t.rank; ++a) x.push(part.at[a].end - part.at[a].begin, step[a], t.strides[a]);
    return x;
  }
  // The part of an operand that goes with spans of the op's letters. Of a group the leading letter counts in units of
  // the inner one.
  part_of_tensor operand_part(int op, operand const& x, span_of const* letters) const {
    part_of_tensor p;
    p.rank = x.rank;
    for (int a = 0; a < x.rank; ++a) {
      p.at[a] = letters[x.dims[a]];
      if (x.inner[a] < 0) continue;
      const std::int64_t unit = whole_of(op, x.inner[a]);
      p.at[a].begin *= unit;
      p.at[a].end *= unit;
    }
    return p;
  }
  std::string words_of_part(part_of_tensor const& p) const {
    std::string text = "[";
    for (int a = 0; a < p.rank; ++a)
      text += words({a > 0 ? ", " : "", static_cast<long long>(p.at[a].begin), "..", static_cast<long long>(p.at[a].end)});
    return text + "]";
  }
  std::string name_of_tensor(int t) const {
    if (t < 0 || t >= graph.tensors.size) return t == -1 ? "nothing" : "zeros";
    op_entry const& e = graph.ops[graph.tensors[t].op];
    std::string text(graph.name(graph.tensors[t].op).view());
    if (e.info->source == source_kind::none) {
      text += words({" (", e.info->kind,
                     e.when == pass::forward    ? ", forward"
                     : e.when == pass::backward ? ", backward"
                                                : ", update"});
      if (e.info->output_count > 1) text += words({", output ", static_cast<int>(graph.tensors[t].output)});
      text += ")";
    }
    return text;
  }

  graph_data const& graph;

 private:
  std::vector<tensor_view> tensors_;
  std::vector<std::vector<std::int64_t>> wholes_;
  std::vector<int> renewed_;
};

}  // namespace partita::detail::checking
