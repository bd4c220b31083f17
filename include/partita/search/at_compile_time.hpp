// A small model, searched while it compiles: one device grid of two dimensions at most, and of each dimension one of a few
// axes that every op which has it is cut along.
//   struct machine { static constexpr pt::plain_machine of{.flops = 1e12, .memory = 64e6}; };
//   using found = pt::searched_at_compile_time<mlp, machine, 4, batch, ffn>;
//   static_assert(pt::verify<mlp, found>());
// `found` is a policy like any other, and `found::best` says what it takes.
#pragma once
#include <algorithm>

#include <partita/core/mistake.hpp>
#include <partita/cost/collective.hpp>
#include <partita/cost/work.hpp>
#include <partita/plan/verify.hpp>
#include <partita/simulate/node_seconds.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// Devices that are alike, with links that are alike between all of them.
struct plain_machine {
  double flops = 1e12, bandwidth = 1e12;  // per second; bytes per second
  double launch = 0;                      // seconds per op
  double alpha = 5e-6, beta = 1e-10;      // of a link: seconds, seconds per byte
  double memory = 1e12;                   // bytes of a device

  constexpr double op(op_info const& f, std::size_t const* extents, int, int inputs) const {
    const op_work w = work_of(f, extents, inputs);
    return w.flops <= 0 && w.bytes <= 0 ? 0 : launch + std::max(w.flops / flops, w.bytes / bandwidth);
  }
  constexpr double pass_over(double bytes, int) const { return launch + bytes / bandwidth; }
  constexpr double send(int, int, double bytes) const { return alpha + beta * bytes; }
  // In rings: 2 (n - 1) steps of an n-th for an all-reduce, n - 1 for the others (a personalized exchange for the last one).
  constexpr double collective(collective_kind kind, placement const& where, int level, double bytes) const {
    return collective_over(kind, where, 1u << level, bytes);
  }
  constexpr double collective_over(collective_kind kind, placement const& where, unsigned levels, double bytes) const {
    double n = 1;
    for (int l = 0; l < where.rank; ++l)
      if ((levels >> l & 1) != 0) n *= where.extents[l];
    const double steps = kind == collective_kind::all_reduce ? 2 * (n - 1) : n - 1;
    const double each = kind == collective_kind::all_to_all ? bytes / n / n : bytes / n;
    return steps * (alpha + beta * each);
  }
};

// A point of the space: a policy.
struct cuts_of_grid {
  int extents[2]{1, 1};  // outer, inner
  axis_info const* axes[2]{};
  constexpr int devices() const { return extents[0] * extents[1]; }
  constexpr void operator()(auto& plan) const {
    const mode_name modes[2]{mode_name("outer"), mode_name("inner")};
    for (int d = 0; d < 2; ++d)
      if (extents[d] > 1) plan.op_trans(plan.with(axes[d]), cut_axis{axes[d], extents[d], modes[d]});
    plan.op_assign(plan.ops(), grid{{"outer", extents[0]}, {"inner", extents[1]}});
  }
};
struct found_at_compile_time {
  bool found = false;
  cuts_of_grid cuts{};
  double seconds = 0, bytes = 0;  // of a step, nothing overlapping; of a device, all that the step makes, nothing reused
  int looked_at = 0;              // points of the space that are plans
};

namespace detail::compile_time {
struct price {
  bool is_plan = false;
  double seconds = 0, bytes = 0;
};
constexpr price price_of(graph_data const& g, cuts_of_grid const& cuts, plain_machine const& m) {
  plan_base p(g);
  cuts(p);
  completed c;
  price r;
  if (verify_plan(g, p, c)) return r;
  r.is_plan = true;
  for (node const& n : c.nodes) r.seconds += n.time.size() * node_seconds(g, c, n, m);
  for (node_value const& v : c.values) r.bytes += node_cost::piece_bytes(g, g.operand_of(v.tensor), v.lay);
  return r;
}
// Every way to write every number of devices as outer x inner, with every pair of axes.
template <class Visit> constexpr void each_point(int devices, axis_info const* const* axes, int count, Visit&& visit) {
  for (int outer = 1; outer <= devices; ++outer)
    for (int inner = 1; outer * inner <= devices; ++inner) {
      if (outer > 1 && inner == 1) continue;  // the same as inner alone
      for (int a = 0; a < (outer > 1 ? count : 1); ++a)
        for (int b = 0; b < (inner > 1 ? count : 1); ++b)
          visit(cuts_of_grid{{outer, inner}, {outer > 1 ? axes[a] : nullptr, inner > 1 ? axes[b] : nullptr}});
    }
}
template <class Training> constexpr found_at_compile_time search(Training const& t, plain_machine const& m, int devices,
                                                                 axis_info const* const* axes, int count) {
  recorder<planning_only, Training> g;
  trace(g, t);
  found_at_compile_time r;
  each_point(devices, axes, count, [&](cuts_of_grid const& cuts) {
    const price p = price_of(g, cuts, m);
    if (!p.is_plan) return;
    ++r.looked_at;
    if (p.bytes > m.memory || (r.found && p.seconds >= r.seconds)) return;
    r.found = true;
    r.cuts = cuts;
    r.seconds = p.seconds;
    r.bytes = p.bytes;
  });
  return r;
}
}  // namespace detail::compile_time

namespace mistake {
template <class...> struct no_plan_of_these_axes_fits_the_memory_of_the_machine;
}

// `Machine::of` is a plain_machine, `Devices` how many there are at most, `Axes` those that may be cut. Extents are static.
template <class Model, class Machine, int Devices, class... Axes> struct searched_at_compile_time {
  static_assert(sizeof...(Axes) > 0, "name an axis that may be cut");
  static constexpr axis_info const* axes[]{&axis_of<Axes>::info...};
  static constexpr found_at_compile_time best =
      detail::compile_time::search(as_training<Model>{}, Machine::of, Devices, axes, static_cast<int>(sizeof...(Axes)));
  constexpr void operator()(auto& plan) const {
    if constexpr (!best.found) {
      (void)reject<mistake::no_plan_of_these_axes_fits_the_memory_of_the_machine<Model, Machine>>::value;
      plan.note(finding{wrong::model_is_rejected});  // one error is enough
    } else best.cuts(plan);
  }
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
