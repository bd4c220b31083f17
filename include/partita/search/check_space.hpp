// Whether the parts of a space that came from a file fit together, so that a searcher need not ask.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include <partita/core/words.hpp>
#include <partita/search/problem.hpp>

namespace partita::spaces {

// Of one table. Throws error, as all below, that names the place after `where`.
inline void check_table(table const& t, word where) {
  if (t.variables() < 2) throw_error({where, ": a table needs an entry and an exit"});
  for (int options : t.options)
    if (options < 1) throw_error({where, ": a variable has no option"});
  for (table::pair const& p : t.pairs)
    if (p.a == p.b) throw_error({where, ": variable ", p.a, " is paired with itself"});
  auto finite = [&](cost_list const& all) {
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const cost c = all[i]; double x : {c.forward, c.backward, c.step, c.held, c.entry, c.kept, c.waiting, c.transient})
        if (!std::isfinite(x) || x < 0) throw_error({where, ": a cost is ", x, "; they are 0 or more"});
  };
  finite(t.own);
  finite(t.pair_costs);
}

// Of one shape, whose grids have their kinds of segments: neighbours in the chain share a layout.
inline void check_shape(shape const& s, std::vector<int> const& chain, word where) {
  constexpr int most = 1 << 24;
  if (s.devices < 1 || s.devices > most || s.micro_batches < 1 || s.micro_batches > most)
    throw_error({where, " has ", s.devices, " devices and ", s.micro_batches, " micro-batches; both are 1 to ", most});
  if (s.grids.empty()) throw_error({where, " has no grid"});
  for (int place : s.places)
    if (std::none_of(s.grids.begin(), s.grids.end(), [&](grid_choice const& g) { return g.place == place; }))
      throw_error({where, " has no grid at place ", place});
  for (grid_choice const& g : s.grids)
    if (g.place < 0 || (s.places.empty() && g.place != 0))
      throw_error({where, " has a grid at place ", g.place, ", where no stage is"});
  for (grid_choice const& g : s.grids)
    if (!(g.limit >= 0)) throw_error({where, " has a grid with a limit of ", g.limit, "; it is 0 or more"});
  for (spread_cost const& x : s.spread)
    if (!std::isfinite(x.seconds) || !std::isfinite(x.bytes) || x.seconds < 0 || x.bytes < 0)
      throw_error({where, ": what is spread takes ", x.seconds, " seconds and ", x.bytes, " bytes"});
  const std::size_t kinds = s.grids.front().kinds.size();
  for (std::size_t g = 0; g < s.grids.size(); ++g) {
    auto const& of = s.grids[g].kinds;
    if (of.size() != kinds) throw_error({where, ", grid ", g, " has ", of.size(), " kinds of segments, grid 0 has ", kinds});
    for (std::size_t k = 0; k < kinds; ++k) {
      if (of[k].empty()) throw_error({where, ", grid ", g, ": kind ", k, " has no variant"});
      for (variant const& v : of[k])
        if (v.costs->entries() != of[k].front().costs->entries() || v.costs->exits() != of[k].front().costs->exits())
          throw_error({where, ", grid ", g, ": variants of kind ", k, " have entries or exits of other numbers"});
    }
    for (std::size_t i = 0; i < chain.size(); ++i) {
      if (chain[i] < 0 || static_cast<std::size_t>(chain[i]) >= kinds)
        throw_error({"chain[", i, "] is of kind ", chain[i], ", ", where, " has ", kinds, " kinds"});
      if (i == 0) continue;
      const int left = of[static_cast<std::size_t>(chain[i - 1])].front().costs->exits(),
                entered = of[static_cast<std::size_t>(chain[i])].front().costs->entries();
      if (left != entered)
        throw_error({where, ", grid ", g, ": segment ", i - 1, " is left in ", left, " layouts, segment ", i, " is entered in ",
                     entered});
    }
  }
  if (s.crossings.empty()) return;
  if (s.crossings.size() != s.grids.size() * s.grids.size() * kinds)
    throw_error({where, " has crossings of ", s.crossings.size(), " pairs of grids and kinds, not of ",
                 s.grids.size() * s.grids.size() * kinds});
  std::set<std::pair<int, int>> neighbours;
  for (std::size_t i = 1; i < chain.size(); ++i) neighbours.insert({chain[i - 1], chain[i]});
  for (std::size_t from = 0; from < s.grids.size(); ++from)
    for (std::size_t to = 0; to < s.grids.size(); ++to)
      for (auto [before, kind] : neighbours) {
        auto const& costs = s.crossings[(from * s.grids.size() + to) * kinds + static_cast<std::size_t>(kind)];
        const int exits = s.grids[from].kinds[static_cast<std::size_t>(before)].front().costs->exits(),
                  entries = s.grids[to].kinds[static_cast<std::size_t>(kind)].front().costs->entries();
        if (!costs.empty() && costs.size() != static_cast<std::size_t>(exits) * static_cast<std::size_t>(entries))
          throw_error({where, ": crossings from grid ", from, " to grid ", to, " into kind ", kind, " are ", costs.size(),
                       ", not ", exits, " x ", entries});
        for (double x : costs)
          if (!std::isfinite(x) || x < 0) throw_error({where, ": a crossing takes ", x, " seconds"});
      }
}

inline void check_problem(problem const& p) {
  constexpr int most = 1 << 16;
  if (p.chain.empty()) throw_error({"chain has no segment"});
  if (!p.may_begin.empty() && p.may_begin.size() != p.chain.size())
    throw_error({"may_begin has ", p.may_begin.size(), " entries, chain has ", p.chain.size()});
  if (!p.blocks.empty() && p.blocks.size() != p.chain.size())
    throw_error({"blocks has ", p.blocks.size(), " entries, chain has ", p.chain.size()});
  for (int next = 0; int block : p.blocks)
    if (block >= 0 && block != next++) throw_error({"blocks has ", block, " where ", next - 1, " is next; or -1, for no block"});
  if (!p.regions.empty() && p.regions.size() != p.chain.size())
    throw_error({"regions has ", p.regions.size(), " entries, chain has ", p.chain.size()});
  for (device_range const& r : p.regions)
    if (r.first < 0 || r.last < r.first) throw_error({"regions has devices ", r.first, " to ", r.last});
  if (!(p.limit >= 0)) throw_error({"limit is ", p.limit, "; it is 0 or more"});
  for (std::size_t i = 0; i < p.configurations.size(); ++i) {
    configuration const& c = p.configurations[i];
    if (c.shape < 0 || c.shape >= p.shapes)
      throw_error({"configurations[", i, "] is of shape ", c.shape, ", there are ", p.shapes});
    if (c.stages < 1 || c.stages > most) throw_error({"configurations[", i, "] has ", c.stages, " stages, not 1 to ", most});
    if (!(c.schedule.fill >= 0)) throw_error({"configurations[", i, "]: fill is ", c.schedule.fill, "; it is 0 or more"});
    if (c.schedule.holds == pipeline_schedule::told) {
      std::vector<int> const& told = c.schedule.told_in_flight;
      if (static_cast<int>(told.size()) != c.stages || std::any_of(told.begin(), told.end(), [](int n) { return n < 1; }))
        throw_error(
            {"configurations[", i, "]: in_flight has ", told.size(), " entries of ", c.stages, " stages, each of 1 or more"});
    }
    if (c.schedule.chunks < 1 || c.schedule.chunks > most)
      throw_error({"configurations[", i, "] has ", c.schedule.chunks, " chunks, not 1 to ", most});
  }
}

}  // namespace partita::spaces
