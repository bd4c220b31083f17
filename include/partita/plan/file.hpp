// Plan files: JSON, versioned. A file holds what a policy said, op by op, in names that do not depend on the process; what
// the plan implies is made anew and verified like any other plan when it is loaded.
#pragma once
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <partita/core/reflect_json.hpp>
#include <partita/model/names.hpp>
#include <partita/plan/typed_plan.hpp>

namespace partita {

inline constexpr int plan_file_version = 2;

namespace plan_file {
using counts = std::map<std::string, int>;
struct cut {
  BOOST_HANA_DEFINE_STRUCT(cut,
    (std::string, mode),                   // the cut's name
    (std::optional<std::string>, axis),    // absent: replicas
    (std::optional<std::string>, letter),  // where the axis is bound to two letters of the op
    (int, pieces),
    (std::vector<int>, sizes),             // absent: even
    (std::optional<bool>, fold),           // piece i is chunks i and 2n-1-i of 2n
    (std::optional<std::string>, skew));   // in time: the dimension whose coordinate says with which piece to begin
};
struct dimension {
  BOOST_HANA_DEFINE_STRUCT(dimension,
    (std::string, name),
    (int, extent),
    (std::optional<int>, at));             // one coordinate; absent: all of them
};
struct op {
  BOOST_HANA_DEFINE_STRUCT(op,
    (std::string, name),
    (std::vector<plan_file::cut>, cuts),
    (std::optional<std::vector<plan_file::dimension>>, grid),  // absent: inherited; empty: device 0
    (std::optional<counts>, phases));      // coordinates in time
};
struct moment {
  BOOST_HANA_DEFINE_STRUCT(moment,
    (std::optional<std::string>, op),
    (std::optional<std::string>, pass),
    (std::optional<counts>, at),           // dimensions and phases: coordinates
    (std::optional<counts>, index));       // modes: indices
};
struct order {  // moments one after another; of a list of links, what no op has is left out
  BOOST_HANA_DEFINE_STRUCT(order, (std::vector<plan_file::moment>, moments), (std::optional<bool>, links));
};
struct preference {
  BOOST_HANA_DEFINE_STRUCT(preference, (plan_file::moment, moment), (int, priority));
};
struct document {
  BOOST_HANA_DEFINE_STRUCT(document,
    (std::string, format),
    (int, version),
    (std::map<std::string, int>, extents),  // for which the plan was made
    (std::vector<plan_file::op>, ops),
    (std::vector<plan_file::order>, orders),
    (std::vector<plan_file::preference>, priorities));
};
}  // namespace plan_file

namespace detail {

inline bool names_two_letters(op_info const& f, std::uint64_t axis) {
  int n = 0;
  for (int d = 0; d < f.dim_count; ++d) n += f.dims[d].axis->id == axis;
  return n > 1;
}

inline plan_file::document describe_for_file(graph_data const& g, plan_base const& p) {
  plan_file::document doc;
  doc.format = "partita plan";
  doc.version = plan_file_version;
  const std::vector<std::string> names = unique_names(g);
  auto name_of_mode = [&](short m) { return std::string(p.modes()[m].view()); };
  for (int op = 0; op < g.ops.size; ++op) {
    op_info const& f = *g.ops[op].info;
    for (int d = 0; d < f.dim_count; ++d)
      if (const std::size_t n = g.extent(f.dims[d].axis); n != unbound)
        doc.extents[std::string(f.dims[d].axis->name)] = static_cast<int>(n);
    op_plan const& own = p.of(op);
    if (own.cut_count == 0 && !own.assigned && own.phase_count == 0) continue;
    plan_file::op o;
    o.name = names[static_cast<std::size_t>(op)];
    for (int c = 0; c < own.cut_count; ++c) {
      op_cut const& x = own.cuts[c];
      plan_file::cut cut;
      cut.mode = name_of_mode(x.mode);
      cut.pieces = x.pieces;
      if (x.dim >= 0) {
        cut.axis = std::string(f.dims[x.dim].axis->name);
        if (names_two_letters(f, f.dims[x.dim].axis->id)) cut.letter = std::string(1, f.dims[x.dim].letter);
      }
      if (int const* sizes = p.sizes(x.sizes)) cut.sizes.assign(sizes, sizes + x.pieces);
      if (x.fold) cut.fold = true;
      if (x.skew >= 0) cut.skew = name_of_mode(x.skew);
      o.cuts.push_back(std::move(cut));
    }
    if (own.assigned) {
      o.grid.emplace();
      for (int l = 0; l < own.level_count; ++l) {
        plan_file::dimension d;
        d.name = name_of_mode(own.levels[l].mode);
        d.extent = own.levels[l].extent;
        if (own.levels[l].coordinate >= 0) d.at = own.levels[l].coordinate;
        o.grid->push_back(std::move(d));
      }
    }
    if (own.phase_count > 0) o.phases.emplace();
    for (int k = 0; k < own.phase_count; ++k) (*o.phases)[name_of_mode(own.phases[k].mode)] = own.phases[k].index;
    doc.ops.push_back(std::move(o));
  }
  auto put = [&](moment_entry const& m) {
    plan_file::moment out;
    if (m.op >= 0) out.op = names[static_cast<std::size_t>(m.op)];
    if (m.when >= 0) out.pass = std::string(m.when == 0 ? "forward" : m.when == 1 ? "backward" : "update");
    if (m.place_count > 0) out.at.emplace();
    for (int k = 0; k < m.place_count; ++k) (*out.at)[name_of_mode(m.places[k].mode)] = m.places[k].index;
    if (m.index_count > 0) out.index.emplace();
    for (int k = 0; k < m.index_count; ++k) (*out.index)[name_of_mode(m.indices[k].mode)] = m.indices[k].index;
    return out;
  };
  for (wish const& w : p.wishes()) {
    if (!w.continues) {
      doc.orders.emplace_back();
      doc.orders.back().moments.push_back(put(w.first));
      if (w.lenient) doc.orders.back().links = true;
    }
    doc.orders.back().moments.push_back(put(w.second));
  }
  for (preference const& x : p.preferences()) {
    plan_file::preference out;
    out.moment = put(x.which);
    out.priority = x.value;
    doc.priorities.push_back(std::move(out));
  }
  return doc;
}

inline void apply_document(graph_data const& g, plan_base& p, plan_file::document const& doc) {
  if (doc.format != "partita plan") throw error("format is '" + doc.format + "', not 'partita plan'");
  if (doc.version != plan_file_version)
    throw error("version " + std::to_string(doc.version) + " is not known; this library reads version " +
                std::to_string(plan_file_version));
  std::map<std::string, int> by_name;
  const std::vector<std::string> names = unique_names(g);
  for (int op = 0; op < g.ops.size; ++op) by_name[names[static_cast<std::size_t>(op)]] = op;
  auto find = [&](std::string const& name, std::string const& where) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) throw error(where + ": the model has no op named '" + name + "'");
    return found->second;
  };
  auto short_name = [&](std::string const& text, std::string const& where) {
    mode_name n{std::string_view(text)};
    if (text.empty()) throw error(where + ": a name is empty");
    if (n.view() != text) throw error(where + ": the name '" + text + "' is longer than 24 characters");
    return n;
  };
  std::map<int, std::string> seen;
  for (std::size_t i = 0; i < doc.ops.size(); ++i) {
    plan_file::op const& o = doc.ops[i];
    const std::string where = "ops[" + std::to_string(i) + "] (" + o.name + ")";
    const int op = find(o.name, where);
    if (!seen.emplace(op, where).second) throw error(where + ": stands twice, first as " + seen[op]);
    op_info const& f = *g.ops[op].info;
    for (std::size_t k = 0; k < o.cuts.size(); ++k) {
      plan_file::cut const& c = o.cuts[k];
      const std::string at = where + ".cuts[" + std::to_string(k) + "]";
      const mode_name mode = short_name(c.mode, at);
      if (c.pieces < 1) throw error(at + ": pieces is " + std::to_string(c.pieces) + ", at least 1 is needed");
      if (!c.axis) {
        p.op_trans(op_ref{&g, op}, replicate{c.pieces, mode.view()}, 0);
        continue;
      }
      int dim = -1;
      for (int d = 0; d < f.dim_count; ++d)
        if (f.dims[d].axis->name == *c.axis && (!c.letter || std::string(1, f.dims[d].letter) == *c.letter)) dim = d;
      if (dim < 0) throw error(at + ": the op has no axis '" + *c.axis + "'" + (c.letter ? " under letter '" + *c.letter + "'" : ""));
      if (!c.sizes.empty() && static_cast<int>(c.sizes.size()) != c.pieces)
        throw error(at + ": " + std::to_string(c.sizes.size()) + " sizes for " + std::to_string(c.pieces) + " pieces");
      p.op_trans(op_ref{&g, op},
                 cut_axis{f.dims[dim].axis, c.pieces, mode, c.letter ? f.dims[dim].letter : char{},
                          c.sizes.empty() ? nullptr : c.sizes.data(), static_cast<int>(c.sizes.size()), c.fold.value_or(false),
                          c.skew ? short_name(*c.skew, at) : mode_name{}},
                 0);
    }
    if (o.phases)
      for (auto const& [name, index] : *o.phases) {
        if (index < 0) throw error(where + ".phases." + name + ": " + std::to_string(index) + " is below 0");
        p.op_assign(op_ref{&g, op}, phase{short_name(name, where + ".phases").view(), index}, 0);
      }
    if (!o.grid) continue;
    p.op_assign(op_ref{&g, op}, grid{}, 0);
    for (std::size_t k = 0; k < o.grid->size(); ++k) {
      plan_file::dimension const& d = (*o.grid)[k];
      const std::string at = where + ".grid[" + std::to_string(k) + "]";
      const mode_name name = short_name(d.name, at);
      if (d.extent < 1) throw error(at + ": extent is " + std::to_string(d.extent) + ", at least 1 is needed");
      if (d.at) {
        if (*d.at < 0 || *d.at >= d.extent)
          throw error(at + ": at is " + std::to_string(*d.at) + ", the dimension has coordinates 0 to " + std::to_string(d.extent - 1));
        p.op_assign(op_ref{&g, op}, partita::at{name.view(), *d.at, d.extent}, 0);
      } else p.op_assign(op_ref{&g, op}, grid{{name.view(), d.extent}}, 0);
    }
  }
  auto take = [&](plan_file::moment const& m, std::string const& where) {  // its names stay in the document
    moment out;
    if (m.op) out.op = find(*m.op, where);
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
  };
  for (std::size_t i = 0; i < doc.orders.size(); ++i) {
    plan_file::order const& o = doc.orders[i];
    const std::string where = "orders[" + std::to_string(i) + "]";
    if (o.moments.size() < 2) throw error(where + ".moments: an order needs two moments at least");
    if (o.links.value_or(false)) {
      sequence links(p, 0);
      for (std::size_t k = 0; k < o.moments.size(); ++k) links.then(take(o.moments[k], where + ".moments[" + std::to_string(k) + "]"));
    } else
      for (std::size_t k = 0; k + 1 < o.moments.size(); ++k)
        p.op_order(take(o.moments[k], where + ".moments[" + std::to_string(k) + "]"),
                   take(o.moments[k + 1], where + ".moments[" + std::to_string(k + 1) + "]"), 0);
  }
  for (std::size_t i = 0; i < doc.priorities.size(); ++i)
    p.op_order(take(doc.priorities[i].moment, "priorities[" + std::to_string(i) + "].moment"), priority{doc.priorities[i].priority}, 0);
}

}  // namespace detail

// The text of a plan file.
template <class Model> std::string plan_text(plan<Model> const& p) {
  return to_json_text(detail::describe_for_file(p.traced(), p));
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
  detail::apply_document(made.traced(), made, doc);
  if (const finding f = made.check()) throw error(describe(f));
  return made;
}

template <class Model> void save_plan(plan<Model> const& p, std::string const& path) {
  std::ofstream out(path, std::ios::binary);
  out << plan_text(p);
  out.flush();
  if (!out) throw error("plan file " + path + " cannot be written");
}
template <class Model>
plan<Model> load_plan(std::string const& path, as_training<Model> const& model = {}, std::vector<binding> extents = {}) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw error("plan file " + path + " cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  try {
    return plan_from_text<Model>(text.str(), model, std::move(extents));
  } catch (error const& e) {
    throw error("plan file " + path + ": " + e.what());
  }
}

}  // namespace partita
