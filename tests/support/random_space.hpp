// Small random spaces with whole numbers as costs, so that every searcher computes the same sums.
#pragma once
#include <algorithm>
#include <map>
#include <random>

#include <partita/search/problem.hpp>

namespace partita::testing {

class random_space {
 public:
  explicit random_space(unsigned seed)
      : random_(seed),
        tells_needs_(seed % 4 != 0),
        tells_parts_(seed % 3 != 1),
        unequal_(seed % 3 == 2),
        turns_(seed % 5 == 3),
        spreads_(seed % 7 < 2),
        told_(seed % 6 == 4) {}
  spaces::problem make() {
    using namespace spaces;
    problem p;
    const int kinds = pick(1, 3), segments = pick(1, 4);
    for (int i = 0; i < segments; ++i) p.chain.push_back(pick(0, kinds - 1));
    if (chance(2)) std::sort(p.chain.begin(), p.chain.end());  // repeated ones side by side
    if (chance(3))
      for (int i = 0; i < segments; ++i) p.may_begin.push_back(chance(2));
    auto shapes = std::make_shared<std::vector<shape>>();
    p.shapes = pick(1, 2);
    for (int s = 0; s < p.shapes; ++s) {
      shapes->push_back(make_shape(kinds));
      if (unequal_) set_places(shapes->back());
    }
    p.make_shape = [shapes](int s) { return (*shapes)[static_cast<std::size_t>(s)]; };
    if (tells_needs_) p.needs = [shapes](int s) { return needs_of((*shapes)[static_cast<std::size_t>(s)]); };
    if (tells_parts_)
      p.make_part = [shapes, kind = p.chain.front()](int s) { return part_of((*shapes)[static_cast<std::size_t>(s)], kind); };
    if (chance(4))
      for (int i = 0; i < segments; ++i) {
        p.regions.emplace_back();
        if (chance(2)) continue;
        p.regions.back().first = pick(0, 2);
        p.regions.back().last = p.regions.back().first + pick(0, 3);
      }
    for (int c = 0, n = pick(1, 3); c < n; ++c) {
      configuration x;
      x.shape = pick(0, p.shapes - 1);
      x.stages = pick(1, 3);
      x.schedule.holds = static_cast<pipeline_schedule::rule>(pick(0, 5));
      if (x.schedule.holds == pipeline_schedule::chunks_behind) x.schedule.chunks = pick(2, 3);
      x.schedule.fill = chance(4) ? 0.5 : 1;
      if (told_) {  // by an order of one's own
        const int m = (*shapes)[static_cast<std::size_t>(x.shape)].micro_batches;
        x.schedule = {pipeline_schedule::told, static_cast<double>(pick(0, m)), 1, {}};
        for (int s = 0; s < x.stages; ++s) x.schedule.told_in_flight.push_back(pick(1, m));
      }
      p.configurations.push_back(x);
    }
    return p;
  }
  // One stage of equal segments, or nearly so: with a memory limit some of them must differ from the others.
  spaces::problem make_repeated() {
    using namespace spaces;
    problem p;
    const bool another = chance(2);
    p.chain.assign(static_cast<std::size_t>(pick(4, 6)), 0);
    if (another) p.chain.front() = 1;
    most_memory_ = 20;
    auto of = std::make_shared<shape>();
    of->micro_batches = pick(1, 3);
    const int boundaries = chance(3) ? 2 : 1;
    grid_choice grid;
    for (int k = 0; k < 1 + another; ++k) {
      const auto costs = std::make_shared<table const>(make_table(boundaries, boundaries == 1 ? pick(1, 2) : 0, 2));
      grid.kinds.push_back({{costs, false}});
      if (chance(2) && (boundaries == 1 || p.segments() < 6)) grid.kinds.back().push_back({costs, true});
    }
    of->grids.push_back(std::move(grid));
    p.shapes = 1;
    p.make_shape = [of](int) { return *of; };
    if (tells_needs_) p.needs = [of](int) { return needs_of(*of); };
    configuration c;
    c.schedule.holds = chance(2) ? pipeline_schedule::all : pipeline_schedule::stages_behind;
    p.configurations.push_back(c);
    return p;
  }
  static spaces::shape_part part_of(spaces::shape s, int kind) {
    for (spaces::grid_choice& g : s.grids) g.kinds = {g.kinds[static_cast<std::size_t>(kind)]};
    s.crossings.clear();
    return {kind, std::move(s)};
  }
  // The least of every figure over all choices.
  static spaces::shape_needs needs_of(spaces::shape const& s) {
    using namespace spaces;
    shape_needs all{s.micro_batches, {}, {}};
    for (std::size_t stage = 0; stage < s.places.size(); ++stage) {
      double most = 0;
      for (std::size_t g = 0; g < s.grids.size(); ++g)
        if (s.may_have(static_cast<int>(stage), static_cast<int>(g))) most = std::max(most, s.grids[g].limit);
      all.limits.push_back(most);
    }
    for (std::size_t k = 0; k < s.grids.front().kinds.size(); ++k) {
      segment_needs x{infinite, infinite, infinite, infinite, infinite, infinite, infinite};
      for (grid_choice const& grid : s.grids)
        for (variant const& v : grid.kinds[k]) {
          bool has_twin = false;
          for (variant const& other : grid.kinds[k]) has_twin = has_twin || (!other.replays && other.costs == v.costs);
          if (v.replays && !has_twin) x.again = 0;
          each_choice(*v.costs, [&](std::vector<int> const& options) {
            const cost c = cost_of(*v.costs, options.data());
            const segment_cost in_stage = cost_in_stage(c, v.replays);
            x.seconds = std::min(x.seconds, in_stage.time);
            if (v.replays) x.again = std::min(x.again, c.forward);
            x.step = std::min(x.step, c.step);
            x.held = std::min(x.held, c.held);
            x.waiting = std::min(x.waiting, c.waiting);
            double& flight = v.replays ? x.flight_again : x.flight_kept;
            flight = std::min(flight, in_stage.flight);
          });
        }
      if (x.again == infinite) x.again = 0;
      x.flight_again = std::min(x.flight_again, x.flight_kept);
      all.kinds.push_back(x);
    }
    return all;
  }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int n) { return pick(1, n) == 1; }

 private:
  // Stages on devices that differ: grids of their own, some with a limit of memory.
  void set_places(spaces::shape& s) {
    const std::size_t own = s.grids.size();
    const int places = pick(1, own > 1 ? 2 : 1);
    for (int stage = 0; stage < 3; ++stage) s.places.push_back(pick(0, places));
    for (std::size_t g = 0; g < own; ++g) s.grids[g].place = static_cast<int>(g) % (places + 1);
    for (int place = 0; place <= places; ++place) {  // every place has one
      if (std::any_of(s.grids.begin(), s.grids.end(), [&](spaces::grid_choice const& g) { return g.place == place; })) continue;
      s.grids.push_back(s.grids.front());
      s.grids.back().place = place;
      const int times = pick(1, 3);
      std::map<std::shared_ptr<spaces::table const>, std::shared_ptr<spaces::table const>> slow;
      for (auto& variants : s.grids.back().kinds)
        for (spaces::variant& v : variants) {
          auto& made = slow[v.costs];
          if (!made) made = std::make_shared<spaces::table const>(slower(*v.costs, times));
          v.costs = made;
        }
    }
    for (spaces::grid_choice& g : s.grids)
      if (chance(3)) g.limit = pick(3 * most_memory_, 12 * most_memory_);
    if (s.crossings.empty()) return;
    const int boundaries = s.grids.front().kinds.front().front().costs->entries();
    s.crossings.clear();
    for (std::size_t i = 0; i < s.grids.size() * s.grids.size() * s.grids.front().kinds.size(); ++i) {
      s.crossings.emplace_back();
      for (int k = 0; k < boundaries * boundaries; ++k) s.crossings.back().push_back(pick(0, 4));
    }
  }
  static spaces::table slower(spaces::table const& t, int times) {
    return changed(t, [&](spaces::cost c) {
      for (const auto member : {&spaces::cost::forward, &spaces::cost::backward, &spaces::cost::step}) c.*member *= times;
      return c;
    });
  }
  // As co-shard: what is kept goes in parts, and no choice is faster.
  spaces::table in_turns(spaces::table const& t) {
    return changed(t, [&](spaces::cost c) {
      c.backward += c.forward + pick(0, 3);
      c.forward = chance(2) ? 0 : pick(0, 3);
      c.step += pick(0, 1);
      c.held += pick(0, 3);
      c.kept = pick(0, static_cast<int>(c.kept) / 2);
      c.transient = pick(0, static_cast<int>(c.transient));
      return c;
    });
  }
  template <class Change> static spaces::table changed(spaces::table const& t, Change&& change) {
    spaces::table r;
    auto scaled = [&](spaces::cost_list const& from, std::size_t first, std::size_t count) {
      std::vector<spaces::cost> all;
      for (std::size_t i = 0; i < count; ++i) all.push_back(change(from[first + i]));
      return all;
    };
    for (std::size_t v = 0; v < t.options.size(); ++v)
      r.add_variable(scaled(t.own, t.first[v], static_cast<std::size_t>(t.options[v])));
    for (spaces::table::pair const& p : t.pairs)
      r.add_pair(
          p.a, p.b,
          scaled(t.pair_costs, p.first,
                 static_cast<std::size_t>(t.options[static_cast<std::size_t>(p.a)] * t.options[static_cast<std::size_t>(p.b)])));
    return r;
  }
  spaces::shape make_shape(int kinds) {
    using namespace spaces;
    shape s;
    s.micro_batches = pick(1, 4);
    s.devices = pick(1, 2);
    const int grids = pick(1, 2), boundaries = pick(1, 2);
    most_memory_ = chance(2) ? 6 : 20;
    for (int g = 0; g < grids; ++g) {
      grid_choice grid;
      for (int k = 0; k < kinds; ++k) {
        std::vector<variant> variants;
        const auto costs = std::make_shared<table const>(make_table(boundaries));
        variants.push_back({costs, false});
        if (chance(2)) variants.push_back({costs, true});
        if (turns_ && chance(2)) variants.push_back({std::make_shared<table const>(in_turns(*costs)), true, true});
        else if (chance(4)) variants.push_back({std::make_shared<table const>(make_table(boundaries)), chance(2)});
        grid.kinds.push_back(std::move(variants));
      }
      s.grids.push_back(std::move(grid));
    }
    if (chance(2))
      for (int i = 0; i < grids * grids * kinds; ++i) {
        s.crossings.emplace_back();
        for (int k = 0; k < boundaries * boundaries; ++k) s.crossings.back().push_back(pick(0, 4));
      }
    // What is spread: ways of which one may be better in both.
    for (int ways = spreads_ ? pick(1, 3) : 0, k = 0; k < ways; ++k)
      s.spread.push_back({static_cast<double>(pick(0, 12)), static_cast<double>(pick(0, 2 * most_memory_))});
    return s;
  }
  spaces::cost make_cost(bool of_pair) {
    spaces::cost c;
    c.forward = pick(0, of_pair ? 4 : 10);
    c.backward = pick(0, of_pair ? 4 : 12);
    if (chance(2)) c.step = pick(0, 8);
    if (!of_pair) c.held = pick(0, most_memory_);
    if (chance(2)) c.kept = pick(0, most_memory_);
    if (chance(3)) c.waiting = pick(0, most_memory_);
    if (chance(of_pair ? 4 : 2)) c.transient = pick(0, 2 * most_memory_);
    return c;
  }
  spaces::table make_table(int boundaries) {
    const int inside = pick(0, 2);
    return make_table(boundaries, inside, 2 + (inside == 1));
  }
  spaces::table make_table(int boundaries, int inside, int most_options) {
    spaces::table t;
    auto variable = [&](int options, bool entry) {
      std::vector<spaces::cost> costs;
      for (int i = 0; i < options; ++i) {
        costs.push_back(make_cost(false));
        if (entry) costs.back().entry = pick(0, 6);
      }
      t.add_variable(costs);
    };
    variable(boundaries, true);
    for (int v = 0; v < inside; ++v) variable(pick(1, most_options), false);
    variable(boundaries, false);
    auto join = [&](int a, int b) {
      std::vector<spaces::cost> costs;
      for (int i = 0; i < t.options[static_cast<std::size_t>(a)] * t.options[static_cast<std::size_t>(b)]; ++i)
        costs.push_back(make_cost(true));
      if (chance(8)) std::swap(costs.front(), costs.back());
      t.add_pair(a, b, costs);
    };
    for (int a = 0; a < t.variables(); ++a)
      for (int b = a + 1; b < t.variables(); ++b)
        if (b == a + 1 || chance(3)) join(a, b);
    return t;
  }
  template <class Visit> static void each_choice(spaces::table const& t, Visit&& visit) {
    std::vector<int> options(t.options.size(), 0);
    for (std::size_t v = 0; v < options.size();) {
      if (v == 0) visit(static_cast<std::vector<int> const&>(options));
      if (++options[v] < t.options[v]) v = 0;
      else options[v++] = 0;
    }
  }
  std::mt19937 random_;
  bool tells_needs_, tells_parts_, unequal_, turns_, spreads_, told_;
  int most_memory_ = 10;
};

}  // namespace partita::testing
