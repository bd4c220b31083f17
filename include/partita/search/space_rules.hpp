// What constraints say of ops and segments, by their names.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include <partita/search/cut_options.hpp>
#include <partita/search/problem.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

class space_rules {
 public:
  // What is referred to must outlive this.
  constexpr space_rules(graph_data const& g, constraints const& given, segmented_model& m)
      : graph_(&g), given_(given), model_(m) {}

  // Sets the rules of every op and segment: kinds of segments differ where these do.
  constexpr void set() {
    for (segment& s : model_.segments) {
      if (s.like >= 0 && given_.cuts.empty()) continue;
      s.like = -1;  // rules go by names, in which it differs
      for (searched_op& x : s.ops) {
        std::vector<int> mine;
        for (std::size_t r = 0; r < given_.cuts.size(); ++r)
          if (given_.cuts[r].ops.contains(graph_->name(x.op).view())) mine.push_back(static_cast<int>(r));
        const auto known = std::find(sets_.begin(), sets_.end(), mine);
        x.rule = static_cast<int>(known - sets_.begin());
        if (known == sets_.end()) sets_.push_back(std::move(mine));
      }
    }
    for (segment& s : model_.segments) s.rule = static_cast<int>(recompute_of(s));
  }
  constexpr bool allow(searched_op const& x, int letter) const {
    std::vector<int> const& mine = sets_[static_cast<std::size_t>(x.rule)];
    return std::all_of(mine.begin(), mine.end(),
                       [&](int r) { return allows(given_.cuts[static_cast<std::size_t>(r)], x.info->dims[letter].axis); });
  }
  constexpr rules_on_cuts on_cuts() const { return {given_.cuts, sets_}; }
  constexpr device_range region_of(segment const& s) const {
    device_range r;
    for (region_constraint const& c : given_.regions)
      if (std::any_of(s.ops.begin(), s.ops.end(),
                      [&](searched_op const& x) { return c.ops.contains(graph_->name(x.op).view()); }))
        r = {std::max(r.first, c.first), std::min(r.last, c.last)};
    return r;
  }
  // Which segments stages may begin with and where they must lie; kinds are named.
  constexpr segment_chain chain() const {
    segment_chain r;
    int blocks = 0;
    for (segment const& s : model_.segments) {
      r.chain.push_back(s.kind);
      if (given_.equal_stages) r.blocks.push_back(s.block < 0 ? -1 : blocks++);
      r.may_begin.push_back(given_.stage_begins.contains(s.name.view()));
      if (!given_.regions.empty()) r.regions.push_back(region_of(s));
    }
    return r;
  }
  // The ways in which a segment may run.
  constexpr std::vector<way_to_run> ways_of(int number) const {
    segment const& s = model_.segments[static_cast<std::size_t>(number)];
    const recompute_rule rule = recompute_of(s);
    std::vector<way_to_run> all;
    if (rule != recompute_rule::always) all.push_back({});
    if (rule == recompute_rule::never) return all;
    all.push_back({true});
    for (int turns : given_.coshard)
      if (turns > 1 && has_turns(s)) {
        all.push_back({true, turns, true});
        if (rule != recompute_rule::always) all.push_back({true, turns, false});
      }
    return all;
  }
  // Must some block run again?
  constexpr bool needs_replays() const {
    for (std::size_t i = 0; i < model_.segments.size(); ++i)
      if (ways_of(static_cast<int>(i)).front().again) return true;
    return false;
  }

 private:
  constexpr recompute_rule recompute_of(segment const& s) const {
    recompute_rule rule = s.block < 0 ? recompute_rule::never : recompute_rule::either;
    for (recompute_constraint const& c : given_.recompute)
      if (s.block >= 0 && c.blocks.contains(s.name.view())) rule = c.rule;
    return rule;
  }
  graph_data const* graph_;
  constraints const& given_;
  segmented_model& model_;
  std::vector<std::vector<int>> sets_;
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
