// Plan files: JSON, versioned. A file holds what a policy said, op by op, in names that do not depend on the process; what
// the plan implies is made anew and verified like any other plan when it is loaded.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <partita/core/reflect_json.hpp>
#include <partita/core/whole_file.hpp>
#include <partita/core/words.hpp>
#include <partita/plan/file_writer.hpp>
#include <partita/plan/typed_plan.hpp>

namespace partita {

namespace detail {

// A document's words said to a plan; what is wrong in it is an error that says where.
class plan_file_reader {
 public:
  plan_file_reader(graph_data const& g, plan_base& p) : g_(g), p_(p) {
    const list<std::string> names = unique_names(g);
    for (int op = 0; op < g.ops.size; ++op) by_name_[names[static_cast<std::size_t>(op)]] = op;
  }
  void read(plan_file::document const& doc) {
    if (doc.format != "partita plan") throw error("format is '" + doc.format + "', not 'partita plan'");
    if (doc.version < 2 || doc.version > plan_file_version)
      throw error("version " + std::to_string(doc.version) + " is not known; this library reads versions 2 to " +
                  std::to_string(plan_file_version));
    std::map<int, std::string> seen;
    for (std::size_t i = 0; i < doc.ops.size(); ++i) {
      const std::string where = "ops[" + std::to_string(i) + "] (" + doc.ops[i].name + ")";
      const int op = find(doc.ops[i].name, where);
      if (!seen.emplace(op, where).second) throw error(where + ": stands twice, first as " + seen[op]);
      take_op(doc.ops[i], op, where);
    }
    for (std::size_t i = 0; i < doc.nodes.size(); ++i) take_node(doc.nodes[i], "nodes[" + std::to_string(i) + "]");
    for (std::size_t i = 0; i < doc.orders.size(); ++i) take_order(doc.orders[i], "orders[" + std::to_string(i) + "]");
    for (std::size_t i = 0; i < doc.priorities.size(); ++i)
      p_.op_order(moment_of(doc.priorities[i].moment, "priorities[" + std::to_string(i) + "].moment"),
                  priority{doc.priorities[i].priority}, 0);
  }

 private:
  int find(std::string const& name, std::string const& where) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) throw error(where + ": the model has no op named '" + name + "'");
    return found->second;
  }
  static mode_name short_name(std::string const& text, std::string const& where) {
    mode_name n{std::string_view(text)};
    if (text.empty()) throw error(where + ": a name is empty");
    if (n.view() != text) throw error(where + ": the name '" + text + "' is longer than 24 characters");
    return n;
  }
  // `to`: an op or nodes. `axes`: along which it may be cut.
  template <class To> void take_cuts(std::vector<plan_file::cut> const& cuts, To const& to,
                                     std::vector<axis_and_letter> const& axes, const char* what, std::string const& where) {
    for (std::size_t k = 0; k < cuts.size(); ++k) {
      plan_file::cut const& c = cuts[k];
      const std::string at = where + ".cuts[" + std::to_string(k) + "]";
      const mode_name mode = short_name(c.mode, at);
      if (c.pieces < 1) throw error(at + ": pieces is " + std::to_string(c.pieces) + ", at least 1 is needed");
      if (!c.axis) {
        p_.op_trans(to, replicate{c.pieces, mode.view()}, 0);
        continue;
      }
      axis_and_letter const* along = nullptr;
      for (axis_and_letter const& a : axes)
        if (a.axis->name == *c.axis && (!c.letter || std::string(1, a.letter) == *c.letter)) along = &a;
      if (along == nullptr)
        throw error(at + ": the " + what + " has no axis '" + *c.axis + "'" +
                    (c.letter ? " under letter '" + *c.letter + "'" : ""));
      if (!c.sizes.empty() && static_cast<int>(c.sizes.size()) != c.pieces)
        throw error(at + ": " + std::to_string(c.sizes.size()) + " sizes for " + std::to_string(c.pieces) + " pieces");
      p_.op_trans(
          to,
          cut_axis{along->axis, c.pieces, mode, c.letter ? along->letter : char{}, c.sizes.empty() ? nullptr : c.sizes.data(),
                   static_cast<int>(c.sizes.size()), c.fold.value_or(false), c.skew ? short_name(*c.skew, at) : mode_name{}},
          0);
    }
  }
  template <class To, class From> void take_place(From const& from, To const& to, std::string const& where) {
    if (from.devices && !from.grid) throw error(where + ".devices: there is no grid beside it");
    if (!from.grid) return;
    p_.op_assign(to, grid{}, 0);
    for (std::size_t k = 0; k < from.grid->size(); ++k) {
      plan_file::dimension const& d = (*from.grid)[k];
      const std::string at = where + ".grid[" + std::to_string(k) + "]";
      const mode_name name = short_name(d.name, at);
      if (d.extent < 1) throw error(at + ": extent is " + std::to_string(d.extent) + ", at least 1 is needed");
      if (d.at) {
        if (*d.at < 0 || *d.at >= d.extent)
          throw error(at + ": at is " + std::to_string(*d.at) + ", the dimension has coordinates 0 to " +
                      std::to_string(d.extent - 1));
        p_.op_assign(to, partita::at{name.view(), *d.at, d.extent}, 0);
      } else p_.op_assign(to, grid{{name.view(), d.extent}}, 0);
    }
    if (from.devices) p_.op_assign(to, device_list(from.devices->data(), static_cast<int>(from.devices->size())), 0);
  }
  void take_op(plan_file::op const& o, int op, std::string const& where) {
    op_info const& f = *g_.ops[op].info;
    std::vector<axis_and_letter> axes;
    for (int d = 0; d < f.dim_count; ++d) axes.push_back({f.dims[d].axis, f.dims[d].letter});
    take_cuts(o.cuts, op_ref{&g_, op}, axes, "op", where);
    if (o.phases)
      for (auto const& [name, index] : *o.phases) {
        if (index < 0) throw error(where + ".phases." + name + ": " + std::to_string(index) + " is below 0");
        p_.op_assign(op_ref{&g_, op}, phase{short_name(name, where + ".phases").view(), index}, 0);
      }
    take_place(o, op_ref{&g_, op}, where);
  }
  node_key key_of(plan_file::node const& n, std::string const& where) const {
    node_key k;
    if (n.what == "move") k.what = between::move;
    else if (n.what == "accumulate") k.what = between::accumulate;
    else throw error(where + ": what is '" + n.what + "', not move or accumulate");
    op_entry const& e = g_.ops[find(n.of, where)];
    const int output = n.output.value_or(0);
    if (output < 0 || output >= e.info->output_count)
      throw error(where + ": output is " + std::to_string(output) + ", the op has " + std::to_string(e.info->output_count));
    k.tensor = e.first_output + output;
    if (!n.to) return k;
    k.reader = find(*n.to, where);
    op_entry const& reader = g_.ops[k.reader];
    for (int i = 0; i < reader.input_count; ++i)
      if (g_.input(reader, i) == k.tensor) return k;
    throw error(where + ": op '" + *n.to + "' does not read it");
  }
  void take_node(plan_file::node const& n, std::string const& where) {
    node_selection s;
    s.keys.push(key_of(n, where));
    const int tensor = s.keys[0].tensor;
    operand const& x = g_.operand_of(tensor);
    op_info const& f = *g_.ops[g_.tensors[tensor].op].info;
    std::vector<axis_and_letter> axes;
    for (int a = 0; a < x.rank; ++a) axes.push_back({x.axes[a], f.dims[x.dims[a]].letter});
    take_cuts(n.cuts, s, axes, "tensor", where);
    take_place(n, s, where);
  }
  moment moment_of(plan_file::moment const& m, std::string const& where) const {  // its names stay in the document
    moment out;
    if (m.op) out.op = find(*m.op, where);
    if (m.node) {
      if (m.op) throw error(where + ": it names an op and a node");
      if (!m.node->cuts.empty() || m.node->grid || m.node->devices) throw error(where + ".node: cuts and grid stand under nodes");
      out.node = key_of(*m.node, where + ".node");
    }
    if (m.pass) {
      out.when = *m.pass == "forward" ? 0 : *m.pass == "backward" ? 1 : *m.pass == "update" ? 2 : -1;
      if (out.when < 0) throw error(where + ": pass is '" + *m.pass + "', not forward, backward or update");
    }
    auto each = [&](std::optional<plan_file::counts> const& all, const char* what, auto add) {
      if (!all) return;
      if (all->size() > max_coordinates) throw error(where + "." + what + ": there may be " + std::to_string(max_coordinates));
      for (auto const& [name, index] : *all) {
        (void)short_name(name, where + "." + what);
        if (index < 0) throw error(where + "." + what + "." + name + ": " + std::to_string(index) + " is below 0");
        add(name, index);
      }
    };
    each(m.at, "at", [&](std::string const& name, int c) { out = out.at(name, c); });
    each(m.index, "index", [&](std::string const& name, int i) { out = out.index(name, i); });
    return out;
  }
  void take_order(plan_file::order const& o, std::string const& where) {
    if (o.moments.size() < 2) throw error(where + ".moments: an order needs two moments at least");
    std::vector<moment> all;
    for (std::size_t k = 0; k < o.moments.size(); ++k)
      all.push_back(moment_of(o.moments[k], where + ".moments[" + std::to_string(k) + "]"));
    if (o.links.value_or(false)) {
      sequence links(p_, 0);
      for (moment const& m : all) links.then(m);
    } else
      for (std::size_t k = 0; k + 1 < all.size(); ++k) p_.op_order(all[k], all[k + 1], 0);
  }

  graph_data const& g_;
  plan_base& p_;
  std::map<std::string, int> by_name_;
};

}  // namespace detail

// The text of a plan file.
template <class Model> std::string plan_text(plan<Model> const& p) {
  return to_json_text(detail::plan_writer(p.traced(), p).write());
}
// A plan of this model from the text of a plan file. Throws error when the text is not a plan of the model, or when the
// plan does not verify; extents that are not given come from the file.
template <class Model>
plan<Model> plan_from_text(std::string const& text, as_training<Model> const& model = {}, std::vector<binding> extents = {}) {
  const auto doc = from_json_text<plan_file::document>(text);
  plan<Model> probe(model, extents);
  bool more = false;  // axes bound at run time that the caller left open take the file's extents
  for (op_entry const& e : probe.traced().ops)
    for (int d = 0; d < e.info->dim_count; ++d) {
      axis_info const* axis = e.info->dims[d].axis;
      const auto written = doc.extents.find(std::string(axis->name));
      if (axis->extent != unbound || written == doc.extents.end() || written->second < 1) continue;
      bool known = false;
      for (binding const& b : extents) known = known || b.axis->id == axis->id;
      if (known) continue;
      extents.push_back({axis, static_cast<std::size_t>(written->second)});
      more = true;
    }
  plan<Model> made = more ? plan<Model>(model, extents) : std::move(probe);
  detail::plan_file_reader(made.traced(), made).read(doc);
  if (const finding f = made.check()) {
    if (f.what == wrong::not_assigned)
      throw_error({"op ", f.op.view(), " is put on no device; the plan may be of another model"});
    throw error(describe(f));
  }
  return made;
}

template <class Model> void save_plan(plan<Model> const& p, std::string const& path) {
  detail::write_whole_file("plan file", path, plan_text(p));
}
template <class Model>
plan<Model> load_plan(std::string const& path, as_training<Model> const& model = {}, std::vector<binding> extents = {}) {
  return detail::read_whole_file("plan file", path,
                                 [&](std::string const& text) { return plan_from_text<Model>(text, model, std::move(extents)); });
}

}  // namespace partita
