// Numbers with units, as people read them.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>

namespace partita {

namespace detail {

// Three significant digits of a value whose size is below 1000 (or that no prefix helps).
inline std::string three_digits(double value) {
  char text[48];
  const double size = std::abs(value);
  std::snprintf(text, sizeof text, size >= 99.95 ? "%.0f" : size >= 9.995 ? "%.1f" : "%.2f", value);
  return text;
}

template <std::size_t N>
std::string with_prefix(double value, double base, const std::array<const char*, N>& prefixes, const char* unit) {
  std::size_t order = 0;
  while (std::isfinite(value) && std::abs(value) >= base - 0.5 && order + 1 < N) {
    value /= base;
    ++order;
  }
  const bool whole = order == 0 && value == std::floor(value);
  char exact[48];
  std::snprintf(exact, sizeof exact, "%.0f", value);
  std::string text = whole ? exact : three_digits(value);
  const std::string suffix = std::string(prefixes[order]) + unit;
  return suffix.empty() ? text : text + " " + suffix;
}

}  // namespace detail

// A count or a rate with a decimal prefix, to three digits: "950", "66.4 k", "989 TFLOP/s".
inline std::string quantity_text(double value, const char* unit = "") {
  return detail::with_prefix(value, 1000, std::array{"", "k", "M", "G", "T", "P", "E"}, unit);
}

// Bytes with a binary prefix, to three digits: "512 B", "1.50 GiB".
inline std::string bytes_text(double bytes) {
  return detail::with_prefix(bytes, 1024, std::array{"", "Ki", "Mi", "Gi", "Ti", "Pi"}, "B");
}

// A duration given in seconds, in its two largest units: "850 us", "12.3 ms", "4.20 s", "2 min 03 s", "1 h 05 min",
// "3 d 04 h". "unknown" when it is negative or not finite.
inline std::string duration_text(double seconds) {
  if (!(seconds >= 0) || !std::isfinite(seconds)) return "unknown";
  if (seconds < 0.9995e-3) return detail::three_digits(seconds * 1e6) + " us";
  if (seconds < 0.9995) return detail::three_digits(seconds * 1e3) + " ms";
  if (seconds < 59.95) return detail::three_digits(seconds) + " s";
  char text[64];
  const double s = std::round(seconds), m = std::round(seconds / 60), h = std::round(seconds / 3600);
  if (s < 3600) std::snprintf(text, sizeof text, "%.0f min %02.0f s", std::floor(s / 60), std::fmod(s, 60));
  else if (m < 24 * 60) std::snprintf(text, sizeof text, "%.0f h %02.0f min", std::floor(m / 60), std::fmod(m, 60));
  else std::snprintf(text, sizeof text, "%.0f d %02.0f h", std::floor(h / 24), std::fmod(h, 24));
  return text;
}

}  // namespace partita
