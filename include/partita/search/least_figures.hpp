// What plans need at the least, known before any table is made: of a step's work, of memory, of a segment on so many devices.
#pragma once
#include <algorithm>
#include <vector>

#include <partita/search/cut_options.hpp>
#include <partita/search/problem.hpp>
#include <partita/search/tables.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

class least_figures {
 public:
  least_figures(segmented_model const& m, costs const& k) : model_(m), prices_(&k) {}

  // Bytes that a plan holds on all devices together, at the least.
  double held() const {
    return sum_over_segments([](segment const& s) {
      double bytes = 0;
      for (searched_op const& x : s.ops)
        for (searched_weight const& w : x.weights)
          if (w.owned) bytes += held_by(w);
      return bytes;
    });
  }
  // By kind of segment: seconds that its FLOPs of a step take one device that is as efficient as it can be: as parts of products,
  // or as what is none.
  std::vector<double> work() const {
    device_kind const& kind = prices_->of().kind_of(0);
    const double most = kind.flops_efficiency ? kind.flops_efficiency->most : 1;
    return of_kinds([&](segment const& s) {
      double seconds = 0;
      auto add = [&](op_info const& f, std::size_t const* wholes) {
        const op_work w = work_of(f, wholes);
        seconds += w.flops / std::max(prices_->peak(w.type) * most, prices_->peak(accumulation_of(w.type)));
      };
      for (searched_op const& x : s.ops) {
        add(*x.info, x.wholes);
        for (caused_op const& b : x.backward) add(*b.info, b.wholes);
      }
      return seconds;
    });
  }
  // What a segment of every kind needs of `n` devices which share its ops and its bytes evenly, at the least.
  // `ways_of(segment)`: the ways in which it may run.
  template <class Ways> shape_needs of_devices(int n, int micro_batches, std::size_t micro_samples, Ways&& ways_of) const {
    shape_needs r{micro_batches, {}};
    for (int first : model_.first_of_kind) {
      segment const& s = model_.segments[static_cast<std::size_t>(first)];
      segment_needs& k = r.kinds.emplace_back();
      const std::vector<way_to_run> ways = ways_of(first);
      int turns = 1;
      for (way_to_run const& way : ways) turns = std::max(turns, way.turns);
      double forward = 0, kept = 0;
      for (searched_op const& x : s.ops) {
        std::size_t extents[max_dims]{};
        auto share = [&](op_info const& f, std::size_t const* wholes) {
          for (int d = 0; d < f.dim_count; ++d) {
            const bool batch = model_.batch != nullptr && f.dims[d].axis->id == model_.batch->id;
            extents[d] = batch ? std::min(wholes[d], micro_samples) : wholes[d];
          }
          return prices_->least_share(work_of(f, extents), n, turns);
        };
        for (caused_op const& b : x.backward) {
          k.seconds += share(*b.info, b.wholes);
          for (int i = 0; i < b.info->input_count; ++i)
            if (b.waits_with[i] && !b.waits_again[i])
              k.waiting += elements_of(b.info->input(i), extents) * static_cast<double>(size_of(b.info->input(i).type)) / n;
        }
        forward += share(*x.info, x.wholes);
        for (int o = 0; o < x.info->output_count; ++o)
          if (x.output_kept[o] && !x.info->is_view) {
            const double bytes = elements_of(x.info->outputs[o], extents) * static_cast<double>(size_of(x.info->outputs[o].type));
            kept += bytes / n;
            if (waits(s, x, o)) k.waiting += bytes / n;
          }
        for (searched_weight const& w : x.weights) {
          for (caused_op const& t : w.term_conversions) k.seconds += prices_->least_share(work_of(*t.info, t.wholes), n);
          for (caused_op const& u : w.conversions) k.step += prices_->least_share(work_of(*u.info, u.wholes), n);
          if (!w.owned) continue;
          k.held += held_by(w) / n;
          for (caused_op const& u : w.updates) k.step += prices_->least_share(work_of(*u.info, u.wholes), n);
        }
      }
      k.seconds += forward;
      for (int t : s.enters)
        k.flight_again += cut_options::bytes_of(model_.tensors[static_cast<std::size_t>(t)], micro_samples) / n;
      k.flight_kept = k.flight_again + kept;
      if (turns > 1) k.flight_kept = k.flight_again;
      else if (ways.front().again) {
        k.seconds += forward;
        k.flight_kept = k.flight_again;
      } else if (ways.size() > 1) k.again = forward;
      else k.flight_again = k.flight_kept;
    }
    return r;
  }

  // Where gradients of weights fill what would be a bubble, time per micro-batch becomes time per step, how much is not known
  // yet, and no segment runs again.
  static shape_needs without_times(shape_needs r) {
    for (segment_needs& k : r.kinds) {
      k.seconds = k.again = k.step = 0;
      k.flight_again = k.flight_kept;
    }
    return r;
  }

 private:
  // Does an output wait for the gradients of weights, counted in this segment (option_costs.hpp, tables.hpp)?
  bool waits(segment const& s, searched_op const& x, int output) const {
    const int tensor = model_.graph->ops[x.op].first_output + output;
    return x.own_weights_read_output[output] || (x.weights_read_output[output] && !x.output_read_inside[output]) ||
           std::any_of(s.ops.begin(), s.ops.end(), [&](searched_op const& reader) {
             return std::any_of(reader.inputs.begin(), reader.inputs.end(),
                                [&](searched_input const& in) { return in.weights_read && in.tensor == tensor; });
           });
  }
  // Segments of a kind have the same figure.
  template <class Figure> std::vector<double> of_kinds(Figure&& of) const {
    std::vector<double> all;
    for (int first : model_.first_of_kind) all.push_back(of(model_.segments[static_cast<std::size_t>(first)]));
    return all;
  }
  template <class Figure> double sum_over_segments(Figure&& of) const {
    const std::vector<double> of_kind = of_kinds(of);
    double sum = 0;
    for (segment const& s : model_.segments) sum += of_kind[static_cast<std::size_t>(s.kind)];
    return sum;
  }
  static double held_by(searched_weight const& w) { return w.stored_bytes + w.used_bytes + w.gradient_bytes + w.state_bytes; }

  segmented_model const& model_;
  costs const* prices_;
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
