// Ranks whose programs take the same time: same pieces of the same ops on the same kind of device, talking over the same
// links to ranks that are alike again. One of each class is lowered and simulated, so that 1,024 devices of a plan with
// symmetry cost as much as its stages.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <partita/core/hash.hpp>
#include <partita/cost/costs.hpp>
#include <partita/program/lowering.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct rank_class {
  int rank = 0;  // the lowest, which is simulated
  std::vector<int> ranks;
};
struct rank_classes {
  std::vector<rank_class> all;  // by their lowest rank
  std::vector<int> of;          // by rank
};

namespace detail::classes {

// A layout gives ranks at different coordinates along `level` pieces of different sizes.
inline bool differs_along(graph_data const& g, layout const& l, int p, axis_info const* axis) {
  part const& x = l.parts[p];
  if (x.partial() || x.in_time()) return false;
  std::size_t pieces = 1;
  bool even = true;
  int unit = 1;
  for (int q = 0; q < l.count; ++q)
    if (l.parts[q].axis == x.axis) {
      pieces *= static_cast<std::size_t>(l.parts[q].pieces);
      even = even && l.parts[q].sizes < 0;
      unit = std::max(unit, l.parts[q].unit);
    }
  return !even || g.extent(axis) / static_cast<std::size_t>(unit) % pieces != 0;
}

// What makes ranks different, in that order of weight.
enum class looking : std::uint8_t { at_all, not_at_transfers, not_at_sizes };

class refinement {
 public:
  refinement(lowering const& s, costs const& k, looking how)
      : s_(s), costs_(k), how_(how), colour_(static_cast<std::size_t>(std::max(1, s.plan_completed().devices))) {
    for (std::size_t d = 0; d < colour_.size(); ++d)
      colour_[d] = hash(static_cast<std::uint64_t>(k.kind_of(static_cast<int>(d))), hash_seed);
  }
  rank_classes run() {
    by_membership();
    std::size_t count = number();
    for (;;) {  // ranks alike may still talk to ranks that are not
      by_company();
      const std::size_t now = number();
      if (now == count) break;
      count = now;
    }
    return classes();
  }

 private:
  std::uint64_t& colour(int device) { return colour_[static_cast<std::size_t>(device)]; }

  // Which coordinates of a placement matter: those along which pieces differ in size.
  struct role {
    placement where;
    std::uint32_t along = 0;
    bool operator==(role const&) const = default;
  };
  static std::uint64_t key_of(placement const& w) {
    std::uint64_t h = hash(static_cast<std::uint64_t>(w.base), hash_seed);
    for (int i = 0, n = w.list == nullptr ? 0 : w.size(); i < n; ++i) h = hash(static_cast<std::uint64_t>(w.device_at(i)), h);
    for (int l = 0; l < w.rank; ++l)
      h = hash(static_cast<std::uint64_t>(w.extents[l]) << 32 | static_cast<std::uint64_t>(w.strides[l]), h);
    return h;
  }
  void by_membership() {
    graph_data const& g = s_.graph();
    completed const& c = s_.plan_completed();
    std::map<std::uint64_t, role> roles;
    auto add = [&](layout const& l, auto axis_of, bool all) {
      role r{l.where, all ? ~0u : 0u};
      for (int p = 0; p < l.count && !all && how_ != looking::not_at_sizes; ++p)
        if (differs_along(g, l, p, l.parts[p].partial() ? nullptr : axis_of(l.parts[p].axis))) r.along |= 1u << l.parts[p].level;
      roles.emplace(hash(r.along, key_of(l.where)), r);
    };
    for (node const& n : c.nodes) {
      op_info const& f = *g.ops[n.op].info;
      if (n.kind == node_kind::compute)
        add(
            n.over, [&](int d) { return f.dims[d].axis; }, false);
      else {
        operand const& x = g.operand_of(c.values[n.first_value].tensor);
        bool all = false;
        if (n.kind == node_kind::move && n.ring == ring_kind::none) {
          route const& way = s_.route_of(static_cast<int>(&n - c.nodes.at));
          // Who sends what depends on the coordinate.
          all = (way.has(transition_kind::boxes) || way.has(transition_kind::permute)) && c.devices <= 128;
          if (how_ == looking::at_all)
            for (transition_step const& step : way.steps)
              add(
                  step.after, [&](int a) { return x.axes[a]; }, all);
        }
        add(
            n.over, [&](int a) { return x.axes[a]; }, all);
        add(
            c.values[c.input(n, 0)].lay, [&](int a) { return x.axes[a]; }, all);
      }
    }
    for (auto const& [key, r] : roles)
      for (int i = 0, n = r.where.size(); i < n; ++i) {
        int at[max_levels]{};
        r.where.coordinates_at(i, at);
        std::uint64_t h = key;
        for (int l = 0; l < r.where.rank; ++l)
          if (r.along >> l & 1) h = hash(static_cast<std::uint64_t>(at[l]) + 1, h);
        std::uint64_t& mine = colour(r.where.device(at));
        mine = hash(h, mine);
      }
  }
  void by_company() {
    std::vector<std::uint64_t> next = colour_;
    // A sum, because ranks that are alike may meet their company in another order.
    auto meet = [&](int device, std::uint64_t with) { next[static_cast<std::size_t>(device)] += hash(with, hash_seed); };
    for (list<int> const& group : s_.groups()) {
      std::vector<std::uint64_t> members;
      for (int d : group) members.push_back(colour(d));
      std::sort(members.begin(), members.end());
      list<int> sorted = group;
      std::sort(sorted.begin(), sorted.end());
      const group_shape shape = group_shape::of(costs_.of(), sorted);
      std::uint64_t h = hash(static_cast<std::uint64_t>(shape.top), hash_seed);
      for (int l = 0; l <= shape.top; ++l) h = hash(static_cast<std::uint64_t>(shape.fan[l]), h);
      for (std::uint64_t m : members) h = hash(m, h);
      for (int d : group) meet(d, h);
    }
    completed const& c = s_.plan_completed();
    std::map<std::pair<std::uint64_t, std::uint64_t>, bool> seen;
    for (int id = 0; id < c.nodes.size; ++id) {
      node const& n = c.nodes[id];
      if (n.kind != node_kind::move || n.ring != ring_kind::none || !s_.route_of(id).has(transition_kind::send)) continue;
      placement from = s_.route_of(id).start.where, to = from;
      for (transition_step const& step : s_.route_of(id).steps) {
        if (step.kind == transition_kind::send) {
          to = step.after.where;
          break;
        }
        from = step.after.where;
      }
      if (!seen.emplace(std::pair{key_of(from), key_of(to)}, true).second) continue;
      for (int i = 0, size = from.size(); i < size; ++i) {
        const int a = from.device_at(i), b = to.device_at(i);
        if (a == b) continue;
        const std::uint64_t level = static_cast<std::uint64_t>(costs_.of().level_between(a, b));
        meet(a, hash(colour(b), hash(level, 1)));
        meet(b, hash(colour(a), hash(level, 2)));
      }
    }
    colour_ = std::move(next);
  }
  std::size_t number() const {
    std::vector<std::uint64_t> sorted = colour_;
    std::sort(sorted.begin(), sorted.end());
    return static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
  }
  rank_classes classes() const {
    rank_classes r;
    std::map<std::uint64_t, int> known;
    for (std::size_t d = 0; d < colour_.size(); ++d) {
      const auto [at, fresh] = known.emplace(colour_[d], static_cast<int>(r.all.size()));
      if (fresh) r.all.push_back({static_cast<int>(d), {}});
      r.all[static_cast<std::size_t>(at->second)].ranks.push_back(static_cast<int>(d));
      r.of.push_back(at->second);
    }
    return r;
  }

  lowering const& s_;
  costs const& costs_;
  looking how_;
  std::vector<std::uint64_t> colour_;
};

}  // namespace detail::classes

// Up to `most` classes are exact. Where there would be more, pieces that lie between the steps of a move count as equal even
// if some are a row longer than others, and where that is not enough, all pieces do; a class stands for its longest ones.
inline rank_classes find_rank_classes(lowering const& shared, costs const& k, std::size_t most = 256) {
  using detail::classes::looking;
  if (shared.plan_completed().devices > k.devices())
    throw_error(
        {"the plan is for ", shared.plan_completed().devices, " devices, the cluster ", k.of().name, " has ", k.devices()});
  rank_classes found = detail::classes::refinement(shared, k, looking::at_all).run();
  if (found.all.size() > most) found = detail::classes::refinement(shared, k, looking::not_at_transfers).run();
  if (found.all.size() > most) found = detail::classes::refinement(shared, k, looking::not_at_sizes).run();
  return found;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
