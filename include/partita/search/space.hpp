// The space of plans of a traced model on a cluster, as a problem for any searcher (docs/reference/search.md):
//   pipeline stages of equal device counts, each a grid of at most two dimensions; every op cut along any letters that its
//   annotation allows; micro-batches, schedule; a ZeRO stage for every parameter; every block run again or not.
#pragma once
#include <iterator>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include <partita/search/check_constraints.hpp>
#include <partita/search/crossings.hpp>
#include <partita/search/device_counts.hpp>
#include <partita/search/kinds.hpp>
#include <partita/search/least_figures.hpp>
#include <partita/search/place_needs.hpp>
#include <partita/search/place_prices.hpp>
#include <partita/search/schedules.hpp>
#include <partita/search/shape_info.hpp>
#include <partita/search/shared_tables.hpp>
#include <partita/search/space_rules.hpp>
#include <partita/search/spread_ways.hpp>
#include <partita/search/tables.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

class plan_space {
 public:
  using shape_info = spaces::shape_info;

  // `g` and `k` must outlive this.
  plan_space(graph_data const& g, int forward_ops, costs const& k, constraints const& c)
      : graph_(&g),
        costs_(&k),
        given_(c),
        model_(find_segments(g, forward_ops)),
        available_(c.devices > 0 ? std::min(c.devices, k.devices()) : k.devices()),
        prices_(k),
        rules_(g, given_, model_) {
    check_constraints(c);
    check_names(model_, c);
    rules_.set();
    name_kinds(model_);
    spread_ = spread_segments(model_);
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
    table_builder b(model_, rules_.on_cuts(), g, options_of(s), boundary_);
    b.build(model_.segments[static_cast<std::size_t>(segment)], segment == 0, segment + 1 == segments(), way(segment, variant),
            &key);
    return key;
  }
  bool may_spread(int segment) const { return spread_.contains(segment); }
  // How many of them stand before this one, which is one.
  int number_of_spread(int segment) const {
    int n = 0;
    for (int i = 0; i < segment; ++i) n += may_spread(i);
    return n;
  }
  // Is the segment one of those that all devices run, under the shape's schedule?
  bool spreads(int segment, shape_info const& s) const { return s.schedule.spreads() && spread_.contains(segment); }
  // Ways of a shape to spread, as `shape::spread` counts them.
  std::vector<spread_way> const& ways_to_spread(shape_info const& s) const {
    const auto [place, fresh] = ways_.try_emplace({s.devices, s.stages, s.micro_batches, s.schedule.in_step()});
    std::vector<spread_way>& all = place->second;
    if (!fresh) return all;
    const spread_link link{&prices_.of(s.prices_of(0)), s.devices, s.devices * s.stages};
    for (auto const& [outer, inner] : spread_grids(s)) {
      const grid_costs grid(*link.prices, outer, inner);
      spread_on_grid on(model_, spread_, rules_.on_cuts(), grid, options_of_spread(s), boundary_, link,
                        s.schedule.spread_in_flight(s.stages, s.micro_batches));
      for (spread_way& x : on.ways()) all.push_back(std::move(x));
    }
    keep_best(all);
    return all;
  }
  // What the variables of a spread segment mean, in one of them.
  table_key key_of_spread(int segment, shape_info const& s, spread_way const& way) const {
    table_key key;
    const grid_costs grid(prices_.of(s.prices_of(0)), way.grid.first, way.grid.second);
    const spaces::segment of = spread_segments::alone(model_.segments[static_cast<std::size_t>(segment)]);
    table_builder(model_, rules_.on_cuts(), grid, options_of_spread(s), boundary_)
        .build(of, of.enters.empty(), of.leaves.empty(), {}, &key);
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
  way_to_run way(int segment, int variant) const { return rules_.ways_of(segment)[static_cast<std::size_t>(variant)]; }
  int segments() const { return static_cast<int>(model_.segments.size()); }

 private:
  // -- configurations
  std::size_t micro_samples_of(shape_info const& s) const {
    return (model_.samples + static_cast<std::size_t>(s.micro_batches) - 1) / static_cast<std::size_t>(s.micro_batches);
  }
  table_options options_of(shape_info const& s) const {
    table_options o;
    o.zero = given_.zero.empty() ? std::vector<int>{0, 1, 2, 3} : given_.zero;
    o.micro_batches = s.micro_batches;
    o.fills = s.schedule.fills_beside(given_, s.micro_batches);
    if (s.devices == 1) o.zero = {0};
    o.one_stage = 2 * s.devices > costs_->devices();
    return o;
  }
  table_options options_of_spread(shape_info s) const {
    s.devices *= s.stages;
    table_options o = options_of(s);
    o.fills = {0};
    o.one_stage = false;  // it waits for the stages
    return o;
  }
  cut_options options_on(device_grid const& g, shape_info const& s) const {
    return {model_, rules_.on_cuts(), g, s.micro_batches, boundary_};
  }
  // Those on which every op of the segments that are `wanted` has some option.
  template <class Wanted> std::vector<std::pair<int, int>> possible_grids(int devices, int micro_batches, Wanted&& wanted) const {
    std::vector<std::pair<int, int>> all = grids_of(devices);
    if (given_.cuts.empty()) return all;
    std::erase_if(all, [&](std::pair<int, int> const& grid) {
      const device_grid g(grid.first, grid.second);
      const cut_options b = options_on(g, {devices, micro_batches, {}, {}, {}, {}, 0});
      for (int first : model_.first_of_kind)
        for (searched_op const& x : model_.segments[static_cast<std::size_t>(first)].ops)
          if (wanted(first) && b.op_options(x).empty()) {
            without_options_ = std::string(graph_->name(x.op).view());
            return true;
          }
      return false;
    });
    return all;
  }
  std::vector<std::pair<int, int>> spread_grids(shape_info const& s) const {
    return possible_grids(s.devices * s.stages, s.micro_batches, [&](int segment) { return spread_.contains(segment); });
  }
  void make_problem() {
    static_cast<segment_chain&>(problem_) = rules_.chain();
    counts_.assign(model_.first_of_kind.size(), 0);
    for (int kind : problem_.chain) ++counts_[static_cast<std::size_t>(kind)];
    problem_.limit = given_.memory > 0 ? given_.memory : most_memory(*costs_, available_);
    const least_figures figures(model_, *costs_);
    const double held = figures.held();
    std::vector<searched_schedule> schedules = searched_schedule::all_of(given_), interlaced;
    std::copy_if(schedules.begin(), schedules.end(), std::back_inserter(interlaced), [](auto const& s) { return s.spreads(); });
    std::erase_if(schedules, [](auto const& s) { return s.spreads(); });
    if (!spread_.any() || !given_.regions.empty()) interlaced.clear();
    main_kind_ = longest_of(figures.work(), !interlaced.empty());
    std::vector<int> stages = given_.stages;
    if (stages.empty())
      for (int p = 1; p <= segments(); ++p) stages.push_back(p);
    int number_of_tables = -1;
    for (int n : device_counts(given_, available_)) {
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
      for (int m : micro_batch_counts(given_, model_.samples)) {
        ++number_of_tables;
        shape_info info{n, m, {}, possible_grids(n, m, [](int) { return true; }), {}, place_of_stage, 0};
        for (place_needs& x : places)
          x.needs = least_figures(model_, prices_.of(x.prices)).of_devices(n, m, micro_samples_of(info), [&](int segment) {
            return rules_.ways_of(segment);
          });
        if (!interlaced.empty()) add_interlaced(info, places.front(), held, interlaced, stages, number_of_tables);
        for (std::size_t used = 1; used <= places.size() && !info.grids.empty(); ++used)
          add_configurations(info, {places.begin(), places.begin() + static_cast<std::ptrdiff_t>(used)}, held, schedules, stages,
                             number_of_tables);
      }
    }
    problem_.shapes = static_cast<int>(shapes_.size());
    problem_.make_shape = [this](int id) { return make_shape(shapes_[static_cast<std::size_t>(id)]); };
    problem_.make_part = [this](int id) { return make_part(shapes_[static_cast<std::size_t>(id)]); };
    problem_.needs = [this](int id) { return needs_[static_cast<std::size_t>(id)]; };
  }
  // By seconds of a segment: the kind whose segments take the longest. Where schedules are searched that spread segments, it is
  // none of these.
  int longest_of(std::vector<double> const& seconds, bool spreads) const {
    int longest = 0;
    double most = -1;
    for (std::size_t k = 0; k < seconds.size(); ++k)
      if (const double all = counts_[k] * seconds[k]; all > most && !(spreads && spread_.contains(model_.first_of_kind[k]))) {
        most = all;
        longest = static_cast<int>(k);
      }
    return longest;
  }
  void add_shape(shape_info const& s, int number_of_tables) {
    shapes_.push_back(s);
    problem_.tables_of.push_back(number_of_tables);
    const auto known = parts_.try_emplace({number_of_tables, s.places, s.grids}, static_cast<int>(parts_.size())).first;
    problem_.parts_of.push_back(known->second);
  }
  bool begins_anywhere() const {
    return problem_.regions.empty() && problem_.blocks.empty() &&
           std::find(problem_.may_begin.begin(), problem_.may_begin.end(), false) == problem_.may_begin.end();
  }
  // Those whose stages are at all of these places and no others. `info`: without schedule and places. `held`: bytes, of the whole
  // model.
  void add_configurations(shape_info info, std::vector<place_needs> const& places, double held,
                          std::vector<searched_schedule> const& schedules, std::vector<int> const& stages, int number_of_tables) {
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
      if ((schedule.keeps_all() && rules_.needs_replays()) || (schedule.chunks > 1 && !begins_anywhere())) continue;
      info.schedule = schedule;
      bool used = false;
      for (int p : stages) {
        const std::size_t first = static_cast<std::size_t>(p);
        if (first >= at.size() || p > segments() || at[first].back() == 0 || room[first] < held) continue;
        if (!schedule.possible(problem_.chain, p, m)) continue;
        const pipeline_schedule rule = schedule.rule(p, m);
        const double fill = schedule.splits() ? 0 : rule.fill;
        problem_.configurations.push_back(
            {static_cast<int>(shapes_.size()), p, rule, least_time(places, counts_, at[first], n, fill)});
        used = true;
      }
      if (!used) continue;
      add_shape(info, number_of_tables);
      needs_.push_back(schedule.splits() ? least_figures::without_times(needs) : needs);
    }
  }
  // Stages are all at one place, and each number of them has a shape of its own: what is spread lies on all their devices.
  // `info`: without schedule and places.
  void add_interlaced(shape_info info, place_needs const& place, double held, std::vector<searched_schedule> const& schedules,
                      std::vector<int> const& stages, int number_of_tables) {
    const int n = info.devices, m = info.micro_batches;
    info.grids = possible_grids(n, m, [&](int segment) { return !spread_.contains(segment); });
    info.places = {place.prices};
    std::vector<int> counts = counts_;
    place_needs staged = place;
    for (int i = 0; i < segments(); ++i)
      if (spread_.contains(i)) {
        const std::size_t kind = static_cast<std::size_t>(problem_.chain[static_cast<std::size_t>(i)]);
        counts[kind] = 0;
        staged.needs.kinds[kind] = {};
      }
    const double limit = given_.memory > 0 ? problem_.limit : prices_.memory(place.prices);
    if (least_memory() < problem_.limit) staged.needs.limits.assign(info.of_stage.size(), limit);
    const std::size_t at_place = static_cast<std::size_t>(
        std::find_if(info.of_stage.begin(), info.of_stage.end(), [](int x) { return x != 0; }) - info.of_stage.begin());
    for (searched_schedule const& schedule : schedules) {
      if (info.grids.empty() || (schedule.keeps_all() && rules_.needs_replays())) continue;
      info.schedule = schedule;
      for (int p : stages) {
        if (static_cast<std::size_t>(p) > at_place || p > spread_.staged() || !schedule.possible(problem_.chain, p, m)) continue;
        info.stages = p;
        if (p * n * limit < held || spread_grids(info).empty()) continue;
        const double spread = least_seconds_of_spread(p * n, m, place.prices);
        const pipeline_schedule rule = schedule.rule(p, m);
        problem_.configurations.push_back(
            {static_cast<int>(shapes_.size()), p, rule, least_time({staged}, counts, {p}, n, rule.fill) + spread, spread});
        add_shape(info, number_of_tables);
        needs_.push_back(staged.needs);
      }
    }
  }
  // Of a step, where so many devices share all ops evenly.
  double least_seconds_of_spread(int devices, int micro_batches, int prices) {
    const auto [known, fresh] = least_of_spread_.try_emplace({devices, micro_batches, prices}, 0.0);
    if (!fresh) return known->second;
    shape_info info;
    info.micro_batches = micro_batches;
    const shape_needs needs =
        least_figures(model_, prices_.of(prices)).of_devices(devices, micro_batches, micro_samples_of(info), [&](int segment) {
          return rules_.ways_of(segment);
        });
    for (int i = 0; i < segments(); ++i)
      if (spread_.contains(i)) {
        segment_needs const& x = needs.kinds[static_cast<std::size_t>(problem_.chain[static_cast<std::size_t>(i)])];
        known->second += micro_batches * x.seconds + x.step;
      }
    return known->second;
  }
  shape make_shape(shape_info const& s) const {
    shape r = without_tables(s);
    if (s.schedule.spreads())
      for (spread_way const& x : ways_to_spread(s)) r.spread.push_back(x.cost);
    std::vector<grid_costs<costs>> grids;
    for (std::size_t g = 0; g < s.grids.size(); ++g) {
      grids.push_back(costs_on(s.prices_of(static_cast<int>(g)), s.grids[g]));
      for (int first : model_.first_of_kind) r.grids[g].kinds.push_back(variants_of(first, s, static_cast<int>(g)));
    }
    if (s.devices * 2 <= available_) r.crossings = crossings(s, grids);
    return r;
  }
  shape_part make_part(shape_info s) const {
    s.schedule = {};
    shape_part r{main_kind_, without_tables(s)};
    for (std::size_t g = 0; g < s.grids.size(); ++g)
      r.of.grids[g].kinds = {variants_of(model_.first_of_kind[static_cast<std::size_t>(main_kind_)], s, static_cast<int>(g))};
    return r;
  }
  // The grids of a shape, and where its stages are.
  shape without_tables(shape_info const& s) const {
    shape r;
    r.devices = s.devices;
    r.micro_batches = s.micro_batches;
    if (s.places.size() > 1) {  // of the stages before the first that lies elsewhere
      auto elsewhere = [&](int place) { return place >= static_cast<int>(s.places.size()); };
      r.places.assign(s.of_stage.begin(), std::find_if(s.of_stage.begin(), s.of_stage.end(), elsewhere));
    }
    for (int g = 0; g < static_cast<int>(s.grids.size()); ++g) {
      grid_choice& choice = r.grids.emplace_back();
      choice.place = s.place_of(g);
      if (given_.memory <= 0) choice.limit = prices_.memory(s.prices_of(g));
    }
    return r;
  }
  // Of the kind of this segment, on a grid of the shape.
  std::vector<variant> variants_of(int first, shape_info const& s, int grid) const {
    grid_costs<costs> const& g = costs_on(s.prices_of(grid), s.grids[static_cast<std::size_t>(grid)]);
    segment const& of = model_.segments[static_cast<std::size_t>(first)];
    if (spreads(first, s)) return {{std::make_shared<table const>(place_of(first, s, g)), false, false}};
    const table_options how_made = options_of(s);
    const std::size_t number = static_cast<std::size_t>(
        std::find(how_made.fills.begin(), how_made.fills.end(), s.schedule.fills()) - how_made.fills.begin());
    auto made = [&](way_to_run how) {
      const bool splits = s.schedule.splits() && how.turns < 2;
      const shared_tables::key key{of.kind,           s.devices, s.micro_batches, g.extent(1),
                                   s.prices_of(grid), how.turns, how.rest,        splits};
      return tables_.get(key, splits ? number : 0, [&] {
        table_builder b(model_, rules_.on_cuts(), g, how_made, boundary_);
        return b.build(of, first == 0, first + 1 == segments(), how);
      });
    };
    const auto whole = made({});
    std::vector<variant> variants;
    const std::vector<way_to_run> ways = rules_.ways_of(first);
    for (way_to_run const& how : ways)
      if (!how.again || !s.schedule.keeps_all()) variants.push_back({how.turns > 1 ? made(how) : whole, how.again, false});
    for (variant& v : variants) v.saves_memory_alone = v.replays && !ways.front().again && is_no_faster(*v.costs, *whole);
    return variants;
  }
  grid_costs<costs> const& costs_on(int prices, std::pair<int, int> const& grid) const {
    return on_grids_.try_emplace({prices, grid}, prices_.of(prices), grid.first, grid.second).first->second;
  }
  // Of a segment that is spread, on a stage's grid.
  table place_of(int number, shape_info const& s, grid_costs<costs> const& g) const {
    const int extra = number == 0 ? 2 : s.stages;
    return place_of_spread(model_.segments[static_cast<std::size_t>(number)], model_, options_on(g, s), g,
                           {&g.of(), s.devices, s.devices * s.stages}, std::min(s.micro_batches, extra), number == 0,
                           number + 1 == segments());
  }
  std::vector<std::vector<double>> crossings(shape_info const& s, std::vector<grid_costs<costs>> const& grids) const {
    std::vector<std::vector<std::vector<double>>> shares;  // [grid * kinds + kind]
    for (grid_costs<costs> const& grid : grids)
      for (int first : model_.first_of_kind)
        shares.push_back(options_on(grid, s).boundary_shares(model_.segments[static_cast<std::size_t>(first)].enters));
    int stages = s.stages > 0 ? s.stages : std::min(available_ / s.devices, segments());
    if (!given_.stages.empty()) stages = std::min(stages, *std::max_element(given_.stages.begin(), given_.stages.end()));
    return crossings_between(model_, *costs_, stages, s, shares);
  }

  graph_data const* graph_;
  costs const* costs_;
  constraints given_;
  segmented_model model_;
  int available_;
  place_prices prices_;
  space_rules rules_;
  std::vector<axis_info const*> boundary_;
  std::vector<shape_info> shapes_;
  std::vector<shape_needs> needs_;  // by shape
  std::vector<int> counts_;         // of segments, by kind
  int main_kind_ = 0;               // whose segments take the longest, by work
  std::map<std::tuple<int, std::vector<int>, std::vector<std::pair<int, int>>>, int> parts_;  // by tables, places, grids
  problem problem_;
  mutable std::map<std::tuple<int, int, int, int, int, int, int>, table_key>
      keys_;  // by kind, devices, micro-batches, inner dimension of the grid, variant, schedule, place
  spread_segments spread_;
  std::map<std::tuple<int, int, int>, double> least_of_spread_;  // by devices, micro-batches, prices
  mutable std::map<std::tuple<int, int, int, bool>, std::vector<spread_way>>
      ways_;  // by devices, stages, micro-batches, whether they run in step
  mutable shared_tables tables_;
  mutable std::map<std::pair<int, std::pair<int, int>>, grid_costs<costs>> on_grids_;  // by place, outer and inner dimension
  mutable std::string without_options_;
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
