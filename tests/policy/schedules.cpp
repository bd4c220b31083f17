// Schedules against what was published of them: slots and bubbles, what is held, steps of warm-up and cool-down. Counted on
// the order that programs are made from, run with given times.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <set>

#include <partita/search/problem.hpp>

#include "../support/simulated_order.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 96> {};
struct features : pt::axis<"features", 16> {};

// `layers` linears of one size; the first one's input has a gradient too.
struct chain {
  int layers = 4;
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, features>(g, "x");
    auto first = pt::param<pt::f32, features>(g, "first.bias");
    auto h = pt::bias(x, first);
    for (int l = 0; l < layers; ++l) {
      auto s = pt::scope(g, "layer", l);
      auto w = pt::param<pt::f32, features, features>(g, "fc.weight");
      h = pt::linear(h, w);
    }
    return pt::sum(h);
  }
};
using training = pt::training<chain>;
using plan = planned<training>;

struct durations {  // of one layer
  std::int64_t forward = 1, input = 1, weight = 1;
};
constexpr std::int64_t unit = 100000;  // all other ops and all moves take a hundred thousandth
enum turn_kind { forward, input, weight };

struct turn {
  turn_kind kind;
  int layer, micro;
  std::int64_t begin, end;
};
// The turns of every stage, one layer a turn.
struct played {
  std::vector<std::vector<turn>> stages;
  std::int64_t makespan = 0;

  played(plan const& p, durations d) {
    REQUIRE(describe(p.wrong_with) == "");
    stages.resize(static_cast<std::size_t>(p.c.devices));
    auto kind_of = [&](pt::node const& n) {
      const std::string_view kind = p.g.ops[n.op].info->kind;
      if (n.kind != pt::node_kind::compute) return -1;
      if (kind == "linear") return static_cast<int>(p.g.ops[n.op].when == pt::pass::forward ? forward : input);
      return kind == "linear.weight" ? static_cast<int>(weight) : -1;
    };
    const std::array<std::int64_t, 3> times{d.forward * unit, d.input * unit, d.weight * unit};
    const simulated s = run_in_order(p, [&](pt::node const& n) {
      const int k = kind_of(n);
      return k < 0 ? std::int64_t{1} : times[static_cast<std::size_t>(k)];
    });
    makespan = s.makespan;
    for (ran const& r : s.all)
      if (const int k = kind_of(p.c.nodes[r.node]); k >= 0)
        stages[static_cast<std::size_t>(r.device)].push_back(
            {static_cast<turn_kind>(k), std::stoi(std::string(p.g.name(p.c.nodes[r.node].op).view().substr(6))), r.index, r.begin,
             r.end});
    for (auto& turns : stages)
      std::sort(turns.begin(), turns.end(), [](turn const& a, turn const& b) { return a.begin < b.begin; });
  }
  // The longest that a stage waits between its first and its last turn.
  std::int64_t bubble() const {
    std::int64_t most = 0;
    for (auto const& turns : stages) {
      std::int64_t idle = turns.back().end - turns.front().begin;
      for (turn const& t : turns) idle -= t.end - t.begin;
      most = std::max(most, idle);
    }
    return most;
  }
  // The most (layer, micro-batch) pairs that a stage holds at a time, from their forward to their last backward turn.
  int held(int stage) const {
    int now = 0, most = 0;
    std::map<std::pair<int, int>, int> left;
    for (turn const& t : stages[static_cast<std::size_t>(stage)]) ++left[{t.layer, t.micro}];
    for (turn const& t : stages[static_cast<std::size_t>(stage)]) {
      if (t.kind == forward) most = std::max(most, ++now);
      if (--left[{t.layer, t.micro}] == 0) --now;
    }
    CHECK(now == 0);
    return most;
  }
  // As forwards and gradients of inputs begin: pairs whose gradient of the input is not made yet, and others whose gradient of
  // the weight is not; the most of each.
  pt::spaces::in_flight_counts in_flight(int stage) const {
    pt::spaces::in_flight_counts now{0, 0}, most{0, 0};
    for (turn const& t : stages[static_cast<std::size_t>(stage)]) {
      if (t.kind == weight) {
        --now.waiting;
        continue;
      }
      now.whole += t.kind == forward;
      most = {std::max(most.whole, now.whole), std::max(most.waiting, now.waiting)};
      if (t.kind != input) continue;
      --now.whole;
      ++now.waiting;
    }
    return most;
  }
  std::string words(int stage) const {
    std::string s;
    for (turn const& t : stages[static_cast<std::size_t>(stage)])
      s += std::string(1, "FBW"[t.kind]) + std::to_string(t.micro) + " ";
    return s;
  }
};
plan staged(int stages, int micro, pt::schedule::recipe how) {
  return plan(pt::policy::pipeline_of{stages, micro, how}, training{{stages * how.chunks}, {}, {}, {}});
}
bool about(std::int64_t have, std::int64_t units) { return std::abs(have - units * unit) < unit / 100; }
}  // namespace

// Narayanan et al. 2021: (warm-up, steady, cool-down) steps of 4 ranks with 8 stages and 4 micro-batches.
TEST_CASE("interleaved 1F1B has the published numbers of steps") {
  const played run(staged(4, 4, pt::schedule::interleaved<2>{}), {1, 1, 0});
  const std::array<std::array<int, 3>, 4> published{{{8, 0, 8}, {8, 0, 8}, {6, 4, 6}, {4, 8, 4}}};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    int before = 0, after = 0;  // forwards before the first backward, and behind it
    bool backward = false;
    for (turn const& t : run.stages[rank]) {
      backward = backward || t.kind == input;
      if (t.kind == forward) ++(backward ? after : before);
    }
    REQUIRE(before + after == 8);
    const int steady = after > 0 ? 2 * (after + 1) : 0, warm = 8 - steady / 2;
    CHECK(std::array{warm, steady, warm} == published[rank]);
  }
}

// Narayanan et al. 2021: v chunks a stage make the bubble a v-th. In times of a layer, of which a stage has v.
TEST_CASE("interleaving divides the bubble by the number of chunks") {
  for (auto [stages, micro] : {std::pair{4, 8}, {2, 4}, {3, 9}, {4, 4}, {4, 9}, {3, 7}})
    for (int chunks : {1, 2, 3, 4}) {
      const std::string shape = shape_of(stages, micro);
      INFO(shape, ", ", chunks, " chunks");
      const played run(staged(stages, micro, pt::schedule::interleaved_of{chunks}), {1, 1, 0});
      CHECK(about(run.makespan, 2 * (micro * chunks + stages - 1)));  // of 1F1B: 2 v (m + p - 1)
    }
}

TEST_CASE("interleaved, every number of micro-batches, stages and chunks: no cycle, every turn once") {
  for (int stages : {1, 2, 3, 5})
    for (int micro : {1, 2, 3, 5, 7, 8})
      for (int chunks : {1, 2, 3}) {
        const std::string shape = shape_of(stages, micro);
        INFO(shape, ", ", chunks, " chunks");
        const played run(staged(stages, micro, pt::schedule::interleaved_of{chunks}), {1, 1, 1});
        std::set<std::array<int, 3>> seen;
        for (int s = 0; s < stages; ++s)
          for (turn const& t : run.stages[static_cast<std::size_t>(s)]) {
            CHECK(t.layer % stages == s);
            CHECK(seen.insert({t.kind, t.layer, t.micro}).second);
          }
        CHECK(static_cast<int>(seen.size()) == 3 * stages * micro * chunks);
      }
}

// Qi et al. 2023, table 1: bubbles, and what the fullest stage holds, in micro-batches.
TEST_CASE("zero bubble: H1 and H2 wait and hold as published") {
  for (auto [stages, micro] : {std::pair{4, 8}, {3, 5}, {4, 12}, {2, 3}, {4, 7}})
    for (durations d : {durations{1, 1, 1}, {2, 2, 1}, {3, 2, 2}, {1, 2, 1}, {10, 11, 9}}) {
      const std::string shape = shape_of(stages, micro);
      INFO(shape, ", times ", d.forward, " ", d.input, " ", d.weight);
      const played h1(staged(stages, micro, pt::schedule::zero_bubble<pt::schedule::h1>{}), d),
          h2(staged(stages, micro, pt::schedule::zero_bubble<pt::schedule::h2>{}), d);
      CHECK(about(h1.bubble(), (stages - 1) * (d.forward + d.input - d.weight)));
      CHECK(about(h2.bubble(), (stages - 1) * (d.forward + d.input - 2 * d.weight)));
      for (int s = 0; s < stages; ++s) {
        CHECK(h1.held(s) == stages);
        CHECK(h2.held(s) == 2 * stages - 1);
        // As a search counts it.
        using rule = pt::spaces::pipeline_schedule;
        CHECK(h1.in_flight(s) == rule{rule::weights_behind}.in_flight(s, stages, micro));
        CHECK(h2.in_flight(s) == rule{rule::weights_twice_behind}.in_flight(s, stages, micro));
      }
      if (d.forward == 1 && d.input == 1) {
        // 1F1B with the halves together: (p - 1)(TF + TB + TW).
        const played plain(staged(stages, micro, pt::schedule::one_f_one_b{}), {1, 2, 0});
        CHECK(about(plain.bubble(), (stages - 1) * 3));
      }
    }
}

// Qi et al. 2023, the V-shaped schedule: chunks of half a stage, nobody waits if all times are one, p M is held.
TEST_CASE("zero bubble in the shape of a V has no bubble and holds what 1F1B does") {
  for (auto [stages, micro] : {std::pair{4, 8}, {3, 5}, {4, 7}, {2, 3}, {4, 12}}) {
    const std::string shape = shape_of(stages, micro);
    INFO(shape);
    const played v(staged(stages, micro, pt::schedule::zero_bubble<pt::schedule::v_shaped>{}), {1, 1, 1});
    CHECK(v.bubble() < unit / 100);
    for (int s = 0; s < stages; ++s) {
      CHECK(v.held(s) == 2 * stages);
      for (turn const& t : v.stages[static_cast<std::size_t>(s)]) CHECK((t.layer == s || t.layer == 2 * stages - 1 - s));
    }
  }
}

TEST_CASE("zero bubble with fewer micro-batches than stages, with one, on one stage") {
  for (int stages : {1, 2, 3, 4})
    for (int micro : {1, 2, 3})
      for (pt::schedule::recipe how : {pt::schedule::recipe(pt::schedule::zero_bubble<pt::schedule::h1>{}),
                                       pt::schedule::recipe(pt::schedule::zero_bubble<pt::schedule::h2>{}),
                                       pt::schedule::recipe(pt::schedule::zero_bubble<pt::schedule::v_shaped>{})}) {
        const std::string shape = shape_of(stages, micro);
        INFO(shape);
        const played run(staged(stages, micro, how), {1, 1, 1});
        int turns = 0;
        for (auto const& s : run.stages) turns += static_cast<int>(s.size());
        CHECK(turns == 3 * stages * micro * how.chunks);
      }
  // What is sent on goes before what nobody waits for: the backward pass of one micro-batch takes p + 1 turns, not 2 p.
  const played one(staged(4, 1, pt::schedule::zero_bubble<>{}), {1, 1, 1});
  CHECK(about(one.makespan, 4 + 4 + 1));
}

TEST_CASE("gradients of weights are told from those that are sent on") {
  pt::recorder<pt::planning_only, pt::training<planned_gpt>> g;
  pt::trace(g, pt::training<planned_gpt>{{1}, {}, {}, {}});
  const pt::selection found = pt::policy::detail::weight_gradients(g);
  std::set<std::string> names;
  for (auto op : found) {
    CHECK(op.when() == pt::pass::backward);
    names.insert(std::string(op.name().view()) + " " + std::string(op.kind()));
  }
  for (const char* wanted : {"block.0.fc1 linear.weight", "block.0.q linear.weight", "wte linear.weight", "wte embedding.grad"})
    CHECK_MESSAGE(names.count(wanted) == 1, wanted);
  // Nothing but the update waits for one of them.
  for (auto op : found)
    for (int other = 0; other < g.ops.size; ++other)
      for (int i = 0; i < g.ops[other].input_count; ++i)
        if (g.tensors[g.input(g.ops[other], i)].op == op.id && g.ops[other].when == pt::pass::backward) {
          bool inside = false;
          for (int id : found.ids) inside = inside || id == other;
          CHECK(inside);
        }
}

namespace {
// The same through `passes` passes over one set of weights, of which the last one is differentiated.
struct repeated {
  int layers = 4, passes = 3;
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, features>(g, "x");
    auto first = pt::param<pt::f32, features>(g, "first.bias");
    std::array weights{weight(g, 0), weight(g, 1), weight(g, 2), weight(g, 3), weight(g, 4), weight(g, 5)};
    auto h = pt::bias(x, first);
    const auto begun = h;
    for (int p = 0; p < passes; ++p) {
      auto s = pt::scope(g, "pass", p);
      if (p > 0) h = begun + pt::detach(h);
      for (int l = 0; l < layers; ++l) h = pt::linear(h, weights[static_cast<std::size_t>(l)]);
    }
    return pt::sum(h);
  }
  static constexpr auto weight(auto& g, int l) {
    auto s = pt::scope(g, "layer", l);
    return pt::param<pt::f32, features, features>(g, "fc.weight");
  }
};
struct pass_turn {
  bool backward;
  int pass, micro;
  std::int64_t begin, end;
};
}  // namespace

// Lin et al. 2024. The bubble is that of 1F1B, however many forwards there are.
TEST_CASE("three forwards, one backward: every stage has its turns, waits as 1F1B does and holds no more") {
  for (int passes : {1, 2, 3, 4})
    for (auto [stages, micro] : {std::pair{4, 8}, {4, 4}, {3, 7}, {2, 5}, {6, 9}}) {
      const std::string shape = shape_of(stages, micro);
      INFO(passes, " passes, ", shape);
      planned<pt::training<repeated>> p(pt::policy::pipeline_of{stages, micro, pt::schedule::three_f_one_b{}},
                                        pt::training<repeated>{{stages, passes}, {}, {}, {}});
      REQUIRE(describe(p.wrong_with) == "");
      // An op's name is its weight's, so that its pass is told by the graph.
      const pt::growing<int> pass_of = pt::policy::detail::passes(p.g);
      const simulated s = run_in_order(p, [&](pt::node const& n) {
        const std::string_view kind = p.g.ops[n.op].info->kind;
        if (n.kind != pt::node_kind::compute || kind != "linear") return std::int64_t{1};
        return p.g.ops[n.op].when == pt::pass::forward ? unit : 2 * unit;
      });
      CHECK(about(s.makespan, micro * (passes + 2) + 3 * (stages - 1)));
      for (int stage = 0; stage < stages; ++stage) {
        std::vector<pass_turn> turns;
        for (ran const& r : s.all) {
          pt::node const& n = p.c.nodes[r.node];
          if (n.kind != pt::node_kind::compute || p.g.ops[n.op].info->kind != "linear" || r.device != stage) continue;
          const int weight = p.g.tensors[p.g.input(p.g.ops[p.g.ops[n.op].origin], 1)].op;
          CHECK(p.g.name(weight).view() == "layer." + std::to_string(stage) + ".fc.weight");  // every pass on the same stages
          turns.push_back({r.when == pt::pass::backward, pass_of[n.op], r.index, r.begin, r.end});
        }
        CHECK(static_cast<int>(turns.size()) == micro * (passes + 1));
        std::sort(turns.begin(), turns.end(), [](auto const& a, auto const& b) { return a.begin < b.begin; });
        int held = 0, most = 0, forwards = 0, steady = 0;
        for (pass_turn const& t : turns) {
          held += t.backward ? -1 : t.pass == passes - 1;
          most = std::max(most, held);
          if (t.backward) steady += forwards == passes, forwards = 0;
          else ++forwards;
        }
        CHECK(most == std::min(stages - stage, micro));
        CHECK(steady >= micro - (passes - 1) * stages - (stages - stage));  // between the first and the last micro-batches
      }
    }
}

TEST_CASE("passes are told by where the gradient is stopped") {
  pt::recorder<pt::planning_only, pt::training<repeated>> g;
  pt::trace(g, pt::training<repeated>{{2, 3}, {}, {}, {}});
  const pt::growing<int> pass_of = pt::policy::detail::passes(g);
  std::array<int, 3> linears{};
  for (int op = 0; op < g.forward_count; ++op)
    if (g.ops[op].info->kind == "linear") ++linears[static_cast<std::size_t>(pass_of[op])];
  CHECK(linears == std::array{2, 2, 2});
  pt::recorder<pt::planning_only, training> plain;
  pt::trace(plain, training{});
  for (int p : pt::policy::detail::passes(plain)) CHECK(p == 0);
}

namespace {
constexpr repeated three_passes{2, 3};
template <class Schedule, int MicroBatches = 4> using two_stages = pt::policy::pipeline<2, Schedule, MicroBatches>;
constexpr chain four{4};
}  // namespace
static_assert(pt::verify<four, two_stages<pt::schedule::interleaved<2>>>());
static_assert(pt::verify<three_passes, two_stages<pt::schedule::three_f_one_b>>());
static_assert(pt::verify<three_passes, two_stages<pt::schedule::one_f_one_b>>());
static_assert(pt::verify<four, two_stages<pt::schedule::interleaved<2>, 3>>());
static_assert(pt::verify<four, two_stages<pt::schedule::zero_bubble<>>>());
static_assert(pt::verify<four, two_stages<pt::schedule::zero_bubble<pt::schedule::h2>, 3>>());
static_assert(pt::verify<four, two_stages<pt::schedule::zero_bubble<pt::schedule::v_shaped>>>());
