// Pieces of HTML and SVG: escaped text, numbers, times and bytes as people read them, one page.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

#include <partita/core/whole_file.hpp>

namespace partita {
namespace detail::html {

inline std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}
inline std::string number(double x, int digits = 1) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}
inline std::string duration(double s) {
  return s >= 1 ? number(s, 2) + " s" : s >= 1e-3 ? number(s * 1e3, 2) + " ms" : number(s * 1e6, 1) + " us";
}
inline std::string bytes(double n) {
  const char* const units[]{"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  for (; n >= 1024 && u < 4; ++u) n /= 1024;
  return number(n, u == 0 || n >= 100 ? 0 : n >= 10 ? 1 : 2) + " " + units[u];
}
inline std::string percent(double part) { return number(100 * part) + "%"; }

// One file, nothing fetched from elsewhere.
inline std::string page(std::string_view title, std::string_view style, std::string_view body) {
  std::string out = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + escaped(title) +
                    "</title><style>body{font:14px system-ui,sans-serif;margin:16px;color:#222;background:#fff}"
                    "h1{font-size:20px}h2{font-size:16px;margin:28px 0 8px}";
  out.append(style).append("</style></head><body>").append(body).append("</body></html>\n");
  return out;
}

}  // namespace detail::html

inline void write_text_file(std::string const& path, std::string const& text) { detail::write_whole_file("file", path, text); }

}  // namespace partita
