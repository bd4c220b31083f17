// A table of aligned columns, for a terminal.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <partita/core/error.hpp>

namespace partita {

// A column of numbers (with or without a unit) is aligned right, any other left. Widths are counted in bytes.
//
//   partita::table plans({"plan", "step", "memory"});
//   plans.row("data parallel", "12.3 ms", "1.50 GiB");
//   std::cout << plans;
class table {
 public:
  // Throws `error` when there are no columns.
  explicit table(std::vector<std::string> headers) : headers_(std::move(headers)) {
    if (headers_.empty()) throw error("table: there are no columns; give at least one header");
  }

  // Adds a row. A cell is text, an integer, or a floating-point number, which is shown to four digits. Throws `error`
  // when there are not as many cells as headers.
  template <class... Cells> void row(const Cells&... cells) { add_row({cell(cells)...}); }
  void add_row(std::vector<std::string> cells) {
    if (cells.size() != headers_.size())
      throw error("table: a row has " + std::to_string(cells.size()) + " cells, and there are " +
                  std::to_string(headers_.size()) + " headers; give each header one cell");
    rows_.push_back(std::move(cells));
  }
  // A line across the table, between the rows before and after it.
  void rule() { rows_.emplace_back(); }

  // Headers, a line, and the rows; each line ends with '\n' and none with a space.
  std::string text() const {
    const std::size_t columns = headers_.size();
    std::vector<std::size_t> width(columns);
    std::vector<bool> right(columns);
    for (std::size_t c = 0; c < columns; ++c) {
      width[c] = headers_[c].size();
      bool any = false, all = true;
      for (const auto& cells : rows_) {
        if (cells.empty()) continue;
        width[c] = std::max(width[c], cells[c].size());
        if (cells[c].empty() || cells[c] == "-") continue;
        any = true;
        all = all && is_number(cells[c]);
      }
      right[c] = any && all;
    }
    std::size_t whole = 2 * (columns - 1);
    for (std::size_t w : width) whole += w;
    const std::string line = std::string(whole, '-') + "\n";
    std::string result = aligned(headers_, width, right) + line;
    for (const auto& cells : rows_) result += cells.empty() ? line : aligned(cells, width, right);
    return result;
  }
  friend std::ostream& operator<<(std::ostream& out, const table& shown) { return out << shown.text(); }

 private:
  template <class T> static std::string cell(const T& value) {
    if constexpr (std::is_same_v<T, bool>) return value ? "yes" : "no";
    else if constexpr (std::is_floating_point_v<T>) {
      char text[48];
      std::snprintf(text, sizeof text, "%.4g", static_cast<double>(value));
      return text;
    } else if constexpr (std::is_integral_v<T>) return std::to_string(value);
    else return std::string(value);
  }

  static bool is_number(const std::string& cell) {
    const std::size_t sign = cell[0] == '+' || cell[0] == '-' ? 1 : 0;
    const std::string rest = cell.substr(sign);
    if (rest == "nan" || rest == "inf") return true;
    const std::size_t point = !rest.empty() && rest[0] == '.' ? 1 : 0;
    return rest.size() > point && rest[point] >= '0' && rest[point] <= '9';
  }

  static std::string aligned(const std::vector<std::string>& cells, const std::vector<std::size_t>& width,
                             const std::vector<bool>& right) {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string space(width[c] - cells[c].size(), ' ');
      if (c > 0) line += "  ";
      line += right[c] ? space + cells[c] : cells[c] + space;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  std::vector<std::string> headers_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a rule
};

}  // namespace partita
