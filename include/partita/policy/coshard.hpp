// Co-shard (nnScaler, Lin et al. 2024): the features or heads of a block cut in time on one device, each piece run again
// for its backward pass, so that only one piece's activations are alive at a time; no communication.
#pragma once
#include <string_view>

#include <partita/core/fixed_string.hpp>
#include <partita/plan/plan.hpp>

namespace partita::policy {

// Of the ops whose names match `pattern`, those that have the axis (between a product that makes it and one that sums
// it). One region per index that '*' begins with, as in `recompute`.
struct coshard_of {
  axis_info const* axis = nullptr;
  int pieces = 2;
  std::string_view pattern = "block.*";
  constexpr void operator()(auto& plan) const {
    std::size_t star = 0;
    while (star < pattern.size() && pattern[star] != '*') ++star;
    for (auto op : plan.ops(pattern)) {
      if (op.entry().info->source != source_kind::none || !op.has(axis)) continue;
      const text<96> name = op.name();
      mode_name index;
      for (std::size_t i = star; i < name.view().size() && name.view()[i] != '.'; ++i) index.put(name.view().substr(i, 1));
      mode_name cut(axis->name.substr(0, 12)), again("again.");
      cut.put("/");
      cut.put(index.view());
      again.put(cut.view());
      plan.op_trans(op, cut_axis{axis, pieces, cut});
      plan.op_trans(op, replicate{2, again.view()});
    }
  }
};
template <class Axis, int Pieces, fixed_string Pattern = "block.*"> struct coshard {
  constexpr void operator()(auto& plan) const { coshard_of{&axis_of<Axis>::info, Pieces, Pattern.view()}(plan); }
};

}  // namespace partita::policy
