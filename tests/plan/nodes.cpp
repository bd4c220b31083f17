// What a policy says of nodes between ops (moves, uses of parameters, sums over time), and lists of devices.
#include <doctest/doctest.h>

#include <partita/program/lower.hpp>

#include "../support/planned.hpp"

namespace pt = partita;
using namespace pt::testing;
using namespace pt::testing::planned_axes;
using pt::pass;
namespace policy = pt::policy;

namespace {
using plan_of_mlp = planned<planned_mlp>;
// What the moves of one op's outputs do, and how often, by op name and kind.
template <class Planned> std::string moves_of(Planned const& p, std::string_view name, std::string_view kind, pass when) {
  std::string s;
  for (moved const& m : p.moves())
    if (m.op == name && m.kind == kind && m.when == when)
      s += (s.empty() ? "" : "; ") + m.what + (m.times > 1 ? " x " + std::to_string(m.times) : "");
  return s;
}
template <class F> std::string wrong_with(F policy) {
  return describe(plan_of_mlp([&](pt::plan_base& plan) {
                    plan.op_trans(plan.ops(), pt::split<sample>{2, "data"});
                    plan.op_trans(plan.ops(), pt::split<sample>{2, "micro"});
                    policy(plan);
                    plan.op_assign(plan.ops(), pt::grid{{"data", 2}});
                  }).wrong_with);
}
auto replicas = [](auto& plan) {
  policy::data_parallel_of{2}(plan);
  policy::micro_batches_of{4}(plan);
};
struct tied {
  constexpr auto operator()(auto& g) const {
    auto w = pt::param<pt::bf16, vocabulary, hidden>(g, "table.weight");
    auto x = pt::embedding(pt::input<pt::i32, sample>(g, "tokens"), w);
    return pt::cross_entropy(pt::linear(x, w), pt::input<pt::i32, sample>(g, "targets"));
  }
};
// Two stages of two devices, the second from the second weight on.
auto stages = [](auto& plan) {
  int stage = 0;
  for (auto op : plan.ops()) {
    if (op.name().view() == "fc2.weight") stage = 1;
    plan.op_assign(op, pt::at{"stage", stage, 2});
  }
  plan.op_assign(plan.ops(), pt::grid{{"tensor", 2}});
};
}  // namespace

TEST_CASE("a sum over time is kept as the policy says: its terms are scattered as they are made") {
  const plan_of_mlp whole(replicas);
  CHECK(moves_of(whole, "fc1", "linear.weight", pass::backward) == "all_reduce(data)");
  const plan_of_mlp p([](auto& plan) {
    replicas(plan);
    // [sums]
    plan.op_trans(plan.accumulates("fc1.weight"), pt::split<ffn>{2, "data"});
    // [/sums]
  });
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(moves_of(p, "fc1", "linear.weight", pass::backward) == "reduce_scatter(data) x 4; all_gather(data)");
  CHECK(moves_of(p, "fc2", "linear.weight", pass::backward) == "all_reduce(data)");
  // kept on other devices, whole
  const plan_of_mlp other([](auto& plan) {
    replicas(plan);
    plan.op_assign(plan.accumulates("fc1.weight"), pt::grid{});
    plan.op_assign(plan.accumulates("fc1.weight"), pt::at{"far", 2, 3});
  });
  REQUIRE(describe(other.wrong_with) == "");
  CHECK(other.c.devices == 3);
  CHECK(moves_of(other, "fc1", "linear.weight", pass::backward) == "boxes x 4; boxes");
}

// What is used in bf16 is stored, summed and updated in f32 (DESIGN D10).
TEST_CASE("terms of gradients are converted one by one, so that sums over micro-batches and over replicas are in f32") {
  using in_bf16 = planned<pt::in_precision<planned_mlp, pt::bf16>>;
  auto types_of_sums = [](in_bf16 const& p) {
    std::string types;
    for (pt::node const& n : p.c.nodes)
      if (pt::detail::sums_over_time(p.c, n) && p.g.ops[n.op].info->outputs[0].rank > 0)
        types += std::string(pt::name_of(p.g.ops[n.op].info->outputs[0].type)) + " ";
    return types;
  };
  const in_bf16 plain(replicas);
  REQUIRE(describe(plain.wrong_with) == "");
  CHECK(types_of_sums(plain) == "f32 f32 f32 ");
  CHECK(moves_of(plain, "fc1", "linear.weight", pass::backward) == "");
  CHECK(moves_of(plain, "fc1", "cast", pass::backward) == "all_reduce(data); all_reduce(data)");  // of the weight, of the bias
  // A conversion that is cut: replicas add each term, as it was made, and convert the part that they get.
  const in_bf16 two([](auto& plan) {
    replicas(plan);
    policy::zero_of{2, 2}(plan);
  });
  REQUIRE(describe(two.wrong_with) == "");
  CHECK(types_of_sums(two) == "f32 f32 f32 ");
  CHECK(moves_of(two, "fc1", "linear.weight", pass::backward) == "reduce_scatter(data) x 4");
  CHECK(moves_of(two, "fc1", "cast", pass::backward) == "");
  // Whole sums, or as one says: in f32 between replicas too.
  for (const policy::zero_of zero : {policy::zero_of{1, 2}, policy::zero_of{2, 2, {"data"}, true}}) {
    const in_bf16 p([&](auto& plan) {
      replicas(plan);
      zero(plan);
    });
    REQUIRE(describe(p.wrong_with) == "");
    CHECK(types_of_sums(p) == "f32 f32 f32 ");
    CHECK(moves_of(p, "fc1", "linear.weight", pass::backward) == "");
    CHECK(moves_of(p, "fc1", "cast", pass::backward) == "reduce_scatter(data); reduce_scatter(data)");
  }
  const in_bf16 first([](auto& plan) {
    replicas(plan);
    policy::zero_of{.stage = 3, .pieces = 2, .converted_first = true}(plan);
  });
  REQUIRE(describe(first.wrong_with) == "");
  CHECK(moves_of(first, "fc1", "cast", pass::backward) == "reduce_scatter(data) x 4; reduce_scatter(data) x 4");
  // Summed as they are made, where the policy says that the sum comes first.
  const in_bf16 narrow([](auto& plan) {
    replicas(plan);
    policy::narrow_sums{}(plan);
  });
  REQUIRE(describe(narrow.wrong_with) == "");
  CHECK(types_of_sums(narrow) == "bf16 bf16 bf16 ");
  CHECK(moves_of(narrow, "fc1", "linear.weight", pass::backward) == "all_reduce(data)");
  CHECK(moves_of(narrow, "fc1", "cast", pass::backward) == "");
  pt::program const made = pt::lower(pt::lowering(narrow.g, narrow.plan, narrow.c), 0);
  for (pt::instruction const& i : made.instructions)  // the kernel adds
    if (pt::node const& n = narrow.c.nodes[i.node]; n.kind == pt::node_kind::assemble)
      CHECK(n.op != narrow.find("fc1", "linear.weight", pass::backward));
  // A move that the policy speaks of brings terms to their conversion.
  const in_bf16 moved([](auto& plan) {
    replicas(plan);
    plan.op_trans(plan.moves(plan.ops("fc1", pass::backward), plan.ops("fc1", pass::backward)), pt::split<ffn>{2, "data"});
  });
  REQUIRE(describe(moved.wrong_with) == "");
  CHECK(types_of_sums(moved) == "f32 f32 f32 ");
  CHECK(moves_of(moved, "fc1", "linear.weight", pass::backward) == "reduce_scatter(data) x 4; all_gather(data) x 4");
}

TEST_CASE("what is added over several readers is converted first") {
  const planned<tied> p(replicas);
  REQUIRE(describe(p.wrong_with) == "");
  const int sum = p.g.tensors[p.gradient_of("table.weight")].op;
  CHECK(p.g.ops[sum].info->kind == "add");
  for (int i = 0; i < 2; ++i) CHECK(p.g.ops[p.g.tensors[p.g.input(p.g.ops[sum], i)].op].info->kind == "cast");
  CHECK(moves_of(p, "table", "add", pass::backward) + moves_of(p, "table.weight", "add", pass::backward) == "all_reduce(data)");
}

TEST_CASE("a move delivers what the policy says, and the reader goes on from there") {
  const plan_of_mlp p([](auto& plan) {
    stages(plan);
    // [halves]
    plan.op_trans(plan.moves(plan.ops("relu"), plan.ops("fc2")), pt::split<ffn>{2, "tensor"});
    // [/halves]
  });
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(moves_of(p, "relu", "relu", pass::forward) == "send; all_gather(tensor)");
  const plan_of_mlp plain(stages);
  CHECK(moves_of(plain, "relu", "relu", pass::forward) == "send");
}

TEST_CASE("a move may run again for backward readers, so that what arrived is not kept") {
  auto gathered = [](auto& plan) {
    plan.op_trans(plan.ops("relu"), pt::split<sample>{2, "a"});
    plan.op_assign(plan.ops(), pt::grid{{"a", 2}});
  };
  const plan_of_mlp once(gathered), twice([&](auto&plan) {
    gathered(plan);
    // [again]
    plan.op_trans(plan.moves(plan.ops("relu")), pt::replicate{2, "again"});
    // [/again]
  });
  REQUIRE(describe(twice.wrong_with) == "");
  CHECK(moves_of(once, "relu", "relu", pass::forward) == "all_gather(a)");
  CHECK(moves_of(twice, "relu", "relu", pass::forward) == "all_gather(a); all_gather(a)");
}

TEST_CASE("moves and sums are ordered like ops") {
  auto cut = [](auto& plan) {
    policy::data_parallel_of{2}(plan);
    policy::zero_of{3, 2}(plan);
  };
  auto wrong = [&](auto order) {
    const plan_of_mlp p([&](auto& plan) {
      cut(plan);
      order(plan);
    });
    return describe(p.wrong_with);
  };
  CHECK(wrong([](auto& plan) {
          // [before]
          plan.op_order(plan.uses("fc2.weight", plan.ops("fc2")), *plan.ops("relu").begin());
          // [/before]
        }) == "");
  CHECK(wrong([](auto& plan) {
          plan.op_order(plan.uses("fc2.weight", plan.ops("fc2")), *plan.ops("relu").begin());
          plan.op_order(*plan.ops("relu").begin(), plan.uses("fc2.weight", plan.ops("fc2")));
        }).starts_with("the wished order has a cycle"));
  CHECK(wrong([](auto& plan) {
          plan.op_order(*plan.ops("fc2").begin(), plan.uses("fc2.weight", plan.ops("fc2")));
        }).starts_with("the wished order has a cycle"));
  CHECK(wrong([](auto& plan) {
          plan.op_order(plan.moves(plan.ops("x")), *plan.ops("relu").begin());
        }).starts_with("op_order names a moment that no op has: the move of x"));
  // of several those that there are
  CHECK(wrong([](auto& plan) { plan.op_order(plan.moves(plan.ops("*")), *plan.ops("relu", pass::backward).begin()); }) == "");
}

TEST_CASE("a sum over time that is ordered is made when the order says, from terms that are kept until then") {
  struct additions {
    int all = 0, before_last = 0;  // of fc2's gradient; before the last gradient of fc1's bias
  };
  auto of = [](auto order) {
    const plan_of_mlp p([&](auto& plan) {
      policy::micro_batches_of{4}(plan);
      order(plan);
    });
    REQUIRE(describe(p.wrong_with) == "");
    const pt::program made = pt::lower(pt::lowering(p.g, p.plan, p.c), 0);
    additions r;
    int so_far = 0;
    for (pt::instruction const& i : made.instructions) {
      pt::node const& n = p.c.nodes[i.node];
      if (n.kind == pt::node_kind::assemble && n.op == p.find("fc2", "linear.weight", pass::backward)) so_far = ++r.all;
      if (n.kind == pt::node_kind::compute && n.op == p.find("fc1", "", pass::backward)) r.before_last = so_far;
    }
    return r;
  };
  const additions own = of([](auto&) {}),
                  late = of([](auto&plan) {
                    // [late]
                    plan.op_order(*plan.ops("fc1", pass::backward).begin(), plan.accumulates("fc2.weight"));
                    // [/late]
                  });
  CHECK(own.all == 0);  // the kernel adds
  CHECK(late.all == 4);
  CHECK(late.before_last == 0);
}

TEST_CASE("what a policy says of nodes that cannot be is told") {
  CHECK(wrong_with([](auto& plan) { plan.op_trans(plan.accumulates("fc*"), pt::split<ffn>{2, "data"}); }) == "");
  CHECK(wrong_with([](auto& plan) {
          plan.op_trans(plan.uses("fx*"), pt::split<ffn>{2, "data"});
        }).starts_with("no op matches \"fx*\""));
  CHECK(wrong_with([](auto& plan) {
          plan.op_trans(plan.accumulates("fc1.weight"), pt::split<label>{2, "data"});
        }).starts_with("op fc1 has no axis class"));
  CHECK(wrong_with([](auto& plan) {
          plan.op_trans(plan.accumulates("fc1.weight"), pt::split<ffn>{3, "data"});
        }).starts_with("op fc1 is cut into 3 pieces under the mode "));
  CHECK(wrong_with([](auto& plan) {
          plan.op_trans(plan.accumulates("fc1.weight"), pt::split<ffn>{2, "tensor"});
        }).starts_with("what op fc1 makes is cut along ffn on its way, under a mode that is no dimension"));
  CHECK(wrong_with([](auto& plan) {
          plan.op_trans(plan.accumulates("fc1.weight"), pt::skewed(pt::split<ffn>{2, "data"}, "data"));
        }).starts_with("a move or a sum is cut in space"));
  CHECK(wrong_with([](auto& plan) {
          plan.op_trans(plan.accumulates(plan.ops("relu")), pt::split<ffn>{2, "data"});
        }).starts_with("the plan says how what op relu makes is summed over time, but nothing of it is"));
  CHECK(wrong_with([](auto& plan) {
          plan.op_trans(plan.moves(plan.ops("relu")), pt::split<ffn>{2, "data"});
        }).starts_with("the plan says how what op relu makes is moved, but nothing of it is"));
  CHECK(wrong_with([](auto& plan) {
          plan.op_trans(plan.accumulates("fc1.weight"), pt::replicate{2, "again"});
        }).starts_with("what is replicated is the move for all readers"));
  auto in_turns = [](auto& plan) { plan.op_trans(plan.ops("fc1"), pt::split<ffn>{2, "turn"}); };
  CHECK(wrong_with([&](auto& plan) {
          in_turns(plan);
          plan.op_trans(plan.accumulates("fc1.weight"), pt::split<ffn>{2, "data"});
        }).starts_with("the sum over time of what op fc1 makes cannot be kept cut along ffn"));
  CHECK(wrong_with([&](auto& plan) {
          in_turns(plan);
          plan.op_trans(plan.accumulates("fc*.weight"), pt::split<ffn>{2, "data"});
        }) == "");
  CHECK(wrong_with([](auto& plan) {
          plan.op_assign(plan.accumulates("fc1.weight"), pt::at{"far", 4, 3});
        }).starts_with("op fc1 is at coordinate 4 of the dimension "));
}

TEST_CASE("devices one by one, in any order") {
  const plan_of_mlp p([](auto& plan) {
    policy::data_parallel_of{3}(plan);
    // [list]
    plan.op_assign(plan.ops(), pt::device_list{{5, 2, 7}});
    // [/list]
  });
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.c.devices == 8);
  pt::node const& relu = p.c.nodes[p.c.node_of_op[p.find("relu", "relu")]];
  for (int i = 0; i < 3; ++i) CHECK(relu.over.where.device_at(i) == std::array{5, 2, 7}[static_cast<std::size_t>(i)]);
  CHECK(moves_of(p, "fc1", "linear.weight", pass::backward) == "all_reduce(data)");
  // a grid of two dimensions over a list, and one coordinate of it
  const plan_of_mlp q([](auto& plan) {
    stages(plan);
    plan.op_assign(plan.ops(), pt::device_list{{3, 1, 0, 2}});
  });
  REQUIRE(describe(q.wrong_with) == "");
  pt::placement const& second = q.c.nodes[q.c.node_of_op[q.find("fc2", "linear")]].over.where;
  CHECK(second.device_at(0) == 0);
  CHECK(second.device_at(1) == 2);
  // A list that is a grid all the same is one.
  CHECK(second.list == nullptr);
  CHECK(relu.over.where.list != nullptr);

  auto wrong = [](auto list) {
    return describe(plan_of_mlp([&](auto& plan) {
                      policy::data_parallel_of{2}(plan);
                      list(plan);
                    }).wrong_with);
  };
  CHECK(wrong([](auto& plan) {
          plan.op_assign(plan.ops(), pt::device_list{{1, 0, 2}});
        }).starts_with("op x: its list has 3 devices, its grid 2 places (policy, line "));
  CHECK(wrong([](auto& plan) {
          plan.op_assign(plan.ops(), pt::device_list{{1, 1}});
        }).starts_with("op x: device 1 stands twice"));
  CHECK(wrong([](auto& plan) {
          plan.op_assign(plan.ops(), pt::device_list{{1, -1}});
        }).starts_with("a list of devices has a number below 0"));
  CHECK(wrong([](auto& plan) {
          plan.op_assign(plan.ops(), pt::device_list{{1, 0}});
          plan.op_assign(plan.ops("relu"), pt::device_list{{0, 1}});
        }).starts_with("an op is given two lists"));
}
