// What policies ask of an op: which letter an axis is bound to, and whether an earlier policy has cut it.
#pragma once
#include <string_view>

#include <partita/plan/plan.hpp>

namespace partita::policy::detail {

// The only letter of an op that an axis is bound to, if it may be cut: -1 otherwise.
constexpr int only_letter(op_info const& f, axis_info const* axis) {
  int found = -1;
  for (int d = 0; d < f.dim_count; ++d)
    if (f.dims[d].axis->id == axis->id) {
      if (found >= 0 || f.dims[d].whole) return -1;
      found = d;
    }
  return found;
}
constexpr bool is_cut_by(plan_base const& plan, int op, std::string_view mode) {
  const short m = plan.find_mode(mode_name(mode));
  op_plan const& p = plan.of(op);
  for (int c = 0; c < p.cut_count; ++c)
    if (p.cuts[c].mode == m) return true;
  return false;
}

}  // namespace partita::policy::detail
