// Stretches of a chain, named by the kinds of segments in them: equal ones have one name, wherever they begin. So what is
// found out about 12 equal blocks holds for any 12 of a thousand.
#pragma once
#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

namespace partita::spaces {

struct run_of_segments {
  int kind = 0, count = 0;
  bool operator<(run_of_segments const& o) const { return std::tie(kind, count) < std::tie(o.kind, o.count); }
};

class sequences {
 public:
  static constexpr int empty = 0;

  explicit sequences(std::vector<int> const& chain) : chain_(&chain) {
    for (int k : chain) {
      if (static_cast<std::size_t>(k) >= counts_.size()) counts_.resize(static_cast<std::size_t>(k) + 1, 0);
      ++counts_[static_cast<std::size_t>(k)];
    }
    nodes_.push_back({-1, -1, 0});
    extended_.assign(counts_.size(), -1);
  }
  std::vector<int> const& chain() const { return *chain_; }
  // Per kind, how many segments of the chain are of it.
  std::vector<int> const& counts() const { return counts_; }
  // A stretch and one segment more.
  int extended(int sequence, int kind) {
    const std::size_t at = static_cast<std::size_t>(sequence) * counts_.size() + static_cast<std::size_t>(kind);
    if (extended_[at] < 0) {
      extended_[at] = static_cast<int>(nodes_.size());
      nodes_.push_back({sequence, kind, nodes_[static_cast<std::size_t>(sequence)].length + 1});
      extended_.resize(nodes_.size() * counts_.size(), -1);
    }
    return extended_[at];
  }
  std::vector<run_of_segments> runs(int sequence) const {
    std::vector<run_of_segments> all;
    for (int s = sequence; s != empty; s = nodes_[static_cast<std::size_t>(s)].shortened) {
      if (const int kind = nodes_[static_cast<std::size_t>(s)].kind; all.empty() || all.back().kind != kind)
        all.push_back({kind, 0});
      ++all.back().count;
    }
    std::reverse(all.begin(), all.end());
    return all;
  }

 private:
  struct node {
    int shortened, kind, length;  // without the last segment, and that one's kind
  };
  std::vector<int> const* chain_;
  std::vector<int> counts_;
  std::vector<node> nodes_;
  std::vector<int> extended_;  // [sequence * kinds + kind]
};

}  // namespace partita::spaces
