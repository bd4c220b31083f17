// Points of a space of plans, drawn at random, and what their plans hold.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>

#include <partita/program/lower.hpp>
#include <partita/search/mcmc.hpp>
#include <partita/search/search.hpp>

namespace partita::testing {

// Calls look(shape, choice) for each of `draws` that is a plan, says which it was where a check fails, and returns how many were.
template <class Look> int at_drawn_points(spaces::plan_space const& space, unsigned seed, int draws, Look look) {
  spaces::problem const& all = space.of();
  std::mt19937 random(seed);
  int plans = 0;
  for (int draw = 0; draw < draws; ++draw) {
    const int c = std::uniform_int_distribution<int>(0, static_cast<int>(all.configurations.size()) - 1)(random);
    spaces::configuration const& drawn = all.configurations[static_cast<std::size_t>(c)];
    const spaces::shape s = all.make_shape(drawn.shape);
    const spaces::choice x = spaces::random_choice(all, s, c, random);
    if (!x.found() || spaces::time_and_memory(all, s, x).time > spaces::impossible) continue;
    CAPTURE(draw);
    CAPTURE(s.devices);
    CAPTURE(s.micro_batches);
    CAPTURE(drawn.stages);
    CAPTURE(static_cast<int>(space.shapes()[static_cast<std::size_t>(drawn.shape)].schedule.kind));
    ++plans;
    look(s, x);
  }
  return plans;
}

// What the program of the fullest device holds.
inline double lowered_bytes(graph_data const& g, plan_base const& plan) {
  completed done;
  if (const finding f = verify_plan(g, plan, done, false)) throw error(describe(f));
  const lowering shared(g, plan, done, {});
  double most = 0;
  for (int rank = 0; rank < done.devices; ++rank) {
    const program p = lower(shared, rank);
    most = std::max(most, static_cast<double>(p.arena_bytes + p.state_bytes));
  }
  return most;
}

}  // namespace partita::testing
