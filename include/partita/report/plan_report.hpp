// One HTML page about a plan, for people: what it is, how long a step takes and why, what fills the memory, what else was
// considered. Nothing is fetched from elsewhere.
//   pt::write_text_file("plan.html", pt::plan_report({.title = "GPT-3 175B", .simulated = &simulation}));
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <partita/report/plan_table.hpp>
#include <partita/report/timeline_picture.hpp>
#include <partita/search/search_report.hpp>
#include <partita/simulate/simulation.hpp>

namespace partita {

// A plan that is compared with.
struct considered_plan {
  std::string name;  // "tensor 8, pipeline 16, 1f1b, recompute"
  double seconds = 0;
  std::size_t peak_bytes = 0;
  bool fits = true;
  std::string note;  // why it was not taken
};
struct plan_report_input {
  std::string title = "plan";
  simulation const* simulated = nullptr;                     // with `lowered`
  std::vector<std::pair<std::string, std::string>> facts{};  // name and value, first on the page: model, cluster, batch
  search_report const* searched = nullptr;                   // why this plan, its stages, what the search looked at
  std::string why{};                                         // why this plan, where there was no search
  std::vector<ablation> ablations{};  // with `searched`: what each freedom of the space is worth to the plan
  double found_seconds = 0;           // of a step by the planner's cost, beside them
  std::vector<considered_plan> considered{};
  double lower_bound = 0;  // seconds that no plan of the space takes less than; 0: not known
};

// When every instruction of every class of ranks runs, as simulated.
inline timeline simulated_timeline(simulation const& s, std::string title = "simulated") {
  timeline t;
  t.title = std::move(title);
  for (std::size_t k = 0; k < s.classes.size(); ++k) {
    simulated_class const& c = s.classes[k];
    const std::size_t before = t.events.size();
    std::vector<instruction_time> at_work = c.times;
    for (instruction_time& i : at_work) i.begin = i.at_work;
    add_measured(t, *s.lowered, c.what, at_work);
    for (std::size_t e = before; e < t.events.size(); ++e) t.events[e].device = static_cast<int>(k);
    t.names.push_back("rank " + std::to_string(c.rank) +
                      (c.ranks.size() > 1 ? " (of " + std::to_string(c.ranks.size()) + ")" : ""));
  }
  t.devices = static_cast<int>(s.classes.size());
  return t;
}

namespace detail::html {

inline constexpr const char* report_style =
    "table{border-collapse:collapse;margin:6px 0}td,th{padding:3px 12px 3px 0;text-align:left;vertical-align:top;border-bottom:1px "
    "solid #eee}th{color:#666;font-weight:normal}td.n{text-align:right;font-variant-numeric:tabular-nums}summary{cursor:pointer}"
    "details{margin:4px 0}details table{margin-left:18px}.muted{color:#777}.bad{color:#c0392b}.key{display:inline-block;width:12px;"
    "height:12px;margin:0 4px 0 14px}";

inline std::string row(std::string_view name, std::string_view value) {
  return "<tr><th>" + escaped(name) + "</th><td>" + escaped(value) + "</td></tr>";
}
inline std::string summary_of(plan_report_input const& in) {
  simulation const& s = *in.simulated;
  std::string out = "<table>";
  for (auto const& [name, value] : in.facts) out += row(name, value);
  out += row("devices", std::to_string(s.devices()) + (s.classes.size() < static_cast<std::size_t>(s.devices())
                                                           ? ", of which " + std::to_string(s.classes.size()) + " differ"
                                                           : ""));
  out += row("step", duration(s.seconds) +
                         (in.lower_bound > 0 ? "; no plan of the space takes less than " + duration(in.lower_bound) : ""));
  out += row("model FLOPs utilisation", percent(s.mfu()));
  std::size_t most = 0;
  for (std::size_t k = 0; k < s.classes.size(); ++k)
    if (s.classes[k].peak_bytes() > s.classes[most].peak_bytes()) most = k;
  simulated_class const& c = s.classes[most];
  out += row("peak memory", bytes(static_cast<double>(c.peak_bytes())) + " on rank " + std::to_string(c.rank) + " of " +
                                bytes(c.capacity) + (s.fits() ? "" : ": does not fit"));
  const std::string why = in.searched != nullptr && in.why.empty() ? in.searched->bound_by : in.why;
  if (!why.empty()) out += row("why this plan", why);
  if (const std::string advice = advice_text(s.lowered->plan().advice()); !advice.empty()) out += row("note", advice);
  return out + "</table>";
}

inline std::string plan_of(simulation const& s) {
  lowering const& shared = *s.lowered;
  std::string out;
  for (planned_layers const& l : plan_table(shared.graph(), shared.plan(), shared.plan_completed())) {
    std::size_t again = 0;
    for (planned_op const& o : l.ops) again += o.again;
    const std::string repeats = again == 0 ? "" : again == l.ops.size() ? ", run again for backward" : ", partly run again";
    out += "<details" + std::string(l.alone ? " open" : "") + "><summary><b>" + escaped(l.name()) + "</b>" +
           (l.count > 1 ? " (" + std::to_string(l.count) + " layers)" : "") + ": device" +
           (l.devices.find_first_not_of("0123456789") == std::string::npos ? " " : "s ") + escaped(l.devices) + repeats +
           "</summary><table><tr><th>op</th><th>kind</th><th>cut</th><th>weight</th><th>optimizer state</th><th></th></tr>";
    for (planned_op const& o : l.ops)
      out += "<tr><td>" + escaped(o.name) + "</td><td>" + escaped(o.kind) + "</td><td>" +
             escaped(o.cuts.empty() ? "whole" : o.cuts) + "</td><td>" + escaped(o.weight) + "</td><td>" + escaped(o.state) +
             "</td><td>" + (o.again ? "run again" : "") + "</td></tr>";
    out += "</table></details>";
  }
  return out;
}

// Horizontal bars of compute, exposed communication and bubble.
inline std::string parts_of(simulation const& s) {
  constexpr const char* colours[]{"#4c78a8", "#b279a2", "#dddddd"};
  constexpr const char* names[]{"compute", "communication that is not hidden", "bubble"};
  std::string out = "<p>";
  for (int k = 0; k < 3; ++k)
    out += std::string("<span class=\"key\" style=\"background:") + colours[k] + "\"></span>" + names[k];
  out += "</p><table><tr><th>ranks</th><th></th><th>compute</th><th>communication</th><th>not hidden</th><th>bubble</th></tr>";
  auto line = [&](std::string const& name, step_parts const& p) {
    const double all = std::max(s.seconds, 1e-300), share[]{p.compute / all, p.exposed / all, p.bubble / all};
    std::string svg = "<svg width=\"400\" height=\"16\">";
    double x = 0;
    for (int k = 0; k < 3; ++k) {
      svg += "<rect x=\"" + number(x * 400, 2) + "\" y=\"0\" width=\"" + number(share[k] * 400, 2) + "\" height=\"16\" fill=\"" +
             colours[k] + "\"/>";
      x += share[k];
    }
    out += "<tr><td>" + escaped(name) + "</td><td>" + svg + "</svg></td>";
    for (double v : {p.compute, p.communication, p.exposed, p.bubble})
      out += "<td class=\"n\">" + duration(v) + " <span class=\"muted\">" + percent(v / all) + "</span></td>";
    out += "</tr>";
  };
  line("all, on average", s.parts);
  for (simulated_class const& c : s.classes)
    line("rank " + std::to_string(c.rank) + (c.ranks.size() > 1 ? " (of " + std::to_string(c.ranks.size()) + ")" : ""), c.parts);
  return out + "</table>";
}

// Bytes that are live, over the step; the dashed line is the device's memory.
inline std::string memory_of(simulation const& s, simulated_class const& c) {
  constexpr double width = 620, height = 130, left = 70, top = 8;
  const double most = std::max({static_cast<double>(c.peak_bytes()), c.fits() ? 0.0 : c.capacity, 1.0}) * 1.08,
               total = std::max(s.seconds, 1e-300);
  auto x = [&](double seconds) { return left + seconds / total * width; };
  auto y = [&](double n) { return top + height - n / most * height; };
  std::string line = "M" + number(x(0), 1) + " " + number(y(static_cast<double>(c.memory.state_bytes)), 1);
  for (memory_point const& p : memory_over_time(c))
    line += "H" + number(x(p.seconds), 1) + "V" + number(y(static_cast<double>(p.bytes)), 1);
  line += "H" + number(x(total), 1);
  std::string out = "<svg width=\"" + number(left + width + 20, 0) + "\" height=\"" + number(top + height + 24, 0) + "\">";
  for (int k = 0; k <= 2; ++k) {
    const double n = most * k / 2;
    out += "<line x1=\"" + number(left) + "\" x2=\"" + number(left + width) + "\" y1=\"" + number(y(n)) + "\" y2=\"" +
           number(y(n)) + "\" class=\"grid\"/><text x=\"" + number(left - 6) + "\" y=\"" + number(y(n) + 4) +
           "\" text-anchor=\"end\">" + bytes(n) + "</text>";
  }
  out += "<text x=\"" + number(left) + "\" y=\"" + number(top + height + 18) + "\">0</text><text x=\"" + number(left + width) +
         "\" y=\"" + number(top + height + 18) + "\" text-anchor=\"end\">" + duration(s.seconds) + "</text>";
  const double state = static_cast<double>(c.memory.state_bytes);
  out += "<rect x=\"" + number(left) + "\" width=\"" + number(width) + "\" y=\"" + number(y(state)) + "\" height=\"" +
         number(y(0) - y(state)) + "\" fill=\"#e8eef5\"><title>parameters and optimizer state: " + bytes(state) +
         "</title></rect>";
  if (c.capacity <= most)
    out += "<line x1=\"" + number(left) + "\" x2=\"" + number(left + width) + "\" y1=\"" + number(y(c.capacity)) + "\" y2=\"" +
           number(y(c.capacity)) + "\" stroke=\"#c0392b\" stroke-dasharray=\"5 4\"/>";
  return out + "<path d=\"" + line + "\" fill=\"none\" stroke=\"#4c78a8\" stroke-width=\"1.5\"/></svg>";
}
inline std::string memory_of(simulation const& s) {
  std::string out = "<p class=\"muted\">Shaded: parameters and optimizer state. The line: with what else is live.</p>";
  for (simulated_class const& c : s.classes) {
    out += "<details" + std::string(&c == s.classes.data() ? " open" : "") + "><summary>rank " + std::to_string(c.rank) +
           (c.ranks.size() > 1 ? " (of " + std::to_string(c.ranks.size()) + ")" : "") + ": peak " +
           bytes(static_cast<double>(c.peak_bytes())) + ", of it state " + bytes(static_cast<double>(c.memory.state_bytes)) +
           "; capacity " + bytes(c.capacity) + (c.fits() ? "" : " <span class=\"bad\">does not fit</span>") + "</summary>" +
           memory_of(s, c) + "<table><tr><th>held at the peak</th><th></th><th></th></tr>";
    const std::vector<held_tensor> held = held_at_peak(c, s.lowered->graph());
    std::size_t rest = 0;
    for (std::size_t k = 0; k < held.size(); ++k) {
      if (k >= 10) {
        rest += held[k].bytes;
        continue;
      }
      out += "<tr><td>" + escaped(held[k].name) + "</td><td class=\"n\">" + bytes(static_cast<double>(held[k].bytes)) +
             "</td><td class=\"muted\">" + (held[k].buffers > 1 ? std::to_string(held[k].buffers) + " buffers" : "") +
             "</td></tr>";
    }
    if (rest > 0)
      out += "<tr><td class=\"muted\">" + std::to_string(held.size() - 10) + " more</td><td class=\"n\">" +
             bytes(static_cast<double>(rest)) + "</td><td></td></tr>";
    out += "</table></details>";
  }
  return out;
}
inline std::string considered_of(plan_report_input const& in) {
  std::string out = "<table><tr><th>plan</th><th>step</th><th></th><th>peak memory</th><th></th></tr>";
  for (considered_plan const& p : in.considered)
    out += "<tr><td>" + escaped(p.name) + "</td><td class=\"n\">" + (p.seconds > 0 ? duration(p.seconds) : "") +
           "</td><td class=\"n muted\">" +
           (p.seconds > 0 ? number(p.seconds / std::max(in.simulated->seconds, 1e-300), 2) + " times" : "") +
           "</td><td class=\"n" + (p.fits ? "" : " bad") + "\">" +
           (p.peak_bytes > 0 ? bytes(static_cast<double>(p.peak_bytes)) : "") + "</td><td>" + escaped(p.note) + "</td></tr>";
  return out + "</table>";
}

inline std::string counted(int n, const char* one) { return std::to_string(n) + " " + one + (n == 1 ? "" : "s"); }
// By the planner's cost: what each stage holds, and the configurations that came nearest.
inline std::string stages_of(search_report const& found) {
  std::string out =
      "<table><tr><th>stage</th><th>segments</th><th>run again</th><th>in turns</th><th>grid</th><th>ZeRO 0 to "
      "3</th><th>micro-batch</th><th>once a step</th><th>memory</th></tr>";
  for (std::size_t s = 0; s < found.of_stages.size(); ++s) {
    found_stage const& f = found.of_stages[s];
    out += "<tr>";
    for (std::string const& cell :
         {std::to_string(s), std::to_string(f.first_block) + " to " + std::to_string(f.first_block + f.blocks - 1),
          std::to_string(f.replayed), std::to_string(f.in_turns), std::to_string(f.outer) + " x " + std::to_string(f.inner),
          words({f.zero[0], ", ", f.zero[1], ", ", f.zero[2], ", ", f.zero[3]}), duration(f.seconds), duration(f.step_seconds),
          bytes(f.memory)})
      out += "<td class=\"n\">" + cell + "</td>";
    out += "</tr>";
  }
  return out + "</table>";
}
// By the planner's cost too, so that they compare with each other.
inline std::string ablations_of(plan_report_input const& in) {
  std::string out =
      "<p class=\"muted\">The best plan without one freedom of the space at a time, by the planner's cost, by which "
      "this plan takes " +
      duration(in.found_seconds) +
      ".</p><table><tr><th>without</th><th>best plan</th>"
      "<th></th><th>no plan takes less than</th><th>memory</th></tr>";
  for (ablation const& x : in.ablations) {
    std::string cells[4];
    if (!x.used) cells[1] = "not used";
    else if (!x.fits) {
      cells[1] = "<span class=\"bad\">no plan fits</span>";
      cells[3] = x.memory < 1e300 ? bytes(x.memory) + " would do" : "none would do";
    } else {
      cells[0] = duration(x.seconds);
      cells[1] = compared(x, in.found_seconds);
      cells[2] = duration(x.lower_bound);
      cells[3] = bytes(x.memory);
    }
    out += "<tr><td>" + escaped(x.without) + "</td>";
    for (std::string const& cell : cells) out += "<td class=\"n" + std::string(x.used ? "" : " muted") + "\">" + cell + "</td>";
    out += "</tr>";
  }
  return out + "</table>";
}
inline std::string looked_at_by(search_report const& found) {
  std::string out = "<p class=\"muted\">" + counted(static_cast<int>(found.configurations), "configuration") +
                    " of stages, devices, schedule and micro-batches; " + std::to_string(found.bounded) +
                    " were bounded by the tables of their ops, " + std::to_string(found.solved) +
                    " solved. Those that came nearest, each with its best number of micro-batches, by the planner's cost:</p>"
                    "<table><tr><th>configuration</th><th>best plan known</th><th>no plan of it takes less than</th></tr>";
  for (considered_configuration const& c : found.considered)
    out += "<tr><td>" + counted(c.stages, "stage") + " of " + counted(c.devices_per_stage, "device") + ", " +
           std::to_string(c.micro_batches) + (c.micro_batches == 1 ? " micro-batch" : " micro-batches") +
           (c.schedule.empty() ? "" : ", " + escaped(c.schedule)) + "</td><td class=\"n\">" +
           (c.seconds > 0 ? duration(c.seconds) : "") + "</td><td class=\"n\">" + duration(c.lower_bound) + "</td></tr>";
  return out + "</table>";
}

}  // namespace detail::html

inline std::string plan_report(plan_report_input const& in) {
  namespace html = detail::html;
  if (in.simulated == nullptr || in.simulated->lowered == nullptr)
    throw error("plan_report: a simulation made by pt::simulate is needed, which knows the plan's names");
  simulation const& s = *in.simulated;
  std::string body = "<h1>" + html::escaped(in.title) + "</h1>" + html::summary_of(in);
  body += "<h2>Where the step goes</h2>" + html::parts_of(s);
  body +=
      "<h2>Timeline</h2><p class=\"muted\">One rank of each class. Upper bar: compute; lower bar: communication. Numbers are "
      "indices in time (micro-batches). The wheel zooms, dragging moves, a double click shows all.</p>" +
      timeline_svg(simulated_timeline(s), false);
  body += "<h2>Memory</h2>" + html::memory_of(s);
  body += "<h2>The plan</h2>";
  if (in.searched != nullptr) body += html::stages_of(*in.searched);
  body += html::plan_of(s);
  if (!in.ablations.empty()) body += "<h2>What each freedom is worth</h2>" + html::ablations_of(in);
  if (in.searched != nullptr) body += "<h2>What the search looked at</h2>" + html::looked_at_by(*in.searched);
  if (!in.considered.empty()) body += "<h2>Compared with</h2>" + html::considered_of(in);
  return html::page(in.title, std::string(html::picture_style) + html::report_style, body + html::zoom_script());
}

}  // namespace partita
