// Puts what a search has found, and what it has looked at, into words and figures: search_report.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <partita/search/chosen.hpp>
#include <partita/search/exact.hpp>
#include <partita/search/search_report.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

inline std::string cuts_of(spaces::plan_space const& space, spaces::choice const& x, std::size_t stage) {
  auto const& shape =
      space.shapes()[static_cast<std::size_t>(space.of().configurations[static_cast<std::size_t>(x.configuration)].shape)];
  spaces::stage_choice const& s = x.stages[stage];
  std::size_t widest = 0;
  for (std::size_t i = 0; i < s.segments.size(); ++i)
    if (s.segments[i].options.size() > s.segments[widest].options.size()) widest = i;
  const int number = s.begin + static_cast<int>(widest);
  if (space.spreads(number, shape)) return "";  // nothing else lies there
  spaces::table_key const& key = space.key_of(number, shape, s.grid, s.segments[widest].variant);
  std::string text;
  for (std::size_t k = 0; k < key.variables.size(); ++k) {
    if (key.variables[k].what != spaces::table_key::variable::cut) continue;
    spaces::searched_op const& op =
        space.model().segments[static_cast<std::size_t>(number)].ops[static_cast<std::size_t>(key.variables[k].op)];
    const auto cut = key.cuts[k][static_cast<std::size_t>(s.segments[widest].options[k])];
    auto axis = [&](std::size_t d) { return cut[d] < 0 ? std::string("-") : std::string(op.info->dims[cut[d]].axis->name); };
    text += (text.empty() ? "" : ", ") + std::string(space.graph().name(op.op).view()) + " (" + std::string(op.info->kind) +
            ") " + axis(0) + " x " + axis(1);
  }
  return text;
}

// How many of the parameters that are trained have each ZeRO stage.
inline std::array<int, 4> zero_of(spaces::plan_space const& space, spaces::plan_space::shape_info const& shape,
                                  spaces::choice const& x, std::size_t at) {
  spaces::stage_choice const& s = x.stages[at];
  using variable = spaces::table_key::variable;
  std::array<int, 4> count{};
  for (std::size_t i = 0; i < s.segments.size(); ++i) {
    const int number = s.begin + static_cast<int>(i);
    const bool spread = space.spreads(number, shape);
    spaces::spread_way const* const way = spread ? &space.ways_to_spread(shape)[static_cast<std::size_t>(x.spread)] : nullptr;
    spaces::table_key const key =
        spread ? space.key_of_spread(number, shape, *way) : space.key_of(number, shape, s.grid, s.segments[i].variant);
    std::vector<int> const& options =
        spread ? way->options[static_cast<std::size_t>(space.number_of_spread(number))] : s.segments[i].options;
    auto const& ops = space.model().segments[static_cast<std::size_t>(number)].ops;
    auto add = [&](spaces::searched_weight const& w, int stage) {
      if (w.owned && w.trained) ++count[static_cast<std::size_t>(w.alone() ? stage : std::min(stage, 2))];
    };
    for (std::size_t k = 0; k < key.variables.size(); ++k) {
      variable const& v = key.variables[k];
      if (v.what == variable::zero)
        add(ops[static_cast<std::size_t>(v.op)].weights[static_cast<std::size_t>(v.weight)],
            v.stages[static_cast<std::size_t>(options[k])]);
      if (v.what == variable::cut)
        for (std::size_t w = 0; w < v.stages.size(); ++w)
          if (v.stages[w] >= 0) add(ops[static_cast<std::size_t>(v.op)].weights[w], v.stages[w]);
    }
  }
  return count;
}

inline std::string few(double x) {  // digits
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", x);
  return text;
}
// `up`: no less than it is, as what has to be enough.
inline std::string size_in_words(double bytes, bool up = false) {
  const char* const units[]{"bytes", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  for (; bytes >= 1024 && u < 4; ++u) bytes /= 1024;
  if (up && std::stod(few(bytes)) < bytes) bytes += std::pow(10, std::floor(std::log10(bytes)) - 3);
  return few(bytes) + " " + units[u];
}
inline std::string words_of(spaces::searched_schedule const& s) {
  if (s.own.order != nullptr) return std::string(s.own.name);
  switch (s.kind) {
    case schedule_kind::gpipe: return "GPipe";
    case schedule_kind::interleaved: return "interleaved 1F1B, " + std::to_string(s.chunks) + " chunks";
    case schedule_kind::zero_bubble_h1: return "zero bubble H1";
    case schedule_kind::zero_bubble_h2: return "zero bubble H2";
    case schedule_kind::interlaced: return "interlaced";
    case schedule_kind::interlaced_in_step: return "interlaced, in step";
    default: return "1F1B";
  }
}
inline schedule_choice choice_of(spaces::searched_schedule const& s) { return {s.kind, s.chunks, s.own.order != nullptr}; }

// Of each number of stages and devices and each schedule the configuration of the least time or, where none is known, the
// least bound; those of a known time first, then by bound.
inline std::vector<considered_configuration> considered_by(spaces::plan_space const& space, spaces::exact_outcome const& o) {
  constexpr std::size_t most = 12;
  std::map<std::tuple<int, int, std::string>, considered_configuration> best;
  for (std::size_t i = 0; i < space.of().configurations.size(); ++i) {
    spaces::configuration const& c = space.of().configurations[i];
    auto const& shape = space.shapes()[static_cast<std::size_t>(c.shape)];
    considered_configuration x{c.stages,
                               shape.devices,
                               shape.micro_batches,
                               c.stages > 1 ? words_of(shape.schedule) : "",
                               std::min(o.bounds[i], o.times[i]),
                               o.times[i] < spaces::infinite ? o.times[i] : 0,
                               choice_of(shape.schedule)};
    auto const [place, fresh] = best.try_emplace({x.stages, x.devices_per_stage, x.schedule}, x);
    considered_configuration& known = place->second;
    if (fresh) continue;
    const double bound = std::min(known.lower_bound, x.lower_bound);
    const bool better = known.seconds > 0 || x.seconds > 0 ? x.seconds > 0 && (known.seconds == 0 || x.seconds < known.seconds)
                                                           : x.lower_bound < known.lower_bound;
    if (better) known = x;
    known.lower_bound = bound;
  }
  std::vector<considered_configuration> all;
  for (auto& [key, x] : best)
    if (x.lower_bound < spaces::infinite) all.push_back(std::move(x));
  auto order = [](considered_configuration const& x) {
    return std::pair{x.seconds > 0 ? 0 : 1, x.seconds > 0 ? x.seconds : x.lower_bound};
  };
  std::sort(all.begin(), all.end(), [&](auto const& a, auto const& b) { return order(a) < order(b); });
  if (all.size() > most) all.resize(most);
  return all;
}

// What is spread over all devices, for how long they work on it, and what a plan without it takes.
inline std::string words_of_spread(spaces::plan_space const& space, spaces::exact_outcome const& o) {
  auto spreads = [&](std::size_t configuration) {
    return space.shapes()[static_cast<std::size_t>(space.of().configurations[configuration].shape)].schedule.spreads();
  };
  auto const& shape =
      space.shapes()[static_cast<std::size_t>(space.of().configurations[static_cast<std::size_t>(o.best.configuration)].shape)];
  if (!shape.schedule.spreads()) return "";
  spaces::searched_weight const* largest = nullptr;
  for (int i = 0; i < space.segments(); ++i)
    if (space.spreads(i, shape))
      for (spaces::searched_op const& x : space.model().segments[static_cast<std::size_t>(i)].ops)
        for (spaces::searched_weight const& w : x.weights)
          if (largest == nullptr || w.stored_bytes > largest->stored_bytes) largest = &w;
  spaces::spread_cost const& cost = space.ways_to_spread(shape)[static_cast<std::size_t>(o.best.spread)].cost;
  std::string text = "; ends of the model";
  if (largest != nullptr) text += " (" + std::string(space.graph().name(largest->op).view()) + " is in them)";
  text += " are spread over all devices, which work on them for " + few(cost.seconds) + " s and hold " +
          size_in_words(cost.bytes) + " each";
  double known = spaces::infinite, bound = spaces::infinite;
  for (std::size_t i = 0; i < space.of().configurations.size(); ++i)
    if (!spreads(i)) {
      known = std::min(known, o.times[i]);
      bound = std::min(bound, std::min(o.bounds[i], o.times[i]));
    }
  if (bound == spaces::infinite) return text;
  text += "; without that a step takes at least " + few(bound) + " s";
  return known < spaces::infinite ? text + ", and " + few(known) + " s by the best plan that is known" : text;
}

// What is known of the start stays in `r`.
inline void explain(spaces::plan_space const& space, spaces::exact_outcome const& o, search_report& r) {
  r.configurations = o.configurations;
  r.bounded = o.bounded;
  r.solved = o.solved;
  r.listed = o.listed;
  r.eliminations = o.eliminations;
  r.segments = space.segments();
  r.considered = considered_by(space, o);
  spaces::configuration const& c = space.of().configurations[static_cast<std::size_t>(o.best.configuration)];
  auto const& shape = space.shapes()[static_cast<std::size_t>(c.shape)];
  r.stages = c.stages;
  r.devices_per_stage = shape.devices;
  r.devices = c.stages * shape.devices;
  r.micro_batches = shape.micro_batches;
  r.schedule = c.stages > 1 ? words_of(shape.schedule) : "";
  r.by = choice_of(shape.schedule);
  std::size_t slowest = 0, fullest = 0;
  const spaces::shape made = space.of().make_shape(c.shape);
  auto limit_of = [&](std::size_t s) { return space.of().limit_on(made.grids[static_cast<std::size_t>(o.best.stages[s].grid)]); };
  bool fits_free = true;
  int turned = 0;
  const spaces::total t = spaces::time_and_memory(space.of(), made, o.best);
  for (std::size_t s = 0; s < o.best.stages.size(); ++s) {
    spaces::stage_choice const& stage = o.best.stages[s];
    found_stage f;
    f.first_block = stage.begin;
    for (int i = 0; i < static_cast<int>(stage.segments.size()); ++i) {
      if (space.spreads(stage.begin + i, shape)) continue;
      if (f.blocks++ == 0) f.first_block = stage.begin + i;
      const spaces::way_to_run how = space.way(stage.begin + i, stage.segments[static_cast<std::size_t>(i)].variant);
      f.replayed += how.again;
      f.in_turns += how.turns > 1;
    }
    f.outer = shape.grids[static_cast<std::size_t>(stage.grid)].first;
    f.inner = shape.grids[static_cast<std::size_t>(stage.grid)].second;
    f.seconds = t.stages[s].time;
    f.step_seconds = t.stages[s].step;
    f.memory = t.stages[s].memory;
    f.cuts = cuts_of(space, o.best, s);
    f.zero = zero_of(space, shape, o.best, s);
    auto work = [&](std::size_t k) { return shape.micro_batches * t.stages[k].time + t.stages[k].step; };
    if (work(s) > work(slowest)) slowest = s;
    if (t.stages[s].memory / limit_of(s) > t.stages[fullest].memory / limit_of(fullest)) fullest = s;
    fits_free = fits_free && f.replayed == 0;
    turned += f.in_turns;
    r.of_stages.push_back(std::move(f));
  }
  found_stage const& slow = r.of_stages[slowest];
  const double busy = shape.micro_batches * slow.seconds;
  const std::string works =
      shape.schedule.splits()
          ? few(busy + slow.step_seconds) + " s of " + few(o.time) + " s, where gradients of weights fill what else would wait"
          : few(busy) + " s of " + few(o.time) + " s and brings gradients together for " + few(slow.step_seconds) + " s";
  r.bound_by = "stage " + std::to_string(slowest) + " works for " + works + "; the fullest device holds " +
               size_in_words(t.stages[fullest].memory) + " of " + size_in_words(limit_of(fullest)) + ", and " +
               (fits_free ? "no block runs again" : "blocks run again to fit");
  if (turned > 0) r.bound_by += ", heads and features of " + std::to_string(turned) + " of them in turns";
  r.bound_by += words_of_spread(space, o);
}

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
