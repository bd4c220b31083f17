// Dimensions of a plan's grid that do nothing.
#pragma once
#include <partita/core/near_name.hpp>
#include <partita/plan/plan.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// A dimension of two devices or more over which nothing of the whole plan is cut, so that all of them do the same: what is
// said where a policy is named or a trainer made by one, since a name was mistyped there, or an axis was too short. A plan
// that a file or a search gives may be of that kind. A pipeline's stages are cut, by being at coordinates.
constexpr finding find_idle_dimension(plan_base const& plan) {
  struct use {
    bool cut = false, in_space = false;
    int extent = 1, pieces = 1;
  };
  growing<use> uses;
  uses.resize(plan.modes().size);
  auto look_at = [&](op_plan const& p) {
    for (int c = 0; c < p.cut_count; ++c)
      if (p.cuts[c].pieces > 1) {
        uses.at[p.cuts[c].mode].cut = true;
        uses.at[p.cuts[c].mode].pieces = p.cuts[c].pieces;
      }
    for (int l = 0; l < p.level_count; ++l) {
      use& u = uses.at[p.levels[l].mode];
      u.in_space = true;
      if (p.levels[l].coordinate >= 0) u.cut = true;
      else if (p.levels[l].extent > u.extent) u.extent = p.levels[l].extent;
    }
  };
  for (int op = 0; op < plan.graph().ops.size; ++op) look_at(plan.of(op));
  for (node_plan const& n : plan.nodes()) look_at(n.own);
  for (int mode = 0; mode < uses.size; ++mode) {
    if (uses[mode].extent < 2 || uses[mode].cut) continue;
    finding f{wrong::nothing_is_cut_over_the_dimension};
    f.op = text<96>(plan.modes()[mode].view());
    f.have = uses[mode].extent;
    f.line = plan.line_of_grid(static_cast<short>(mode));
    nearest_name nearest(f.op.view());
    for (int other = 0; other < uses.size; ++other)
      if (uses[other].cut && !uses[other].in_space && uses[other].pieces == uses[mode].extent)
        nearest.look_at(plan.modes()[other].view());
    f.other = nearest.found();
    if (plan.advice().what == wrong::too_many_pieces && plan.advice().other.view() == f.op.view()) {
      f.axis = plan.advice().axis;
      f.allowed = plan.advice().allowed;
    }
    return f;
  }
  return {};
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
