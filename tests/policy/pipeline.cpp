// Stages of about equal work, and the schedules over them.
#include <doctest/doctest.h>

#include "../support/simulated_order.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 48> {};
struct features : pt::axis<"features", 16> {};
struct wide : pt::axis<"wide", 64> {};

// `equal` linears of one size in a row, then one four times as long as it is wide.
struct chain {
  int equal = 8;
  bool long_end = false;
  constexpr auto operator()(auto& g) const {
    auto h = pt::input<pt::f32, batch, features>(g, "x");
    for (int l = 0; l < equal; ++l) {
      auto s = pt::scope(g, "layer", l);
      auto w = pt::param<pt::f32, features, features>(g, "fc.weight");
      h = pt::linear(h, w);
    }
    auto w = pt::param<pt::f32, features, wide>(g, "end.weight");
    return long_end ? pt::sum(pt::linear(h, w)) : pt::sum(h);
  }
};
using training = pt::training<chain>;
std::vector<int> stages_of(chain const& model, int stages) {
  pt::recorder<pt::planning_only, training> g;
  pt::trace(g, training{model, {}, {}, {}});
  const pt::growing<int> stage = pt::policy::detail::balanced_stages(g, stages);
  REQUIRE(stage.size == g.ops.size);
  std::vector<int> counts(static_cast<std::size_t>(stages), 0);
  for (int op = 0; op < g.ops.size; ++op) {
    REQUIRE(stage[op] >= 0);
    REQUIRE(stage[op] < stages);
    if (g.ops[op].when == pt::pass::forward && g.ops[op].info->kind == "linear") ++counts[static_cast<std::size_t>(stage[op])];
    // Never backwards; a parameter stands where it is read first.
    for (int i = 0; i < g.ops[op].input_count; ++i)
      if (g.ops[op].when == pt::pass::forward) CHECK(stage[g.tensors[g.input(g.ops[op], i)].op] <= stage[op]);
  }
  return counts;
}
}  // namespace

TEST_CASE("equal ops are dealt out evenly, also when they do not go up") {
  CHECK(stages_of({8}, 2) == std::vector<int>{4, 4});
  CHECK(stages_of({8}, 4) == std::vector<int>{2, 2, 2, 2});
  CHECK(stages_of({8}, 8) == std::vector<int>{1, 1, 1, 1, 1, 1, 1, 1});
  for (int layers : {5, 7, 30, 31})
    for (int stages : {2, 3, 4}) {
      const std::vector<int> n = stages_of({layers}, stages);
      for (int k : n) CHECK((k == layers / stages || k == layers / stages + 1));
    }
  CHECK(stages_of({30}, 4).size() == 4);
}

TEST_CASE("work is counted in FLOPs") {
  // Eight linears of 16 x 16 and one of 16 x 64: twelve units of work.
  CHECK(stages_of({8, true}, 3) == std::vector<int>{4, 4, 1});
  CHECK(stages_of({8, true}, 2) == std::vector<int>{6, 3});
}

TEST_CASE("more stages than ops: some are empty, and the plan is legal") {
  int filled = 0;
  for (int n : stages_of({2}, 6)) filled += n > 0;
  CHECK(filled == 2);
  planned<training> p(pt::policy::pipeline_of{6, 2}, training{{2}, {}, {}, {}});
  CHECK(describe(p.wrong_with) == "");
}

TEST_CASE("stages of a model with unequal places end between blocks, and not behind the vocabulary") {
  pt::recorder<pt::planning_only, pt::training<planned_gpt>> g;
  pt::trace(g, pt::training<planned_gpt>{{8}, {}, {}, {}});
  for (int stages : {2, 4, 8}) {
    const pt::growing<int> stage = pt::policy::detail::balanced_stages(g, stages);
    for (int t = 0; t < g.tensors.size; ++t) {
      pt::op_entry const& made = g.ops[g.tensors[t].op];
      if (made.when != pt::pass::forward || made.info->source != pt::source_kind::none) continue;
      for (int op = 0; op < g.forward_count; ++op)
        for (int i = 0; i < g.ops[op].input_count; ++i)
          if (g.input(g.ops[op], i) == t && stage[op] != stage[g.tensors[t].op])
            for (int a = 0; a < g.operand_of(t).rank; ++a) {
              CHECK(g.operand_of(t).axes[a]->name != "inner");
              CHECK(g.operand_of(t).axes[a]->name != "vocabulary");
            }
    }
  }
}

namespace {
// One linear a stage. Its forward op takes a slot; so does its backward op, as if both gradients were one: what the
// published counts assume. (Where the input's gradient is sent before the weight's is made, the bubble is smaller.)
planned<training> staged(int stages, int micro, bool turns) {
  return planned<training>(
      pt::policy::pipeline_of{stages, micro, turns ? &pt::schedule::one_f_one_b::order : &pt::schedule::gpipe::order},
      training{{stages}, {}, {}, {}});
}
std::int64_t slots(planned<training> const& p, pt::node const& n) {
  if (n.kind != pt::node_kind::compute) return 1;
  const std::string_view kind = p.g.ops[n.op].info->kind;
  if (kind == "linear") return 100000;
  if (kind == "linear.weight" && p.g.name(n.op).view() == "layer.0.fc") return 100000;  // it has no other gradient
  return 1;
}
}  // namespace

// Huang et al. 2019, Narayanan et al. 2019: with equal stages both take m + p - 1 slots of a forward and a backward.
TEST_CASE("GPipe and 1F1B take m + p - 1 forward and backward slots") {
  for (bool turns : {false, true})
    for (auto [stages, micro] : {std::pair{2, 4}, {4, 4}, {4, 8}, {3, 6}, {4, 12}, {4, 2}}) {
      planned<training> p = staged(stages, micro, turns);
      REQUIRE_FALSE(p.wrong_with);
      const simulated s = run_in_order(p, [&](pt::node const& n) { return slots(p, n); });
      const std::int64_t ideal = 200000ll * (micro + stages - 1);
      const std::string shape = shape_of(stages, micro);
      INFO(std::string(turns ? "1F1B " : "GPipe "), shape);
      CHECK(s.makespan >= ideal);
      CHECK(s.makespan < ideal + 10000);
    }
}

TEST_CASE("1F1B holds at most p - s micro-batches on stage s, GPipe all of them") {
  for (auto [stages, micro] : {std::pair{2, 4}, {4, 8}, {3, 7}})
    for (bool turns : {false, true}) {
      planned<training> p = staged(stages, micro, turns);
      REQUIRE_FALSE(p.wrong_with);
      const simulated s = run_in_order(p, [&](pt::node const& n) { return slots(p, n); });
      // +1 when a stage's forward of a micro-batch begins, -1 when its last backward op ends
      for (int stage = 0; stage < stages; ++stage) {
        std::map<int, std::int64_t> begun, done;
        for (ran const& r : s.all) {
          pt::node const& n = p.c.nodes[r.node];
          const std::string_view kind = p.g.ops[n.op].info->kind;
          if (n.kind != pt::node_kind::compute || r.device != stage) continue;
          if (kind == "linear" && r.when == pt::pass::forward) begun[r.index] = r.begin;
          if (kind == "linear.weight") done[r.index] = std::max(done[r.index], r.end);
        }
        REQUIRE(static_cast<int>(begun.size()) == micro);
        REQUIRE(static_cast<int>(done.size()) == micro);
        int most = 0;
        for (auto const& [m, at] : begun) {
          int held = 0;
          for (auto const& [k, from] : begun) held += from <= at && at < done[k];
          most = std::max(most, held);
        }
        const std::string shape = shape_of(stages, micro);
        INFO(std::string(turns ? "1F1B" : "GPipe"), " stage ", stage, " of ", shape);
        if (turns) CHECK(most <= stages - stage);
        else CHECK(most == micro);
      }
    }
}

TEST_CASE("a stage without a backward pass takes no turns for it") {
  training t{{4}, {}, {}, {}};
  t.frozen = {"layer.0.* layer.1.*"};
  for (bool turns : {false, true}) {
    planned<training> p(pt::policy::pipeline_of{4, 4, turns ? &pt::schedule::one_f_one_b::order : &pt::schedule::gpipe::order},
                        t);
    CHECK(describe(p.wrong_with) == "");
    const simulated s = run_in_order(p, [](pt::node const&) { return 1; });
    for (ran const& r : s.all) CHECK((r.when != pt::pass::backward || r.device >= 2));
  }
}

TEST_CASE("on one stage, or with one micro-batch, a schedule wishes for nothing") {
  CHECK(staged(1, 4, true).plan.wishes().size == 0);
  CHECK(staged(4, 1, true).plan.wishes().size == 0);
  CHECK_FALSE(staged(1, 4, true).wrong_with);
  CHECK_FALSE(staged(4, 1, false).wrong_with);
}
