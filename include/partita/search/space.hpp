// The space of plans of a traced model on a cluster, as a problem for any searcher (docs/reference/search.md):
//   pipeline stages of equal device counts, each a grid of at most two dimensions; every op cut along any letters that its
//   annotation allows; micro-batches, schedule; a ZeRO stage for every parameter; every block run again or not.
#pragma once
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <partita/search/check_constraints.hpp>
#include <partita/search/kinds.hpp>
#include <partita/search/least_figures.hpp>
#include <partita/search/place_needs.hpp>
#include <partita/search/place_prices.hpp>
#include <partita/search/schedules.hpp>
#include <partita/search/tables.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

class plan_space {
 public:
  struct shape_info {
    int devices = 1, micro_batches = 1;
    searched_schedule schedule{};
    std::vector<std::pair<int, int>> grids;  // outer, inner; those of a place stand together
    std::vector<int> places;                 // of place_prices: of the stages, in the order in which they first come
    std::vector<int> of_stage;               // by stage, into `places`
    int place_of(int grid) const { return grid * static_cast<int>(places.size()) / static_cast<int>(grids.size()); }
    int prices_of(int grid) const { return places[static_cast<std::size_t>(place_of(grid))]; }
    bool may_have(int stage, int grid) const { return of_stage[static_cast<std::size_t>(stage)] == place_of(grid); }
  };

  // `g` and `k` must outlive this.
  plan_space(graph_data const& g, int forward_ops, costs const& k, constraints const& c)
      : graph_(&g),
        costs_(&k),
        given_(c),
        model_(find_segments(g, forward_ops)),
        available_(c.devices > 0 ? std::min(c.devices, k.devices()) : k.devices()),
        prices_(k) {
    check_constraints(c);
    check_names(model_, c);
    set_rules();
    name_kinds(model_);
    boundary_ = cut_options::boundary_axes(model_);
    make_problem();
  }
  plan_space(plan_space const&) = delete;

  problem const& of() const { return problem_; }
  segmented_model const& model() const { return model_; }
  std::vector<shape_info> const& shapes() const { return shapes_; }
  std::vector<axis_info const*> const& boundary_axes() const { return boundary_; }
  graph_data const& graph() const { return *graph_; }
  constraints const& given() const { return given_; }
  costs const& prices() const { return *costs_; }
  int available() const { return available_; }

  // What the variables of a segment's table mean on a grid of a shape.
  table_key const& key_of(int segment, shape_info const& s, int grid, int variant = 0) const {
    const auto [outer, inner] = s.grids[static_cast<std::size_t>(grid)];
    const auto [place, fresh] =
        keys_.try_emplace({model_.segments[static_cast<std::size_t>(segment)].kind, s.devices, s.micro_batches, inner, variant,
                           static_cast<int>(s.schedule.kind), s.prices_of(grid)});
    table_key& key = place->second;
    if (!fresh) return key;
    grid_costs g(prices_.of(s.prices_of(grid)), outer, inner);
    table_builder b(model_, rules(), g, options_of(s), boundary_);
    b.build(model_.segments[static_cast<std::size_t>(segment)], segment == 0, segment + 1 == segments(), way(segment, variant),
            &key);
    return key;
  }
  // Bytes of the smallest of the devices; those of the largest are the problem's limit.
  double least_memory() const {
    double bytes = given_.memory > 0 ? given_.memory : costs_->memory(0);
    for (int d = 1; d < available_ && given_.memory <= 0; ++d) bytes = std::min(bytes, costs_->memory(d));
    return bytes;
  }
  // An op that the constraints on cuts leave no way to lie on the last grid that was looked at; or nothing.
  std::string const& without_options() const { return without_options_; }
  bool replays(int segment, int variant) const { return way(segment, variant).again; }
  // How a segment runs.
  way_to_run way(int segment, int variant) const { return ways_of(segment)[static_cast<std::size_t>(variant)]; }
  int segments() const { return static_cast<int>(model_.segments.size()); }

 private:
  // -- rules by name
  void set_rules() {
    std::map<std::vector<int>, int> known;
    for (segment& s : model_.segments)
      for (searched_op& x : s.ops) {
        std::vector<int> mine;
        for (std::size_t r = 0; r < given_.cuts.size(); ++r)
          if (given_.cuts[r].ops.contains(graph_->name(x.op).view())) mine.push_back(static_cast<int>(r));
        const auto [place, fresh] = known.try_emplace(mine, static_cast<int>(rule_sets_.size()));
        if (fresh) rule_sets_.push_back(mine);
        x.rule = place->second;
      }
    for (segment& s : model_.segments) s.rule = static_cast<int>(recompute_of(s));
  }
  recompute_rule recompute_of(segment const& s) const {
    recompute_rule rule = s.block < 0 ? recompute_rule::never : recompute_rule::either;
    for (recompute_constraint const& c : given_.recompute)
      if (s.block >= 0 && c.blocks.contains(s.name)) rule = c.rule;
    return rule;
  }
  device_range region_of(segment const& s) const {
    device_range r;
    for (region_constraint const& c : given_.regions)
      if (std::any_of(s.ops.begin(), s.ops.end(),
                      [&](searched_op const& x) { return c.ops.contains(graph_->name(x.op).view()); }))
        r = {std::max(r.first, c.first), std::min(r.last, c.last)};
    return r;
  }
  // The ways in which a segment may run.
  std::vector<way_to_run> ways_of(int number) const {
    segment const& s = model_.segments[static_cast<std::size_t>(number)];
    const recompute_rule rule = recompute_of(s);
    std::vector<way_to_run> all;
    if (rule != recompute_rule::always) all.push_back({});
    if (rule == recompute_rule::never) return all;
    all.push_back({true});
    const bool has_turns = std::any_of(s.ops.begin(), s.ops.end(), [](searched_op const& x) { return x.turns_along >= 0; });
    for (int turns : given_.coshard)
      if (turns > 1 && has_turns) {
        all.push_back({true, turns, true});
        if (rule != recompute_rule::always) all.push_back({true, turns, false});
      }
    return all;
  }

  bool needs_replays() const {
    for (int i = 0; i < segments(); ++i)
      if (ways_of(i).front().again) return true;
    return false;
  }

  // -- configurations
  std::size_t micro_samples_of(shape_info const& s) const {
    return (model_.samples + static_cast<std::size_t>(s.micro_batches) - 1) / static_cast<std::size_t>(s.micro_batches);
  }
  table_options options_of(shape_info const& s) const {
    table_options o;
    o.micro_samples = micro_samples_of(s);
    o.zero = given_.zero.empty() ? std::vector<int>{0, 1, 2, 3} : given_.zero;
    o.micro_batches = s.micro_batches;
    o.fills = s.schedule.fills();
    if (s.devices == 1) o.zero = {0};
    o.one_stage = 2 * s.devices > costs_->devices();
    return o;
  }
  rules_on_cuts rules() const { return {given_.cuts, rule_sets_}; }
  cut_options options_on(grid_costs const& g, shape_info const& s) const {
    return {model_, rules(), g, micro_samples_of(s), boundary_};
  }
  std::vector<int> device_counts() const {
    std::set<int> all;
    if (!given_.devices_per_stage.empty()) all.insert(given_.devices_per_stage.begin(), given_.devices_per_stage.end());
    else
      for (int n = 1; n <= available_; n *= 2) {
        all.insert(n);
        if (3 * n <= available_) all.insert(3 * n);
      }
    std::vector<int> counts;
    for (int n : all)
      if (n >= 1 && n <= available_) counts.push_back(n);
    return counts;
  }
  std::vector<int> micro_batch_counts() const {
    if (!given_.micro_batches.empty()) return given_.micro_batches;
    std::vector<int> all;
    for (std::size_t m = 1; m <= model_.samples; ++m)
      if (model_.samples % m == 0) all.push_back(static_cast<int>(m));
    return all;
  }
  static std::vector<std::pair<int, int>> grids_of(int devices) {
    std::vector<std::pair<int, int>> all;
    for (int inner = 1; inner <= devices; ++inner)
      if (devices % inner == 0 && (inner > 1 || devices == 1)) all.push_back({devices / inner, inner});
    return all;
  }
  // Those on which every op has some option.
  std::vector<std::pair<int, int>> possible_grids(int devices, int micro_batches) {
    std::vector<std::pair<int, int>> all = grids_of(devices);
    if (given_.cuts.empty()) return all;
    std::erase_if(all, [&](std::pair<int, int> const& grid) {
      const grid_costs g(*costs_, grid.first, grid.second);
      const cut_options b = options_on(g, {devices, micro_batches, {}, {}, {}, {}});
      for (int first : model_.first_of_kind)
        for (searched_op const& x : model_.segments[static_cast<std::size_t>(first)].ops)
          if (b.op_options(x).empty()) {
            without_options_ = std::string(graph_->name(x.op).view());
            return true;
          }
      return false;
    });
    return all;
  }
  double most_memory() const {
    double bytes = costs_->memory(0);
    for (int d = 1; d < available_; ++d) bytes = std::max(bytes, costs_->memory(d));
    return bytes;
  }
  void make_problem() {
    int blocks = 0;
    for (segment const& s : model_.segments) {
      problem_.chain.push_back(s.kind);
      if (given_.equal_stages) problem_.blocks.push_back(s.block < 0 ? -1 : blocks++);
      problem_.may_begin.push_back(given_.stage_begins.contains(s.name));
      if (!given_.regions.empty()) problem_.regions.push_back(region_of(s));
    }
    counts_.assign(model_.first_of_kind.size(), 0);
    for (int kind : problem_.chain) ++counts_[static_cast<std::size_t>(kind)];
    problem_.limit = given_.memory > 0 ? given_.memory : most_memory();
    const double held = least_figures(model_, *costs_).held();
    const std::vector<searched_schedule> schedules = searched_schedule::all_of(given_);
    std::vector<int> stages = given_.stages;
    if (stages.empty())
      for (int p = 1; p <= segments(); ++p) stages.push_back(p);
    for (int n : device_counts()) {
      std::vector<int> place_of_stage;
      std::vector<place_needs> places;
      for (int s = 0; s < available_ / n; ++s) {
        const int place = prices_.place_of(s * n, n);
        std::size_t known = 0;
        while (known < places.size() && places[known].prices != place) ++known;
        if (known == places.size()) {
          const least_figures least(model_, prices_.of(place));
          places.push_back({place, least.work(), {}});
        }
        place_of_stage.push_back(static_cast<int>(known));
      }
      for (int m : micro_batch_counts()) {
        shape_info info{n, m, {}, possible_grids(n, m), {}, place_of_stage};
        if (info.grids.empty()) continue;
        for (place_needs& x : places)
          x.needs = least_figures(model_, prices_.of(x.prices)).of_devices(n, m, micro_samples_of(info), [&](int segment) {
            return ways_of(segment);
          });
        for (std::size_t used = 1; used <= places.size(); ++used)
          add_configurations(info, {places.begin(), places.begin() + static_cast<std::ptrdiff_t>(used)}, held, schedules, stages);
      }
    }
    problem_.shapes = static_cast<int>(shapes_.size());
    problem_.make_shape = [this](int id) { return make_shape(shapes_[static_cast<std::size_t>(id)]); };
    problem_.needs = [this](int id) { return needs_[static_cast<std::size_t>(id)]; };
  }
  bool begins_anywhere() const {
    return problem_.regions.empty() && problem_.blocks.empty() &&
           std::find(problem_.may_begin.begin(), problem_.may_begin.end(), false) == problem_.may_begin.end();
  }
  // Those whose stages are at all of these places and no others. `info`: without schedule and places. `held`: bytes, of the whole
  // model.
  void add_configurations(shape_info info, std::vector<place_needs> const& places, double held,
                          std::vector<searched_schedule> const& schedules, std::vector<int> const& stages) {
    const int n = info.devices, m = info.micro_batches;
    shape_needs needs = least_of(places);
    const bool own_limits = least_memory() < problem_.limit;
    // Of the first so many stages: how many are at each place, and bytes of their devices.
    std::vector<std::vector<int>> at{std::vector<int>(places.size(), 0)};
    std::vector<double> room{0};
    for (int place : info.of_stage) {
      if (place >= static_cast<int>(places.size())) break;
      at.push_back(at.back());
      ++at.back()[static_cast<std::size_t>(place)];
      const double limit = own_limits ? prices_.memory(places[static_cast<std::size_t>(place)].prices) : problem_.limit;
      room.push_back(room.back() + n * limit);
      if (own_limits) needs.limits.push_back(limit);
    }
    const std::vector<std::pair<int, int>> grids = std::move(info.grids);
    info.grids.clear();
    for (place_needs const& x : places) {
      info.places.push_back(x.prices);
      info.grids.insert(info.grids.end(), grids.begin(), grids.end());
    }
    for (searched_schedule const& schedule : schedules) {
      if ((schedule.splits() && needs_replays()) || (schedule.chunks > 1 && !begins_anywhere())) continue;
      info.schedule = schedule;
      const pipeline_schedule rule = schedule.rule();
      const double fill = schedule.splits() ? 0 : rule.fill;
      bool used = false;
      for (int p : stages) {
        const std::size_t first = static_cast<std::size_t>(p);
        if (first >= at.size() || p > segments() || at[first].back() == 0 || room[first] < held) continue;
        if (!schedule.possible(problem_.chain, p, m)) continue;
        problem_.configurations.push_back(
            {static_cast<int>(shapes_.size()), p, rule, least_time(places, counts_, at[first], n, fill)});
        used = true;
      }
      if (!used) continue;
      shapes_.push_back(info);
      needs_.push_back(schedule.splits() ? least_figures::without_times(needs) : needs);
    }
  }
  shape make_shape(shape_info const& s) const {
    shape r;
    r.devices = s.devices;
    r.micro_batches = s.micro_batches;
    std::vector<grid_costs> grids;
    for (std::size_t g = 0; g < s.grids.size(); ++g)
      grids.emplace_back(prices_.of(s.prices_of(static_cast<int>(g))), s.grids[g].first, s.grids[g].second);
    if (s.places.size() > 1) {  // of the stages before the first that lies elsewhere
      auto elsewhere = [&](int place) { return place >= static_cast<int>(s.places.size()); };
      r.places.assign(s.of_stage.begin(), std::find_if(s.of_stage.begin(), s.of_stage.end(), elsewhere));
    }
    for (grid_costs const& g : grids) {
      table_builder b(model_, rules(), g, options_of(s), boundary_);
      grid_choice choice;
      choice.place = s.place_of(static_cast<int>(r.grids.size()));
      if (given_.memory <= 0) choice.limit = prices_.memory(s.prices_of(static_cast<int>(r.grids.size())));
      for (int first : model_.first_of_kind) {
        segment const& of = model_.segments[static_cast<std::size_t>(first)];
        auto made = [&](way_to_run how) {
          return std::make_shared<table const>(b.build(of, first == 0, first + 1 == segments(), how));
        };
        const auto whole = made({});
        std::vector<variant> variants;
        const std::vector<way_to_run> ways = ways_of(first);
        for (way_to_run const& how : ways)
          if (!how.again || !s.schedule.splits())  // what waits for the gradients of weights is there that long
            variants.push_back({how.turns > 1 ? made(how) : whole, how.again, false});
        for (variant& v : variants) v.saves_memory_alone = v.replays && !ways.front().again && is_no_faster(*v.costs, *whole);
        choice.kinds.push_back(std::move(variants));
      }
      r.grids.push_back(std::move(choice));
    }
    add_crossings(s, grids, r);
    return r;
  }
  // Is no choice that runs again faster than the same one kept? In turns it may be: gradients of one micro-batch's turns go in
  // buckets, and small products at other rates.
  static bool is_no_faster(table const& again, table const& kept) {
    if (&again == &kept) return true;
    auto all = [](cost_list const& a, cost_list const& b) {
      constexpr double rounding = 1 - 1e-12;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const segment_cost x = cost_in_stage(a[i], true), y = cost_in_stage(b[i], false);
        if (x.time < y.time * rounding || x.step < y.step * rounding) return false;
      }
      return true;
    };
    return again.same_form(kept) && all(again.own, kept.own) && all(again.pair_costs, kept.pair_costs);
  }
  // A stage sends what a device holds of every tensor to the device with the same place in the next stage, and gets the
  // gradient back; where the layouts differ the larger piece is sent. Chunks cross as often as there are of them.
  void add_crossings(shape_info const& s, std::vector<grid_costs> const& grids, shape& r) const {
    if (s.devices * 2 > available_) return;
    std::set<std::pair<int, int>> neighbours;  // places
    for (std::size_t k = 1; k < s.of_stage.size(); ++k) neighbours.insert({s.of_stage[k - 1], s.of_stage[k]});
    const std::size_t kinds = model_.first_of_kind.size();
    std::vector<std::vector<std::vector<double>>> shares;  // [grid * kinds + kind]
    for (grid_costs const& grid : grids)
      for (int first : model_.first_of_kind)
        shares.push_back(options_on(grid, s).boundary_shares(model_.segments[static_cast<std::size_t>(first)].enters));
    for (std::size_t from = 0; from < grids.size(); ++from)
      for (std::size_t to = 0; to < grids.size(); ++to)
        for (std::size_t kind = 0; kind < kinds; ++kind) {
          const int first = model_.first_of_kind[kind];
          r.crossings.emplace_back();
          if (first == 0 || !neighbours.count({s.place_of(static_cast<int>(from)), s.place_of(static_cast<int>(to))})) continue;
          std::vector<int> const& tensors = model_.segments[static_cast<std::size_t>(first)].enters;
          for (auto const& x : shares[from * kinds + kind])
            for (auto const& y : shares[to * kinds + kind]) {
              double seconds = 0;
              for (std::size_t t = 0; t < tensors.size(); ++t) {
                const bool back = model_.tensors[static_cast<std::size_t>(tensors[t])].differentiable;
                seconds += (back ? 2 : 1) * costs_->send(0, s.devices, std::max(x[t], y[t]), flows(s.devices));
              }
              r.crossings.back().push_back(s.schedule.chunks * seconds);
            }
        }
  }
  double flows(int devices) const {
    const int unit = costs_->of().links.front().devices;
    return std::min(devices, unit);
  }

  graph_data const* graph_;
  costs const* costs_;
  constraints given_;
  segmented_model model_;
  int available_;
  place_prices prices_;
  std::vector<std::vector<int>> rule_sets_;
  std::vector<axis_info const*> boundary_;
  std::vector<shape_info> shapes_;
  std::vector<shape_needs> needs_;  // by shape
  std::vector<int> counts_;         // of segments, by kind
  problem problem_;
  mutable std::map<std::tuple<int, int, int, int, int, int, int>, table_key>
      keys_;  // by kind, devices, micro-batches, inner dimension of the grid, variant, schedule, place
  std::string without_options_;
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
