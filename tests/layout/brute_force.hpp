// Every chain of collectives between the layouts of a grid, by brute force. What one collective can do is read off the
// boxes and partial results of the devices, and not off the cuts of which a layout is made.
#pragma once
#include <algorithm>

#include "simulated_chain.hpp"

namespace partita::testing {

class all_chains {
 public:
  all_chains(placement const& w, std::vector<std::size_t> const& shape)
      : w_(w), shape_(shape), layouts(all_layouts(w, static_cast<int>(shape.size()))) {
    for (std::size_t e : shape) bytes_ *= static_cast<double>(e);
    for (layout const& l : layouts) {
      seen s;
      for (int p = 0; p < l.count; ++p)
        if (l.parts[p].partial()) s.partial |= 1u << l.parts[p].level;
      for (int d = 0; d < w.size(); ++d) s.boxes.push_back(box_of(l, d));
      seen_.push_back(std::move(s));
    }
    const std::size_t n = layouts.size();
    seconds.assign(n, std::vector<double>(n, INFINITY));
    for (std::size_t a = 0; a < n; ++a) {
      seconds[a][a] = 0;
      for (std::size_t b = 0; b < n; ++b)
        if (a != b) seconds[a][b] = one_step(a, b);
    }
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t a = 0; a < n; ++a)
        if (seconds[a][k] < INFINITY)
          for (std::size_t b = 0; b < n; ++b) seconds[a][b] = std::min(seconds[a][b], seconds[a][k] + seconds[k][b]);
  }
  double bytes() const { return bytes_; }

 private:
  struct seen {
    unsigned partial = 0;
    std::vector<box> boxes;  // by device
  };
  box box_of(layout const& l, int d) const {
    int c[max_levels]{};
    w_.coordinates_at(d, c);
    box b;
    b.rank = static_cast<int>(shape_.size());
    for (int a = 0; a < b.rank; ++a)
      b.at[a] = cut_interval(l, a, shape_[static_cast<std::size_t>(a)], nullptr, [&](part const& p) { return c[p.level]; });
    return b;
  }
  // Do the pieces of a group tile the box, and do they so along one axis only (`along`: -1 for any)?
  bool tile(seen const& s, std::vector<int> const& group, box const& whole, int along) const {
    std::size_t n = 0;
    for (int m : group) {
      box const& b = s.boxes[static_cast<std::size_t>(m)];
      if (!whole.contains(b)) return false;
      n += b.elements();
      for (int a = 0; a < b.rank && along >= 0; ++a)
        if (a != along && !(b.at[a] == whole.at[a])) return false;
      for (int o : group)
        if (o != m && intersection(b, s.boxes[static_cast<std::size_t>(o)]).elements() > 0) return false;
    }
    return n == whole.elements();
  }
  static box hull(box const& a, box const& b) {
    box r = a;
    for (int x = 0; x < a.rank; ++x) {
      r.at[x].begin = std::min(a.at[x].begin, b.at[x].begin);
      r.at[x].size = std::max(a.at[x].end(), b.at[x].end()) - r.at[x].begin;
    }
    return r;
  }
  double one_step(std::size_t from, std::size_t to) const {
    seen const &a = seen_[from], &b = seen_[to];
    double least = INFINITY;
    auto offer = [&](transition_kind kind, unsigned levels) {
      transition_step s;
      s.kind = kind;
      s.levels = levels;
      least = std::min(least, cost_of(s, layouts[from], bytes_, link_cost{}));
    };
    if (a.partial == b.partial && layouts[to].count == layouts[from].count + 1) {
      bool inside = true;
      for (std::size_t d = 0; d < a.boxes.size(); ++d) inside = inside && a.boxes[d].contains(b.boxes[d]);
      if (inside) offer(transition_kind::slice, 0);
    }
    if (a.partial == 0 && b.partial == 0) {
      bool permuted = true;
      for (box const& x : b.boxes)
        permuted = permuted && std::count(a.boxes.begin(), a.boxes.end(), x) == std::count(b.boxes.begin(), b.boxes.end(), x);
      if (permuted) offer(transition_kind::permute, 0);
    }
    for (unsigned levels = 1; levels < 1u << w_.rank; ++levels) {
      const bool reduces = (a.partial & levels) == levels && b.partial == (a.partial & ~levels), moves = a.partial == b.partial;
      if (!reduces && !moves) continue;
      bool gathers = moves, all_reduces = reduces, scatters = reduces, exchanges = moves;
      for (int d = 0; d < w_.size(); ++d) {
        const std::vector<int> group = members(w_, d, levels);
        box const &mine = a.boxes[static_cast<std::size_t>(d)], &made = b.boxes[static_cast<std::size_t>(d)];
        bool alike = true, alike_after = true;
        box whole = mine;
        for (int m : group) {
          alike = alike && a.boxes[static_cast<std::size_t>(m)] == mine;
          alike_after = alike_after && b.boxes[static_cast<std::size_t>(m)] == made;
          whole = hull(whole, a.boxes[static_cast<std::size_t>(m)]);
        }
        all_reduces = all_reduces && alike && made == mine;
        scatters = scatters && alike && tile(b, group, mine, -1);
        gathers = gathers && alike_after && tile(a, group, made, -1);
        bool crosses = false;
        for (int x = 0; x < mine.rank && exchanges; ++x)
          for (int y = 0; y < mine.rank; ++y)
            crosses = crosses || (x != y && tile(a, group, whole, x) && tile(b, group, whole, y));
        exchanges = exchanges && crosses;
      }
      if (gathers) offer(transition_kind::all_gather, levels);
      if (all_reduces) offer(transition_kind::all_reduce, levels);
      if (scatters) offer(transition_kind::reduce_scatter, levels);
      if (exchanges) offer(transition_kind::all_to_all, levels);
    }
    return least;
  }

  placement w_;
  std::vector<std::size_t> shape_;
  double bytes_ = 4;
  std::vector<seen> seen_;

 public:
  std::vector<layout> layouts;
  std::vector<std::vector<double>> seconds;  // of the cheapest chain, from and to
};

}  // namespace partita::testing
