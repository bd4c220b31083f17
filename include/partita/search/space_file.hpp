// Spaces in files, with every choice of them, so that searchers can be compared without a model and a cluster
// (benchmarks/spaces/README.md says what the members mean).
#pragma once
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <partita/core/reflect_json.hpp>
#include <partita/core/whole_file.hpp>
#include <partita/search/brute_force.hpp>
#include <partita/search/check_space.hpp>

namespace partita::spaces {

inline constexpr int space_file_version = 1;

namespace space_file {
struct pair {
  BOOST_HANA_DEFINE_STRUCT(pair, (int, a), (int, b),
                           (std::vector<std::vector<double>>, costs));  // [option of a * options of b + option of b]
};
struct table {
  BOOST_HANA_DEFINE_STRUCT(table, (std::vector<std::vector<std::vector<double>>>, variables),  // [variable][option]: a cost
                           (std::vector<space_file::pair>, pairs),
                           (std::optional<std::vector<std::string>>, names));  // of variables
};
struct variant {
  BOOST_HANA_DEFINE_STRUCT(variant, (int, table), (bool, replays));
};
struct grid {
  BOOST_HANA_DEFINE_STRUCT(grid, (std::vector<std::vector<space_file::variant>>, kinds),
                           (std::optional<int>, place),      // absent: 0
                           (std::optional<double>, limit));  // absent: none
};
struct shape {
  BOOST_HANA_DEFINE_STRUCT(shape, (int, devices), (int, micro_batches), (std::vector<space_file::grid>, grids),
                           (std::vector<std::vector<double>>, crossings),
                           (std::optional<std::vector<int>>, places),                   // by stage; absent: all are at place 0
                           (std::optional<std::vector<std::vector<double>>>, spread));  // seconds and bytes; absent: nothing is
};
struct configuration {
  BOOST_HANA_DEFINE_STRUCT(configuration, (int, shape), (int, stages), (std::string, holds),  // one of `holds_names`
                           (double, fill), (std::optional<int>, chunks),                      // absent: 1
                           (std::optional<std::vector<int>>, in_flight));                     // by stage, where it is told
};
struct document {
  BOOST_HANA_DEFINE_STRUCT(document, (std::string, format), (int, version), (std::string, about),
                           (std::optional<std::string>, model), (std::optional<std::string>, cluster),  // it is made from
                           (std::optional<std::string>, constraints),
                           (std::optional<std::vector<std::string>>, segments),       // their names
                           (std::vector<int>, chain), (std::vector<int>, may_begin),  // 0 or 1; absent: with any
                           (std::optional<std::vector<int>>, blocks),                 // absent: stages of any lengths
                           (std::optional<std::vector<std::vector<int>>>, regions),   // first and last device; absent: any
                           (std::optional<double>, limit),                            // absent: none
                           (std::vector<space_file::table>, tables), (std::vector<space_file::shape>, shapes),
                           (std::vector<space_file::configuration>, configurations),
                           (std::vector<double>, times),  // of every choice, in the order of brute force
                           (std::vector<double>, memories), (std::optional<double>, optimum));  // absent: none fits
};
}  // namespace space_file

// In the order of pipeline_schedule::rule.
inline constexpr std::string_view holds_names[]{
    "all", "stages behind", "weights behind", "weights twice behind", "chunks behind", "twice behind", "told"};

inline space_file::document describe_space(problem const& p, std::string about) {
  space_file::document d;
  d.format = "partita space";
  d.version = space_file_version;
  d.about = std::move(about);
  d.chain = p.chain;
  d.may_begin.assign(p.may_begin.begin(), p.may_begin.end());
  if (!p.blocks.empty()) d.blocks = p.blocks;
  if (!p.regions.empty()) d.regions.emplace();
  for (device_range const& r : p.regions) d.regions->push_back({r.first, r.last});
  if (p.limit != infinite) d.limit = p.limit;
  std::vector<std::pair<std::shared_ptr<table const>, int>> known;  // and where it stands: tables that are equal stand once
  auto list = [](cost const& c) {
    std::vector<double> all{c.forward, c.backward, c.step, c.held, c.entry, c.kept, c.transient};
    if (c.waiting != 0) all.push_back(c.waiting);
    return all;
  };
  auto number = [&](std::shared_ptr<table const> const& t) {
    for (auto const& [other, at] : known)
      if (other == t) return at;
    space_file::table f;
    for (int v = 0; v < t->variables(); ++v) {
      f.variables.emplace_back();
      for (int o = 0; o < t->options[static_cast<std::size_t>(v)]; ++o)
        f.variables.back().push_back(list(t->own[t->index(v, o)]));
    }
    for (table::pair const& x : t->pairs) {
      space_file::pair q;
      q.a = x.a;
      q.b = x.b;
      for (int i = 0; i < t->options[static_cast<std::size_t>(x.a)]; ++i)
        for (int j = 0; j < t->options[static_cast<std::size_t>(x.b)]; ++j)
          q.costs.push_back(list(t->pair_costs[t->index(x, i, j)]));
      f.pairs.push_back(std::move(q));
    }
    const auto same = std::find_if(d.tables.begin(), d.tables.end(), [&](space_file::table const& x) {
      return x.variables == f.variables && std::equal(x.pairs.begin(), x.pairs.end(), f.pairs.begin(), f.pairs.end(),
                                                      [](space_file::pair const& one, space_file::pair const& other) {
                                                        return one.a == other.a && one.b == other.b && one.costs == other.costs;
                                                      });
    });
    known.push_back({t, static_cast<int>(same - d.tables.begin())});
    if (same == d.tables.end()) d.tables.push_back(std::move(f));
    return known.back().second;
  };
  for (int s = 0; s < p.shapes; ++s) {
    const shape from = p.make_shape(s);
    space_file::shape to;
    to.devices = from.devices;
    to.micro_batches = from.micro_batches;
    to.crossings = from.crossings;
    if (!from.places.empty()) to.places = from.places;
    if (!from.spread.empty()) to.spread.emplace();
    for (spread_cost const& x : from.spread) to.spread->push_back({x.seconds, x.bytes});
    for (grid_choice const& g : from.grids) {
      to.grids.emplace_back();
      if (g.place != 0) to.grids.back().place = g.place;
      if (g.limit != infinite) to.grids.back().limit = g.limit;
      for (auto const& variants : g.kinds) {
        to.grids.back().kinds.emplace_back();
        for (variant const& v : variants) {
          space_file::variant x;
          x.table = number(v.costs);
          x.replays = v.replays;
          to.grids.back().kinds.back().push_back(x);
        }
      }
    }
    d.shapes.push_back(std::move(to));
  }
  for (configuration const& c : p.configurations) {
    space_file::configuration x;
    x.shape = c.shape;
    x.stages = c.stages;
    x.holds = holds_names[c.schedule.holds];
    if (c.schedule.chunks > 1) x.chunks = c.schedule.chunks;
    x.fill = c.schedule.fill;
    if (c.schedule.holds == pipeline_schedule::told) x.in_flight = c.schedule.told_in_flight;
    d.configurations.push_back(x);
  }
  double best = infinite;
  detail::enumeration::all(p, [&](choice const&, total const& t) {
    d.times.push_back(t.time);
    d.memories.push_back(t.memory);
    if (t.fits) best = std::min(best, t.time);
  });
  if (best < infinite) d.optimum = best;
  return d;
}

inline problem problem_of(space_file::document const& d) {
  if (d.format != "partita space") throw error("format is '" + d.format + "', not 'partita space'");
  if (d.version != space_file_version) throw error("version " + std::to_string(d.version) + " is not known here");
  auto price = [](std::vector<double> const& c) {
    if (c.size() != 7 && c.size() != 8) throw error("a cost has " + std::to_string(c.size()) + " numbers, 7 or 8 are expected");
    return cost{c[0], c[1], c[2], c[3], c[4], c[5], c.size() > 7 ? c[7] : 0, c[6]};
  };
  std::vector<std::shared_ptr<table const>> tables;
  for (space_file::table const& f : d.tables) {
    auto t = std::make_shared<table>();
    auto prices = [&](std::vector<std::vector<double>> const& from) {
      std::vector<cost> all;
      for (auto const& c : from) all.push_back(price(c));
      return all;
    };
    for (auto const& v : f.variables) t->add_variable(prices(v));
    for (space_file::pair const& x : f.pairs) {
      if (x.a < 0 || x.b < 0 || x.a >= t->variables() || x.b >= t->variables() ||
          x.costs.size() != f.variables[static_cast<std::size_t>(x.a)].size() * f.variables[static_cast<std::size_t>(x.b)].size())
        throw error("a pair of variables " + std::to_string(x.a) + " and " + std::to_string(x.b) +
                    " has the wrong number of costs");
      t->add_pair(x.a, x.b, prices(x.costs));
    }
    check_table(*t, words({"tables[", tables.size(), "]"}));
    tables.push_back(std::move(t));
  }
  auto shapes = std::make_shared<std::vector<shape>>();
  for (space_file::shape const& f : d.shapes) {
    shape s;
    s.devices = f.devices;
    s.micro_batches = f.micro_batches;
    s.crossings = f.crossings;
    s.places = f.places.value_or(std::vector<int>{});
    for (std::vector<double> const& x : f.spread.value_or(std::vector<std::vector<double>>{})) {
      if (x.size() != 2)
        throw_error({"shapes[", shapes->size(), "]: what is spread has ", x.size(), " numbers; it is seconds and bytes"});
      s.spread.push_back({x[0], x[1]});
    }
    for (space_file::grid const& g : f.grids) {
      s.grids.emplace_back();
      s.grids.back().place = g.place.value_or(0);
      s.grids.back().limit = g.limit.value_or(infinite);
      for (auto const& variants : g.kinds) {
        s.grids.back().kinds.emplace_back();
        for (space_file::variant const& v : variants) {
          if (v.table < 0 || static_cast<std::size_t>(v.table) >= tables.size())
            throw_error({"shapes[", shapes->size(), "]: table ", v.table, " of ", tables.size()});
          s.grids.back().kinds.back().push_back({tables[static_cast<std::size_t>(v.table)], v.replays});
        }
      }
    }
    check_shape(s, d.chain, words({"shapes[", shapes->size(), "]"}));
    shapes->push_back(std::move(s));
  }
  problem p;
  p.chain = d.chain;
  p.may_begin.assign(d.may_begin.begin(), d.may_begin.end());
  p.blocks = d.blocks.value_or(std::vector<int>{});
  for (std::vector<int> const& r : d.regions.value_or(std::vector<std::vector<int>>{})) {
    if (r.size() != 2) throw_error({"regions has an entry of ", r.size(), " numbers; it is the first and the last device"});
    p.regions.push_back({r[0], r[1]});
  }
  p.limit = d.limit.value_or(infinite);
  p.shapes = static_cast<int>(shapes->size());
  p.make_shape = [shapes](int s) { return shapes->at(static_cast<std::size_t>(s)); };
  for (space_file::configuration const& f : d.configurations) {
    configuration c;
    c.shape = f.shape;
    c.stages = f.stages;
    const auto name = std::find(std::begin(holds_names), std::end(holds_names), f.holds);
    if (name == std::end(holds_names)) throw error("a configuration holds '" + f.holds + "', which is not known here");
    c.schedule = {static_cast<pipeline_schedule::rule>(name - std::begin(holds_names)), f.fill, f.chunks.value_or(1),
                  f.in_flight.value_or(std::vector<int>{})};
    p.configurations.push_back(c);
  }
  check_problem(p);
  for (configuration const& c : p.configurations)
    if (const int m = (*shapes)[static_cast<std::size_t>(c.shape)].micro_batches; c.schedule.fill > m)
      throw_error({"a configuration of ", m, " micro-batches has a fill of ", c.schedule.fill});
    else if (shape const& s = (*shapes)[static_cast<std::size_t>(c.shape)];
             !s.places.empty() && static_cast<int>(s.places.size()) < c.stages)
      throw_error({"shapes[", c.shape, "] has places of ", s.places.size(), " stages, and a configuration of ", c.stages});
  return p;
}

inline space_file::document load_space(std::string const& path) {
  return partita::detail::read_whole_file("space file", path, from_json_text<space_file::document>);
}

}  // namespace partita::spaces
