// What all ranks' programs share: the order, the chain of collectives of every move, the groups of devices.
#pragma once
#include <functional>
#include <string>

#include <partita/core/error.hpp>
#include <partita/core/list.hpp>
#include <partita/layout/route.hpp>
#include <partita/program/buckets.hpp>
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
  bool keep_gradients = false;                 // gradients of parameters may be read after the step
  bool fuse = true;                            // chains of ops run tile by tile
  int workers = 1;                             // of a device: each has a tile of its own
  double bucket_bytes = usual_bucket_bytes;    // moves that wait at the same time are one collective up to so much; 0: never
  // Bytes of scratch that a kernel wants for a piece: (op, extents per letter).
  std::function<std::size_t(int, std::size_t const*)> workspace;
  std::function<void(program&)> arrange;  // changes the order of what does not depend on each other, before memory is planned
};

// The devices of one group of a collective, by rank, and their coordinates along the dimensions of the group.
struct device_group {
  int id = -1;                  // into the list of groups
  list<list<int>> coordinates;  // on the grid, by member
};

class lowering {
 public:
  lowering(graph_data const& g, plan_base const& plan, completed const& c, lowering_options options = {})
      : graph_(&g), plan_(&plan), completed_(&c), options_(std::move(options)) {
    if (const finding f = build_instances(g, plan, c, instances_)) throw error(describe(f));
    routes_.resize(static_cast<std::size_t>(c.nodes.size), -1);
    for (int id = 0; id < c.nodes.size; ++id)
      if (c.nodes[id].kind == node_kind::move && c.nodes[id].ring == ring_kind::none)
        routes_[static_cast<std::size_t>(id)] = route_of(c.nodes[id]);
    order_ = order_instances(
        g, c, instances_, [this](node const& n) { return ticks(n); }, buckets());
    if (static_cast<int>(order_.size()) != instances_.instances) throw error(describe(check_acyclic(g, c, instances_)));
    readers_.resize(static_cast<std::size_t>(c.values.size));
    for (int v : c.inputs) ++readers_[static_cast<std::size_t>(v)];
    choose_forward();
    digest_ = hash_seed;
    for (instance const& i : order_) {
      node const& n = c.nodes[i.node];
      digest_ = hash(static_cast<std::uint64_t>(n.op) << 32 | static_cast<std::uint64_t>(i.index), digest_);
      digest_ = hash(g.ops[n.op].info->kind, digest_);
      digest_ = hash(static_cast<std::uint64_t>(i.bucket + 1), digest_);
    }
  }

  graph_data const& graph() const { return *graph_; }
  plan_base const& plan() const { return *plan_; }
  completed const& plan_completed() const { return *completed_; }
  lowering_options const& options() const { return options_; }
  list<instance> const& order() const { return order_; }
  instance_graph const& instances() const { return instances_; }
  // The steps of a move.
  route const& route_of(int node) const {
    return known_routes_[static_cast<std::size_t>(routes_[static_cast<std::size_t>(node)])].found;
  }
  int readers(int value) const { return readers_[static_cast<std::size_t>(value)]; }
  list<list<int>> const& groups() const { return groups_; }
  // Does the forward part, up to the model's outputs, need this node?
  bool in_forward(int node) const { return forward_[static_cast<std::size_t>(node)]; }
  // Has a rank anything to do in a node? Of a pipeline's nodes those of its own stage: asked once, not for every micro-batch.
  bool takes_part(int node, int rank) const {
    auto is_of = [&](placement const& w) {
      int c[max_levels]{};
      return w.coordinates_of(rank, c);
    };
    partita::node const& n = completed_->nodes[node];
    if (n.kind != node_kind::move || n.ring != ring_kind::none) return is_of(n.over.where);
    route const& way = route_of(node);
    bool any = is_of(way.start.where);
    for (transition_step const& step : way.steps) any = any || is_of(step.after.where);
    return any;
  }
  int const* sizes() const { return plan_->sizes(0); }
  std::uint64_t digest() const { return digest_; }

  // The group of a step: the devices that differ from the one at these coordinates along its dimensions only.
  device_group group_of(placement const& w, unsigned levels, int const* coordinates) const {
    device_group group;
    list<int> devices;
    members(w, levels, coordinates, devices, &group.coordinates);
    group.id = find_group(devices);
    return group;
  }

 private:
  // The group of these devices; -1: there is none.
  int find_group(list<int> const& devices) const {
    const auto first = static_cast<std::size_t>(devices.front());
    if (first < groups_from_.size())
      for (int id : groups_from_[first])
        if (groups_[static_cast<std::size_t>(id)] == devices) return id;
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
  // Which moves may be joined.
  detail::bucketing buckets() const {
    detail::bucketing b;
    if (options_.bucket_bytes <= 0) return b;
    completed const& c = *completed_;
    const std::size_t nodes = static_cast<std::size_t>(c.nodes.size);
    b.kind.assign(nodes, -1);
    b.bytes.assign(nodes, 0);
    b.patient = detail::read_by_no_other_than_updates(*graph_, c);
    b.most = options_.bucket_bytes;
    b.latency = static_cast<std::int64_t>(options_.speed.link.latency * 1e9);
    detail::bucket_kinds kinds;
    for (int id = 0; id < c.nodes.size; ++id) {
      const std::size_t i = static_cast<std::size_t>(id);
      if (routes_[i] < 0) continue;
      layout const& start = route_of(id).start;
      transition_step const* const step = detail::collective_of(route_of(id));
      if (step == nullptr) continue;
      operand const& x = graph_->operand_of(c.values[c.nodes[id].first_value].tensor);
      b.kind[i] = kinds.of(start.where, *step, detail::reduction_of(start, step->levels), x.type, b.patient[i]);
      b.bytes[i] = std::max(piece_bytes(x, start), piece_bytes(x, step->after));
    }
    return b;
  }
  double piece_bytes(operand const& x, layout const& l) const {
    double bytes = tensor_bytes(x);
    for (int p = 0; p < l.count; ++p)
      if (!l.parts[p].partial()) bytes /= l.parts[p].pieces;
    return bytes;
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

  // The same change is made in every layer: its route is looked for once.
  struct known_route {
    layout from, to;
    tensor_shape shape;
    route found;
  };
  static bool same_layout(layout const& a, layout const& b) {
    if (!(a.where == b.where) || a.count != b.count) return false;
    for (int l = 0; l < a.where.rank; ++l)
      if (a.where.modes[l] != b.where.modes[l]) return false;
    for (int p = 0; p < a.count; ++p)
      if (!(a.parts[p] == b.parts[p]) || a.parts[p].reduce != b.parts[p].reduce) return false;
    return true;
  }
  int route_of(node const& n) {
    completed const& c = *completed_;
    layout const& from = c.values[c.input(n, 0)].lay;
    const tensor_shape x = detail::shape_of(*graph_, graph_->operand_of(c.values[n.first_value].tensor));
    for (std::size_t k = 0; k < known_routes_.size(); ++k) {
      known_route const& r = known_routes_[k];
      bool same = r.shape.rank == x.rank && r.shape.element_bytes == x.element_bytes;
      for (int a = 0; a < x.rank && same; ++a) same = r.shape.extents[a] == x.extents[a];
      if (same && same_layout(r.from, from) && same_layout(r.to, n.over)) return static_cast<int>(k);
    }
    known_routes_.push_back({from, n.over, x, find_route(from, n.over, x, sizes(), options_.speed.link)});
    placement w = known_routes_.back().found.start.where;
    for (transition_step const& s : known_routes_.back().found.steps) {
      if (s.kind <= transition_kind::all_to_all) make_groups(w, s.levels);
      w = s.after.where;
    }
    return static_cast<int>(known_routes_.size()) - 1;
  }
  static void members(placement const& w, unsigned levels, int const* coordinates, list<int>& devices, list<list<int>>* all) {
    int c[max_levels]{};
    list<std::pair<int, list<int>>> found;
    for (int l = 0; l < w.rank; ++l) c[l] = levels >> l & 1 ? 0 : coordinates[l];
    for (int n = detail::devices_over(w, levels), k = 0; k < n; ++k) {
      int left = k;
      for (int l = w.rank - 1; l >= 0; --l)
        if (levels >> l & 1) {
          c[l] = left % w.extents[l];
          left /= w.extents[l];
        }
      found.emplace_back(w.device(c), list<int>(c, c + w.rank));
    }
    for (int k : sorted_ids(found.size(), [&](int a, int b) {
           return found[static_cast<std::size_t>(a)].first < found[static_cast<std::size_t>(b)].first;
         })) {
      devices.push_back(found[static_cast<std::size_t>(k)].first);
      if (all != nullptr) all->push_back(std::move(found[static_cast<std::size_t>(k)].second));
    }
  }
  void make_groups(placement const& w, unsigned levels) {
    for (auto const& [known, of] : grouped_)
      if (of == levels && known == w) return;
    grouped_.emplace_back(w, levels);
    int c[max_levels]{};
    for (int i = 0, n = w.size(); i < n; ++i) {
      w.coordinates_at(i, c);
      bool first = true;
      for (int l = 0; l < w.rank; ++l) first = first && (!(levels >> l & 1) || c[l] == 0);
      if (!first) continue;
      list<int> devices;
      members(w, levels, c, devices, nullptr);
      if (find_group(devices) >= 0) continue;
      const auto from = static_cast<std::size_t>(devices.front());
      if (groups_from_.size() <= from) groups_from_.resize(from + 1);
      groups_from_[from].push_back(static_cast<int>(groups_.size()));
      groups_.push_back(std::move(devices));
    }
  }
  void choose_forward() {
    completed const& c = *completed_;
    forward_.assign(static_cast<std::size_t>(c.nodes.size), false);
    for (int id = c.nodes.size - 1; id >= 0; --id) {
      node const& n = c.nodes[id];
      op_entry const& e = graph_->ops[n.op];
      if (n.kind == node_kind::compute && e.info->is_output && e.when == pass::forward)
        forward_[static_cast<std::size_t>(id)] = true;
      if (!forward_[static_cast<std::size_t>(id)]) continue;
      for (int i = 0; i < n.input_count; ++i) forward_[static_cast<std::size_t>(c.values[c.input(n, i)].node)] = true;
    }
  }

  graph_data const* graph_;
  plan_base const* plan_;
  completed const* completed_;
  lowering_options options_;
  instance_graph instances_;
  list<instance> order_;
  list<int> routes_;  // per node, into those known
  list<known_route> known_routes_;
  list<int> readers_;
  list<bool> forward_;
  list<std::pair<placement, unsigned>> grouped_;
  list<list<int>> groups_, groups_from_;  // members; by first member, the groups that begin with it
  std::uint64_t digest_ = 0;
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
