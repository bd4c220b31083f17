// What all ranks' programs share: the order, the chain of collectives of every move, the groups of devices.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <partita/core/error.hpp>
#include <partita/layout/transition.hpp>
#include <partita/program/order.hpp>
#include <partita/program/pieces.hpp>
#include <partita/program/program.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// Rates by which instances are ordered. They change what waits for what, never the result.
struct rates {
  double flops = 5e10, bytes = 1e10;  // per second and device
  link_cost link{1e-5, 2e-10};
};
struct lowering_options {
  rates speed{};
  std::function<double(node const&)> seconds;  // of one instance, instead of the rates
  bool keep_gradients = false;  // gradients of parameters may be read after the step
  bool fuse = true;             // chains of ops run tile by tile
  int workers = 1;              // of a device: each has a tile of its own
  // Bytes of scratch that a kernel wants for a piece: (op, extents per letter).
  std::function<std::size_t(int, std::size_t const*)> workspace;
};

// A move's way: a chain on the grid it comes from, a send to the grid it goes to, a chain there; or, where no chain
// exists, boxes sent from wherever they are to wherever they are wanted.
struct route {
  bool by_boxes = false;
  bool sends = false;
  std::vector<transition_step> before, after;
  layout sent;  // the layout in which pieces change grids
};

class lowering {
 public:
  lowering(graph_data const& g, plan_base const& plan, completed const& c, lowering_options options = {})
      : graph_(&g), plan_(&plan), completed_(&c), options_(std::move(options)) {
    if (const finding f = build_instances(g, plan, c, instances_)) throw error(describe(f));
    order_ = order_instances(g, c, instances_, [this](node const& n) { return ticks(n); });
    if (static_cast<int>(order_.size()) != instances_.instances) throw error(describe(check_acyclic(g, c, instances_)));
    routes_.resize(static_cast<std::size_t>(c.nodes.size));
    for (int id = 0; id < c.nodes.size; ++id)
      if (c.nodes[id].kind == node_kind::move) routes_[static_cast<std::size_t>(id)] = find_route(c.nodes[id]);
    readers_.resize(static_cast<std::size_t>(c.values.size));
    for (int v : c.inputs) ++readers_[static_cast<std::size_t>(v)];
    choose_forward();
    digest_ = hash_seed;
    for (instance const& i : order_) {
      node const& n = c.nodes[i.node];
      digest_ = hash(static_cast<std::uint64_t>(n.op) << 32 | static_cast<std::uint64_t>(i.index), digest_);
      digest_ = hash(g.ops[n.op].info->kind, digest_);
    }
  }

  graph_data const& graph() const { return *graph_; }
  plan_base const& plan() const { return *plan_; }
  completed const& plan_completed() const { return *completed_; }
  lowering_options const& options() const { return options_; }
  std::vector<instance> const& order() const { return order_; }
  instance_graph const& instances() const { return instances_; }
  route const& route_of(int node) const { return routes_[static_cast<std::size_t>(node)]; }
  int readers(int value) const { return readers_[static_cast<std::size_t>(value)]; }
  std::vector<std::vector<int>> const& groups() const { return groups_; }
  // Does the forward part, up to the model's outputs, need this node?
  bool in_forward(int node) const { return forward_[static_cast<std::size_t>(node)]; }
  int const* sizes() const { return plan_->sizes(0); }
  std::uint64_t digest() const { return digest_; }

  // The group of devices that differ from this one in one coordinate only.
  int group_along(placement const& w, int level, int const* coordinates) const {
    int c[max_levels]{};
    for (int l = 0; l < w.rank; ++l) c[l] = coordinates[l];
    c[level] = 0;
    return find_group(w.device(c), w.extents[level], w.strides[level]);
  }

 private:
  // The group of `count` devices from `first` on, `stride` apart; -1: there is none.
  int find_group(int first, int count, int stride) const {
    if (static_cast<std::size_t>(first) < groups_from_.size())
      for (int id : groups_from_[static_cast<std::size_t>(first)]) {
        std::vector<int> const& members = groups_[static_cast<std::size_t>(id)];
        if (static_cast<int>(members.size()) == count && (count == 1 || members[1] - first == stride)) return id;
      }
    return -1;
  }
  std::int64_t ticks(node const& n) const {  // nanoseconds
    graph_data const& g = *graph_;
    double seconds = 0;
    if (options_.seconds) seconds = options_.seconds(n);
    else if (n.kind == node_kind::compute) {
      op_entry const& e = g.ops[n.op];
      op_info const& f = *e.info;
      double share = 1, points = f.flops_per_point, bytes = 0;
      for (int p = 0; p < n.over.count; ++p) share /= n.over.parts[p].pieces;
      for (int d = 0; d < f.dim_count; ++d) points *= static_cast<double>(g.extent(f.dims[d].axis));
      for (int i = 0; i < f.input_count; ++i) bytes += tensor_bytes(f.inputs[i]) * piece_share(f.inputs[i], n.over);
      for (int o = 0; o < f.output_count; ++o) bytes += tensor_bytes(f.outputs[o]) * piece_share(f.outputs[o], n.over);
      seconds = points * share / options_.speed.flops + bytes / options_.speed.bytes;
    } else {
      operand const& x = g.operand_of(completed_->values[n.first_value].tensor);
      double bytes = tensor_bytes(x);
      for (int p = 0; p < n.over.count; ++p) bytes /= n.over.parts[p].pieces;
      seconds = n.kind != node_kind::move ? bytes / options_.speed.bytes
                                              : options_.speed.link.latency + bytes * options_.speed.link.seconds_per_byte;
    }
    return static_cast<std::int64_t>(seconds * 1e9);
  }
  double tensor_bytes(operand const& x) const {
    double b = static_cast<double>(size_of(x.type));
    for (int a = 0; a < x.rank; ++a) b *= static_cast<double>(graph_->extent(x.axes[a]));
    return b;
  }
  static double piece_share(operand const& x, layout const& over) {
    double s = 1;
    for (int p = 0; p < over.count; ++p)
      if (x.find(over.parts[p].axis) >= 0) s /= over.parts[p].pieces;
    return s;
  }

  route find_route(node const& n) {
    completed const& c = *completed_;
    layout const& from = c.values[c.input(n, 0)].lay;
    layout const& to = n.over;
    operand const& x = graph_->operand_of(c.values[n.first_value].tensor);
    route r;
    bool shared_time = true;  // pieces that are not stored under the same indices do not make a chain
    const time_modes stored = times_of(from), made = times_of(to);
    for (int m = 0; m < stored.count; ++m) shared_time = shared_time && made.find(stored.modes[m]) >= 0;
    const double bytes = tensor_bytes(x);
    bool found = false;
    if (shared_time && from.where == to.where) {
      r.before = cheapest_chain(from, to, x.rank, bytes, found, options_.speed.link);
      if (found) {
        r.sent = from;
        for (transition_step const& s : r.before) make_groups(to.where, s.level);
        return r;
      }
    } else if (shared_time && from.where.same_shape(to.where)) {
      layout goal = to;
      goal.where = from.where;
      std::vector<transition_step> chain = cheapest_chain(from, goal, x.rank, bytes, found, options_.speed.link);
      if (found) {  // send when nothing is partial any more and pieces are smallest
        std::size_t at = 0, best = 0;
        double least = piece_bytes(from, bytes);
        bool partial = part_on(from, -1, 0) >= 0;
        if (partial) least = 0;
        for (transition_step const& s : chain) {
          ++at;
          if (part_on(s.after, -1, 0) >= 0) continue;
          const double now = piece_bytes(s.after, bytes);
          if (partial || now < least) {
            best = at;
            least = now;
            partial = false;
          }
        }
        r.sends = true;
        r.before.assign(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(best));
        r.after.assign(chain.begin() + static_cast<std::ptrdiff_t>(best), chain.end());
        r.sent = best == 0 ? from : r.before.back().after;
        for (transition_step const& s : r.before) make_groups(from.where, s.level);
        for (transition_step& s : r.after) {
          s.after.where = to.where;
          make_groups(to.where, s.level);
        }
        return r;
      }
    }
    r.by_boxes = true;
    return r;
  }
  static double piece_bytes(layout const& l, double bytes) {
    for (int p = 0; p < l.count; ++p)
      if (!l.parts[p].partial()) bytes /= l.parts[p].pieces;
    return bytes;
  }
  void make_groups(placement const& w, int level) {
    int c[max_levels]{};
    for (int i = 0, n = w.size(); i < n; ++i) {
      w.coordinates_at(i, c);
      if (c[level] != 0) continue;
      const int first = w.device(c);
      if (find_group(first, w.extents[level], w.strides[level]) >= 0) continue;
      std::vector<int> members;
      for (int k = 0; k < w.extents[level]; ++k) members.push_back(first + k * w.strides[level]);
      if (groups_from_.size() <= static_cast<std::size_t>(first)) groups_from_.resize(static_cast<std::size_t>(first) + 1);
      groups_from_[static_cast<std::size_t>(first)].push_back(static_cast<int>(groups_.size()));
      groups_.push_back(std::move(members));
    }
  }
  void choose_forward() {
    completed const& c = *completed_;
    forward_.assign(static_cast<std::size_t>(c.nodes.size), false);
    for (int id = c.nodes.size - 1; id >= 0; --id) {
      node const& n = c.nodes[id];
      op_entry const& e = graph_->ops[n.op];
      if (n.kind == node_kind::compute && e.info->is_output && e.when == pass::forward) forward_[static_cast<std::size_t>(id)] = true;
      if (!forward_[static_cast<std::size_t>(id)]) continue;
      for (int i = 0; i < n.input_count; ++i) forward_[static_cast<std::size_t>(c.values[c.input(n, i)].node)] = true;
    }
  }

  graph_data const* graph_;
  plan_base const* plan_;
  completed const* completed_;
  lowering_options options_;
  instance_graph instances_;
  std::vector<instance> order_;
  std::vector<route> routes_;
  std::vector<int> readers_;
  std::vector<bool> forward_;
  std::vector<std::vector<int>> groups_, groups_from_;  // members; by first member, the groups that begin with it
  std::uint64_t digest_ = 0;
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
