// A space that is small enough to look at every point of, in constant evaluation too. It is the space of docs/reference/search.md
// with fewer choices, at the same costs: all stages have the same grid, each dimension of it cuts by an order of axes (an op, and
// a tensor between segments, lies by the first along which it may be cut), every parameter has the same ZeRO stage, and a tensor
// with several readers lies as is fastest. Blocks run again where memory wants it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <partita/search/crossings.hpp>
#include <partita/search/device_counts.hpp>
#include <partita/search/kinds.hpp>
#include <partita/search/schedules.hpp>
#include <partita/search/space_rules.hpp>
#include <partita/search/tables.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

inline constexpr int small_axes = 6, small_stages = 8, small_segments = 64;

// A point, as numbers that may be a constant's.
struct small_point {
  int devices = 1, outer = 1, inner = 1;  // of a stage
  int micro_batches = 1, zero = 0, stages = 1;
  schedule_kind schedule = schedule_kind::one_f_one_b;
  axis_info const* axes[grid_dimensions][small_axes]{};  // by dimension, in their order
  int begins[small_stages]{};                            // segments that stages begin with
  std::uint64_t again = 0;                               // segments that run again, a bit each
  bool operator==(small_point const&) const = default;
};
struct small_outcome {
  bool found = false;
  small_point point{};
  double seconds = infinite, bytes = 0;  // of a step; of the fullest device
  double least_bytes = infinite;         // of the point that holds the least
  long points = 0;                       // that were looked at
  // The better of both.
  constexpr void take(small_outcome const& o) {
    const double least = std::min(least_bytes, o.least_bytes);
    const long all = points + o.points;
    if (o.found && (!found || o.seconds < seconds)) *this = o;
    least_bytes = least;
    points = all;
  }
};

template <class Costs> class small_space {
 public:
  // What is referred to must outlive this.
  constexpr small_space(graph_data const& g, int forward_ops, Costs const& k, constraints const& c)
      : prices_(k),
        given_(c),
        model_(find_segments(g, forward_ops)),
        available_(c.devices > 0 ? std::min(c.devices, k.devices()) : k.devices()),
        rules_(g, given_, model_) {
    rules_.set();
    name_kinds(model_);
    chain_ = rules_.chain();
    schedules_ = searched_schedule::all_of(given_);
    boundary_ = cut_options::boundary_axes(model_);
    find_orders();
  }
  small_space(small_space const&) = delete;

  constexpr segmented_model const& model() const { return model_; }
  constexpr std::vector<axis_info const*> const& axes() const { return axes_; }
  constexpr double limit() const { return given_.memory > 0 ? given_.memory : prices_.memory; }
  // How many there are to be looked at: tables, which take the most time, and ways to cut by them. Known without looking.
  constexpr long tables() const {
    long n = 0;
    each_shape([&](small_point const&, int) { ++n; });
    return n;
  }
  constexpr long ways() const {
    long n = 0;
    each_shape([&](small_point const& x, int) { n += (x.outer > 1 ? orders() : 1) * (x.inner > 1 ? orders() : 1); });
    return n;
  }
  // Every point, with its seconds of a step and the bytes of its fullest device: `visit(small_point, seconds, bytes)`; of what
  // may run again the best choice alone (share_out). `table`: of one table.
  template <class Visit> constexpr void each_point(Visit&& visit, int table = -1) const {
    int number = 0;
    each_shape([&](small_point x, int fills) {
      if (const int mine = number++; table >= 0 && mine != table) return;
      const std::vector<searched_table> all = tables_of(x, fills);
      for (std::size_t a = 0; a < (x.outer > 1 ? orders_.size() : 1); ++a)
        for (std::size_t b = 0; b < (x.inner > 1 ? orders_.size() : 1); ++b) {
          put_order(x.axes[0], orders_[a]);
          put_order(x.axes[1], orders_[b]);
          const priced p = price(x, all);
          if (p.possible) each_division(x, p, fills, visit);
        }
    });
  }
  constexpr small_outcome best(int table = -1) const {
    small_outcome r;
    each_point(
        [&](small_point const& x, double seconds, double bytes) {
          ++r.points;
          r.least_bytes = std::min(r.least_bytes, bytes);
          if (bytes > limit() || (r.found && seconds >= r.seconds)) return;
          r.found = true;
          r.point = x;
          r.seconds = seconds;
          r.bytes = bytes;
        },
        table);
    return r;
  }

  constexpr std::vector<way_to_run> ways_of(int segment) const { return rules_.ways_of(segment); }
  // A table with the axes, as indices into `axes_` or -1, that every option of its variables cuts.
  struct searched_table {
    table costs{};
    table_key key{};
    std::vector<std::vector<cut_option>> axes{};
    std::vector<std::vector<double>> shares{};  // per way to enter, bytes of the tensors that enter
  };
  // By kind of segment. `fills`: of the schedule.
  constexpr std::vector<searched_table> tables_of(small_point const& x, int fills) const {
    std::vector<searched_table> all;
    for (int first : model_.first_of_kind) all.push_back(table_of(x, first, fills));
    return all;
  }
  // Of ops and boundaries by the orders of axes; of tensors with several readers the one that takes the least time in a step, and
  // of those the smallest: no two of them share a cost. Empty: something has no option.
  constexpr std::vector<int> options_of(searched_table const& t, small_point const& x, bool again) const {
    // By dimension and axis + 1, the place in the order. Behind all that stand in it, no cut; behind that, what may not be.
    std::array<std::array<int, small_axes + 2>, grid_dimensions> place{};
    for (std::size_t d = 0; d < grid_dimensions; ++d) {
      place[d].fill(small_axes + 1);
      place[d][0] = small_axes;
      for (int i = 0; i < small_axes && x.axes[d][i] != nullptr; ++i) place[d][at(index_of(x.axes[d][i]) + 1)] = i;
    }
    std::vector<int> options(t.axes.size(), 0);
    for (std::size_t v = 0; v < t.axes.size(); ++v) {
      if (t.key.variables[v].what == table_key::variable::gathered) continue;
      int least = (small_axes + 1) * (small_axes + 2);
      for (std::size_t i = 0; i < t.axes[v].size(); ++i) {
        const int outer = place[0][at(t.axes[v][i][0] + 1)], inner = place[1][at(t.axes[v][i][1] + 1)];
        if (outer > small_axes || inner > small_axes || outer * (small_axes + 1) + inner >= least) continue;
        least = outer * (small_axes + 1) + inner;
        options[v] = static_cast<int>(i);
      }
      if (least == (small_axes + 1) * (small_axes + 2)) return {};
    }
    for (std::size_t v = 0; v < t.axes.size(); ++v)
      if (t.key.variables[v].what == table_key::variable::gathered)
        gather(t.costs, static_cast<int>(v), again, x.micro_batches, options);
    return options;
  }

 private:
  struct priced {
    bool possible = true;
    std::vector<segment_cost> kept, again;  // by kind
    std::vector<double> crossings;          // seconds per micro-batch for entering a segment of each kind from another stage
  };
  constexpr long orders() const { return static_cast<long>(orders_.size()); }

  // In `axes_`; or -1.
  constexpr int index_of(axis_info const* a) const {
    for (std::size_t i = 0; i < axes_.size(); ++i)
      if (axes_[i]->id == a->id) return static_cast<int>(i);
    return -1;
  }
  // Axes that some op may be cut along, and the orders of them that differ: of two neighbours that no op has both the one that is
  // known first stands first.
  constexpr void find_orders() {
    std::vector<std::uint64_t> together;  // by axis, those that stand beside it in some op
    for (int first : model_.first_of_kind)
      for (searched_op const& x : model_.segments[static_cast<std::size_t>(first)].ops.alike()) {
        std::uint64_t mine = 0;
        for (int l = 0; l < x.info->dim_count; ++l) {
          if (!x.may_cut[l] || !rules_.allow(x, l)) continue;
          int i = index_of(x.info->dims[l].axis);
          if (i < 0) {
            i = static_cast<int>(axes_.size());
            axes_.push_back(x.info->dims[l].axis);
            together.push_back(0);
          }
          if (i < 64) mine |= std::uint64_t{1} << i;
        }
        for (std::size_t i = 0; i < std::min<std::size_t>(axes_.size(), 64); ++i)
          if ((mine >> i & 1) != 0) together[i] |= mine;
      }
    if (std::ssize(axes_) > small_axes) return;
    orders_.push_back({});
    for (std::size_t n = 0; n < orders_.size(); ++n)
      for (int i = 0; i < std::ssize(axes_); ++i) {
        const std::vector<int>& before = orders_[n];
        if (std::find(before.begin(), before.end(), i) != before.end()) continue;
        if (!before.empty() && i < before.back() && (together[static_cast<std::size_t>(i)] >> before.back() & 1) == 0) continue;
        std::vector<int> longer = before;
        longer.push_back(i);
        orders_.push_back(std::move(longer));
      }
  }
  // Stages' devices and grid, micro-batches, ZeRO; and how often gradients of weights fill what would be bubbles.
  template <class Visit> constexpr void each_shape(Visit&& visit) const {
    std::vector<int> filling;
    for (searched_schedule const& s : schedules_)
      if (std::find(filling.begin(), filling.end(), s.fills()) == filling.end()) filling.push_back(s.fills());
    const std::vector<int> counts = device_counts(given_, available_), batches = micro_batch_counts(given_, model_.samples);
    for (int devices : counts) {
      const std::vector<std::pair<int, int>> grids = grids_of(devices);
      const std::vector<int> stages = zero_stages(devices);
      for (auto const& [outer, inner] : grids)
        for (int micro_batches : batches)
          for (int zero : stages)
            for (int fills : filling) {
              small_point x;
              x.devices = devices;
              x.outer = outer;
              x.inner = inner;
              x.micro_batches = micro_batches;
              x.zero = zero;
              visit(x, fills);
            }
    }
  }
  constexpr std::vector<int> zero_stages(int devices) const {
    if (devices == 1) return {0};
    if (given_.zero.empty()) return {0, 1, 2, 3};
    return given_.zero;
  }
  constexpr void put_order(axis_info const** into, std::vector<int> const& order) const {
    for (int i = 0; i < small_axes; ++i)
      into[i] = i < std::ssize(order) ? axes_[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] : nullptr;
  }
  constexpr searched_table table_of(small_point const& x, int segment, int fills) const {
    const grid_costs<Costs> grid(prices_, x.outer, x.inner);
    const table_options how{{x.zero}, x.micro_batches, {fills}, 2 * x.devices > prices_.devices()};
    partita::spaces::segment const& s = model_.segments[at(segment)];
    table_builder builder(model_, rules_.on_cuts(), grid, how, boundary_);
    searched_table t;
    t.costs = std::move(builder.build(s, segment == 0, segment + 1 == chain_.segments(), {}, &t.key).front());
    if (segment > 0) t.shares = cut_options(model_, rules_.on_cuts(), grid, x.micro_batches, boundary_).boundary_shares(s.enters);
    for (std::size_t v = 0; v < t.key.variables.size(); ++v) {
      table_key::variable const& about = t.key.variables[v];
      t.axes.emplace_back();
      if (about.what == table_key::variable::gathered) continue;
      for (cut_option const& c : t.key.cuts[v]) {
        cut_option by{-1, -1};
        for (std::size_t d = 0; d < grid_dimensions; ++d)
          if (c[d] >= 0) {
            const bool between = about.what == table_key::variable::boundary;
            const int i = index_of(between ? boundary_[at(c[d])] : s.ops.alike()[at(about.op)].info->dims[c[d]].axis);
            by[d] = static_cast<std::int8_t>(i < 0 ? small_axes : i);  // in no order
          }
        t.axes.back().push_back(by);
      }
    }
    return t;
  }
  static constexpr void gather(table const& t, int v, bool again, int micro_batches, std::vector<int>& options) {
    std::vector<cost> all;
    for (int i = 0; i < t.options[at(v)]; ++i) all.push_back(t.own[t.index(v, i)]);
    for (table::pair const& p : t.pairs)
      if (p.a == v || p.b == v)
        for (std::size_t i = 0; i < all.size(); ++i) {
          const int mine = static_cast<int>(i);
          all[i] += t.pair_costs[p.a == v ? t.index(p, mine, options[at(p.b)]) : t.index(p, options[at(p.a)], mine)];
        }
    double least = infinite, bytes = infinite;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double seconds = micro_batches * ((again ? 2 : 1) * all[i].forward + all[i].backward) + all[i].step;
      if (seconds > least || (seconds == least && all[i].kept >= bytes)) continue;
      least = seconds;
      bytes = all[i].kept;
      options[at(v)] = static_cast<int>(i);
    }
  }
  constexpr priced price(small_point const& x, std::vector<searched_table> const& all) const {
    priced r;
    for (std::size_t kind = 0; kind < all.size(); ++kind) {
      searched_table const& t = all[kind];
      for (bool again : {false, true}) {
        const std::vector<int> options = options_of(t, x, again);
        r.possible = r.possible && !options.empty();
        if (!r.possible) return r;
        (again ? r.again : r.kept).push_back(cost_in_stage(cost_of(t.costs, options.data()), again));
        if (again) continue;
        r.possible = r.kept.back().time < impossible;
        r.crossings.push_back(0);
        if (t.shares.empty()) continue;
        std::vector<double> const& share = t.shares[at(options.front())];
        segment const& s = model_.segments[at(model_.first_of_kind[kind])];
        r.crossings.back() =
            crossing_seconds(model_, s.enters, share, share, [&](double bytes) { return prices_.send(0, x.devices, bytes); });
      }
    }
    return r;
  }

  // Schedules, and every way to cut the chain into stages.
  template <class Visit> constexpr void each_division(small_point x, priced const& p, int fills, Visit&& visit) const {
    for (searched_schedule const& schedule : schedules_) {
      if (schedule.fills() != fills || (schedule.keeps_all() && rules_.needs_replays())) continue;
      for (int stages = 1; stages <= std::min({small_stages, chain_.segments(), available_ / x.devices}); ++stages) {
        if (!given_.stages.empty() && std::find(given_.stages.begin(), given_.stages.end(), stages) == given_.stages.end())
          continue;
        if (!schedule.possible(chain_.chain, stages, x.micro_batches)) continue;
        x.schedule = schedule.kind;
        x.stages = stages;
        const pipeline_schedule rule = schedule.rule(stages, x.micro_batches);
        divide(x, p, rule, schedule.keeps_all(), 1, visit);
      }
    }
  }
  // `stage`: the first whose beginning is open.
  template <class Visit> constexpr void divide(small_point& x, priced const& p, pipeline_schedule const& rule, bool keeps_all,
                                               int stage, Visit&& visit) const {
    if (stage == x.stages) return share_out(x, p, rule, keeps_all, visit);
    for (int begin = x.begins[stage - 1] + 1; begin <= chain_.segments() - (x.stages - stage); ++begin)
      if (chain_.begins(begin, x.stages)) {
        x.begins[stage] = begin;
        divide(x, p, rule, keeps_all, stage + 1, visit);
      }
  }
  // Which segments run again: of each stage as many as memory wants, and of those ways the fastest; where none fits the leanest.
  template <class Visit>
  constexpr void share_out(small_point& x, priced const& p, pipeline_schedule const& rule, bool keeps_all, Visit&& visit) const {
    step_time step;
    double most = 0;
    x.again = 0;
    for (int s = 0; s < x.stages; ++s) {
      const int begin = x.begins[s], end = s + 1 < x.stages ? x.begins[s + 1] : chain_.segments();
      for (int i = begin; i < end; ++i)
        if (!chain_.lies(i, s, x.devices)) return;
      const stage_way way = fastest_stage(p, begin, end, rule.in_flight(s, x.stages, x.micro_batches), keeps_all);
      step.add(way.all.time + (s > 0 ? p.crossings[at(chain_.chain[at(begin)])] : 0), way.all.step, rule.fill, x.micro_batches);
      most = std::max(most, way.bytes);
      x.again |= way.again;
    }
    visit(std::as_const(x), step.seconds(rule.fill), most);
  }
  struct stage_way {
    segment_cost all{};
    double bytes = infinite;
    std::uint64_t again = 0;
  };
  // Segments of one kind cost the same, so how many of each run again is all there is to choose.
  constexpr stage_way fastest_stage(priced const& p, int begin, int end, in_flight_counts in_flight, bool keeps_all) const {
    std::vector<int> may(model_.first_of_kind.size(), 0);
    for (int i = begin; i < end; ++i) may[at(chain_.chain[at(i)])] += rule_of(i) == recompute_rule::either && !keeps_all;
    std::vector<int> many(may.size(), 0);
    stage_way best;
    for (;;) {
      stage_way now;
      std::vector<int> left = many;
      for (int i = begin; i < end; ++i) {
        const std::size_t kind = at(chain_.chain[at(i)]);
        const bool again = rule_of(i) == recompute_rule::always || (rule_of(i) == recompute_rule::either && left[kind] > 0);
        if (again) now.again |= std::uint64_t{1} << i;
        left[kind] -= again;
        join(now.all, again ? p.again[kind] : p.kept[kind]);
      }
      now.bytes = bytes_held(now.all, in_flight) + now.all.replay;
      const bool fits = now.bytes <= limit(), did = best.bytes <= limit();
      if (fits ? !did || now.all.time < best.all.time : !did && now.bytes < best.bytes) best = now;
      std::size_t k = 0;  // the next numbers of them
      while (k < many.size() && many[k] == may[k]) many[k++] = 0;
      if (k == many.size() || (fits && now.again == 0)) return best;  // what runs again is never faster
      ++many[k];
    }
  }
  constexpr recompute_rule rule_of(int segment) const { return static_cast<recompute_rule>(model_.segments[at(segment)].rule); }
  static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

  Costs const& prices_;
  constraints given_;
  segmented_model model_;
  int available_;
  space_rules rules_;
  segment_chain chain_;
  std::vector<searched_schedule> schedules_;
  std::vector<axis_info const*> boundary_, axes_;
  std::vector<std::vector<int>> orders_;  // of indices into axes_
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
