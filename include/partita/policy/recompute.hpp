// Recompute (activation checkpointing, Chen et al. 2016): a region's forward ops run again just before its backward ops,
// so that what they make need not be kept in between. What enters the region is kept.
#pragma once
#include <string_view>

#include <partita/core/fixed_string.hpp>
#include <partita/plan/plan.hpp>

namespace partita::policy {

// Ops whose names match "block.*" form one region per index that '*' begins with: block 0, block 1... A narrower pattern
// ("block.*.attention*") replays less: selective recompute (Korthikanti et al. 2022).
struct recompute_of {
  std::string_view pattern = "block.*";
  constexpr void operator()(auto& plan) const {
    std::size_t star = 0;
    while (star < pattern.size() && pattern[star] != '*') ++star;
    for (auto op : plan.ops(pattern)) {
      if (op.entry().info->source != source_kind::none) continue;
      const text<96> name = op.name();
      mode_name region("again.");
      for (std::size_t i = star; i < name.view().size() && name.view()[i] != '.'; ++i) region.put(name.view().substr(i, 1));
      plan.op_trans(op, replicate{2, region.view()});
    }
  }
};
template <fixed_string Pattern = "block.*"> struct recompute {
  constexpr void operator()(auto& plan) const { recompute_of{Pattern.view()}(plan); }
};

}  // namespace partita::policy
