// --plan auto: measures the model's ops on this machine, searches the best plan for its devices, says what to expect.
#pragma once
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <partita/partita.hpp>
#include <partita/profile/host.hpp>
#include <partita/profile/host_simulation.hpp>
#include <partita/report/plan_report.hpp>
#include <partita/search/search.hpp>

#include "gpt.hpp"

struct searched_plan {
  pt::plan<gpt_training> plan;
  std::string words;   // what was found, for people
  double seconds = 0;  // of a step, as simulated
  double bytes = 0;    // of all devices together
};

inline std::string words_of(pt::search_report const& why) {
  auto count = [](int n, const char* one, const char* more) { return std::to_string(n) + " " + (n == 1 ? one : more); };
  return count(why.devices, "device", "devices") + ", " + count(why.stages, "stage", "stages") + ", " +
         count(why.micro_batches, "micro-batch", "micro-batches");
}

// Where layers run, and how many of their ops are cut how.
inline void print_table(pt::lowering const& s) {
  for (pt::planned_layers const& l : pt::plan_table(s.graph(), s.plan(), s.plan_completed())) {
    std::map<std::string, int> cuts;
    for (pt::planned_op const& o : l.ops) ++cuts[o.cuts.empty() ? "whole" : o.cuts];
    std::printf("  %s on devices %s:", l.name().c_str(), l.devices.c_str());
    for (auto const& [cut, n] : cuts) std::printf(" %d ops %s;", n, cut.c_str());
    std::printf("\n");
  }
}

// `report`: a file for the page about the plan, or empty.
inline searched_plan search_plan(gpt_training const& training, std::vector<pt::binding> const& extents, pt::cpu devices,
                                 std::string const& report) {
  std::printf("\nmeasuring this machine for %d device%s ...\n", devices.devices, devices.devices == 1 ? "" : "s");
  std::fflush(stdout);
  const pt::profile measured = pt::measure<gpt_training>(devices, training, {}, extents);
  const pt::costs costs(pt::host_cluster(measured), measured);
  const auto found = pt::search<gpt_training>(costs, pt::constraints{}, training, extents);
  const pt::simulation step = pt::simulate_on_host(found.plan, costs, {.threads = measured.threads, .keep_gradients = false});
  searched_plan r{found.plan, words_of(found.why), step.seconds, 0};
  for (int d = 0; d < step.devices(); ++d) r.bytes += static_cast<double>(step.of_rank(d).peak_bytes());
  std::printf("found: %s; %ld configurations looked at, no plan of the space takes less than %s\n", r.words.c_str(),
              found.why.configurations, pt::duration_text(found.lower_bound).c_str());
  print_table(*step.lowered);
  if (!report.empty()) {
    pt::write_text_file(report, pt::plan_report({.title = "The plan of train_gpt",
                                                 .simulated = &step,
                                                 .facts = {{"plan", r.words}, {"machine", measured.machine}},
                                                 .searched = &found.why,
                                                 .lower_bound = found.lower_bound}));
    std::printf("  the page about it: %s\n", report.c_str());
  }
  return r;
}
