// What the nodes of a completed plan take at the least, whatever a program makes of them: ops that may run in chains, moves
// that may be joined with others.
#pragma once
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <partita/cost/costs.hpp>
#include <partita/layout/route.hpp>
#include <partita/plan/completed.hpp>
#include <partita/program/fuse.hpp>
#include <partita/program/pieces.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail::bounds {

// Extents of a piece, where all pieces are of one size.
inline bool divide(layout const& l, std::size_t* extents) {
  for (int p = 0; p < l.count; ++p) {
    part const& x = l.parts[p];
    if (x.axis < 0) continue;
    const std::size_t pieces = static_cast<std::size_t>(x.pieces), unit = static_cast<std::size_t>(x.unit);
    if (x.sizes >= 0 || extents[x.axis] % (pieces * unit) != 0) return false;
    extents[x.axis] /= pieces;
  }
  return true;
}
// Of a device's piece, at one index in time; 0 where pieces differ in size.
inline double piece_bytes(graph_data const& g, operand const& x, layout const& l) {
  std::size_t extents[max_rank]{};
  for (int a = 0; a < x.rank; ++a) extents[a] = g.extent(x.axes[a]);
  if (!divide(l, extents)) return 0;
  double bytes = static_cast<double>(size_of(x.type));
  for (int a = 0; a < x.rank; ++a) bytes *= static_cast<double>(extents[a]);
  return bytes;
}

}  // namespace detail::bounds

class least_seconds {
 public:
  // `link`: what routes of moves are found by, as in `lowering`.
  least_seconds(graph_data const& g, completed const& c, costs const& k, link_cost const& link)
      : g_(g), c_(c), k_(k), link_(link), of_(static_cast<std::size_t>(c.nodes.size)) {
    for (int d = 0; d < k.devices(); ++d)
      if (std::none_of(devices_.begin(), devices_.end(), [&](int other) { return k.kind_of(other) == k.kind_of(d); }))
        devices_.push_back(d);
    constexpr double many = 1e15;
    if (!k.measured())
      per_byte_ = least([&](int d) { return (k.pass_over(2 * many, d) - k.pass_over(many, d)) / many; }) * (1 - 1e-9);
    for (int id = 0; id < c.nodes.size && !k.measured(); ++id)
      if (node const& n = c.nodes[id]; n.kind == node_kind::move && n.ring == ring_kind::none) measure_move(id, n);
    find_kinds();
    find_readers();
    for (int id = 0; id < c.nodes.size; ++id)
      if (c.nodes[id].kind == node_kind::compute) measure_op(id, c.nodes[id]);
  }
  // Of one instance, from when all that it reads is there until what it makes is.
  double seconds(int node) const { return of_[static_cast<std::size_t>(node)].seconds; }
  // For so long an instance keeps its lane from others, at the least.
  double work(int node) const { return of_[static_cast<std::size_t>(node)].work; }
  // Every device of a node has something to do in each of its instances.
  bool even() const { return even_; }

 private:
  struct figures {
    double seconds = 0, work = 0;
  };
  // How a node stands to chains of ops: in none, and what it makes or reads lies in memory; perhaps in one; or it is a place in
  // what another node made.
  enum class chained : std::uint8_t { never, perhaps, view };

  template <class F> double least(F of) const {
    double r = std::numeric_limits<double>::infinity();
    for (int d : devices_) r = std::min(r, of(d));
    return r;
  }
  bool pieces_of(node const& n, std::size_t* extents) const {
    op_info const& f = *g_.ops[n.op].info;
    for (int d = 0; d < f.dim_count; ++d) extents[d] = g_.extent(f.dims[d].axis);
    return detail::bounds::divide(n.over, extents);
  }
  void find_kinds() {
    for (node const& n : c_.nodes) {
      kinds_.push_back(chained::view);
      if (n.kind != node_kind::compute) continue;
      op_entry const& e = g_.ops[n.op];
      op_info const& f = *e.info;
      if (f.is_view) continue;
      std::size_t extents[max_dims]{};
      signed char letters[max_rank]{};
      const bool is_product = pieces_of(n, extents) && work_of(f, extents, n.input_count).product;
      kinds_.back() =
          f.source != source_kind::none || e.when == pass::update || is_product || detail::fuse::shared_depth(f, letters) == 0
              ? chained::never
              : chained::perhaps;
    }
  }
  // Values that something reads from memory, whatever chains there are.
  void find_readers() {
    read_.assign(static_cast<std::size_t>(c_.values.size), false);
    for (int id = c_.nodes.size; id-- > 0;) {
      node const& n = c_.nodes[id];
      bool reads = n.kind == node_kind::assemble || n.kind == node_kind::store || seconds(id) > 0;
      if (n.kind == node_kind::compute) reads = kind_of(id) == chained::never;
      if (n.kind == node_kind::move || kind_of(id) == chained::view)  // read there, it is read here
        reads = reads || (n.kind != node_kind::store && read_[static_cast<std::size_t>(n.first_value)]);
      for (int i = 0; i < n.input_count && reads; ++i) read_[static_cast<std::size_t>(c_.input(n, i))] = true;
    }
  }
  chained kind_of(int node) const { return kinds_[static_cast<std::size_t>(node)]; }

  void measure_op(int id, node const& n) {
    op_info const& f = *g_.ops[n.op].info;
    if (f.source != source_kind::none || f.is_view) return;
    std::size_t extents[max_dims]{};
    if (!pieces_of(n, extents)) {
      even_ = false;
      return;
    }
    double& seconds = of_[static_cast<std::size_t>(id)].seconds;
    if (f.variadic) return;  // a device has the part of a norm that lies there
    if (kind_of(id) == chained::never)
      seconds = least(
          [&](int d) { return std::min(k_.op(f, extents, d, n.input_count, false), k_.op(f, extents, d, n.input_count, true)); });
    else seconds = per_byte_ * bytes_outside(n, extents);
    of_[static_cast<std::size_t>(id)].work = seconds;
  }
  // Bytes that a chain reads and writes for this op, whatever else is in it: what is made by ops or read by ops that are in none.
  double bytes_outside(node const& n, std::size_t const* extents) const {
    op_info const& f = *g_.ops[n.op].info;
    double bytes = 0;
    for (int i = 0; i < f.input_count; ++i)
      if (kind_of(c_.values[c_.input(n, i)].node) == chained::never)
        bytes += elements_of(f.input(i), extents) * static_cast<double>(size_of(f.input(i).type));
    for (int o = 0; o < f.output_count; ++o)
      if (read_[static_cast<std::size_t>(n.first_value + o)])
        bytes += elements_of(f.outputs[o], extents) * static_cast<double>(size_of(f.outputs[o].type));
    return bytes;
  }

  void measure_move(int id, node const& n) {
    node_value const& from = c_.values[c_.input(n, 0)];
    operand const& x = g_.operand_of(from.tensor);
    figures& of = of_[static_cast<std::size_t>(id)];
    of = of_move(from.lay, n.over, x);
    if (!(from.lay.where == n.over.where)) of.work = 0;  // some of its steps are others'
  }
  struct known_move {
    layout from, to;
    operand const* as;
    figures of;
  };
  static bool same(layout const& a, layout const& b) {
    if (!(a.where == b.where) || a.count != b.count) return false;
    for (int p = 0; p < a.count; ++p)
      if (!(a.parts[p] == b.parts[p]) || a.parts[p].reduce != b.parts[p].reduce) return false;
    return true;
  }
  figures of_move(layout const& from, layout const& to, operand const& x) {
    for (known_move const& m : known_)
      if (m.as == &x && same(m.from, from) && same(m.to, to)) return m.of;
    known_.push_back({from, to, &x, {}});
    auto has_sizes = [](layout const& l) {
      return std::any_of(l.parts, l.parts + l.count, [](part const& p) { return p.sizes >= 0; });
    };
    if (has_sizes(from) || has_sizes(to)) return {};
    const route way = find_route(from, to, detail::shape_of(g_, x), nullptr, link_);
    figures sum;
    layout now = way.start;
    for (transition_step const& step : way.steps) {
      const figures one = of_step(now, step, x);
      sum.seconds += one.seconds;
      sum.work += one.work;
      now = step.after;
    }
    known_.back().of = sum;
    return sum;
  }
  figures of_step(layout const& before, transition_step const& step, operand const& x) {
    switch (step.kind) {
      case transition_kind::all_reduce:
        return of_collective(collective_kind::all_reduce, before.where, step.levels,
                             detail::bounds::piece_bytes(g_, x, step.after));
      case transition_kind::all_gather:
        return of_collective(collective_kind::all_gather, before.where, step.levels,
                             detail::bounds::piece_bytes(g_, x, step.after));
      case transition_kind::reduce_scatter:
        return of_collective(collective_kind::reduce_scatter, before.where, step.levels,
                             detail::bounds::piece_bytes(g_, x, before));
      case transition_kind::send: {
        const double bytes = detail::bounds::piece_bytes(g_, x, before);
        double seconds = std::numeric_limits<double>::infinity();
        for (int i = 0, n = before.where.size(); i < n; ++i)
          seconds = std::min(seconds, k_.send(before.where.device_at(i), step.after.where.device_at(i), bytes));
        return {seconds, 0};  // what a device receives at once may take as long
      }
      default: return {};
    }
  }
  // Joined with others it takes no less than its share of the largest there can be.
  figures of_collective(collective_kind kind, placement const& where, unsigned levels, double bytes) {
    constexpr double many = 1e15;
    figures r{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    for (group_shape const& s : shapes_of(where, levels)) {
      r.seconds = std::min(r.seconds, k_.collective(kind, s, bytes));
      r.work = std::min(r.work, k_.collective(kind, s, many) * (bytes / many) * (1 - 1e-6));
    }
    return r;
  }
  struct known_groups {
    placement where;
    unsigned levels;
    std::vector<group_shape> shapes;
  };
  // Of all groups of a grid's devices along some dimensions, those that lie differently.
  std::vector<group_shape> const& shapes_of(placement const& w, unsigned levels) {
    for (known_groups const& k : groups_)
      if (k.levels == levels && k.where == w) return k.shapes;
    groups_.push_back({w, levels, {}});
    std::vector<std::pair<int, int>> all;  // group, device
    for (int i = 0, n = w.size(); i < n; ++i) {
      int at[max_levels]{}, group = 0;
      w.coordinates_at(i, at);
      for (int l = 0; l < w.rank; ++l) group = group * w.extents[l] + (levels >> l & 1 ? 0 : at[l]);
      all.push_back({group, w.device_at(i)});
    }
    std::sort(all.begin(), all.end());
    std::vector<int> group;
    for (std::size_t i = 0; i < all.size(); ++i) {
      group.push_back(all[i].second);
      if (i + 1 < all.size() && all[i + 1].first == all[i].first) continue;
      const group_shape s = group_shape::of(k_.of(), group);
      auto& shapes = groups_.back().shapes;
      if (std::find(shapes.begin(), shapes.end(), s) == shapes.end()) shapes.push_back(s);
      group.clear();
    }
    return groups_.back().shapes;
  }

  graph_data const& g_;
  completed const& c_;
  costs const& k_;
  link_cost link_;
  std::vector<figures> of_;  // by node
  std::vector<chained> kinds_;
  std::vector<bool> read_;    // by value
  std::vector<int> devices_;  // one of each kind
  double per_byte_ = 0;       // read or written by a chain
  bool even_ = true;
  std::vector<known_move> known_;
  std::vector<known_groups> groups_;
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
