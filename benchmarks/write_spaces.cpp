// Writes the files of benchmarks/spaces: `benchmark_write_spaces DIRECTORY`; without one it says how many plans each has. Where
// the planner's cost has changed the spaces that are made from models have too, and a test says so
// (tests/search/model_spaces_full.cpp).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "../tests/support/random_space.hpp"
#include "space_cases.hpp"
#include "space_document.hpp"

namespace {
namespace pt = partita;
void write(std::filesystem::path const& folder, std::string const& name, pt::spaces::space_file::document const& d) {
  const auto [least, most] = std::minmax_element(d.memories.begin(), d.memories.end());
  std::printf("%-20s %6zu plans, %.0f to %.0f MB; the best takes %.5g ms\n", name.c_str(), d.times.size(), *least / 1e6,
              *most / 1e6, d.optimum.value_or(0) * 1e3);
  std::fflush(stdout);
  if (folder.empty()) return;
  std::ofstream to(folder / (name + ".json"));
  to << pt::to_json_text(d) << "\n";
  if (!to.flush()) throw pt::error("cannot write " + name);
}
// Of no model, in memory between the least that a plan takes and that of the fastest.
void write_random(std::filesystem::path const& folder, std::string const& name, unsigned seed, std::string const& about) {
  pt::spaces::problem p = pt::testing::random_space(seed).make();
  const pt::spaces::outcome fastest = pt::spaces::brute_force(p);
  double least = fastest.memory;
  pt::spaces::detail::enumeration::all(p, [&](auto const&, pt::spaces::total const& t) { least = std::min(least, t.memory); });
  p.limit = std::floor((least + fastest.memory) / 2);
  write(folder, name, pt::spaces::describe_space(p, "random: " + about));
}
}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "";
  benchmark_spaces::each_case(
      [&](std::string const& name, auto const&... of) { write(folder, name, benchmark_spaces::document_of(of...)); });
  write_random(folder, "random_orders", 22, "micro-batches in flight are told by stage");
  write_random(folder, "random_spread", 78, "ways to spread what lies on all devices, segments that run in turns");
}
