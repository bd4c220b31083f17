// Timelines: what every device does when, in its two lanes; as planned, as simulated, or as measured. Written as a trace
// for Perfetto (Chrome trace events, JSON); timeline_picture.hpp draws them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

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
  std::vector<std::string> names;  // of the devices; where there is none: "device 3"
  std::string name_of_device(int d) const {
    return static_cast<std::size_t>(d) < names.size() ? names[static_cast<std::size_t>(d)] : "device " + std::to_string(d);
  }
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
    list<int> devices;
    detail::add_devices(n.over.where, devices);
    if (n.kind == node_kind::move) detail::add_devices(c.values[c.input(n, 0)].lay.where, devices);
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    for (int d : devices)
      t.events.push_back({d, n.kind == node_kind::move ? lane::communication : lane::compute, detail::activity_of(g, n),
                          static_cast<double>(i.begin) * 1e-9, static_cast<double>(i.end) * 1e-9, i.index,
                          detail::event_name(g, n)});
  }
  return t;
}

// Adds what one device did: `times` holds {begin, end} in seconds by instruction (pt::cpu{.record_times = true}).
template <class Times> void add_measured(timeline& t, lowering const& shared, program const& p, Times const& times) {
  graph_data const& g = shared.graph();
  completed const& c = shared.plan_completed();
  t.devices = std::max(t.devices, p.rank + 1);
  for (std::size_t k = 0; k < p.instructions.size() && k < times.size(); ++k) {
    instruction const& i = p.instructions[k];
    node const& n = c.nodes[i.node];
    const bool moves = is_communication(i.kind) || i.where == lane::communication;
    std::string name = detail::event_name(g, n);
    if (i.kind != instruction_kind::compute) name = std::string(name_of(i.kind)) + " " + name;
    t.events.push_back({p.rank, i.where, moves ? activity::communication : detail::activity_of(g, n), times[k].begin,
                        times[k].end, i.index, std::move(name)});
  }
}

// Chrome trace events, which Perfetto and chrome://tracing open: a process per device, a thread per lane.
inline std::string perfetto_json(timeline const& t) {
  nlohmann::json events = nlohmann::json::array();
  for (int d = 0; d < t.devices; ++d) {
    events.push_back({{"ph", "M"}, {"pid", d}, {"name", "process_name"}, {"args", {{"name", t.name_of_device(d)}}}});
    for (int l = 0; l < 2; ++l)
      events.push_back({{"ph", "M"},
                        {"pid", d},
                        {"tid", l},
                        {"name", "thread_name"},
                        {"args", {{"name", l == 0 ? "compute" : "communication"}}}});
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
  return nlohmann::json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}, {"otherData", {{"title", t.title}}}}
             .dump() +
         "\n";
}

}  // namespace partita
