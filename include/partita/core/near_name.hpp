// How near a name is to what was written: for messages.
#pragma once
#include <string_view>

#include <partita/core/text.hpp>

namespace partita {

// Letters to change, add or leave out until the pattern, whose '*' stands for any run of letters, is the name.
constexpr int distance(std::string_view pattern, std::string_view name) {
  constexpr std::size_t most = 96;  // longer ones are compared up to there
  pattern = pattern.substr(0, most), name = name.substr(0, most);
  int row[most + 1]{};  // of the pattern read so far, by letters of the name
  for (std::size_t j = 0; j <= name.size(); ++j) row[j] = static_cast<int>(j);
  for (char c : pattern) {
    int diagonal = row[0];
    if (c != '*') ++row[0];
    for (std::size_t j = 1; j <= name.size(); ++j) {
      const int above = row[j], left = row[j - 1];
      int least = diagonal + (c == name[j - 1] ? 0 : 1);
      if (above + (c == '*' ? 0 : 1) < least) least = above + (c == '*' ? 0 : 1);
      if (left + (c == '*' ? 0 : 1) < least) least = left + (c == '*' ? 0 : 1);
      diagonal = above;
      row[j] = least;
    }
  }
  return row[name.size()];
}

// Of names shown to it, the one that is nearest to a pattern.
class nearest_name {
 public:
  constexpr explicit nearest_name(std::string_view pattern) : pattern_(pattern) {}
  constexpr void look_at(std::string_view name) {
    int apart = 2 * distance(pattern_, name);  // of names that are equally far one that begins alike
    if (!pattern_.empty() && !name.empty() && pattern_[0] != '*' && pattern_[0] != name[0]) ++apart;
    if (least_ >= 0 && apart >= least_) return;
    least_ = apart;
    found_ = text<96>(name);
  }
  constexpr text<96> const& found() const { return found_; }  // empty where it was shown none

 private:
  std::string_view pattern_;
  int least_ = -1;
  text<96> found_{};
};

}  // namespace partita
