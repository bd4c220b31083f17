// A plan as a picture of pieces: a column per op, a row per device, and in each cell which part of the op's weight and of
// its result that device has. Between them the collectives. For plans of a few devices; timeline_picture.hpp shows when.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <partita/core/glob.hpp>
#include <partita/program/lowering.hpp>
#include <partita/report/html.hpp>

namespace partita {

struct plan_picture_options {
  glob ops{"*"};  // by name
  pass when = pass::forward;
  int most_columns = 40, most_devices = 16;
};

namespace detail::html {
inline std::string collective_name(transition_kind k) {
  std::string name(k == transition_kind::boxes ? "pieces are sent" : name_of(k));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

class plan_painter {
 public:
  plan_painter(lowering const& s, plan_picture_options const& how)
      : s_(s), g_(s.graph()), c_(s.plan_completed()), how_(how), devices_(std::min(std::max(1, c_.devices), how.most_devices)) {}

  std::string paint() {
    for (int id = 0; id < c_.nodes.size && columns_ < how_.most_columns; ++id) {
      node const& n = c_.nodes[id];
      op_entry const& e = g_.ops[n.op];
      const bool again = n.for_backward || (n.kind == node_kind::move && c_.values[n.first_value].replayed);
      if ((again ? pass::backward : e.when) != how_.when || n.replayed || !how_.ops.contains(g_.name(n.op).view())) continue;
      if (n.kind == node_kind::move) move(id, n);
      else if (n.kind == node_kind::assemble) sum_over_time(n);
      else if (n.kind == node_kind::compute && e.info->source == source_kind::none && !e.info->is_output) op(n);
    }
    const double tall = top + row * devices_ + 8, wide = x_ + 20;
    std::string svg =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(wide, 0) + " " + number(tall, 0) + "\" width=\"" +
        number(wide, 0) + "\" height=\"" + number(tall, 0) +
        "\"><style>text{font:11px system-ui,sans-serif;fill:#333}.small{font-size:9px;fill:#777}</style>"
        "<defs><pattern id=\"partial\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#dbe6f2\"/><rect width=\"2\" height=\"5\" "
        "fill=\"#4c78a8\"/></pattern></defs><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";
    for (int d = 0; d < devices_; ++d) {
      const double y = top + row * d;
      svg += "<line x1=\"0\" x2=\"" + number(wide, 0) + "\" y1=\"" + number(y - 5, 0) + "\" y2=\"" + number(y - 5, 0) +
             "\" stroke=\"#eee\"/><text x=\"8\" y=\"" + number(y + 24, 0) + "\">device " + std::to_string(d) + "</text>";
    }
    return svg + body_ + "</svg>";
  }

 private:
  static constexpr double top = 56, row = 50, left = 74, tensor_width = 56, weight_width = 40, height = 38;

  static std::string shortened(std::string_view name, std::size_t most) {
    return name.size() <= most ? std::string(name) : ".." + std::string(name.substr(name.size() - most + 2));
  }
  void head(double centre, std::string const& first, std::string const& second, std::string const& third) {
    double y = 16;
    for (std::string const* line : {&first, &second, &third}) {
      body_ += "<text x=\"" + number(centre) + "\" y=\"" + number(y) + "\" text-anchor=\"middle\"" +
               (line == &first ? "" : " class=\"small\"") + ">" + escaped(*line) + "</text>";
      y += 13;
    }
  }
  std::string mode(short m) const { return m >= 0 ? std::string(s_.plan().modes()[m].view()) : std::string("devices"); }
  void op(node const& n) {
    op_entry const& e = g_.ops[n.op];
    int weight = -1;
    for (int i = 0; i < e.input_count; ++i)
      if (g_.ops[g_.tensors[g_.input(e, i)].op].info->source == source_kind::parameter) weight = c_.input(n, i);
    const double width = tensor_width + (weight >= 0 ? weight_width + 4 : 0);
    std::string turns;
    for (int m = 0; m < n.time.count; ++m)
      turns += (m > 0 ? ", " : "") + std::to_string(n.time.extents[m]) + " in time (" + mode(n.time.modes[m]) + ")";
    head(x_ + width / 2, shortened(g_.name(n.op).view(), weight >= 0 ? 18 : 12), std::string(e.info->kind), turns);
    for (int d = 0; d < devices_; ++d) {
      if (weight >= 0) tensor(c_.values[weight], d, x_, weight_width, "#6aa56a", "#dcebdc");
      tensor(c_.values[n.first_value], d, x_ + width - tensor_width, tensor_width, "#4c78a8", "#dbe6f2");
    }
    x_ += width + 30;
    ++columns_;
  }
  // The whole as an outline; what one device has of it, light over all its turns and full at the first one; striped where
  // it is a partial sum. `only`: what it has at that one of its turns.
  void tensor(node_value const& v, int device, double x, double width, const char* full, const char* light, int only = -1) {
    operand const& t = g_.operand_of(v.tensor);
    int at[max_levels]{};
    if (!v.lay.where.coordinates_of(device, at)) return;
    int down = t.rank > 1 ? 0 : -1, across = t.rank - 1;
    choose_axes(v.lay, t.rank, down, across);
    const double y = top + row * device;
    auto rectangle = [&](box const& b, const char* fill) {
      auto part = [&](int axis, double size, double& begin, double& length) {
        begin = 0;
        length = size;
        if (axis < 0) return;
        const double all = std::max<double>(1, static_cast<double>(g_.extent(t.axes[axis])));
        begin = static_cast<double>(b.at[axis].begin) / all * size;
        length = static_cast<double>(b.at[axis].size) / all * size;
      };
      double bx, bw, by, bh;
      part(across, width, bx, bw);
      part(down, height, by, bh);
      body_ += "<rect x=\"" + number(x + bx) + "\" y=\"" + number(y + by) + "\" width=\"" + number(bw) + "\" height=\"" +
               number(bh) + "\" fill=\"" + fill + "\"/>";
    };
    const time_modes times = times_of(v.lay);
    bool here = false;
    for (int i = times.size() - 1; i >= 0; --i) {
      if (only >= 0 && i != only) continue;
      const position p = position_at(v.lay.where, device, times, i, here);
      const box_list piece = boxes_at(g_, t, v.lay, s_.sizes(), p);
      for (int k = 0; k < piece.count(); ++k)
        rectangle(piece[k], i > 0 && only < 0 ? light : has_partial(v.lay) ? "url(#partial)" : full);
    }
    body_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) + "\" height=\"" + number(height) +
             "\" fill=\"none\" stroke=\"#999\"/>";
  }
  static void choose_axes(layout const& l, int rank, int& down, int& across) {
    int cut[2], count = 0;
    for (int a = 0; a < rank && count < 2; ++a)
      for (int p = 0; p < l.count; ++p)
        if (l.parts[p].axis == a && l.parts[p].pieces > 1) {
          cut[count++] = a;
          break;
        }
    if (count == 2) down = cut[0], across = cut[1];
    else if (count == 1 && rank > 1 && cut[0] != across) down = cut[0];
  }
  // The dimension along which a ring turns.
  static int ring_level(node const& n, layout const& l) {
    for (int p = 0; p < l.count; ++p)
      if (l.parts[p].in_time() && l.parts[p].mode == n.ring_mode) return l.parts[p].skew;
    return -1;
  }
  // What every device has turn by turn, until it has had all of it.
  void turns(node const& n) {
    node_value const& v = c_.values[n.first_value];
    const int steps = times_of(v.lay).size();
    constexpr double width = 26;
    head(x_ + steps * (width + 4) / 2, "from the neighbour", std::to_string(steps) + " turns", "");
    for (int t = 0; t < steps; ++t, x_ += width + 4)
      for (int d = 0; d < devices_; ++d) tensor(v, d, x_, width, "#b279a2", "#b279a2", t);
    x_ += 26;
    ++columns_;
  }
  // A sum over time that lies as the policy said: what each device keeps of it between its turns.
  void sum_over_time(node const& n) {
    node const& terms = c_.nodes[c_.values[c_.input(n, 0)].node];
    if (terms.said < 0 || s_.plan().nodes()[terms.said].key.what != between::accumulate) return;
    head(x_ + weight_width / 2, "kept sum", std::to_string(n.time.size()) + " in time", "");
    for (int d = 0; d < devices_; ++d) tensor(c_.values[n.first_value], d, x_, weight_width, "#e0902f", "#f6dfc3");
    x_ += weight_width + 30;
    ++columns_;
  }
  void move(int id, node const& n) {
    if (n.ring == ring_kind::pieces) return turns(n);
    layout const &from = c_.values[c_.input(n, 0)].lay, &to = c_.values[n.first_value].lay;
    std::string first, second;
    unsigned levels = 0;
    bool between = false;  // grids, or any two devices
    if (n.ring != ring_kind::none) {
      first = "to the neighbour";
      const int level = ring_level(n, from);
      if (level >= 0) levels = 1u << level;
    } else
      for (transition_step const& t : s_.route_of(id).steps) {
        if (t.kind == transition_kind::slice || t.kind == transition_kind::renumber) continue;
        first += (first.empty() ? "" : ", ") + collective_name(t.kind);
        between = between || t.kind == transition_kind::send || t.kind == transition_kind::boxes;
        levels |= t.levels;
      }
    for (int l = 0; l < from.where.rank && !between; ++l)
      if (levels >> l & 1) second += (second.empty() ? "over " : ", ") + mode(from.where.modes[l]);
    if (first.empty()) return;  // nothing moves
    head(x_ + 30, first, second, n.time.size() > 1 ? std::to_string(n.time.size()) + " in time" : "");
    std::vector<bool> joined(static_cast<std::size_t>(devices_), false);
    double x = x_ + 30;
    for (int d = 0; d < devices_; ++d) {
      if (joined[static_cast<std::size_t>(d)]) continue;
      std::vector<int> members;
      for (int k = d; k < devices_; ++k)
        if (takes_part(from, to, k) && together(from, d, k, between ? ~0u : levels)) members.push_back(k);
      if (members.empty() || members[0] != d) continue;
      for (int k : members) joined[static_cast<std::size_t>(k)] = true;
      auto y = [&](int k) { return top + row * k + height / 2; };
      if (members.size() > 1)
        body_ += "<line x1=\"" + number(x) + "\" x2=\"" + number(x) + "\" y1=\"" + number(y(members.front())) + "\" y2=\"" +
                 number(y(members.back())) + "\" stroke=\"#b279a2\" stroke-width=\"2\"/>";
      for (int k : members) body_ += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y(k)) + "\" r=\"5\" fill=\"#b279a2\"/>";
      x += 12;
    }
    x_ += 88;
    ++columns_;
  }
  static bool takes_part(layout const& from, layout const& to, int device) {
    int at[max_levels]{};
    return from.where.coordinates_of(device, at) || to.where.coordinates_of(device, at);
  }
  // In one group: they differ in these coordinates only; where pieces are sent between grids, all of both.
  static bool together(layout const& from, int a, int b, unsigned levels) {
    if (levels == ~0u) return true;
    int at[max_levels]{}, other[max_levels]{};
    if (!from.where.coordinates_of(a, at) || !from.where.coordinates_of(b, other)) return a == b;
    for (int l = 0; l < from.where.rank; ++l)
      if (!(levels >> l & 1) && at[l] != other[l]) return false;
    return true;
  }

  lowering const& s_;
  graph_data const& g_;
  completed const& c_;
  plan_picture_options how_;
  int devices_, columns_ = 0;
  double x_ = left;
  std::string body_;
};
}  // namespace detail::html

inline std::string plan_svg(lowering const& shared, plan_picture_options const& how = {}) {
  return detail::html::plan_painter(shared, how).paint();
}

}  // namespace partita
