// Constraints that no plan can meet, and names in them that the model does not have: errors before a search begins.
#pragma once
#include <algorithm>
#include <string_view>
#include <vector>

#include <partita/core/words.hpp>
#include <partita/search/constraints.hpp>
#include <partita/search/segments.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// Throws error where a number is none that a plan can have.
inline void check_constraints(constraints const& c) {
  auto from_one = [](std::vector<int> const& numbers, const char* name) {
    for (int n : numbers)
      if (n < 1) throw_error({"search: the constraint '", name, "' has ", n, "; give numbers from 1 on"});
  };
  from_one(c.stages, "stages");
  from_one(c.devices_per_stage, "devices_per_stage");
  from_one(c.micro_batches, "micro_batches");
  from_one(c.chunks, "chunks");
  from_one(c.coshard, "coshard");
  for (int stage : c.zero)
    if (stage < 0 || stage > 3) throw_error({"search: the constraint 'zero' has ", stage, "; give numbers from 0 to 3"});
  for (region_constraint const& r : c.regions)
    if (r.first < 0 || r.last < r.first)
      throw_error(
          {"search: the constraint 'regions' has devices ", r.first, " to ", r.last, "; give the first and the last one"});
  if (c.devices < 0)
    throw_error({"search: the constraint 'devices' is ", c.devices, "; give the number of devices, or 0 for all"});
  if (!(c.memory >= 0))
    throw_error({"search: the constraint 'memory' is ", c.memory, "; give bytes of a device, or 0 for all of it"});
}
namespace spaces {

// A name in the constraints that matches nothing of the model, the member that has it, and what it would be the name of.
struct unmatched {
  std::string_view name{};  // lies in the constraints; empty: there is none
  const char* constraint = "";
  const char* what = "";
};
constexpr unmatched unmatched_name(segmented_model const& m, constraints const& c) {
  auto matches_op = [&](glob const& ops) {
    return std::any_of(m.segments.begin(), m.segments.end(), [&](segment const& s) {
      return std::any_of(s.ops.begin(), s.ops.end(),
                         [&](searched_op const& x) { return ops.contains(m.graph->name(x.op).view()); });
    });
  };
  auto matches_block = [&](glob const& blocks) {
    return std::any_of(m.segments.begin(), m.segments.end(), [&](segment const& s) { return blocks.contains(s.name.view()); });
  };
  unmatched found;
  auto demand = [&](auto const& matched, const char* constraint, glob const& given, const char* what) {
    std::size_t at = 0;
    for (std::string_view one = given.next(at); !one.empty(); one = given.next(at))
      if (found.name.empty() && !matched(glob(one))) found = {one, constraint, what};
  };
  const char* const op = "op of the model";
  const char* const block =
      "block of the model that a stage can begin with (those between which more than two tensors cross are one)";
  for (cut_rule const& r : c.cuts) demand(matches_op, "cuts", r.ops, op);
  for (region_constraint const& r : c.regions) demand(matches_op, "regions", r.ops, op);
  for (recompute_constraint const& r : c.recompute) demand(matches_block, "recompute", r.blocks, block);
  demand(matches_block, "stage_begins", c.stage_begins, block);
  return found;
}
// Throws error where a pattern matches nothing: a name is mistyped, as a rule, and the constraint would be silent.
inline void check_names(segmented_model const& m, constraints const& c) {
  if (const unmatched x = unmatched_name(m, c); !x.name.empty())
    throw_error({"search: the constraint '", x.constraint, "' names '", x.name, "', which matches no ", x.what});
}

}  // namespace spaces
}  // namespace partita

#include <partita/core/end_planning_code.hpp>
