// Where the difference between two simulated steps lies, in words.
#pragma once
#include <cmath>
#include <cstdio>
#include <string>

#include <partita/simulate/simulation.hpp>

namespace partita {

// "computes 2.21 s less, waits 0.4 s more; holds 3.2 GiB less": of the first, beside the second. Seconds are means over devices,
// and add up to the difference of the steps; what is less than a thousandth of the step is left out. Bytes are of the fullest
// device, and left out likewise.
inline std::string compared(simulation const& first, simulation const& second) {
  std::string text;
  auto add = [&](const char* what, double a, double b) {
    if (std::abs(a - b) < 1e-3 * second.seconds) return;
    char line[96];
    std::snprintf(line, sizeof line, "%s%s %.3g s %s", text.empty() ? "" : ", ", what, std::abs(a - b), a < b ? "less" : "more");
    text += line;
  };
  add("computes", first.parts.compute, second.parts.compute);
  add("sends, with nothing to compute,", first.parts.exposed, second.parts.exposed);
  add("waits", first.parts.bubble, second.parts.bubble);
  if (text.empty()) text = "takes as long";
  const double bytes = static_cast<double>(first.peak_bytes()) - static_cast<double>(second.peak_bytes());
  if (std::abs(bytes) < 1e-3 * static_cast<double>(second.peak_bytes())) return text;
  char line[64];
  std::snprintf(line, sizeof line, "; holds %.3g GiB %s", std::abs(bytes) / (1 << 30), bytes < 0 ? "less" : "more");
  return text + line;
}

}  // namespace partita
