// One number for what is trained and how it is divided, by which processes find out whether they agree.
#pragma once
#include <partita/core/hash.hpp>
#include <partita/model/graph_entries.hpp>
#include <partita/plan/completed.hpp>

namespace partita {

namespace detail {
class plan_digest {
 public:
  constexpr plan_digest(graph_data const& g, plan_base const& plan, completed const& c) : plan_(&plan) {
    for (op_entry const& e : g.ops) {
      add(hash(e.info->kind, hash_seed));
      for (int d = 0; d < e.info->dim_count; ++d) add(g.extent(e.info->dims[d].axis));
    }
    for (int op = 0; op < g.ops.size; ++op) add(hash(g.name(op).view(), hash_seed));
    add(c.devices);
    for (node const& n : c.nodes) {
      const int numbers[]{static_cast<int>(n.kind), n.op,          n.placed_as,
                          n.replayed ? 1 : 0,       n.not_before,  n.fetched_behind,
                          static_cast<int>(n.ring), n.input_count, n.value_count};
      for (int x : numbers) add(x);
      add_mode(n.ring_mode);
      add(n.over);
      for (int m = 0; m < n.time.count; ++m) add(n.time.extents[m]);
    }
    for (node_value const& v : c.values) {
      add(v.tensor);
      add(v.lay);
    }
    for (int x : c.inputs) add(x);
  }
  constexpr std::uint64_t value() const { return state_; }

 private:
  constexpr void add(std::uint64_t x) { state_ = hash(x, state_); }
  constexpr void add(int x) { add(static_cast<std::uint64_t>(static_cast<std::int64_t>(x))); }
  // By name: numbers are given in the order in which a policy says them. What no policy made has none.
  constexpr void add_mode(short m) { add(m < 0 ? hash_seed : hash(plan_->modes()[m].view(), hash_seed)); }
  constexpr void add(layout const& l) {
    add(l.where.device_at(0));
    for (int d = 0; d < l.where.rank; ++d) {
      add(l.where.extents[d]);
      add(l.where.strides[d]);
    }
    for (int i = 0, n = l.where.list == nullptr ? 0 : l.where.size(); i < n; ++i) add(l.where.device_at(i));
    for (int p = 0; p < l.count; ++p) {
      part const& q = l.parts[p];
      add_mode(q.mode);
      const int numbers[]{q.axis, q.level, q.pieces, q.unit, static_cast<int>(q.reduce), q.fold ? 1 : 0, q.skew};
      for (int x : numbers) add(x);
      if (int const* sizes = plan_->sizes(q.sizes); sizes != nullptr)
        for (int i = 0; i < q.pieces; ++i) add(sizes[i]);
    }
  }
  plan_base const* plan_;
  std::uint64_t state_ = hash_seed;
};
}  // namespace detail

// Of ops, their names and extents, and of the completed plan. The orders that a plan wishes are in the digest of its
// programs.
constexpr std::uint64_t digest_of(graph_data const& g, plan_base const& plan, completed const& c) {
  return detail::plan_digest(g, plan, c).value();
}

}  // namespace partita
