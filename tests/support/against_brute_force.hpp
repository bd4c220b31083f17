// The exact searcher against every choice there is.
#pragma once
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <partita/search/exact.hpp>

#include "random_space.hpp"

namespace partita::testing {

struct searched_spaces {
  int without_plan = 0;  // there is none
  int unsettled = 0;     // with few ways listed neither a plan was found nor that there is none
};
// What is wrong, or nothing, without a memory limit and with two. Every choice is made once and looked at for each limit.
inline std::string compare_with_brute_force(unsigned seed, searched_spaces& counted) {
  random_space random(seed);
  spaces::problem p = seed % 8 == 5 ? random.make_repeated() : random.make();
  if (seed % 16 == 9)  // stages of equal numbers of blocks; the first segment is none, and one between others
    for (int i = 0, block = 0; i < p.segments(); ++i) p.blocks.push_back(i == 0 || i == 3 ? -1 : block++);
  std::vector<std::pair<double, double>> all;  // time and memory, of what fits where it lies
  spaces::detail::enumeration::all(p, [&](spaces::choice const&, spaces::total const& t) {
    if (t.fits) all.push_back({t.time, t.memory});
  });
  std::ostringstream wrong;
  auto check = [&](double limit) {
    double best = spaces::infinite;
    for (auto const& [time, memory] : all)
      if (memory <= limit) best = std::min(best, time);
    p.limit = limit;
    const spaces::exact_outcome found = spaces::exact(p);
    counted.without_plan += best == spaces::infinite;
    auto say = [&](char const* what, double value) {
      wrong << "limit " << limit << ": " << what << " " << value << ", the best is " << best << "; ";
    };
    if (found.time != best) say("time", found.time);
    if (found.lower_bound > best || found.lower_bound < best * (1 - 1e-9)) say("bound", found.lower_bound);
    if (found.best.found() && found.memory > limit) say("memory", found.memory);
    if (found.best.found() == (best == spaces::infinite)) say("found", found.best.found());
    if (seed % 8 == 3) {  // what is no faster than something known is not found, and bounded by it
      spaces::exact_options beaten;
      beaten.faster_than = best;
      const spaces::exact_outcome none = spaces::exact(p, beaten);
      if (none.best.found()) say("time, faster than the best,", none.time);
      if (none.lower_bound > best || none.lower_bound < best * (1 - 1e-9)) say("bound, faster than the best,", none.lower_bound);
      beaten.faster_than = best + 0.25;  // times are multiples of a half
      if (best < spaces::infinite && spaces::exact(p, beaten).time != best) say("nothing faster than a little more than", best);
    }
    if (random.pick(0, 3) != 0) return;
    // Where few ways may be listed, or none, a bound remains, and what is found is a choice; if there is one, one is found, but
    // for a few limits that hardly anything fits.
    for (long most : {0, 2, 8}) {
      spaces::exact_options short_lists;
      short_lists.listing = {most, 2 * most};
      short_lists.classes.work = 3'000'000;
      short_lists.classes.at_last = 2;
      const spaces::exact_outcome bounded = spaces::exact(p, short_lists);
      if (bounded.lower_bound > best) say("bound with short lists", bounded.lower_bound);
      if (bounded.time < best) say("time with short lists", bounded.time);
      if (!bounded.best.found() && best < spaces::infinite) ++counted.unsettled;
      if (bounded.best.found() && bounded.memory > limit) say("memory with short lists", bounded.memory);
    }
  };
  check(spaces::infinite);
  if (all.empty()) return wrong.str();
  const double fastest = std::min_element(all.begin(), all.end())->first;
  int least = 1000000, most = 0;
  for (auto const& [time, memory] : all) {
    least = std::min(least, static_cast<int>(memory));
    if (time == fastest) most = std::max(most, static_cast<int>(memory));
  }
  for (int k = 0; k < 2; ++k) check(random.pick(least - 1, std::max(most, least) + 1));
  return wrong.str();
}

}  // namespace partita::testing
