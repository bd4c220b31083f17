// What an option of an op costs on one grid: the piece that a device runs, forward and backward, and its parameters.
#pragma once
#include <vector>

#include <partita/search/cut_options.hpp>
#include <partita/search/problem.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

// Per cut of the reader and ZeRO stage; stages that are no better than another for any cut are left out.
struct weight_table {
  std::vector<int> stages;
  std::vector<cost> costs;  // [cut][stage]
};

class option_costs {
 public:
  // `zero`: the ZeRO stages that a parameter may have.
  option_costs(segmented_model const& m, cut_options const& cuts, grid_costs const& grid, std::vector<int> zero)
      : m_(m), cuts_(cuts), grid_(grid), zero_(std::move(zero)) {}

  cost op_cost(searched_op const& x, cut_option const& c) const {
    cost r;
    op_info const& f = *x.info;
    std::size_t pieces[max_dims]{};
    for (int d = 0; d < f.dim_count; ++d) pieces[d] = ceiling(cuts_.extent_of(x.wholes[d], x.is_batch[d]), cuts_.pieces_on(c, d));
    r.forward = grid_.of().op(f, pieces);
    for (caused_op const& b : x.backward) r.backward += seconds_of(b, pieces);
    double inputs = 0, outputs = 0;
    for (int i = 0; i < f.input_count && !f.is_view; ++i)
      if (x.inputs[static_cast<std::size_t>(i)].weight < 0)
        inputs += elements_of(f.input(i), pieces) * static_cast<double>(size_of(f.input(i).type));
    for (int o = 0; o < f.output_count && !f.is_view; ++o) {
      const double bytes = elements_of(f.outputs[o], pieces) * static_cast<double>(size_of(f.outputs[o].type));
      outputs += bytes;
      if (x.output_kept[o]) r.kept += bytes;
    }
    r.transient = inputs + 2 * outputs;
    return r;
  }
  weight_table weight_costs(searched_weight const& w, std::vector<cut_option> const& cuts) const {
    std::vector<std::vector<cost>> of_stage;
    std::vector<int> stages = w.owned && w.trained ? zero_ : std::vector<int>{zero_.back()};
    for (int z : stages) {
      of_stage.emplace_back();
      for (cut_option const& c : cuts) of_stage.back().push_back(weight_cost(w, c, z));
    }
    weight_table t;
    std::vector<std::size_t> kept;
    auto no_better = [&](std::size_t a, std::size_t b) {
      for (std::size_t c = 0; c < cuts.size(); ++c)
        if (of_stage[a][c].step < of_stage[b][c].step || of_stage[a][c].held < of_stage[b][c].held) return false;
      return true;
    };
    for (std::size_t a = 0; a < stages.size(); ++a) {
      bool needed = true;
      for (std::size_t b = 0; b < stages.size() && needed; ++b)
        if (a != b && no_better(a, b) && (a < b || !no_better(b, a))) needed = false;
      if (needed) kept.push_back(a);
    }
    for (std::size_t a : kept) t.stages.push_back(stages[a]);
    for (std::size_t c = 0; c < cuts.size(); ++c)
      for (std::size_t a : kept) t.costs.push_back(of_stage[a][c]);
    return t;
  }

 private:
  static std::size_t ceiling(std::size_t whole, int pieces) {
    const std::size_t n = static_cast<std::size_t>(pieces);
    return (whole + n - 1) / n;
  }
  double seconds_of(caused_op const& f, std::size_t const* pieces) const {
    std::size_t extents[max_dims]{};
    for (int d = 0; d < f.info->dim_count; ++d) {
      if (f.letter[d] >= 0) extents[d] = pieces[f.letter[d]];
      else extents[d] = cuts_.extent_of(f.wholes[d], m_.batch != nullptr && f.info->dims[d].axis->id == m_.batch->id);
    }
    return grid_.of().op(*f.info, extents);
  }
  cost weight_cost(searched_weight const& w, cut_option const& c, int zero) const {
    cost r;
    op_info const& p = *m_.graph->ops[w.op].info;
    const int rank = p.outputs[0].rank;
    double share = 1;
    bool partial[grid_dimensions]{};
    int replicas = 1, cut_pieces[max_rank];
    for (int a = 0; a < rank; ++a) cut_pieces[a] = w.letter[a] >= 0 ? cuts_.pieces_on(c, w.letter[a]) : 1;
    for (int d = 0; d < grid_dimensions; ++d) {
      if (c[static_cast<std::size_t>(d)] < 0 || grid_.extent(d) < 2) continue;
      bool cuts = false;
      for (int a = 0; a < rank; ++a) cuts = cuts || w.letter[a] == c[static_cast<std::size_t>(d)];
      if (cuts) share /= grid_.extent(d);
      else {
        partial[d] = true;
        replicas *= grid_.extent(d);
      }
    }
    r.held += share * (w.owned ? w.stored_bytes + w.used_bytes : w.used_bytes > 0 ? w.used_bytes : w.stored_bytes);
    if (!w.trained) return r;
    const double gradient = share * w.sent_bytes;
    // ZeRO shares what replicas would all hold, if some axis is long enough.
    bool shares = false;
    for (int a = 0; a < rank; ++a) {
      std::size_t whole = m_.graph->extent(p.outputs[0].axes[a]);
      shares = shares || (cut_pieces[a] == 1 && whole >= static_cast<std::size_t>(replicas));
    }
    const int parts = zero > 0 && shares ? replicas : 1;
    r.held += share * w.gradient_bytes;  // summed in the type of use, then of another type: never both of all
    for (int d = grid_dimensions; d-- > 0;)
      if (partial[d])
        r.step += grid_.collective(zero >= 2 && shares ? collective_kind::reduce_scatter : collective_kind::all_reduce, d, gradient);
    if (!w.owned) {
      r.step += grid_.of().send(0, grid_.devices() < grid_.of().devices() ? grid_.devices() : 0, gradient);  // to the first reader
      return r;
    }
    r.held += share * w.state_bytes / parts;
    std::size_t pieces[max_rank]{};
    for (int a = 0; a < rank; ++a) pieces[a] = ceiling(m_.graph->extent(p.outputs[0].axes[a]), cut_pieces[a]);
    for (caused_op const& u : w.updates) {
      std::size_t extents[max_dims]{};
      for (int d = 0; d < u.info->dim_count; ++d) extents[d] = u.letter[d] >= 0 ? pieces[u.letter[d]] : u.wholes[d];
      if (parts > 1 && u.info->dim_count > 0) extents[0] = ceiling(extents[0], parts);
      r.step += grid_.of().op(*u.info, extents);
    }
    if (parts > 1)
      for (int d = 0; d < grid_dimensions; ++d)
        if (partial[d]) r.step += grid_.collective(collective_kind::all_gather, d, share * w.stored_bytes);
    return r;
  }

  segmented_model const& m_;
  cut_options const& cuts_;
  grid_costs const& grid_;
  std::vector<int> zero_;
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
