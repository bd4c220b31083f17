// How ops lie on devices and in time, whatever a plan calls its modes; and where two plans of a graph differ.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <partita/core/words.hpp>
#include <partita/plan/plan.hpp>
#include <partita/plan/resolve.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

// A cut in space: coordinate c of `pieces` is what stands c * `stride` devices on.
struct cut_in_space {
  int letter = -1, pieces = 1, stride = 1;
  bool operator==(cut_in_space const&) const = default;
};
struct cut_in_time {
  int letter = -1, pieces = 1;  // letter -1: replicas, run again
  short mode = -1;              // in the plan's own numbers
  bool alike(cut_in_time const& o) const { return letter == o.letter && pieces == o.pieces; }
};
struct op_lies {
  int first = 0, devices = 1;       // a run of devices; 0 devices: they are none
  bool plain = true;                // pieces of equal sizes, in the order of devices, none folded or skewed
  std::vector<cut_in_space> space;  // by falling stride; neighbours of one letter are one cut
  std::vector<cut_in_time> time;
  std::vector<int> phases;
  int pieces() const {
    int n = 1;
    for (cut_in_space const& c : space) n *= c.pieces;
    return n;
  }
};

inline void sort_cuts(std::vector<cut_in_space>& cuts) {
  std::stable_sort(cuts.begin(), cuts.end(), [](auto const& a, auto const& b) { return a.stride > b.stride; });
  for (std::size_t i = 1; i < cuts.size();) {
    cut_in_space &outer = cuts[i - 1], &inner = cuts[i];
    if (outer.letter == inner.letter && outer.stride == inner.stride * inner.pieces) {
      outer.pieces *= inner.pieces;
      outer.stride = inner.stride;
      cuts.erase(cuts.begin() + static_cast<std::ptrdiff_t>(i));
    } else ++i;
  }
}

inline op_lies lies_of(graph_data const& g, plan_base const& plan, int op) {
  const op_plan own = partita::detail::inherited(g, plan, op);
  finding mistake;
  const layout over = partita::detail::parts_of(g, plan, op, own, mistake);
  op_lies r;
  r.first = over.where.base;
  r.devices = over.where.size();
  std::vector<cut_in_space> levels;
  for (int l = 0; l < over.where.rank; ++l) levels.push_back({0, over.where.extents[l], over.where.strides[l]});
  sort_cuts(levels);
  if (over.where.list != nullptr || levels.size() > 1 || (levels.size() == 1 && levels.front().stride != 1)) r.devices = 0;
  for (int i = 0; i < over.count; ++i) {
    part const& x = over.parts[i];
    r.plain = r.plain && x.sizes < 0 && !x.fold && x.skew < 0;
    if (x.in_time()) {
      r.time.push_back({x.axis, x.pieces, x.mode});
      continue;
    }
    const int stride = over.where.strides[x.level];
    for (cut_in_space const& c : r.space) r.plain = r.plain && (c.letter != x.axis || c.stride > stride);
    r.space.push_back({x.axis, x.pieces, stride});
  }
  sort_cuts(r.space);
  for (int c = 0; c < own.cut_count; ++c)
    if (own.cuts[c].dim < 0 && own.cuts[c].pieces > 1 && !own.in_space(own.cuts[c].mode))
      r.time.push_back({-1, own.cuts[c].pieces, own.cuts[c].mode});
  for (int k = 0; k < own.phase_count; ++k) r.phases.push_back(own.phases[k].index);
  return r;
}

namespace detail {
inline bool same_moment(moment_entry const& a, moment_entry const& b) {
  auto same = [](op_phase const* x, int n, op_phase const* y, int m) {
    return n == m && std::equal(x, x + n, y, [](op_phase const& p, op_phase const& q) { return p.index == q.index; });
  };
  return a.op == b.op && a.node == b.node && a.when == b.when && same(a.places, a.place_count, b.places, b.place_count) &&
         same(a.indices, a.index_count, b.indices, b.index_count);
}
}  // namespace detail

// Where two plans of a graph differ, in words; nothing where they do not. Modes may have other names.
inline std::string difference_of(graph_data const& g, plan_base const& a, plan_base const& b) {
  std::map<short, short> named;
  for (int op = 0; op < g.ops.size; ++op) {
    const op_lies x = lies_of(g, a, op), y = lies_of(g, b, op);
    auto here = [&](char const* what) {
      return words({"op ", g.name(op).view(), " (", std::string_view(g.ops[op].info->kind), ") ", what});
    };
    if (x.first != y.first || x.devices != y.devices) return here("lies on other devices");
    if (x.plain != y.plain || x.space != y.space) return here("is cut in another way");
    auto alike = [](cut_in_time const& s, cut_in_time const& t) { return s.alike(t); };
    if (x.phases != y.phases || !std::equal(x.time.begin(), x.time.end(), y.time.begin(), y.time.end(), alike))
      return here("runs in other turns");
    for (std::size_t i = 0; i < x.time.size(); ++i)
      if (named.try_emplace(x.time[i].mode, y.time[i].mode).first->second != y.time[i].mode)
        return here("runs in turns with other ops");
  }
  if (a.nodes().size != b.nodes().size) return "moves or sums of gradients are placed";
  bool same_order = a.wishes().size == b.wishes().size && a.preferences().size == b.preferences().size;
  for (int i = 0; same_order && i < a.wishes().size; ++i)
    same_order = detail::same_moment(a.wishes()[i].first, b.wishes()[i].first) &&
                 detail::same_moment(a.wishes()[i].second, b.wishes()[i].second);
  return same_order ? "" : "it has another order";
}

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
