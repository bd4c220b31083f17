// No false alarm: the check accepts what is lowered from legal plans, drawn at random.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include <partita/program/check.hpp>

#include "../support/number_of.hpp"
#include "../support/planned.hpp"
#include "../support/random_programs.hpp"

namespace pt = partita;

namespace {
const unsigned plans = pt::testing::drawn_sanitized(20, 200), plans_in_bf16 = pt::testing::drawn_sanitized(5, 50);

// All-to-alls by which no member gets anything from another one, and all of them.
struct exchanges {
  int idle = 0, all = 0;
  void count(std::vector<pt::program> const& programs) {
    std::map<std::tuple<int, int, int, int>, bool> moves;  // by node, index, step, group
    for (pt::program const& p : programs)
      for (pt::instruction const& i : p.instructions) {
        if (i.kind != pt::instruction_kind::all_to_all) continue;
        pt::collective_call const& c = p.collectives[static_cast<std::size_t>(i.payload)];
        pt::list<int> const& members = p.groups[static_cast<std::size_t>(c.group)];
        bool& any = moves[{i.node, i.index, c.step, c.group}];
        for (std::size_t m = 0; m < members.size(); ++m) any = any || (members[m] != p.rank && c.counts[m] > 0);
      }
    for (auto const& [call, any] : moves) idle += !any;
    all += static_cast<int>(moves.size());
  }
};
}  // namespace

TEST_CASE("programs of random plans are accepted") {
  std::size_t devices = 0, instructions = 0;
  exchanges of_all;
  for (unsigned seed = 0; seed < plans; ++seed) {
    const pt::testing::random_programs p(seed, 8);
    REQUIRE_MESSAGE(p.rejected.empty(), p.words, p.rejected);
    const pt::program_finding of_step = pt::check_programs(p.g, p.step);
    CHECK_MESSAGE(!of_step, p.words, "\n  ", std::string(name_of(of_step.what)), ": ", of_step.words);
    const pt::program_finding of_forward =
        pt::check_programs(p.g, p.forward, {.forward_only = true, .workspace = {}, .graphs = {}, .keys = {}});
    CHECK_MESSAGE(!of_forward, p.words, "\n  forward part: ", std::string(name_of(of_forward.what)), ": ", of_forward.words);
    devices += p.step.size();
    of_all.count(p.step);
    for (pt::program const& x : p.step) instructions += x.instructions.size();
  }
  CHECK(devices > 2 * plans);  // the plans are plans
  CHECK(instructions > 250 * plans);
  CHECK(of_all.idle == 0);
  CHECK(of_all.all > static_cast<int>(plans) / 2);
}

// Parameters are converted, and terms of their gradients back, one by one.
TEST_CASE("programs of random plans of a GPT in bf16 are accepted") {
  using training = pt::training<pt::in_precision<pt::testing::planned_gpt, pt::bf16>, pt::adamw, pt::clip_norm>;
  pt::recorder<pt::planning_only, training> g;
  pt::trace(g, training{});
  int narrow_sums = 0, wide_sums = 0;  // over time, of gradients of parameters
  for (unsigned seed = 0; seed < plans_in_bf16; ++seed) {
    pt::plan_base plan(g);
    std::mt19937 random(seed);
    const std::string words = "seed " + std::to_string(seed) + ": " + pt::testing::random_plan(plan, random, 8).make();
    pt::completed c;
    const pt::finding wrong = pt::verify_plan(g, plan, c);
    REQUIRE_MESSAGE(!wrong, words, describe(wrong));
    const pt::lowering shared(g, plan, c);
    std::vector<pt::program> all;
    for (int rank = 0; rank < c.devices; ++rank) all.push_back(pt::lower(shared, rank));
    const pt::program_finding found = pt::check_programs(g, all);
    CHECK_MESSAGE(!found, words, "\n  ", std::string(name_of(found.what)), ": ", found.words);
    for (pt::node const& n : c.nodes) {
      if (!pt::detail::sums_over_time(c, n)) continue;
      const int tensor = c.values[n.first_value].tensor;
      for (int op = 0; op < g.ops.size; ++op) {
        pt::op_entry const& e = g.ops[op];
        if (e.info->kind != "cast" || e.when != pt::pass::backward) continue;
        narrow_sums += g.input(e, 0) == tensor;
        wide_sums += e.first_output == tensor;
      }
    }
  }
  CHECK(narrow_sums == 0);
  CHECK(wide_sums > 2 * static_cast<int>(plans_in_bf16));
}
