// Timelines: what every device does when, in its two lanes; as planned, or as measured. Written as a trace for Perfetto
// (Chrome trace events, JSON) or as one HTML page with the picture in it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <partita/core/error.hpp>
#include <partita/program/lowering.hpp>
#include <partita/program/words.hpp>

namespace partita {

enum class activity : std::uint8_t { forward, backward, again, update, communication };
constexpr std::string_view name_of(activity a) {
  switch (a) {
    case activity::forward: return "forward";
    case activity::backward: return "backward";
    case activity::again: return "forward again";
    case activity::update: return "update";
    case activity::communication: return "communication";
  }
  return "?";
}
struct timeline_event {
  int device = 0;
  lane where = lane::compute;
  activity what = activity::forward;
  double begin = 0, end = 0;  // seconds
  int index = 0;              // in time: the micro-batch, where there is one
  std::string name;
};
struct timeline {
  std::string title;
  int devices = 1;
  std::vector<timeline_event> events;
  double seconds() const {
    double last = 0;
    for (timeline_event const& e : events) last = std::max(last, e.end);
    return last;
  }
};

namespace detail {
inline activity activity_of(graph_data const& g, node const& n) {
  if (n.kind == node_kind::move) return activity::communication;
  if (n.replayed) return activity::again;
  switch (g.ops[n.op].when) {
    case pass::forward: return activity::forward;
    case pass::backward: return activity::backward;
    case pass::update: return activity::update;
  }
  return activity::forward;
}
inline std::string event_name(graph_data const& g, node const& n) {
  std::string name(g.name(n.op).view());
  name += n.kind == node_kind::move       ? " (move)"
          : n.kind == node_kind::assemble ? " (assemble)"
          : n.kind == node_kind::store    ? " (store)"
                                          : " (" + std::string(g.ops[n.op].info->kind) + ")";
  return name;
}
}  // namespace detail

// As the order of instances was planned: durations are those of the rates that `lowering` was given.
inline timeline planned_timeline(lowering const& shared, std::string title = "planned") {
  graph_data const& g = shared.graph();
  completed const& c = shared.plan_completed();
  timeline t;
  t.title = std::move(title);
  t.devices = std::max(1, c.devices);
  for (instance const& i : shared.order()) {
    if (i.end <= i.begin) continue;
    node const& n = c.nodes[i.node];
    if (n.kind == node_kind::compute && (g.ops[n.op].info->source != source_kind::none || g.ops[n.op].info->is_view)) continue;
    std::vector<int> devices;
    detail::add_devices(n.over.where, devices);
    if (n.kind == node_kind::move) detail::add_devices(c.values[c.input(n, 0)].lay.where, devices);
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    for (int d : devices)
      t.events.push_back({d, n.kind == node_kind::move ? lane::communication : lane::compute, detail::activity_of(g, n),
                          static_cast<double>(i.begin) * 1e-9, static_cast<double>(i.end) * 1e-9, i.index, detail::event_name(g, n)});
  }
  return t;
}

// Adds what one device did: `times` holds {begin, end} in seconds by instruction (pt::cpu{.record_times = true}).
template <class Times>
void add_measured(timeline& t, lowering const& shared, program const& p, Times const& times) {
  graph_data const& g = shared.graph();
  completed const& c = shared.plan_completed();
  t.devices = std::max(t.devices, p.rank + 1);
  for (std::size_t k = 0; k < p.instructions.size() && k < times.size(); ++k) {
    instruction const& i = p.instructions[k];
    node const& n = c.nodes[i.node];
    const bool moves = is_communication(i.kind) || i.where == lane::communication;
    std::string name = detail::event_name(g, n);
    if (i.kind != instruction_kind::compute) name = std::string(name_of(i.kind)) + " " + name;
    t.events.push_back({p.rank, i.where, moves ? activity::communication : detail::activity_of(g, n), times[k].begin, times[k].end,
                        i.index, std::move(name)});
  }
}

// Chrome trace events, which Perfetto and chrome://tracing open: a process per device, a thread per lane.
inline std::string perfetto_json(timeline const& t) {
  nlohmann::json events = nlohmann::json::array();
  for (int d = 0; d < t.devices; ++d) {
    events.push_back({{"ph", "M"}, {"pid", d}, {"name", "process_name"}, {"args", {{"name", "device " + std::to_string(d)}}}});
    for (int l = 0; l < 2; ++l)
      events.push_back({{"ph", "M"}, {"pid", d}, {"tid", l}, {"name", "thread_name"}, {"args", {{"name", l == 0 ? "compute" : "communication"}}}});
  }
  for (timeline_event const& e : t.events)
    events.push_back({{"ph", "X"},
                      {"pid", e.device},
                      {"tid", e.where == lane::compute ? 0 : 1},
                      {"ts", e.begin * 1e6},
                      {"dur", (e.end - e.begin) * 1e6},
                      {"name", e.name},
                      {"cat", std::string(name_of(e.what))},
                      {"args", {{"index", e.index}}}});
  return nlohmann::json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}, {"otherData", {{"title", t.title}}}}.dump() + "\n";
}

// One page, no other files: a row per device with its two lanes; neighbours of one kind and index are one bar, so that
// eight devices by eight micro-batches can be read; a pointer over a bar shows what it is.
inline std::string timeline_html(timeline const& t) {
  struct bar {
    activity what;
    int index;
    double begin, end, busy;
    std::size_t count;
    std::string first;
  };
  const double total = std::max(t.seconds(), 1e-12), width = 1400, left = 90, row = 46, top = 64;
  auto escaped = [](std::string const& text) {
    std::string out;
    for (char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
    return out;
  };
  auto number = [](double x, int digits = 1) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", digits, x);
    return std::string(text);
  };
  auto duration = [&](double s) {
    return s >= 1 ? number(s, 2) + " s" : s >= 1e-3 ? number(s * 1e3, 2) + " ms" : number(s * 1e6, 1) + " us";
  };
  static constexpr const char* colours[]{"#4c78a8", "#f58518", "#9ecae9", "#54a24b", "#b279a2"};
  std::string svg;
  const double height = top + row * t.devices + 40;
  for (int tick = 0; tick <= 10; ++tick) {
    const double x = left + width * tick / 10;
    svg += "<line x1=\"" + number(x) + "\" y1=\"" + number(top - 8) + "\" x2=\"" + number(x) + "\" y2=\"" + number(height - 36) +
           "\" class=\"grid\"/><text x=\"" + number(x) + "\" y=\"" + number(height - 20) + "\" text-anchor=\"middle\">" +
           duration(total * tick / 10) + "</text>";
  }
  for (int d = 0; d < t.devices; ++d) {
    double busy = 0;
    for (int l = 0; l < 2; ++l) {
      std::vector<timeline_event const*> mine;
      for (timeline_event const& e : t.events)
        if (e.device == d && (e.where == lane::compute) == (l == 0)) mine.push_back(&e);
      std::stable_sort(mine.begin(), mine.end(), [](auto a, auto b) { return a->begin < b->begin; });
      std::vector<bar> bars;
      for (timeline_event const* e : mine) {
        if (l == 0) busy += e->end - e->begin;
        const bool joins = !bars.empty() && bars.back().what == e->what && bars.back().index == e->index &&
                           e->begin - bars.back().end < total / 700;
        if (joins) {
          bars.back().end = std::max(bars.back().end, e->end);
          bars.back().busy += e->end - e->begin;
          ++bars.back().count;
        } else bars.push_back({e->what, e->index, e->begin, e->end, e->end - e->begin, 1, e->name});
      }
      const double y = top + row * d + (l == 0 ? 0 : 26), h = l == 0 ? 24 : 10;
      for (bar const& b : bars) {
        const double x = left + b.begin / total * width, w = std::max(0.4, (b.end - b.begin) / total * width);
        svg += "<g><title>" + escaped(std::string(name_of(b.what)) + " " + std::to_string(b.index) + ": " + b.first +
                                      (b.count > 1 ? " and " + std::to_string(b.count - 1) + " more" : "") + ", " + duration(b.busy)) +
               "</title><rect x=\"" + number(x, 2) + "\" y=\"" + number(y) + "\" width=\"" + number(w, 2) + "\" height=\"" + number(h) +
               "\" fill=\"" + colours[static_cast<int>(b.what)] + "\"" + (l == 0 ? " class=\"bar\"" : "") + "/>";
        if (l == 0 && w > 12 && (b.what == activity::forward || b.what == activity::backward))
          svg += "<text x=\"" + number(x + w / 2) + "\" y=\"" + number(y + 16) + "\" text-anchor=\"middle\" class=\"index\">" +
                 std::to_string(b.index) + "</text>";
        svg += "</g>";
      }
    }
    svg += "<text x=\"8\" y=\"" + number(top + row * d + 16) + "\">device " + std::to_string(d) + "</text><text x=\"8\" y=\"" +
           number(top + row * d + 33) + "\" class=\"small\">busy " + number(100 * busy / total, 0) + "%</text>";
  }
  double key = left;
  for (int a = 0; a < 5; ++a) {
    svg += "<rect x=\"" + number(key) + "\" y=\"28\" width=\"14\" height=\"14\" fill=\"" + std::string(colours[a]) + "\"/><text x=\"" +
           number(key + 20) + "\" y=\"40\">" + std::string(name_of(static_cast<activity>(a))) + "</text>";
    key += 150;
  }
  return "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + escaped(t.title) +
         "</title><style>body{font:14px system-ui,sans-serif;margin:16px;color:#222;background:#fff}"
         "text{font:12px system-ui,sans-serif;fill:#333}.small{font-size:10px;fill:#777}.index{fill:#fff;font-size:11px}"
         ".grid{stroke:#ddd}.bar{stroke:#fff;stroke-width:.5}svg{max-width:100%;height:auto}</style></head><body><h1 "
         "style=\"font-size:18px\">" + escaped(t.title) + "</h1><p>" + std::to_string(t.devices) + " devices, one step, " + duration(total) +
         ". Upper bar: compute; lower bar: communication. Numbers are indices in time (micro-batches).</p><svg viewBox=\"0 0 " +
         number(left + width + 30) + " " + number(height) + "\" width=\"" + number(left + width + 30) + "\">" + svg + "</svg></body></html>\n";
}

inline void write_text_file(std::string const& path, std::string const& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.flush();
  if (!out) throw error(path + " cannot be written");
}

}  // namespace partita
