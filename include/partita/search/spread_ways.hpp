// Ways to spread: on every grid over all devices those choices of cuts, ZeRO stages and layouts that are the cheapest at some
// price of a byte, but for what is there while an op runs. One price is enough: all devices hold the same, and wait as long.
#pragma once
#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include <partita/search/grid_solver.hpp>
#include <partita/search/spread.hpp>
#include <partita/search/tables.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

struct spread_way {
  std::pair<int, int> grid;               // outer and inner, of all devices
  std::vector<std::vector<int>> options;  // by spread segment in the chain's order: per variable of its table
  spread_cost cost;
};

// On one grid.
class spread_on_grid {
 public:
  // `in_flight`: micro-batches of what is run before the stages; of what is run after them there is one.
  spread_on_grid(segmented_model const& m, spread_segments const& which, rules_on_cuts rules, grid_costs<costs> const& grid,
                 table_options const& how, std::vector<axis_info const*> const& boundary_axes, spread_link const& link,
                 int in_flight)
      : grid_(grid), micro_batches_(how.micro_batches) {
    const cut_options cuts(m, rules, grid, how.micro_batches, boundary_axes);
    table_builder b(m, rules, grid, how, boundary_axes);
    for (std::size_t s = 0; s < m.segments.size(); ++s) {
      if (!which.contains(static_cast<int>(s))) continue;
      const segment of = spread_segments::alone(m.segments[s]);
      parts_.push_back(
          {std::move(b.build(of, of.enters.empty(), of.leaves.empty()).front()), s + 1 == m.segments.size() ? 1 : in_flight});
      part& x = parts_.back();
      auto boundary = [&](std::vector<int> const& tensors, bool enters) {
        std::vector<cost> all;
        for (cut_option const& c : cuts.boundary_options())
          all.push_back(boundary_of_spread(tensors, m, cuts, grid, c, link, enters));
        return tensors.empty() ? std::vector<cost>(1) : all;
      };
      x.entries = boundary(of.enters, true);
      x.exits = boundary(of.leaves, false);
    }
    for (part& x : parts_) solvers_.emplace_back(x.costs);
  }
  // The fastest, the leanest, and what is cheaper than both between them.
  std::vector<spread_way> ways() {
    std::vector<point> all{cheapest(1e-15), cheapest(1e-3)};
    for (std::size_t k = 0; k + 1 < all.size() && all.size() < most_ways;) {
      const double price = (all[k + 1].way.cost.seconds - all[k].way.cost.seconds) / (all[k].bytes - all[k + 1].bytes);
      auto worth = [&](point const& x) { return x.way.cost.seconds + price * x.bytes; };
      if (point between = price > 0 ? cheapest(price) : all[k]; worth(between) < worth(all[k]) * (1 - 1e-6))
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(k) + 1, std::move(between));
      else ++k;
    }
    std::vector<spread_way> r;
    for (point& x : all)
      if (x.way.cost.seconds < impossible * micro_batches_) r.push_back(std::move(x.way));
    return r;
  }

 private:
  static constexpr std::size_t most_ways = 16;
  struct part {
    table costs;
    int in_flight;
    std::vector<cost> entries{}, exits{};  // of layouts at its boundaries
  };
  struct point {
    spread_way way;
    double bytes = 0;  // but for what is there while an op runs
  };
  point cheapest(double price) {
    point r;
    r.way.grid = {grid_.extent(0), grid_.extent(1)};
    double running = 0;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      part const& x = parts_[k];
      const double m = micro_batches_;
      matrix const& through = solvers_[k].run(grid_solver::weigh({m, 1}, price, {x.in_flight, 0}, false));
      auto seconds = [&](int i, int j) {
        cost const &in = x.entries[static_cast<std::size_t>(i)], &out = x.exits[static_cast<std::size_t>(j)];
        return m * (in.forward + in.backward + out.forward + out.backward);
      };
      int entry = 0, exit = 0;
      for (int i = 0; i < through.rows; ++i)
        for (int j = 0; j < through.columns; ++j)
          if (through(i, j) + seconds(i, j) < through(entry, exit) + seconds(entry, exit)) entry = i, exit = j;
      r.way.options.push_back(solvers_[k].decode(entry, exit));
      const cost c = cost_of(x.costs, r.way.options.back().data());
      r.way.cost.seconds += m * (c.forward + c.backward) + c.step + seconds(entry, exit);
      r.bytes += c.held + x.in_flight * (c.entry + c.kept);
      running = std::max(running, c.transient);
    }
    r.way.cost.bytes = r.bytes + running;
    return r;
  }

  grid_costs<costs> const& grid_;
  int micro_batches_;
  std::deque<part> parts_;  // solvers refer to their tables
  std::deque<eliminator> solvers_;
};

// Those that no other beats in both, the fastest first.
inline void keep_best(std::vector<spread_way>& all) {
  std::sort(all.begin(), all.end(), [](spread_way const& a, spread_way const& b) {
    return std::pair(a.cost.seconds, a.cost.bytes) < std::pair(b.cost.seconds, b.cost.bytes);
  });
  std::vector<spread_way> kept;
  for (spread_way& x : all)
    if (kept.empty() || x.cost.bytes < kept.back().cost.bytes) kept.push_back(std::move(x));
  all = std::move(kept);
}

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
