// A choice that fits, for where the exact searcher has found none and has not shown that there is none: what an op may need
// while it runs is capped, and under a cap the sum of the rest is the least by elimination, segment after segment.
#pragma once
#include <map>
#include <memory>
#include <tuple>

#include <partita/search/eliminate.hpp>
#include <partita/search/problem.hpp>

namespace partita::spaces {

class leanest {
 public:
  // All must outlive this. `s`: the configuration's shape. `work`: sums and comparisons that may still be made.
  leanest(problem const& p, shape const& s, int configuration, long& work)
      : p_(p), s_(s), id_(configuration), c_(p.configurations[static_cast<std::size_t>(configuration)]), work_(work) {
    find_caps();
    for (int i = 1; i < s.spreads(); ++i)
      if (s.spread_by(i).bytes < s.spread_by(spread_).bytes) spread_ = i;
  }
  // Not found() where no way through some stage fits under any of the caps, or where it would take more work to tell.
  choice find() {
    const int n = p_.segments();
    if (c_.stages > n) return {};
    // Stage after stage, where the next one may begin; and how it came to that.
    std::vector<std::map<int, stretch>> reached(static_cast<std::size_t>(c_.stages) + 1);
    reached[0][0] = {};
    for (int k = 0; k < c_.stages; ++k)
      for (auto const& [begin, unused] : reached[static_cast<std::size_t>(k)])
        for (int grid = 0; grid < static_cast<int>(s_.grids.size()); ++grid)
          if (s_.may_have(k, grid))
            for (double cap : caps_)
              for (double share : {0.0, 1.0})
                if (!extend({begin, grid, 0, cap, share}, k, reached[static_cast<std::size_t>(k) + 1])) return {};
    if (!reached.back().count(n)) return {};
    choice x;
    x.configuration = id_;
    x.spread = spread_;
    x.stages.resize(static_cast<std::size_t>(c_.stages));
    for (int k = c_.stages, end = n; k-- > 0;) {
      stretch const& by = reached[static_cast<std::size_t>(k) + 1].at(end);
      x.stages[static_cast<std::size_t>(k)] = decode(by, k, end);
      end = by.begin;
    }
    return x;
  }

 private:
  static constexpr std::size_t most_caps = 24;
  struct way {
    double sum = infinite, running = 0;  // bytes: but for what is there while it runs; that
    segment_choice chosen;
  };
  // A stage, and where it is left. `share`: what a segment that runs again makes inside counts so much while ways are compared.
  struct stretch {
    int begin = 0, grid = 0, exit = 0;
    double cap = 0, share = 0;
  };
  struct place {
    double sum = infinite, running = 0;
    int from = 0;
  };
  table const& table_of(int grid, int kind) const {
    return *s_.grids[static_cast<std::size_t>(grid)].kinds[static_cast<std::size_t>(kind)].front().costs;
  }
  in_flight_counts in_flight(int stage) const { return c_.schedule.in_flight(stage, c_.stages, s_.micro_batches); }

  void find_caps() {
    for (grid_choice const& g : s_.grids)
      for (auto const& variants : g.kinds)
        for (variant const& v : variants)
          for (cost_list const* costs : {&v.costs->own, &v.costs->pair_costs})
            for (std::size_t i = 0; i < costs->size(); ++i) caps_.push_back(costs->transient(i));
    std::sort(caps_.begin(), caps_.end());
    caps_.erase(std::unique(caps_.begin(), caps_.end()), caps_.end());
    if (caps_.size() <= most_caps) return;
    std::vector<double> some;
    for (std::size_t i = 1; i <= most_caps; ++i) some.push_back(caps_[i * caps_.size() / most_caps - 1]);
    caps_ = std::move(some);
  }
  // By entry and exit, on a grid.
  std::vector<way> const& ways(int grid, int kind, in_flight_counts w, double cap, double share) {
    const auto [known, fresh] = ways_.try_emplace({grid, kind, w, cap, share});
    std::vector<way>& all = known->second;
    if (!fresh) return all;
    table const& t = table_of(grid, kind);
    all.resize(static_cast<std::size_t>(t.entries()) * static_cast<std::size_t>(t.exits()));
    std::vector<double> least(all.size(), infinite);
    auto const& variants = s_.grids[static_cast<std::size_t>(grid)].kinds[static_cast<std::size_t>(kind)];
    for (std::size_t v = 0; v < variants.size(); ++v) {
      std::unique_ptr<eliminator>& by = eliminators_[{variants[v].costs.get(), cap}];
      if (!by) by = std::make_unique<eliminator>(*variants[v].costs, nullptr, above(*variants[v].costs, cap));
      work_ -= static_cast<long>(variants[v].costs->own.size() + variants[v].costs->pair_costs.size());
      const double kept = variants[v].replays ? share : w.whole;
      matrix const& m = by->run({0, 0, 0, 1, static_cast<double>(w.whole), kept, static_cast<double>(w.waiting)});
      for (int i = 0; i < m.rows; ++i)
        for (int j = 0; j < m.columns; ++j) {
          const std::size_t at = static_cast<std::size_t>(i * m.columns + j);
          if (m(i, j) >= least[at]) continue;
          least[at] = m(i, j);
          all[at].chosen = {static_cast<int>(v), by->decode(i, j)};
          const segment_cost own = cost_in_stage(cost_of(*variants[v].costs, all[at].chosen.options.data()), variants[v].replays);
          all[at].sum = bytes_held(own, w);
          all[at].running = own.replay;
        }
    }
    return all;
  }
  static std::vector<eliminator::left_out> above(table const& t, double cap) {
    std::vector<eliminator::left_out> without;
    const std::size_t n = static_cast<std::size_t>(t.variables());
    for (std::size_t v = 0; v < n; ++v)
      for (std::size_t o = 0; o < static_cast<std::size_t>(t.options[v]); ++o)
        if (t.own.transient(t.first[v] + o) > cap) without.push_back({v, o});
    for (std::size_t q = 0; q < t.pairs.size(); ++q) {
      table::pair const& x = t.pairs[q];
      const int count = t.options[static_cast<std::size_t>(x.a)] * t.options[static_cast<std::size_t>(x.b)];
      for (std::size_t o = 0; o < static_cast<std::size_t>(count); ++o)
        if (t.pair_costs.transient(x.first + o) > cap) without.push_back({n + q, o});
    }
    return without;
  }
  // One segment more.
  std::vector<place> next(std::vector<place> const& from, stretch const& x, int segment, in_flight_counts w) {
    const int kind = p_.chain[static_cast<std::size_t>(segment)];
    std::vector<way> const& all = ways(x.grid, kind, w, x.cap, x.share);
    const std::size_t columns = static_cast<std::size_t>(table_of(x.grid, kind).exits());
    std::vector<place> to(columns);
    work_ -= static_cast<long>(all.size());
    for (std::size_t i = 0; i < from.size(); ++i)
      for (std::size_t j = 0; j < columns; ++j)
        if (way const& add = all[i * columns + j]; from[i].sum + add.sum < to[j].sum)
          to[j] = {from[i].sum + add.sum, std::max(from[i].running, add.running), static_cast<int>(i)};
    return to;
  }
  std::vector<place> entered(stretch const& x) const {
    const int kind = p_.chain[static_cast<std::size_t>(x.begin)];
    return std::vector<place>(static_cast<std::size_t>(table_of(x.grid, kind).entries()), place{0, 0, 0});
  }
  // As far as it fits. False: too much has been done.
  bool extend(stretch x, int stage, std::map<int, stretch>& ends) {
    const double limit = p_.limit_on(s_.grids[static_cast<std::size_t>(x.grid)]) - s_.spread_by(spread_).bytes;
    const in_flight_counts w = in_flight(stage);
    const int n = p_.segments(), last = n - (c_.stages - 1 - stage);
    std::vector<place> at = entered(x);
    for (int q = x.begin; q < last && p_.lies(q, stage, s_.devices); ++q) {
      at = next(at, x, q, w);
      double least = infinite, fits = infinite;
      for (std::size_t j = 0; j < at.size(); ++j) {
        least = std::min(least, at[j].sum);
        if (const double all = at[j].sum + at[j].running; all <= limit && all < fits) {
          fits = all;
          x.exit = static_cast<int>(j);
        }
      }
      if (least > limit) break;
      const int end = q + 1;
      if (fits <= limit && (end == n ? stage + 1 == c_.stages : stage + 1 < c_.stages && p_.begins(end, c_.stages)))
        ends.try_emplace(end, x);
    }
    return work_ > 0;
  }
  stage_choice decode(stretch const& x, int stage, int end) {
    const in_flight_counts w = in_flight(stage);
    std::vector<std::vector<place>> at{entered(x)};
    for (int q = x.begin; q < end; ++q) at.push_back(next(at.back(), x, q, w));
    stage_choice r{x.begin, x.grid, {}};
    r.segments.resize(static_cast<std::size_t>(end - x.begin));
    for (int q = end, exit = x.exit; q-- > x.begin;) {
      const std::size_t k = static_cast<std::size_t>(q - x.begin);
      const int kind = p_.chain[static_cast<std::size_t>(q)], from = at[k + 1][static_cast<std::size_t>(exit)].from;
      const std::size_t columns = static_cast<std::size_t>(table_of(x.grid, kind).exits());
      r.segments[k] =
          ways(x.grid, kind, w, x.cap, x.share)[static_cast<std::size_t>(from) * columns + static_cast<std::size_t>(exit)].chosen;
      exit = from;
    }
    return r;
  }

  problem const& p_;
  shape const& s_;
  int id_;
  configuration const& c_;
  int spread_ = 0;  // the way that holds the least
  std::vector<double> caps_;
  std::map<std::pair<table const*, double>, std::unique_ptr<eliminator>> eliminators_;
  std::map<std::tuple<int, int, in_flight_counts, double, double>, std::vector<way>> ways_;  // grid, kind, in flight, cap, share
  long& work_;
};

}  // namespace partita::spaces
