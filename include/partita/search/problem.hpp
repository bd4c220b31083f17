// What searchers choose in, as flat data: a chain of segments, stages, grids, options per variable and their costs. Where
// it comes from (a traced model and a cluster, a file, a random generator) a searcher does not know.
//
//   time    fill * sum_s t_s + max_s ((m - fill) t_s + g_s) + what is spread     over stages s; m micro-batches
//   memory  held_s + whole(s) * flight_s + waiting(s) * waiting_s + max over segments of (replay + transient)
//           + what is spread, for every stage, within the limits; whole and waiting: micro-batches in flight (in_flight_counts)
//
// t_s is the sum of seconds per micro-batch, g_s of seconds per step. The largest transient of a segment counts, and the
// largest segment. A segment that is run again keeps its entry alone per micro-batch in flight; what it makes inside is
// there once, while it runs (`replay`). What is spread over all devices beside their stages takes as long on each of them, and as
// many bytes of each.
#pragma once
#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <partita/search/cost_list.hpp>
#include <partita/search/segment_chain.hpp>

namespace partita::spaces {

inline constexpr double infinite = std::numeric_limits<double>::infinity();

// A segment's variables (one per op, as a rule), each with options (cuts), costs of options and of pairs of them.
// Variable 0 is the layout in which the segment is entered, the last one that in which it is left: neighbours share it.
struct table {
  struct pair {
    int a, b;           // variables
    std::size_t first;  // options (i, j) cost pair_costs[first + i * options[b] + j]
  };
  std::vector<int> options;        // per variable
  std::vector<std::size_t> first;  // per variable: option i costs own[first + i]
  cost_list own;
  std::vector<pair> pairs;
  cost_list pair_costs;

  constexpr int variables() const { return static_cast<int>(options.size()); }
  // The same options, and pairs of the same variables; costs may differ.
  constexpr bool same_form(table const& o) const {
    return options == o.options && std::equal(pairs.begin(), pairs.end(), o.pairs.begin(), o.pairs.end(),
                                              [](pair const& x, pair const& y) { return x.a == y.a && x.b == y.b; });
  }
  constexpr int entries() const { return options.front(); }
  constexpr int exits() const { return options.back(); }
  constexpr int add_variable(std::vector<cost> const& costs) {
    first.push_back(own.size());
    options.push_back(static_cast<int>(costs.size()));
    own.append(costs);
    return variables() - 1;
  }
  constexpr void add_pair(int a, int b, std::vector<cost> const& costs) {
    pairs.push_back({a, b, pair_costs.size()});
    pair_costs.append(costs);
  }
  constexpr std::size_t index(int v, int option) const {
    return first[static_cast<std::size_t>(v)] + static_cast<std::size_t>(option);
  }
  constexpr std::size_t index(pair const& p, int i, int j) const {
    return p.first + static_cast<std::size_t>(i) * static_cast<std::size_t>(options[static_cast<std::size_t>(p.b)]) +
           static_cast<std::size_t>(j);
  }
};
constexpr cost cost_of(table const& t, int const* choice) {
  cost c;
  for (int v = 0; v < t.variables(); ++v) c += t.own[t.index(v, choice[v])];
  for (table::pair const& p : t.pairs) c += t.pair_costs[t.index(p, choice[p.a], choice[p.b])];
  return c;
}

// How a segment may run: with the costs of a table, kept or run again.
struct variant {
  std::shared_ptr<table const> costs;
  bool replays = false;
  bool saves_memory_alone = false;  // another variant, one that is kept, is as fast in every choice
};
// What a segment adds to its stage.
struct segment_cost {
  double time = 0, step = 0, held = 0, flight = 0, waiting = 0;
  double replay = 0;  // bytes that are there while this segment runs
};
constexpr segment_cost cost_in_stage(cost const& c, bool replays) {
  if (replays) return {2 * c.forward + c.backward, c.step, c.held, c.entry, c.waiting, c.kept + c.transient};
  return {c.forward + c.backward, c.step, c.held, c.entry + c.kept, c.waiting, c.transient};
}

// Of all segments of a stage.
constexpr void join(segment_cost& all, segment_cost const& x) {
  all.time += x.time;
  all.step += x.step;
  all.held += x.held;
  all.flight += x.flight;
  all.waiting += x.waiting;
  all.replay = std::max(all.replay, x.replay);
}

// Is no choice that runs again faster than the same one kept? In turns it may be: gradients of one micro-batch's turns go in
// buckets, and small products at other rates.
constexpr bool is_no_faster(table const& again, table const& kept) {
  if (&again == &kept) return true;
  auto all = [](cost_list const& a, cost_list const& b) {
    constexpr double rounding = 1 - 1e-12;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const segment_cost x = cost_in_stage(a[i], true), y = cost_in_stage(b[i], false);
      if (x.time < y.time * rounding || x.step < y.step * rounding) return false;
    }
    return true;
  };
  return again.same_form(kept) && all(again.own, kept.own) && all(again.pair_costs, kept.pair_costs);
}
// A device grid for a stage: per kind of segment its variants.
struct grid_choice {
  std::vector<std::vector<variant>> kinds;
  int place = 0;            // stages at this place alone may have it
  double limit = infinite;  // bytes of a device there
};
// One way in which all devices share what is spread over them beside their stages.
struct spread_cost {
  double seconds = 0;  // of a step, which every device works on it while the stages wait
  double bytes = 0;    // of every device
};
// So many devices per stage and micro-batches: the grids that a stage may have.
struct shape {
  int devices = 1, micro_batches = 1;
  std::vector<grid_choice> grids;
  std::vector<spread_cost> spread;  // of what is spread, one is chosen; empty: nothing is
  int spreads() const { return std::max(1, static_cast<int>(spread.size())); }
  spread_cost spread_by(int way) const { return spread.empty() ? spread_cost{} : spread[static_cast<std::size_t>(way)]; }
  // Where devices differ: by stage, which of them it has, as a number that its grids have too. Empty: all stages are at place 0.
  std::vector<int> places;
  int place_of(int stage) const { return places.empty() ? 0 : places[static_cast<std::size_t>(stage)]; }
  bool may_have(int stage, int grid) const {
    return places.empty() || grids[static_cast<std::size_t>(grid)].place == place_of(stage);
  }
  // Of so many stages, how many are at each place that some grid is at.
  std::vector<int> count_places(int stages) const {
    std::vector<int> n;
    for (grid_choice const& g : grids) n.resize(std::max(n.size(), static_cast<std::size_t>(g.place) + 1), 0);
    for (int s = 0; s < stages; ++s) ++n[static_cast<std::size_t>(place_of(s))];
    return n;
  }
  // Seconds per micro-batch that leaving a stage in (grid, exit) and entering the next in (grid, entry) takes, per kind
  // of the entered segment; the later stage bears them. Empty: none.
  std::vector<std::vector<double>> crossings;  // at [(from * grids + to) * kinds + kind][exit * entries + entry]
  double crossing(int from, int to, int kind, int exit, int entry) const {
    if (crossings.empty()) return 0;
    const std::size_t kinds = grids.front().kinds.size();
    auto const& c = crossings[(static_cast<std::size_t>(from) * grids.size() + static_cast<std::size_t>(to)) * kinds +
                              static_cast<std::size_t>(kind)];
    if (c.empty()) return 0;
    const int entries = grids[static_cast<std::size_t>(to)].kinds[static_cast<std::size_t>(kind)].front().costs->entries();
    return c[static_cast<std::size_t>(exit * entries + entry)];
  }
};

// The grids of a shape with the tables of one kind of segment alone, which lies on stages under all schedules: as under those in
// which it may run again and gradients of weights are made with those of inputs.
struct shape_part {
  int kind = 0;
  shape of;  // each grid has this kind and no other
};

// Micro-batches that a stage holds something of, at once.
struct in_flight_counts {
  int whole = 1;    // of so many, all that the forward pass has kept
  int waiting = 0;  // of so many more, what the gradients of weights are made from
  auto operator<=>(in_flight_counts const&) const = default;
};
// Bytes but for what is there while it runs.
constexpr double bytes_held(segment_cost const& c, in_flight_counts n) {
  return c.held + n.whole * c.flight + n.waiting * c.waiting;
}

struct pipeline_schedule {
  // Micro-batches in flight at stage s of p: all m; p - s; the same, and s that wait for gradients of weights, or twice as many
  // ahead and waiting; or, where a stage has chunks, what the first chunk holds at most; or 2 (p - s) - 1;
  // or what is told of each stage.
  enum rule { all, stages_behind, weights_behind, weights_twice_behind, chunks_behind, twice_behind, told };
  rule holds = stages_behind;
  double fill = 1;  // how much of a stage's time per micro-batch the others wait for (1 / chunks); no more than micro-batches
  int chunks = 1;
  std::vector<int> told_in_flight{};  // by stage
  // Do gradients of weights fill what would be a bubble?
  constexpr bool splits() const { return holds == weights_behind || holds == weights_twice_behind; }
  constexpr in_flight_counts in_flight(int stage, int of_stages, int micro_batches) const {
    // Stage s runs k (p - 1 - s) forwards ahead and delays gradients of weights by k s micro-batches (policy/schedule.hpp).
    auto delayed = [&](int times) {
      return in_flight_counts{std::min(micro_batches, times * (of_stages - 1 - stage) + 1),
                              std::min(micro_batches, times * stage)};
    };
    switch (holds) {
      case all: return {micro_batches, 0};
      case stages_behind: return {std::min(micro_batches, of_stages - stage), 0};
      case weights_behind: return delayed(1);
      case weights_twice_behind: return delayed(2);
      case twice_behind: return {std::min(micro_batches, 2 * (of_stages - stage) - 1), 0};
      case told: return {std::min(micro_batches, told_in_flight[static_cast<std::size_t>(stage)]), 0};
      default: break;
    }
    // Rounds of p micro-batches or a few more pass a chunk, then the next one (policy/schedule.hpp). When the last chunk's
    // first backward begins, stage s is (v - 1) rounds and 2 (p - 1 - s) forwards ahead, and it stays so while all v - 1 chunks
    // before are run backwards: the first chunk has gained most by then.
    const int rounds = std::max(1, micro_batches / of_stages), round = (micro_batches + rounds - 1) / rounds;
    const int forwards = 2 * (chunks - 1) * round + 2 * (of_stages - 1 - stage) + 1;
    return {std::min(micro_batches, forwards / (round * chunks) * round + std::min(round, forwards % (round * chunks))), 0};
  }
};
// Seconds of a step, of its stages one after another.
struct step_time {
  double sum = 0, largest = -infinite;
  constexpr void add(double time, double step, double fill, int micro_batches) {
    sum += time;
    largest = std::max(largest, (micro_batches - fill) * time + step);
  }
  constexpr double seconds(double fill) const { return fill * sum + largest; }
};
struct configuration {
  int shape = 0, stages = 1;
  pipeline_schedule schedule{};
  double bound = 0;   // no choice in it takes less time; known before the shape is made
  double spread = 0;  // of it, seconds of what is spread
};

// What a segment needs at the least on any grid, each figure on its own: no choice has less of any.
struct segment_needs {
  double seconds = 0;       // per micro-batch
  double again = 0;         // more of them where it is run again
  double step = 0;          // seconds per step; of all micro-batches and the step together: m * seconds + step
  double held = 0;          // bytes
  double flight_kept = 0;   // bytes per micro-batch in flight
  double flight_again = 0;  // the same where it is run again
  double waiting = 0;       // bytes per micro-batch that waits for the gradients of weights alone
};
struct shape_needs {
  int micro_batches = 1;
  std::vector<segment_needs> kinds;
  std::vector<double> limits{};  // by stage, bytes of a device there; empty: what the problem says
};

struct problem : segment_chain {
  std::vector<configuration> configurations;
  int shapes = 0;
  std::function<shape(int)> make_shape;
  // By shape: those with one number may have grids with the same tables, which are the same objects while any of them has them.
  // Empty: no two have.
  std::vector<int> tables_of{};
  // Of a shape; empty: it is not looked at. Shapes of one number in `parts_of` have the same; empty: no two have.
  std::function<shape_part(int)> make_part{};
  std::vector<int> parts_of{};
  std::function<shape_needs(int)> needs;  // of a shape, without making it; empty: not known
  double limit = infinite;                // bytes per device, wherever it is

  double limit_on(grid_choice const& g) const { return std::min(limit, g.limit); }
};

// A point of the space.
struct segment_choice {
  int variant = 0;
  std::vector<int> options;  // per variable
};
struct stage_choice {
  int begin = 0, grid = 0;
  std::vector<segment_choice> segments;
};
struct choice {
  int configuration = -1;
  int spread = 0;  // way of the shape
  std::vector<stage_choice> stages;
  bool found() const { return configuration >= 0; }
};
struct stage_total {
  double time = 0, step = 0, memory = 0;
};
struct total {
  double time = infinite, memory = infinite;  // memory: of the stage that holds the most
  std::vector<stage_total> stages;
  bool fits = false;    // every stage into its memory
  double fullness = 0;  // what a stage holds as a share of its memory, at the most
};

inline total time_and_memory(problem const& p, shape const& s, choice const& x) {
  configuration const& c = p.configurations[static_cast<std::size_t>(x.configuration)];
  total r{0, 0, {}, true, 0};
  const spread_cost spread = s.spread_by(x.spread);
  step_time step;
  const int stages = static_cast<int>(x.stages.size());
  for (int k = 0; k < stages; ++k) {
    stage_choice const& stage = x.stages[static_cast<std::size_t>(k)];
    segment_cost all;
    for (std::size_t i = 0; i < stage.segments.size(); ++i) {
      const int kind = p.chain[static_cast<std::size_t>(stage.begin) + i];
      segment_choice const& chosen = stage.segments[i];
      variant const& v = s.grids[static_cast<std::size_t>(stage.grid)]
                             .kinds[static_cast<std::size_t>(kind)][static_cast<std::size_t>(chosen.variant)];
      join(all, cost_in_stage(cost_of(*v.costs, chosen.options.data()), v.replays));
    }
    if (k > 0) {
      stage_choice const& before = x.stages[static_cast<std::size_t>(k) - 1];
      all.time += s.crossing(before.grid, stage.grid, p.chain[static_cast<std::size_t>(stage.begin)],
                             before.segments.back().options.back(), stage.segments.front().options.front());
    }
    const stage_total t{all.time, all.step,
                        bytes_held(all, c.schedule.in_flight(k, stages, s.micro_batches)) + all.replay + spread.bytes};
    step.add(t.time, t.step, c.schedule.fill, s.micro_batches);
    r.memory = std::max(r.memory, t.memory);
    const double limit = p.limit_on(s.grids[static_cast<std::size_t>(stage.grid)]);
    r.fits = r.fits && t.memory <= limit;
    r.fullness = std::max(r.fullness, t.memory / limit);
    r.stages.push_back(t);
  }
  r.time = step.seconds(c.schedule.fill) + spread.seconds;
  return r;
}

}  // namespace partita::spaces
