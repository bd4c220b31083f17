// The best choice of one configuration of which some is told: where its stages begin, how their segments run, the grids that a
// stage may have, the options that a variable may have. It is the best of a smaller space, so the exact searcher finds it.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <partita/search/exact.hpp>

namespace partita::spaces {

struct told_segment {
  int variant = 0;
  std::vector<std::vector<std::vector<int>>> options{};  // by grid of its stage and variable; empty: any
};
struct told_stage {
  int begin = 0;
  std::vector<int> grids;  // of the shape
  std::vector<told_segment> segments{};
};

class narrowed {
 public:
  // `s`: the configuration's shape; `spread`: a way of it.
  narrowed(problem const& p, shape const& s, int configuration, int spread, std::vector<told_stage> const& stages)
      : p_(p), s_(s), configuration_(configuration), spread_(spread), stages_(stages) {
    for (told_stage const& stage : stages) {
      const auto known = std::find(sets_.begin(), sets_.end(), stage.grids);
      places_.push_back(static_cast<int>(known - sets_.begin()));
      if (known == sets_.end()) sets_.push_back(stage.grids);
    }
  }
  // Not found where none fits. Ends with the best known where that it is the best would take long to show.
  choice best() const {
    problem q;
    q.limit = p_.limit;
    q.may_begin.assign(p_.chain.size(), false);
    for (told_stage const& stage : stages_) q.may_begin[static_cast<std::size_t>(stage.begin)] = true;
    configuration const& c = p_.configurations[static_cast<std::size_t>(configuration_)];
    q.configurations = {{0, c.stages, c.schedule, 0, 0}};
    q.shapes = 1;
    const shape narrow = make(q.chain);
    q.make_shape = [&](int) { return narrow; };
    exact_options how;
    how.classes.at_last = 1;
    choice x = exact(q, how).best;
    if (x.found()) tell_back(x);
    return x;
  }

 private:
  using allowed = std::vector<std::vector<int>>;  // options by variable
  using kind = std::tuple<int, int, int, std::vector<allowed>>;
  std::vector<variant> const& variants_of(int grid, int old_kind) const {
    return s_.grids[static_cast<std::size_t>(grid)].kinds[static_cast<std::size_t>(old_kind)];
  }
  // Stages which may have the same grids are at one place. Segments are of a kind where all that is told of them is the same.
  shape make(std::vector<int>& chain) const {
    std::vector<kind> kinds;
    for (std::size_t k = 0; k < stages_.size(); ++k)
      for (std::size_t i = 0; i < stages_[k].segments.size(); ++i) {
        told_segment const& told = stages_[k].segments[i];
        kind own{p_.chain[static_cast<std::size_t>(stages_[k].begin) + i], told.variant, places_[k], told.options};
        const auto known = std::find(kinds.begin(), kinds.end(), own);
        chain.push_back(static_cast<int>(known - kinds.begin()));
        if (known == kinds.end()) kinds.push_back(std::move(own));
      }
    shape r;
    r.devices = s_.devices;
    r.micro_batches = s_.micro_batches;
    if (!s_.spread.empty()) r.spread = {s_.spread_by(spread_)};
    if (sets_.size() > 1) r.places = places_;
    std::vector<int> old;  // by grid
    for (std::size_t place = 0; place < sets_.size(); ++place)
      for (std::size_t g = 0; g < sets_[place].size(); ++g) {
        old.push_back(sets_[place][g]);
        grid_choice to;
        to.place = static_cast<int>(place);
        to.limit = s_.grids[static_cast<std::size_t>(old.back())].limit;
        std::map<std::pair<table const*, allowed>, std::shared_ptr<table const>> made;
        for (auto const& [old_kind, old_variant, own_place, options] : kinds) {
          variant x = variants_of(old.back(), old_kind)[static_cast<std::size_t>(old_variant)];
          x.saves_memory_alone = false;
          if (own_place == static_cast<int>(place) && !options.empty()) {
            auto& narrow = made[{x.costs.get(), options[g]}];
            if (!narrow) narrow = std::make_shared<table const>(table_of(*x.costs, options[g]));
            x.costs = narrow;
          }
          to.kinds.push_back({x});
        }
        r.grids.push_back(std::move(to));
      }
    if (s_.crossings.empty()) return r;
    const std::size_t old_kinds = s_.grids.front().kinds.size();
    for (int from : old)
      for (int to : old)
        for (kind const& x : kinds)
          r.crossings.push_back(
              s_.crossings[(static_cast<std::size_t>(from) * s_.grids.size() + static_cast<std::size_t>(to)) * old_kinds +
                           static_cast<std::size_t>(std::get<0>(x))]);
    return r;
  }
  static std::vector<int> options_of(table const& t, allowed const& options, int v) {
    if (static_cast<std::size_t>(v) < options.size() && !options[static_cast<std::size_t>(v)].empty())
      return options[static_cast<std::size_t>(v)];
    std::vector<int> all;
    for (int o = 0; o < t.options[static_cast<std::size_t>(v)]; ++o) all.push_back(o);
    return all;
  }
  static table table_of(table const& t, allowed const& options) {
    table r;
    std::vector<std::vector<int>> kept;
    for (int v = 0; v < t.variables(); ++v) {
      kept.push_back(options_of(t, options, v));
      std::vector<cost> own;
      for (int o : kept.back()) own.push_back(t.own[t.index(v, o)]);
      r.add_variable(own);
    }
    for (table::pair const& x : t.pairs) {
      std::vector<cost> costs;
      for (int i : kept[static_cast<std::size_t>(x.a)])
        for (int j : kept[static_cast<std::size_t>(x.b)]) costs.push_back(t.pair_costs[t.index(x, i, j)]);
      r.add_pair(x.a, x.b, costs);
    }
    return r;
  }
  // In the numbers of the whole space.
  void tell_back(choice& x) const {
    x.configuration = configuration_;
    x.spread = spread_;
    for (std::size_t k = 0; k < x.stages.size(); ++k) {
      std::size_t g = static_cast<std::size_t>(x.stages[k].grid);
      for (int place = 0; place < places_[k]; ++place) g -= sets_[static_cast<std::size_t>(place)].size();
      x.stages[k].grid = stages_[k].grids[g];
      for (std::size_t i = 0; i < x.stages[k].segments.size(); ++i) {
        told_segment const& told = stages_[k].segments[i];
        segment_choice& segment = x.stages[k].segments[i];
        segment.variant = told.variant;
        if (told.options.empty()) continue;
        table const& t =
            *variants_of(x.stages[k].grid,
                         p_.chain[static_cast<std::size_t>(stages_[k].begin) + i])[static_cast<std::size_t>(told.variant)]
                 .costs;
        for (std::size_t v = 0; v < segment.options.size(); ++v)
          segment.options[v] = options_of(t, told.options[g], static_cast<int>(v))[static_cast<std::size_t>(segment.options[v])];
      }
    }
  }

  problem const& p_;
  shape const& s_;
  int configuration_, spread_;
  std::vector<told_stage> const& stages_;
  std::vector<std::vector<int>> sets_;  // of grids, by place
  std::vector<int> places_;             // by stage
};

}  // namespace partita::spaces
