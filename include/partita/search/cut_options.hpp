// How ops, and tensors between segments, may lie on one grid.
#pragma once
#include <array>
#include <vector>

#include <partita/search/constraints.hpp>
#include <partita/search/grid_costs.hpp>
#include <partita/search/segments.hpp>

namespace partita::spaces {

// How an op is cut: per dimension of the grid a letter, or none. Of a boundary: an index into its axes, or none.
using cut_option = std::array<std::int8_t, grid_dimensions>;

struct table_options {
  std::vector<int> zero{0};  // ZeRO stages that a parameter may have
  int micro_batches = 1;
  // How often the time of a stage's weight gradients fills what would be a bubble (zero-bubble schedules): a table for each.
  std::vector<int> fills{0};
  bool one_stage = false;  // there are no devices for a second one
};
// How a segment runs.
struct way_to_run {
  bool again = false;  // all of it or, where it runs in turns, what does so
  int turns = 1;       // co-shard: heads and features in so many pieces, one after another
  // Is the rest run again with what runs in turns? Then what runs in turns is what comes last: of all before it the backward
  // pass needs every turn at once.
  bool rest = true;
  constexpr bool in_turns(searched_op const& x) const { return turns > 1 && x.turns_along >= 0 && (!rest || x.turns_last); }
};
// Rules on cuts, and per `searched_op::rule` which of them an op has.
struct rules_on_cuts {
  std::vector<cut_rule> const& rules;
  std::vector<std::vector<int>> const& of_ops;
};

constexpr bool allows(cut_rule const& r, axis_info const* axis) {
  auto is_it = [&](axis_info const* a) { return a->id == axis->id; };
  return !r.no_axes && (r.axes.empty() || std::any_of(r.axes.begin(), r.axes.end(), is_it));
}

class cut_options {
 public:
  struct gathered_option {
    lies value, gradient;
  };

  // `boundary_axes`: along which tensors between segments may lie. What is referred to must outlive this.
  constexpr cut_options(segmented_model const& m, rules_on_cuts rules, device_grid const& grid, int micro_batches,
                        std::vector<axis_info const*> const& boundary_axes)
      : m_(m),
        rules_(rules),
        grid_(grid),
        micro_batches_(micro_batches),
        micro_samples_((m.samples + static_cast<std::size_t>(micro_batches) - 1) / static_cast<std::size_t>(micro_batches)),
        least_samples_(m.samples / static_cast<std::size_t>(micro_batches)),
        axes_(boundary_axes) {}

  // Axes along which tensors between segments may lie: those that no op which makes or reads such a tensor keeps whole.
  static constexpr std::vector<axis_info const*> boundary_axes(segmented_model const& m) {
    std::vector<axis_info const*> axes;
    growing<bool> crosses;
    crosses.resize(static_cast<int>(m.tensors.size()));
    for (segment const& s : m.segments)
      for (int t : s.leaves) {
        searched_tensor const& x = m.tensors[static_cast<std::size_t>(t)];
        crosses[t] = true;
        for (int a = 0; a < x.as->rank; ++a)
          if (std::none_of(axes.begin(), axes.end(), [&](axis_info const* o) { return o->id == x.as->axes[a]->id; }))
            axes.push_back(x.as->axes[a]);
      }
    std::erase_if(axes, [&](axis_info const* axis) {
      auto keeps_whole = [&](op_info const& f, operand const& x) {
        for (int a = 0; a < x.rank; ++a)
          if (f.dims[x.dims[a]].axis->id == axis->id && f.dims[x.dims[a]].whole) return true;
        return false;
      };
      for (segment const& s : m.segments) {
        if (s.like >= 0) continue;  // it differs in ids alone
        for (searched_op const& x : s.ops) {
          for (std::size_t i = 0; i < x.inputs.size(); ++i)
            if (crosses[x.inputs[i].tensor] && keeps_whole(*x.info, x.info->input(static_cast<int>(i)))) return true;
          for (int o = 0; o < x.info->output_count; ++o)
            if (crosses[m.graph->ops[x.op].first_output + o] && keeps_whole(*x.info, x.info->outputs[o])) return true;
        }
      }
      return false;
    });
    return axes;
  }

  // Per layout of a boundary, bytes of each tensor that one device holds.
  constexpr std::vector<std::vector<double>> boundary_shares(std::vector<int> const& tensors) const {
    std::vector<std::vector<double>> all;
    for (cut_option const& c : boundary_options()) {
      all.emplace_back();
      for (int t : tensors) all.back().push_back(held_bytes(t, boundary_lies(t, c)));
    }
    return all;
  }

  // How an op may be cut on this grid.
  constexpr std::vector<cut_option> op_options(searched_op const& x) const {
    std::vector<std::int8_t> letters[grid_dimensions];
    for (int d = 0; d < grid_dimensions; ++d) {
      letters[d].push_back(-1);
      for (int l = 0; l < x.info->dim_count && grid_.extent(d) > 1; ++l)
        if (x.may_cut[l] && least_extent_of(x.wholes[l], x.is_batch[l]) >= static_cast<std::size_t>(grid_.extent(d)))
          letters[d].push_back(static_cast<std::int8_t>(l));
    }
    std::vector<cut_option> all;
    for (std::int8_t a : letters[0])
      for (std::int8_t b : letters[1]) {
        const cut_option c{a, b};
        if (a >= 0 && a == b && least_extent_of(x.wholes[a], x.is_batch[a]) < static_cast<std::size_t>(grid_.devices())) continue;
        bool good = true;
        for (int r : rules_.of_ops[static_cast<std::size_t>(x.rule)])
          good = good && fits(rules_.rules[static_cast<std::size_t>(r)], x, c);
        if (good) all.push_back(c);
      }
    return all;
  }

  // A boundary lies by axis: an index into the list of axes per dimension, or -1.
  constexpr std::vector<cut_option> boundary_options() const {
    std::vector<cut_option> all;
    auto fits_on = [&](int axis, int pieces) {
      for (int first : m_.first_of_kind)
        for (int t : m_.segments[static_cast<std::size_t>(first)].leaves) {
          searched_tensor const& x = m_.tensors[static_cast<std::size_t>(t)];
          for (int a = 0; a < x.as->rank; ++a)
            if (x.as->axes[a]->id == axes_[static_cast<std::size_t>(axis)]->id &&
                least_extent_of(x.wholes[a], x.is_batch[a]) < static_cast<std::size_t>(pieces))
              return false;
        }
      return true;
    };
    std::vector<std::int8_t> axes[grid_dimensions];
    for (int d = 0; d < grid_dimensions; ++d) {
      axes[d].push_back(-1);
      for (int a = 0; a < static_cast<int>(axes_.size()) && grid_.extent(d) > 1; ++a)
        if (fits_on(a, grid_.extent(d))) axes[d].push_back(static_cast<std::int8_t>(a));
    }
    for (std::int8_t a : axes[0])
      for (std::int8_t b : axes[1])
        if (a < 0 || a != b || fits_on(a, grid_.devices())) all.push_back({a, b});
    return all;
  }
  constexpr lies boundary_lies(int tensor, cut_option const& c) const {
    searched_tensor const& x = m_.tensors[static_cast<std::size_t>(tensor)];
    lies l;
    for (std::size_t d = 0; d < grid_dimensions; ++d)
      if (c[d] >= 0)
        for (int a = 0; a < x.as->rank; ++a)
          if (x.as->axes[a]->id == axes_[static_cast<std::size_t>(c[d])]->id) l.by[d] = static_cast<std::int8_t>(a);
    return l;
  }
  // What every reader may take: split or whole, its gradient then the same or, where whole, partial.
  constexpr std::vector<gathered_option> gathered_options(int tensor) const {
    searched_tensor const& x = m_.tensors[static_cast<std::size_t>(tensor)];
    std::vector<std::pair<std::int8_t, std::int8_t>> by[grid_dimensions];
    for (int d = 0; d < grid_dimensions; ++d) {
      by[d].push_back({lies::none, lies::none});
      if (grid_.extent(d) < 2) continue;
      if (x.differentiable) by[d].push_back({lies::none, lies::partial});
      for (int a = 0; a < x.as->rank; ++a)
        if (least_extent_of(x.wholes[a], x.is_batch[a]) >= static_cast<std::size_t>(grid_.extent(d)))
          by[d].push_back({static_cast<std::int8_t>(a), static_cast<std::int8_t>(a)});
    }
    std::vector<gathered_option> all;
    for (auto const& a : by[0])
      for (auto const& b : by[1]) {
        if (a.first >= 0 && a.first == b.first &&
            least_extent_of(x.wholes[a.first], x.is_batch[a.first]) < static_cast<std::size_t>(grid_.devices()))
          continue;
        all.push_back({lies{{a.first, b.first}}, lies{{a.second, b.second}}});
      }
    return all;
  }
  // `makes`: cuts along letters that the operand lacks leave partial results.
  static constexpr lies operand_lies(operand const& x, cut_option const& c, bool makes) {
    lies l;
    for (std::size_t d = 0; d < grid_dimensions; ++d) {
      if (c[d] < 0) continue;
      const int axis = x.find(c[d]);
      l.by[d] = axis >= 0 ? static_cast<std::int8_t>(axis) : makes ? lies::partial : lies::none;
    }
    return l;
  }

  constexpr std::size_t extent_of(std::size_t whole, bool batch) const { return batch ? std::min(whole, micro_samples_) : whole; }
  // Of the smallest micro-batch: no piece in space may be empty.
  constexpr std::size_t least_extent_of(std::size_t whole, bool batch) const {
    return batch ? std::min(whole, least_samples_) : whole;
  }
  // Of the whole tensor in one micro-batch.
  static constexpr double bytes_of(searched_tensor const& x, std::size_t micro_samples) {
    double b = static_cast<double>(size_of(x.as->type));
    for (int a = 0; a < x.as->rank; ++a)
      b *= static_cast<double>(x.is_batch[a] ? std::min(x.wholes[a], micro_samples) : x.wholes[a]);
    return b;
  }
  constexpr double bytes_of(int tensor) const { return bytes_of(m_.tensors[static_cast<std::size_t>(tensor)], micro_samples_); }
  // Of that, on the device that holds most.
  constexpr double held_bytes(int tensor, lies const& l) const {
    return bytes_of(tensor) * grid_.share(l, extents_of(tensor).data());
  }
  // Of a tensor in one micro-batch, by axis; along `turns_axis` of one turn of so many.
  constexpr std::array<std::size_t, max_rank> extents_of(int tensor, int turns_axis = -1, int turns = 1) const {
    searched_tensor const& x = m_.tensors[static_cast<std::size_t>(tensor)];
    std::array<std::size_t, max_rank> extents{};
    for (int a = 0; a < x.as->rank; ++a) {
      const std::size_t own = extent_of(x.wholes[a], x.is_batch[a]), n = static_cast<std::size_t>(a == turns_axis ? turns : 1);
      extents[static_cast<std::size_t>(a)] = (own + n - 1) / n;
    }
    return extents;
  }
  constexpr int micro_batches() const { return micro_batches_; }
  constexpr int pieces_on(cut_option const& c, int letter) const {
    int n = 1;
    for (int d = 0; d < grid_dimensions; ++d)
      if (c[static_cast<std::size_t>(d)] == letter) n *= grid_.extent(d);
    return n;
  }

 private:
  constexpr bool fits(cut_rule const& r, searched_op const& x, cut_option const& c) const {
    int pieces = 1;
    for (int d = 0; d < grid_dimensions; ++d) {
      if (grid_.extent(d) < 2) continue;
      const std::int8_t letter = c[static_cast<std::size_t>(d)];
      if (letter < 0) {
        if (!r.replicas) return false;
        continue;
      }
      pieces *= grid_.extent(d);
      if (!allows(r, x.info->dims[letter].axis)) return false;
    }
    if (!r.pieces.empty() && std::find(r.pieces.begin(), r.pieces.end(), pieces) == r.pieces.end()) return false;
    return pieces >= r.least_pieces && (r.most_pieces == 0 || pieces <= r.most_pieces);
  }

  segmented_model const& m_;
  rules_on_cuts rules_;
  device_grid const& grid_;
  int micro_batches_;
  std::size_t micro_samples_, least_samples_;  // of the batch, in the largest and in the smallest micro-batch
  std::vector<axis_info const*> const& axes_;
};

}  // namespace partita::spaces
