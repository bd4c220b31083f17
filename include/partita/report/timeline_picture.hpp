// A timeline drawn: SVG, and one HTML page in which it can be zoomed.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include <partita/report/html.hpp>
#include <partita/report/timeline.hpp>

namespace partita {

namespace detail::html {
inline constexpr const char* activity_colours[]{"#4c78a8", "#f58518", "#9ecae9", "#54a24b", "#b279a2"};

// Neighbours of one activity and index in time: what a person sees as one thing.
struct bar {
  activity what;
  int index;
  double begin, end, busy;
  std::size_t count;
  std::string first;
};
inline std::vector<bar> bars_of(timeline const& t, int device, lane where, double gap) {
  std::vector<timeline_event const*> mine;
  for (timeline_event const& e : t.events)
    if (e.device == device && e.where == where) mine.push_back(&e);
  std::stable_sort(mine.begin(), mine.end(), [](auto a, auto b) { return a->begin < b->begin; });
  std::vector<bar> bars;
  for (timeline_event const* e : mine) {
    if (!bars.empty() && bars.back().what == e->what && bars.back().index == e->index && e->begin - bars.back().end < gap) {
      bars.back().end = std::max(bars.back().end, e->end);
      bars.back().busy += e->end - e->begin;
      ++bars.back().count;
    } else bars.push_back({e->what, e->index, e->begin, e->end, e->end - e->begin, 1, e->name});
  }
  return bars;
}
inline constexpr double picture_left = 120, picture_width = 1280, picture_row = 46, picture_top = 64;
inline constexpr const char* picture_style =
    "text{font:12px system-ui,sans-serif;fill:#333}.small{font-size:10px;fill:#777}.index{fill:#fff;font-size:11px}"
    ".grid{stroke:#ddd}.bar{stroke:#fff;stroke-width:.5}svg{max-width:100%;height:auto}svg.zoom{cursor:grab}";
}  // namespace detail::html

// A row per device with its two lanes. Bars say what they are to a pointer. A picture of its own, or part of a page.
inline std::string timeline_svg(timeline const& t, bool own_style = true) {
  namespace html = detail::html;
  using html::number;
  const double total = std::max(t.seconds(), 1e-12), width = html::picture_width, left = html::picture_left,
               row = html::picture_row, top = html::picture_top, height = top + row * t.devices + 40;
  std::string svg = std::string("<svg") + (own_style ? " xmlns=\"http://www.w3.org/2000/svg\"" : "") +
                    " class=\"timeline\" data-total=\"" + number(total * 1e6, 3) + "\" viewBox=\"0 0 " +
                    number(left + width + 30) + " " + number(height) + "\" width=\"" + number(left + width + 30) +
                    "\" height=\"" + number(height) + "\">";
  if (own_style)
    svg += "<style>" + std::string(html::picture_style) + "</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";
  for (int tick = 0; tick <= 10; ++tick) {
    const double x = left + width * tick / 10;
    svg += "<line x1=\"" + number(x) + "\" y1=\"" + number(top - 8) + "\" x2=\"" + number(x) + "\" y2=\"" + number(height - 36) +
           "\" class=\"grid\"/><text x=\"" + number(x) + "\" y=\"" + number(height - 20) +
           "\" text-anchor=\"middle\" class=\"tick\">" + html::duration(total * tick / 10) + "</text>";
  }
  for (int d = 0; d < t.devices; ++d) {
    double busy = 0;
    for (lane where : {lane::compute, lane::communication}) {
      const bool computes = where == lane::compute;
      const double y = top + row * d + (computes ? 0 : 26), h = computes ? 24 : 10;
      for (html::bar const& b : html::bars_of(t, d, where, total / 1000)) {
        if (computes) busy += b.busy;
        const double x = left + b.begin / total * width, w = std::max(0.4, (b.end - b.begin) / total * width);
        svg +=
            "<g class=\"event\" data-b=\"" + number(b.begin * 1e6, 3) + "\" data-e=\"" + number(b.end * 1e6, 3) + "\"><title>" +
            html::escaped(std::string(name_of(b.what)) + " " + std::to_string(b.index) + ": " + b.first +
                          (b.count > 1 ? " and " + std::to_string(b.count - 1) + " more" : "") + ", " + html::duration(b.busy)) +
            "</title><rect x=\"" + number(x, 2) + "\" y=\"" + number(y) + "\" width=\"" + number(w, 2) + "\" height=\"" +
            number(h) + "\" fill=\"" + html::activity_colours[static_cast<int>(b.what)] + "\"" +
            (computes ? " class=\"bar\"" : "") + "/>";
        if (computes && (b.what == activity::forward || b.what == activity::backward))
          svg += "<text x=\"" + number(x + w / 2) + "\" y=\"" + number(y + 16) + "\" text-anchor=\"middle\" class=\"index\"" +
                 (w > 12 ? "" : " visibility=\"hidden\"") + ">" + std::to_string(b.index) + "</text>";
        svg += "</g>";
      }
    }
    svg += "<text x=\"8\" y=\"" + number(top + row * d + 16) + "\">" + html::escaped(t.name_of_device(d)) +
           "</text><text x=\"8\" y=\"" + number(top + row * d + 33) + "\" class=\"small\">busy " + number(100 * busy / total, 0) +
           "%</text>";
  }
  double key = left;
  for (int a = 0; a < 5; ++a) {
    svg += "<rect x=\"" + number(key) + "\" y=\"28\" width=\"14\" height=\"14\" fill=\"" +
           std::string(html::activity_colours[a]) + "\"/><text x=\"" + number(key + 20) + "\" y=\"40\">" +
           std::string(name_of(static_cast<activity>(a))) + "</text>";
    key += 150;
  }
  return svg + "</svg>";
}

namespace detail::html {
// The wheel zooms where the pointer is, dragging moves, a double click shows all again.
inline std::string zoom_script() {
  return R"(<script>
for (const svg of document.querySelectorAll('svg.timeline')) {
  const left = )" +
         number(picture_left, 0) + ", width = " + number(picture_width, 0) + R"(, total = +svg.dataset.total;
  let from = 0, to = total;
  const events = [...svg.querySelectorAll('.event')].map(g => ({g, r: g.querySelector('rect'), t: g.querySelector('text'),
                                                               b: +g.dataset.b, e: +g.dataset.e}));
  const ticks = [...svg.querySelectorAll('.tick')];
  const words = us => us >= 1e6 ? (us / 1e6).toFixed(3) + ' s' : us >= 1e3 ? (us / 1e3).toFixed(3) + ' ms' : us.toFixed(1) + ' us';
  const place = us => left + (us - from) / (to - from) * width;
  const draw = () => {
    for (const x of events) {
      const b = Math.max(left, place(x.b)), e = Math.min(left + width, place(x.e));
      x.g.style.display = e < left || b > left + width ? 'none' : '';
      x.r.setAttribute('x', b);
      x.r.setAttribute('width', Math.max(0.4, e - b));
      if (x.t) {
        x.t.setAttribute('x', (b + e) / 2);
        x.t.setAttribute('visibility', e - b > 12 ? 'visible' : 'hidden');
      }
    }
    ticks.forEach((t, i) => t.textContent = words(from + (to - from) * i / (ticks.length - 1)));
  };
  const at = event => {
    const box = svg.getBoundingClientRect();
    return ((event.clientX - box.left) * svg.viewBox.baseVal.width / box.width - left) / width;
  };
  const show = (a, b) => {
    const span = Math.min(total, Math.max(total / 5000, b - a));
    from = Math.min(Math.max(0, a), total - span);
    to = from + span;
    draw();
  };
  svg.classList.add('zoom');
  svg.addEventListener('wheel', event => {
    const p = at(event), k = event.deltaY < 0 ? 0.8 : 1.25, centre = from + p * (to - from);
    if (p < 0 || p > 1) return;
    event.preventDefault();
    show(centre - p * (to - from) * k, centre + (1 - p) * (to - from) * k);
  }, {passive: false});
  let held = null;
  svg.addEventListener('pointerdown', event => { held = {p: at(event), from, to}; svg.setPointerCapture(event.pointerId); });
  svg.addEventListener('pointermove', event => {
    if (!held) return;
    const moved = (at(event) - held.p) * (held.to - held.from);
    show(held.from - moved, held.to - moved);
  });
  svg.addEventListener('pointerup', () => held = null);
  svg.addEventListener('dblclick', () => show(0, total));
}
</script>)";
}
}  // namespace detail::html

// One page, no other files.
inline std::string timeline_html(timeline const& t) {
  namespace html = detail::html;
  return html::page(t.title, html::picture_style,
                    "<h1>" + html::escaped(t.title) + "</h1><p>" + std::to_string(t.devices) + " devices, one step, " +
                        html::duration(t.seconds()) +
                        ". Upper bar: compute; lower bar: communication. Numbers are indices in time (micro-batches). The wheel "
                        "zooms, dragging moves, a double click shows all.</p>" +
                        timeline_svg(t, false) + html::zoom_script());
}

}  // namespace partita
