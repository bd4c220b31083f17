// What extents bound at run time must fulfil, checked before anything runs; static ones were checked while compiling.
#pragma once
#include <string>

#include <partita/core/words.hpp>
#include <partita/model/graph_entries.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// Throws partita::error if an axis of the graph has no extent, if an op is too large to be counted, if one axis made of two
// is not their product, or if an axis and another name of it differ.
inline void check_extents(graph_data const& g) {
  auto known = [&](axis_info const* axis) {
    const std::size_t extent = g.extent(axis);
    if (extent == unbound)
      throw_error(
          {"axis ", axis->name, " has no extent: give pt::bind<", axis->name, ">(..) where the trainer, plan or search is made"});
    return extent;
  };
  auto check = [&](int op, op_info const& info, operand const& x) {
    for (int a = 0; a < x.rank; ++a) {
      const std::size_t extent = known(x.axes[a]);
      if (x.inner[a] < 0) {
        axis_info const* axis = info.dims[x.dims[a]].axis;
        if (extent != known(axis))
          throw_error({g.name(op).view(), " (", info.kind, "): axis ", x.axes[a]->name, " has ", extent, " elements, ",
                       axis->name, " has ", known(axis)});
        continue;
      }
      axis_info const *outer = info.dims[x.dims[a]].axis, *inner = info.dims[x.inner[a]].axis;
      if (extent != known(outer) * known(inner))
        throw_error({g.name(op).view(), " (", info.kind, "): axis ", x.axes[a]->name, " has ", extent, " elements, ", outer->name,
                     " and ", inner->name, " have ", known(outer), " x ", known(inner)});
    }
  };
  for (int op = 0; op < g.ops.size; ++op) {
    op_info const& info = *g.ops[op].info;
    double points = 1;
    for (int d = 0; d < info.dim_count; ++d) {
      points *= static_cast<double>(known(info.dims[d].axis));
      if (points > 0x1p60)  // bytes and times are counted in 64 bits
        throw_error({g.name(op).view(), " (", info.kind, "): its axes have more than 2^60 points together, with ",
                     known(info.dims[d].axis), " along ", info.dims[d].axis->name});
    }
    for (int i = 0; i < info.input_count; ++i) check(op, info, info.inputs[i]);
    for (int o = 0; o < info.output_count; ++o) check(op, info, info.outputs[o]);
  }
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
