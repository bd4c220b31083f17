// From a plan to what its file holds.
#pragma once
#include <string>
#include <vector>

#include <partita/model/names.hpp>
#include <partita/plan/file_document.hpp>
#include <partita/plan/plan.hpp>

namespace partita::detail {

inline bool names_two_letters(op_info const& f, std::uint64_t axis) {
  int n = 0;
  for (int d = 0; d < f.dim_count; ++d) n += f.dims[d].axis->id == axis;
  return n > 1;
}
// A letter of an op, or an axis of a tensor that an op makes.
struct axis_and_letter {
  axis_info const* axis;
  char letter;
};

// A plan as a document.
class plan_writer {
 public:
  plan_writer(graph_data const& g, plan_base const& p) : g_(g), p_(p), names_(unique_names(g)) {}
  plan_file::document write() {
    plan_file::document doc;
    doc.format = "partita plan";
    doc.version = plan_file_version;
    for (op_entry const& e : g_.ops)
      for (int d = 0; d < e.info->dim_count; ++d)
        if (const std::size_t n = g_.extent(e.info->dims[d].axis); n != unbound)
          doc.extents[std::string(e.info->dims[d].axis->name)] = static_cast<int>(n);
    for (int op = 0; op < g_.ops.size; ++op)
      if (op_plan const& own = p_.of(op); own.cut_count > 0 || own.assigned || own.phase_count > 0)
        doc.ops.push_back(op_of(op, own));
    for (node_plan const& n : p_.nodes()) {
      plan_file::node out = node_of(n.key);
      operand const& x = g_.operand_of(n.key.tensor);
      op_info const& f = *g_.ops[g_.tensors[n.key.tensor].op].info;
      put_cuts(
          n.own, f,
          [&](int a) {
            return axis_and_letter{x.axes[a], f.dims[x.dims[a]].letter};
          },
          out.cuts);
      put_place(n.own, out);
      doc.nodes.push_back(std::move(out));
    }
    for (wish const& w : p_.wishes()) {
      if (!w.continues) {
        doc.orders.emplace_back();
        doc.orders.back().moments.push_back(moment_of(w.first));
        if (w.lenient) doc.orders.back().links = true;
      }
      doc.orders.back().moments.push_back(moment_of(w.second));
    }
    for (preference const& x : p_.preferences()) {
      plan_file::preference out;
      out.moment = moment_of(x.which);
      out.priority = x.value;
      doc.priorities.push_back(std::move(out));
    }
    return doc;
  }

 private:
  std::string mode(short m) const { return std::string(p_.modes()[m].view()); }
  std::string const& name(int op) const { return names_[static_cast<std::size_t>(op)]; }
  plan_file::op op_of(int op, op_plan const& own) const {
    op_info const& f = *g_.ops[op].info;
    plan_file::op o;
    o.name = name(op);
    put_cuts(
        own, f,
        [&](int d) {
          return axis_and_letter{f.dims[d].axis, f.dims[d].letter};
        },
        o.cuts);
    put_place(own, o);
    if (own.phase_count > 0) o.phases.emplace();
    for (int k = 0; k < own.phase_count; ++k) (*o.phases)[mode(own.phases[k].mode)] = own.phases[k].index;
    return o;
  }
  template <class Axis>
  void put_cuts(op_plan const& own, op_info const& f, Axis axis_of_dim, std::vector<plan_file::cut>& cuts) const {
    for (int c = 0; c < own.cut_count; ++c) {
      op_cut const& x = own.cuts[c];
      plan_file::cut cut;
      cut.mode = mode(x.mode);
      cut.pieces = x.pieces;
      if (x.dim >= 0) {
        const axis_and_letter along = axis_of_dim(x.dim);
        cut.axis = std::string(along.axis->name);
        if (names_two_letters(f, along.axis->id)) cut.letter = std::string(1, along.letter);
      }
      if (int const* sizes = p_.sizes(x.sizes)) cut.sizes.assign(sizes, sizes + x.pieces);
      if (x.fold) cut.fold = true;
      if (x.skew >= 0) cut.skew = mode(x.skew);
      cuts.push_back(std::move(cut));
    }
  }
  template <class Out> void put_place(op_plan const& own, Out& out) const {
    if (!own.assigned) return;
    out.grid.emplace();
    for (int l = 0; l < own.level_count; ++l) {
      plan_file::dimension d;
      d.name = mode(own.levels[l].mode);
      d.extent = own.levels[l].extent;
      if (own.levels[l].coordinate >= 0) d.at = own.levels[l].coordinate;
      out.grid->push_back(std::move(d));
    }
    if (own.list < 0) return;
    growing<int> const& list = p_.devices_of_list(own.list);
    out.devices.emplace(list.begin(), list.end());
  }
  plan_file::node node_of(node_key const& k) const {
    plan_file::node out;
    out.what = k.what == between::move ? "move" : "accumulate";
    out.of = name(g_.tensors[k.tensor].op);
    if (g_.tensors[k.tensor].output > 0) out.output = g_.tensors[k.tensor].output;
    if (k.reader >= 0) out.to = name(k.reader);
    return out;
  }
  plan_file::moment moment_of(moment_entry const& m) const {
    plan_file::moment out;
    if (m.op >= 0) out.op = name(m.op);
    if (m.node.what != between::nothing) out.node = node_of(m.node);
    if (m.when >= 0) out.pass = std::string(m.when == 0 ? "forward" : m.when == 1 ? "backward" : "update");
    if (m.place_count > 0) out.at.emplace();
    for (int k = 0; k < m.place_count; ++k) (*out.at)[mode(m.places[k].mode)] = m.places[k].index;
    if (m.index_count > 0) out.index.emplace();
    for (int k = 0; k < m.index_count; ++k) (*out.index)[mode(m.indices[k].mode)] = m.indices[k].index;
    return out;
  }

  graph_data const& g_;
  plan_base const& p_;
  list<std::string> names_;
};

}  // namespace partita::detail
