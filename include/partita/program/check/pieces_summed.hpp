// From which pieces a partial result was reduced: as sets of boxes over the letters that the output lacks, never as a
// count. A count would let "piece 0 twice, piece 1 never" pass.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <partita/core/words.hpp>
#include <partita/model/graph_entries.hpp>

namespace partita::detail::checking {

struct span_of {
  std::int64_t begin = 0, end = 0;
};
struct box_of_letters {
  int rank = 0;
  span_of at[max_dims];
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= at[d].end - at[d].begin;
    return n;
  }
  bool operator==(box_of_letters const& o) const { return !(*this < o) && !(o < *this); }
  bool operator<(box_of_letters const& o) const {
    for (int d = 0; d < rank; ++d) {
      if (at[d].begin != o.at[d].begin) return at[d].begin < o.at[d].begin;
      if (at[d].end != o.at[d].end) return at[d].end < o.at[d].end;
    }
    return false;
  }
};

// Disjoint boxes, as few as adding them one by one makes.
class box_set {
 public:
  // Adds what the set has not yet; false when it had a part of the box.
  bool add(box_of_letters const& added) {
    std::vector<box_of_letters> parts{added}, rest;
    bool fresh = true;
    for (box_of_letters const& known : boxes_) {
      rest.clear();
      for (box_of_letters const& p : parts) fresh = subtract(p, known, rest) && fresh;
      parts.swap(rest);
    }
    for (box_of_letters p : parts) {
      for (bool grown = true; grown;) {
        grown = false;
        for (std::size_t k = 0; k < boxes_.size() && !grown; ++k)
          if (join(p, boxes_[k])) {
            boxes_.erase(boxes_.begin() + static_cast<std::ptrdiff_t>(k));
            grown = true;
          }
      }
      boxes_.insert(std::upper_bound(boxes_.begin(), boxes_.end(), p), p);
    }
    return fresh;
  }
  std::int64_t elements() const {
    std::int64_t n = 0;
    for (box_of_letters const& b : boxes_) n += b.elements();
    return n;
  }
  std::vector<box_of_letters> const& boxes() const { return boxes_; }
  bool operator<(box_set const& o) const { return boxes_ < o.boxes_; }

 private:
  // What is left of `a`; false when something was taken.
  static bool subtract(box_of_letters a, box_of_letters const& taken, std::vector<box_of_letters>& left) {
    for (int d = 0; d < a.rank; ++d)
      if (taken.at[d].begin >= a.at[d].end || taken.at[d].end <= a.at[d].begin) {
        left.push_back(a);
        return true;
      }
    for (int d = 0; d < a.rank; ++d) {
      box_of_letters part = a;
      if (a.at[d].begin < taken.at[d].begin) {
        part.at[d].end = taken.at[d].begin;
        left.push_back(part);
        a.at[d].begin = taken.at[d].begin;
      }
      if (taken.at[d].end < a.at[d].end) {
        part = a;
        part.at[d].begin = taken.at[d].end;
        left.push_back(part);
        a.at[d].end = taken.at[d].end;
      }
    }
    return false;
  }
  // Makes `a` the two together, where that is a box.
  static bool join(box_of_letters& a, box_of_letters const& b) {
    int differ = -1;
    for (int d = 0; d < a.rank; ++d)
      if (a.at[d].begin != b.at[d].begin || a.at[d].end != b.at[d].end) {
        if (differ >= 0) return false;
        differ = d;
      }
    if (differ < 0) return false;
    span_of& x = a.at[differ];
    span_of const& y = b.at[differ];
    if (x.end == y.begin) x.end = y.end;
    else if (y.end == x.begin) x.begin = y.begin;
    else return false;
    return true;
  }
  std::vector<box_of_letters> boxes_;
};

// Numbers for sets of pieces. `whole`: all of them. `nothing`: none, the neutral element.
inline constexpr int whole = 0, nothing = -1;
enum class joined : std::uint8_t { good, twice, otherwise_reduced };

class pieces_summed {
 public:
  pieces_summed() : nodes_(1) {}  // number 0 is `whole`

  // One piece of an op's output: a box of the letters that the output lacks, which are `all` elements together.
  int piece(int tensor, reduction how, box_of_letters const& of_letters, std::int64_t all) {
    if (of_letters.elements() == all) return whole;
    node n{tensor, how, all, {}, {}};
    n.boxes.add(of_letters);
    return number(std::move(n));
  }
  // The output of a linear op of inputs of which some are partial: as many sets as inputs.
  int linear(int tensor, std::vector<int> const& of_inputs) {
    bool all_whole = true, none = true;
    for (int s : of_inputs) {
      all_whole = all_whole && s == whole;
      none = none && s == nothing;
    }
    if (all_whole) return whole;
    if (none) return nothing;
    return number(node{tensor, reduction::sum, 0, {}, of_inputs});
  }
  // The two together, in `sum`. Of maxima a piece may be there twice, of sums not.
  joined join(int a, int b, reduction how, int& sum) {
    sum = a == nothing ? b : a;
    if (a == nothing || b == nothing) return joined::good;
    if (a == whole || b == whole) {
      sum = whole;
      return how == reduction::max ? joined::good : joined::twice;
    }
    const std::uint64_t key = static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
    if (const auto known = joins_.find(key); known != joins_.end() && nodes_[static_cast<std::size_t>(a)].how == how) {
      sum = known->second.second;
      return known->second.first;
    }
    const joined r = make_join(a, b, how, sum);
    if (nodes_[static_cast<std::size_t>(a)].how == how) joins_[key] = {r, sum};
    return r;
  }
  // The same pieces, however they came together?
  bool same(int a, int b) const {
    if (a == b) return true;
    if (a <= whole || b <= whole) return false;
    node const &x = nodes_[static_cast<std::size_t>(a)], &y = nodes_[static_cast<std::size_t>(b)];
    if (x.tensor != y.tensor || x.of_inputs.size() != y.of_inputs.size() || x.boxes.elements() != y.boxes.elements())
      return false;
    for (std::size_t i = 0; i < x.of_inputs.size(); ++i)
      if (!same(x.of_inputs[i], y.of_inputs[i])) return false;
    box_set all = x.boxes;
    for (box_of_letters const& box : y.boxes.boxes()) (void)all.add(box);
    return all.elements() == x.boxes.elements();
  }
  // How the pieces of a set are to be combined.
  reduction how(int set) const { return nodes_[static_cast<std::size_t>(set)].how; }
  // "8 of 32 terms": of the elements that are to be combined. For messages.
  std::string words(int set) const {
    if (set == whole) return "all terms";
    if (set == nothing) return "no term";
    node const& n = nodes_[static_cast<std::size_t>(set)];
    if (n.all > 0) return partita::words({n.boxes.elements(), " of ", n.all, " terms"});
    std::string text = "a sum of what has ";
    for (std::size_t i = 0; i < n.of_inputs.size() && i < 3; ++i) text += (i > 0 ? ", " : "") + words(n.of_inputs[i]);
    return text + (n.of_inputs.size() > 3 ? ", .." : "");
  }

 private:
  struct node {
    int tensor = -1;
    reduction how = reduction::sum;
    std::int64_t all = 0;
    box_set boxes;
    std::vector<int> of_inputs;
    bool operator<(node const& o) const {
      if (tensor != o.tensor) return tensor < o.tensor;
      if (of_inputs != o.of_inputs) return of_inputs < o.of_inputs;
      return boxes < o.boxes;
    }
  };
  int number(node n) {
    const auto [at, made] = numbers_.try_emplace(n, static_cast<int>(nodes_.size()));
    if (made) nodes_.push_back(std::move(n));
    return at->second;
  }
  joined make_join(int a, int b, reduction how, int& sum) {
    node n = nodes_[static_cast<std::size_t>(a)];
    node const& other = nodes_[static_cast<std::size_t>(b)];
    sum = a;
    if (n.how != how || other.how != how) return joined::otherwise_reduced;
    if (n.tensor != other.tensor || n.of_inputs.size() != other.of_inputs.size()) return joined::twice;
    if (n.of_inputs.empty()) {
      bool fresh = true;
      for (box_of_letters const& box : other.boxes.boxes()) fresh = n.boxes.add(box) && fresh;
      if (!fresh && how == reduction::sum) return joined::twice;
      sum = n.boxes.elements() == n.all ? whole : number(std::move(n));
      return joined::good;
    }
    const std::vector<int> others = other.of_inputs;  // joins below may move the nodes
    for (std::size_t i = 0; i < others.size(); ++i)
      if (const joined r = join(n.of_inputs[i], others[i], how, n.of_inputs[i]); r != joined::good) return r;
    sum = linear(n.tensor, n.of_inputs);
    return joined::good;
  }

  std::vector<node> nodes_;
  std::map<node, int> numbers_;
  std::unordered_map<std::uint64_t, std::pair<joined, int>> joins_;
};

}  // namespace partita::detail::checking
