// The table of a segment on one grid: which cuts every op may have, what each costs, and what lies between two ops.
#pragma once
#include <array>
#include <cmath>
#include <optional>

#include <partita/search/constraints.hpp>
#include <partita/search/grid_costs.hpp>
#include <partita/search/problem.hpp>
#include <partita/search/segments.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

// How an op is cut: per dimension of the grid a letter, or none.
using cut_option = std::array<std::int8_t, grid_dimensions>;

// What the variables of a table stand for.
struct table_key {
  struct variable {
    enum kind { boundary, cut, gathered, zero } what = boundary;
    int op = -1;      // index in the segment
    int tensor = -1;  // gathered: of the segment's first of its kind
    int weight = -1;  // zero: of the op's
    std::vector<int> stages{};  // ZeRO stages. zero: per option; cut: per weight, -1 where there is a choice
  };
  std::vector<variable> variables;
  std::vector<std::vector<cut_option>> cuts;  // per variable: of an op, or of a boundary by axis (below)
};

struct table_options {
  std::size_t micro_samples = 1;  // of the batch, in one micro-batch
  std::vector<int> zero{0};       // ZeRO stages that a parameter may have
};

class table_builder {
  // Per cut of the reader and ZeRO stage; stages that are no better than another for any cut are left out.
  struct weight_table {
    std::vector<int> stages;
    std::vector<cost> costs;  // [cut][stage]
  };

 public:
  table_builder(segmented_model const& m, std::vector<cut_rule> const& rules, std::vector<std::vector<int>> const& rules_of,
                grid_costs const& grid, table_options how)
      : m_(m), rules_(rules), rules_of_(rules_of), grid_(grid), how_(how) {}

  // Axes along which tensors between segments may lie: those that no op keeps whole.
  static std::vector<axis_info const*> boundary_axes(segmented_model const& m) {
    std::vector<axis_info const*> axes;
    for (segment const& s : m.segments)
      for (int t : s.leaves) {
        searched_tensor const& x = m.tensors[static_cast<std::size_t>(t)];
        for (int a = 0; a < x.as->rank; ++a)
          if (std::none_of(axes.begin(), axes.end(), [&](axis_info const* o) { return o->id == x.as->axes[a]->id; }))
            axes.push_back(x.as->axes[a]);
      }
    std::erase_if(axes, [&](axis_info const* axis) {
      for (segment const& s : m.segments)
        for (searched_op const& x : s.ops)
          for (int d = 0; d < x.info->dim_count; ++d)
            if (x.info->dims[d].axis->id == axis->id && x.info->dims[d].whole && x.info->source == source_kind::none) return true;
      return false;
    });
    return axes;
  }

  // Per layout of a boundary, bytes of each tensor that one device holds.
  std::vector<std::vector<double>> boundary_shares(std::vector<int> const& tensors, std::vector<axis_info const*> const& boundary) {
    boundary_ = boundary;
    std::vector<std::vector<double>> all;
    for (cut_option const& c : boundary_options()) {
      all.emplace_back();
      for (int t : tensors) all.back().push_back(bytes_of(t) * grid_.share(boundary_lies(t, c)));
    }
    return all;
  }

  // How an op may be cut on this grid.
  std::vector<cut_option> op_options(searched_op const& x) const {
    std::vector<std::int8_t> letters[grid_dimensions];
    for (int d = 0; d < grid_dimensions; ++d) {
      letters[d].push_back(-1);
      for (int l = 0; l < x.info->dim_count && grid_.extent(d) > 1; ++l)
        if (x.may_cut[l] && extent_of(x.wholes[l], x.is_batch[l]) >= static_cast<std::size_t>(grid_.extent(d)))
          letters[d].push_back(static_cast<std::int8_t>(l));
    }
    std::vector<cut_option> all;
    for (std::int8_t a : letters[0])
      for (std::int8_t b : letters[1]) {
        const cut_option c{a, b};
        if (a >= 0 && a == b && extent_of(x.wholes[a], x.is_batch[a]) < static_cast<std::size_t>(grid_.devices())) continue;
        bool good = true;
        for (int r : rules_of_[static_cast<std::size_t>(x.rule)]) good = good && fits(rules_[static_cast<std::size_t>(r)], x, c);
        if (good) all.push_back(c);
      }
    return all;
  }

  table build(segment const& s, std::vector<axis_info const*> const& boundary, bool first, bool last, table_key* key = nullptr) {
    boundary_ = boundary;
    segment_ = &s;
    table t;
    table_key k;
    auto add = [&](table_key::variable v, std::vector<cut_option> cuts, std::vector<cost> const& own) {
      k.variables.push_back(v);
      k.cuts.push_back(std::move(cuts));
      return t.add_variable(own);
    };
    const std::vector<cut_option> edges = boundary_options();
    // entry
    {
      std::vector<cut_option> cuts = first ? std::vector<cut_option>{{-1, -1}} : edges;
      std::vector<cost> own;
      for (cut_option const& c : cuts) {
        cost x;
        for (int tensor : s.enters) x.entry += bytes_of(tensor) * grid_.share(boundary_lies(tensor, c));
        own.push_back(x);
      }
      add({table_key::variable::boundary, -1, -1}, std::move(cuts), own);
    }
    // ops
    struct open_choice {
      int op, weight;
      weight_table costs;
    };
    std::vector<open_choice> zero;
    std::vector<int> variable_of;
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      std::vector<cut_option> cuts = op_options(s.ops[i]);
      std::vector<cost> own;
      for (cut_option const& c : cuts) own.push_back(op_cost(s.ops[i], c));
      table_key::variable v{table_key::variable::cut, static_cast<int>(i), -1};
      for (std::size_t w = 0; w < s.ops[i].weights.size(); ++w) {
        weight_table made = weight_costs(s.ops[i].weights[w], cuts);
        if (made.stages.size() == 1) {
          v.stages.push_back(made.stages.front());
          for (std::size_t c = 0; c < cuts.size(); ++c) own[c] += made.costs[c];
        } else {
          v.stages.push_back(-1);  // a variable of its own
          zero.push_back({static_cast<int>(i), static_cast<int>(w), std::move(made)});
        }
      }
      variable_of.push_back(add(std::move(v), std::move(cuts), own));
    }
    struct pending {
      int a, b;
      std::vector<cost> costs;
    };
    std::vector<pending> pairs;
    for (open_choice& z : zero) {
      const std::size_t n = z.costs.stages.size();
      const int v = add({table_key::variable::zero, z.op, -1, z.weight, z.costs.stages}, std::vector<cut_option>(n), std::vector<cost>(n));
      pairs.push_back({variable_of[static_cast<std::size_t>(z.op)], v, std::move(z.costs.costs)});
    }
    // where tensors come from and who reads them
    struct use {
      int op, input;
    };
    struct made {
      int tensor, from_op, output;  // from_op -1: it enters
      std::vector<use> readers;
      bool leaves = false;
    };
    std::vector<made> tensors;
    auto find = [&](int tensor) -> made* {
      for (made& x : tensors)
        if (x.tensor == tensor) return &x;
      return nullptr;
    };
    for (int tensor : s.enters) tensors.push_back({tensor, -1, 0, {}, false});
    for (std::size_t i = 0; i < s.ops.size(); ++i)
      for (int o = 0; o < s.ops[i].info->output_count; ++o)
        tensors.push_back({m_.graph->ops[s.ops[i].op].first_output + o, static_cast<int>(i), o, {}, false});
    for (std::size_t i = 0; i < s.ops.size(); ++i)
      for (std::size_t n = 0; n < s.ops[i].inputs.size(); ++n)
        if (made* x = s.ops[i].inputs[n].activation ? find(s.ops[i].inputs[n].tensor) : nullptr)
          x->readers.push_back({static_cast<int>(i), static_cast<int>(n)});
    for (int tensor : s.leaves)
      if (made* x = find(tensor)) x->leaves = true;

    // the exit comes last
    std::vector<std::pair<int, made const*>> exits;  // variable, tensor
    auto join = [&](int a, int b, std::vector<cost> costs) {
      for (pending& p : pairs)
        if (p.a == a && p.b == b) {
          for (std::size_t i = 0; i < costs.size(); ++i) p.costs[i] += costs[i];
          return;
        }
      pairs.push_back({a, b, std::move(costs)});
    };
    for (made const& x : tensors) {
      searched_tensor const& about = m_.tensors[static_cast<std::size_t>(x.tensor)];
      const double bytes = bytes_of(x.tensor);
      const std::size_t users = x.readers.size() + (x.leaves ? 1 : 0);
      if (users == 0) continue;
      const changes change(grid_, bytes);
      const int from = x.from_op < 0 ? 0 : variable_of[static_cast<std::size_t>(x.from_op)];
      // As it is made, and as the maker reads the gradient: where the value was partial, whole.
      std::vector<lies> made_as, gradient_wanted;
      for (cut_option const& c : k.cuts[static_cast<std::size_t>(from)]) {
        made_as.push_back(x.from_op < 0 ? boundary_lies(x.tensor, c)
                                        : operand_lies(s.ops[static_cast<std::size_t>(x.from_op)].info->outputs[x.output], c, true));
        gradient_wanted.push_back(made_as.back());
        for (auto& by : gradient_wanted.back().by)
          if (by == lies::partial) by = lies::none;
      }
      // As a reader wants it, and the gradient that it makes: partial over cuts that the tensor lacks.
      auto reader_lies = [&](use const& u, bool makes) {
        std::vector<lies> all;
        operand const& as = s.ops[static_cast<std::size_t>(u.op)].info->input(u.input);
        for (cut_option const& c : k.cuts[static_cast<std::size_t>(variable_of[static_cast<std::size_t>(u.op)])])
          all.push_back(operand_lies(as, c, makes));
        return all;
      };
      auto is_kept = [&](use const& u) { return s.ops[static_cast<std::size_t>(u.op)].inputs[static_cast<std::size_t>(u.input)].backward_reads; };
      // From every way that it lies at one variable to every way at another, and the gradient back.
      auto arrivals = [&](std::vector<lies> const& have, std::vector<lies> const& want, bool kept, std::vector<lies> const& back,
                          std::vector<lies> const& back_to) {
        std::vector<cost> costs(have.size() * want.size());
        for (std::size_t i = 0, at = 0; i < have.size(); ++i)
          for (std::size_t j = 0; j < want.size(); ++j, ++at) {
            cost& c = costs[at];
            c.forward = change.seconds(have[i], want[j]);
            if (c.forward > 0) {
              c.transient = bytes * grid_.share(want[j]);
              if (kept) c.kept = c.transient;
            }
            if (about.differentiable) c.backward = change.seconds(back[j], back_to[i]);
          }
        return costs;
      };
      if (users == 1 && !x.leaves) {
        use const& u = x.readers.front();
        join(from, variable_of[static_cast<std::size_t>(u.op)],
             arrivals(made_as, reader_lies(u, false), is_kept(u), reader_lies(u, true), gradient_wanted));
      } else if (users == 1) exits.push_back({from, &x});
      else {
        // Gathered once for all readers, and the sum of their gradients changed once.
        const std::vector<gathered_option> forms = gathered_options(x.tensor);
        std::vector<cut_option> cuts;
        std::vector<lies> values, gradients;
        std::vector<cost> sums(forms.size());
        for (std::size_t f = 0; f < forms.size(); ++f) {
          cuts.push_back({forms[f].value.by[0], forms[f].value.by[1]});
          values.push_back(forms[f].value);
          gradients.push_back(forms[f].gradient);
          if (about.differentiable)
            sums[f].backward = (static_cast<double>(users) - 1) * grid_.of().pass_over(3 * bytes * grid_.share(forms[f].gradient));
        }
        const int hub = add({table_key::variable::gathered, -1, x.tensor}, std::move(cuts), sums);
        const bool kept = std::any_of(x.readers.begin(), x.readers.end(), is_kept);
        join(from, hub, arrivals(made_as, values, kept, gradients, gradient_wanted));
        for (use const& u : x.readers)
          join(hub, variable_of[static_cast<std::size_t>(u.op)],
               arrivals(values, reader_lies(u, false), is_kept(u), reader_lies(u, true), gradients));
        if (x.leaves) exits.push_back({hub, &x});
      }
    }
    {
      std::vector<cut_option> cuts = last ? std::vector<cut_option>{{-1, -1}} : edges;
      const int exit = add({table_key::variable::boundary, -1, -1}, cuts, std::vector<cost>(cuts.size()));
      for (auto const& way_out : exits) {
        const int from = way_out.first;
        made const* const x = way_out.second;
        const double bytes = bytes_of(x->tensor);
        const changes change(grid_, bytes);
        const bool differentiable = m_.tensors[static_cast<std::size_t>(x->tensor)].differentiable;
        const bool from_hub = k.variables[static_cast<std::size_t>(from)].what == table_key::variable::gathered;
        const std::vector<gathered_option> forms = from_hub ? gathered_options(x->tensor) : std::vector<gathered_option>{};
        std::vector<cost> costs;
        for (std::size_t i = 0; i < k.cuts[static_cast<std::size_t>(from)].size(); ++i) {
          lies have, gradient;
          if (from_hub) {
            have = forms[i].value;
            gradient = forms[i].gradient;
          } else {
            cut_option const& c = k.cuts[static_cast<std::size_t>(from)][i];
            have = x->from_op < 0 ? boundary_lies(x->tensor, c)
                                  : operand_lies(s.ops[static_cast<std::size_t>(x->from_op)].info->outputs[x->output], c, true);
            gradient = have;
            for (auto& by : gradient.by)
              if (by == lies::partial) by = lies::none;
          }
          for (cut_option const& to : cuts) {
            const lies want = boundary_lies(x->tensor, to);
            cost c;
            c.forward = change.seconds(have, want);
            if (differentiable) c.backward = change.seconds(want, gradient);
            costs.push_back(c);
          }
        }
        join(from, exit, std::move(costs));
      }
    }
    for (pending const& p : pairs) t.add_pair(p.a, p.b, p.costs);
    if (key != nullptr) *key = std::move(k);
    return t;
  }

 private:
  struct gathered_option {
    lies value, gradient;
  };

  // -- sizes
  std::size_t extent_of(std::size_t whole, bool batch) const { return batch ? std::min(whole, how_.micro_samples) : whole; }
  double bytes_of(int tensor) const {
    searched_tensor const& x = m_.tensors[static_cast<std::size_t>(tensor)];
    double b = static_cast<double>(size_of(x.as->type));
    for (int a = 0; a < x.as->rank; ++a) b *= static_cast<double>(extent_of(x.wholes[a], x.is_batch[a]));
    return b;
  }
  int pieces_on(cut_option const& c, int letter) const {
    int n = 1;
    for (int d = 0; d < grid_dimensions; ++d)
      if (c[static_cast<std::size_t>(d)] == letter) n *= grid_.extent(d);
    return n;
  }

  // -- options
  bool fits(cut_rule const& r, searched_op const& x, cut_option const& c) const {
    int pieces = 1;
    for (int d = 0; d < grid_dimensions; ++d) {
      if (grid_.extent(d) < 2) continue;
      const std::int8_t letter = c[static_cast<std::size_t>(d)];
      if (letter < 0) {
        if (!r.replicas) return false;
        continue;
      }
      pieces *= grid_.extent(d);
      if (r.no_axes) return false;
      if (!r.axes.empty() && std::none_of(r.axes.begin(), r.axes.end(), [&](axis_info const* a) { return a->id == x.info->dims[letter].axis->id; }))
        return false;
    }
    if (!r.pieces.empty() && std::find(r.pieces.begin(), r.pieces.end(), pieces) == r.pieces.end()) return false;
    return pieces >= r.least_pieces && (r.most_pieces == 0 || pieces <= r.most_pieces);
  }
  // A boundary lies by axis: an index into the list of axes per dimension, or -1.
  std::vector<cut_option> boundary_options() const {
    std::vector<cut_option> all;
    const int n = static_cast<int>(boundary_.size());
    auto fits_on = [&](int axis, int pieces) {
      if (axis < 0) return true;
      for (segment const& s : m_.segments)
        for (int t : s.leaves) {
          searched_tensor const& x = m_.tensors[static_cast<std::size_t>(t)];
          for (int a = 0; a < x.as->rank; ++a)
            if (x.as->axes[a]->id == boundary_[static_cast<std::size_t>(axis)]->id &&
                extent_of(x.wholes[a], x.is_batch[a]) < static_cast<std::size_t>(pieces))
              return false;
        }
      return true;
    };
    for (int a = -1; a < (grid_.extent(0) > 1 ? n : 0); ++a)
      for (int b = -1; b < (grid_.extent(1) > 1 ? n : 0); ++b)
        if (fits_on(a, grid_.extent(0)) && fits_on(b, grid_.extent(1)) && (a < 0 || a != b || fits_on(a, grid_.devices())))
          all.push_back({static_cast<std::int8_t>(a), static_cast<std::int8_t>(b)});
    return all;
  }
  lies boundary_lies(int tensor, cut_option const& c) const {
    searched_tensor const& x = m_.tensors[static_cast<std::size_t>(tensor)];
    lies l;
    for (std::size_t d = 0; d < grid_dimensions; ++d)
      if (c[d] >= 0)
        for (int a = 0; a < x.as->rank; ++a)
          if (x.as->axes[a]->id == boundary_[static_cast<std::size_t>(c[d])]->id) l.by[d] = static_cast<std::int8_t>(a);
    return l;
  }
  // What every reader may take: split or whole, its gradient then the same or, where whole, partial.
  std::vector<gathered_option> gathered_options(int tensor) const {
    searched_tensor const& x = m_.tensors[static_cast<std::size_t>(tensor)];
    std::vector<std::pair<std::int8_t, std::int8_t>> by[grid_dimensions];
    for (int d = 0; d < grid_dimensions; ++d) {
      by[d].push_back({lies::none, lies::none});
      if (grid_.extent(d) < 2) continue;
      if (x.differentiable) by[d].push_back({lies::none, lies::partial});
      for (int a = 0; a < x.as->rank; ++a)
        if (extent_of(x.wholes[a], x.is_batch[a]) >= static_cast<std::size_t>(grid_.extent(d)))
          by[d].push_back({static_cast<std::int8_t>(a), static_cast<std::int8_t>(a)});
    }
    std::vector<gathered_option> all;
    for (auto const& a : by[0])
      for (auto const& b : by[1]) {
        if (a.first >= 0 && a.first == b.first &&
            extent_of(x.wholes[a.first], x.is_batch[a.first]) < static_cast<std::size_t>(grid_.devices()))
          continue;
        all.push_back({lies{{a.first, b.first}}, lies{{a.second, b.second}}});
      }
    return all;
  }
  // `makes`: cuts along letters that the operand lacks leave partial results.
  static lies operand_lies(operand const& x, cut_option const& c, bool makes) {
    lies l;
    for (std::size_t d = 0; d < grid_dimensions; ++d) {
      if (c[d] < 0) continue;
      const int axis = x.find(c[d]);
      l.by[d] = axis >= 0 ? static_cast<std::int8_t>(axis) : makes ? lies::partial : lies::none;
    }
    return l;
  }

  // -- costs
  static std::size_t ceiling(std::size_t whole, int pieces) {
    const std::size_t n = static_cast<std::size_t>(pieces);
    return (whole + n - 1) / n;
  }
  double seconds_of(caused_op const& f, std::size_t const* pieces, bool const* batch) const {
    std::size_t extents[max_dims]{};
    for (int d = 0; d < f.info->dim_count; ++d) {
      if (f.letter[d] >= 0) extents[d] = pieces[f.letter[d]];
      else extents[d] = extent_of(f.wholes[d], m_.batch != nullptr && f.info->dims[d].axis->id == m_.batch->id);
    }
    (void)batch;
    return grid_.of().op(*f.info, extents);
  }
  cost op_cost(searched_op const& x, cut_option const& c) const {
    cost r;
    op_info const& f = *x.info;
    std::size_t pieces[max_dims]{};
    for (int d = 0; d < f.dim_count; ++d) pieces[d] = ceiling(extent_of(x.wholes[d], x.is_batch[d]), pieces_on(c, d));
    r.forward = grid_.of().op(f, pieces);
    for (caused_op const& b : x.backward) r.backward += seconds_of(b, pieces, x.is_batch);
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
    std::vector<int> stages = w.owned && w.trained ? how_.zero : std::vector<int>{how_.zero.back()};
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
  cost weight_cost(searched_weight const& w, cut_option const& c, int zero) const {
    cost r;
    op_info const& p = *m_.graph->ops[w.op].info;
    const int rank = p.outputs[0].rank;
    double share = 1;
    bool partial[grid_dimensions]{};
    int replicas = 1, cut_pieces[max_rank];
    for (int a = 0; a < rank; ++a) cut_pieces[a] = w.letter[a] >= 0 ? pieces_on(c, w.letter[a]) : 1;
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
  std::vector<cut_rule> const& rules_;
  std::vector<std::vector<int>> const& rules_of_;
  grid_costs const& grid_;
  table_options how_;
  std::vector<axis_info const*> boundary_;
  segment const* segment_ = nullptr;
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
