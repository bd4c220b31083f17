// ZeRO: what moves, and what that saves.
#include <doctest/doctest.h>

#include <vector>

#include <partita/planning.hpp>
#include <partita/program/lower.hpp>

namespace {
namespace pt = partita;
struct batch : pt::axis<"batch", 2048> {};
struct width : pt::axis<"width", 512> {};
struct inner : pt::axis<"inner", 512> {};

struct tower {
  static constexpr int layers = 12, weights = 2 * layers;
  static constexpr std::size_t weight_bytes = 4 * width::extent * inner::extent;
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, width>(g, "x");
    for (int l = 0; l < layers; ++l) {
      auto block = pt::scope(g, "block", l);
      x = x + pt::linear(pt::relu(pt::linear(x, pt::param<pt::f32, width, inner>(g, "up.weight"))),
                         pt::param<pt::f32, inner, width>(g, "down.weight"));
    }
    return pt::mean(x);
  }
};
using model = pt::training<tower, pt::adamw>;

struct result {
  std::size_t state = 0, arena = 0;
  int all_reduces = 0, gathers = 0, scatters = 0;  // of weights and their gradients
};
template <class Policy> result of() {
  const auto p = pt::plan<model>::by(Policy{});
  pt::completed c;
  REQUIRE(!pt::verify_plan(p.traced(), p, c));
  const pt::lowering s(p.traced(), p, c);
  const pt::program made = pt::lower(s, 0);
  result r{made.state_bytes, made.arena_bytes};
  for (int id = 0; id < c.nodes.size; ++id) {
    if (c.nodes[id].kind != pt::node_kind::move) continue;
    if (p.traced().operand_of(c.values[c.nodes[id].first_value].tensor).rank != 2) continue;
    for (pt::transition_step const& t : s.route_of(id).steps) {
      r.all_reduces += t.kind == pt::transition_kind::all_reduce;
      r.gathers += t.kind == pt::transition_kind::all_gather;
      r.scatters += t.kind == pt::transition_kind::reduce_scatter;
    }
  }
  return r;
}
using pt::policy::compose;
using replicas = pt::policy::data_parallel<4>;
}  // namespace

// The counts are those of Alpa's tests of its automatic sharding (oracles: ZeRO-3 is one reduce-scatter and two all-gathers
// where data parallelism has one all-reduce), per weight.
TEST_CASE("collectives of data parallelism and of ZeRO") {
  const result data = of<replicas>(), two = of<compose<replicas, pt::policy::zero<2, 4>>>(),
               three = of<compose<replicas, pt::policy::zero<3, 4>>>();
  CHECK(data.all_reduces == tower::weights);
  CHECK(data.gathers + data.scatters == 0);
  CHECK(two.all_reduces == 0);
  CHECK(two.scatters == tower::weights);
  CHECK(two.gathers == tower::weights);
  CHECK(three.all_reduces == 0);
  CHECK(three.scatters == tower::weights);
  CHECK(three.gathers == 2 * tower::weights - 1);  // no input wants a gradient: the first weight has no backward reader
}

TEST_CASE("under micro-batches ZeRO 3 gathers a weight for every one, and holds a few at a time") {
  constexpr int micro = 4;
  using staged = compose<replicas, pt::policy::pipeline<2, pt::schedule::one_f_one_b, micro>>;
  using again = compose<staged, pt::policy::recompute<"block.*">>;
  auto lowered = [](auto policy) {
    const auto p = pt::plan<model>::by(policy);
    pt::completed c;
    REQUIRE(!pt::verify_plan(p.traced(), p, c));
    const pt::lowering s(p.traced(), p, c);
    return std::vector<pt::program>{pt::lower(s, 0), pt::lower(s, 1)};  // one of each stage
  };
  auto gathers = [](std::vector<pt::program> const& all) {
    int n = 0;
    for (pt::program const& p : all)
      for (pt::instruction const& i : p.instructions) n += i.kind == pt::instruction_kind::all_gather;
    return n;
  };
  const auto two = lowered(compose<staged, pt::policy::zero<2, 4>>{}), three = lowered(compose<staged, pt::policy::zero<3, 4>>{}),
             two_again = lowered(compose<again, pt::policy::zero<2, 4>>{}),
             three_again = lowered(compose<again, pt::policy::zero<3, 4>>{});
  CHECK(gathers(three) == micro * (2 * tower::weights - 1));  // all but the first weight for the backward pass, too
  for (int stage : {0, 1}) {
    const auto at = static_cast<std::size_t>(stage);
    CHECK(three[at].arena_bytes <= two[at].arena_bytes + 4 * tower::weight_bytes);  // of 12 on a stage
    CHECK(three_again[at].arena_bytes <= two_again[at].arena_bytes + 5 * tower::weight_bytes);
  }
}

TEST_CASE("under ZeRO 3 copies of a few weights lie about, not of all") {
  const result two = of<compose<replicas, pt::policy::zero<2, 4>>>(), three = of<compose<replicas, pt::policy::zero<3, 4>>>();
  constexpr std::size_t scalar = 64;  // the seed of the gradients, aligned
  CHECK(two.state == tower::weights * tower::weight_bytes * (4 + 2) / 4 + scalar);
  CHECK(three.state == tower::weights * tower::weight_bytes * 3 / 4 + scalar);
  CHECK(three.arena <= two.arena + 4 * tower::weight_bytes);  // of 24
}

TEST_CASE("under micro-batches ZeRO 2 and 3 scatter every gradient as it is made, and keep the piece") {
  constexpr int micro = 4;
  struct planned_memory {
    std::size_t arena = 0;
    int scatters = 0;
  };
  auto of = [](auto policy) {
    const auto p = pt::plan<model>::by(policy);
    pt::completed c;
    REQUIRE(describe(pt::verify_plan(p.traced(), p, c)) == "");
    const pt::program made = pt::lower(pt::lowering(p.traced(), p, c), 0);
    planned_memory m{made.arena_bytes};
    for (pt::instruction const& i : made.instructions)
      m.scatters += i.kind == pt::instruction_kind::reduce_scatter ? i.call_count : 0;
    return m;
  };
  for (int stage : {2, 3}) {
    auto with = [&](bool whole) {
      return of([=](pt::plan_base& p) {
        pt::policy::data_parallel_of{4}(p);
        pt::policy::micro_batches_of{micro}(p);
        pt::policy::zero_of{.stage = stage, .pieces = 4, .whole_sums = whole}(p);
      });
    };
    const planned_memory whole = with(true), pieces = with(false);
    CHECK(whole.scatters == tower::weights);
    CHECK(pieces.scatters == micro * tower::weights);
    CHECK(whole.arena >= tower::weights * tower::weight_bytes);  // at the end of the last micro-batch
    CHECK(pieces.arena <= whole.arena - tower::weights * tower::weight_bytes * 3 / 4 + 4 * tower::weight_bytes);
  }
}

TEST_CASE("of a weight that is cut in time ZeRO cuts the other axis, so that its gradient's sum is kept in pieces") {
  const auto p = pt::plan<model>::by([](pt::plan_base& plan) {
    pt::policy::data_parallel_of{4}(plan);
    pt::policy::micro_batches_of{2}(plan);
    pt::policy::coshard_of{&pt::axis_of<inner>::info, 2, "block.*"}(plan);
    pt::policy::zero_of{2, 4}(plan);
  });
  pt::completed c;
  REQUIRE(describe(pt::verify_plan(p.traced(), p, c)) == "");
  int in_pieces = 0, in_turns = 0;
  for (pt::node const& n : c.nodes) {
    if (!pt::detail::sums_over_time(c, n) || p.traced().operand_of(c.values[n.first_value].tensor).rank != 2) continue;
    if (p.traced().ops[n.op].when != pt::pass::backward || p.traced().ops[n.op].info->kind != "linear.weight") continue;
    pt::layout const& terms = c.values[c.input(n, 0)].lay;
    for (int k = 0; k < terms.count; ++k) {
      in_pieces += !terms.parts[k].partial() && !terms.parts[k].in_time();
      in_turns += !terms.parts[k].partial() && terms.parts[k].in_time();
    }
  }
  CHECK(in_pieces == tower::weights);
  CHECK(in_turns == tower::weights);
}

TEST_CASE("a weight is gathered ahead of its time where an order says so") {
  // How many ops of the forward pass come before the gather of block 2's first weight.
  auto ops_before = [](bool ahead) {
    const auto p = pt::plan<model>::by([=](pt::plan_base& plan) {
      compose<replicas, pt::policy::zero<3, 4>>{}(plan);
      if (!ahead) return;
      for (pt::node_key use : plan.uses("block.2.up.weight"))
        plan.op_order(pt::moment(use).of(pt::pass::forward), *plan.ops("block.0.down").begin());
    });
    pt::completed c;
    REQUIRE(describe(pt::verify_plan(p.traced(), p, c)) == "");
    const pt::lowering s(p.traced(), p, c);
    int ops = 0;
    for (pt::instance const& i : s.order()) {
      pt::node const& n = c.nodes[i.node];
      if (n.kind == pt::node_kind::move && p.traced().name(n.op).view() == "block.2.up.weight") return ops;
      ops += n.kind == pt::node_kind::compute && p.traced().ops[n.op].info->kind == "linear";
    }
    return -1;
  };
  CHECK(ops_before(true) <= 1);
  CHECK(ops_before(false) >= 2);
}
