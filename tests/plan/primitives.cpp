// What the three primitives record: selection, cuts, places, orders; and what backward and update ops inherit of them.
#include <doctest/doctest.h>

#include "../support/planned.hpp"

namespace pt = partita;
using namespace pt::testing;
using namespace pt::testing::planned_axes;

namespace {
std::vector<std::string> names(pt::selection const& s) {
  std::vector<std::string> all;
  for (auto op : s) all.push_back(std::string(op.name().view()) + "/" + std::string(op.kind()));
  std::sort(all.begin(), all.end());
  return all;
}
using strings = std::vector<std::string>;
// The finding that a policy ends with.
template <class Model, class Policy> std::string wrong(Policy const& policy) {
  planned<Model> p(policy);
  return describe(p.wrong_with);
}
struct bound_twice {
  struct square_op {
    static constexpr std::string_view name = "square", annotation = "b m+, m+ n -> b n";
    static constexpr auto gradient(auto, auto, auto, auto) { return pt::gradients{pt::none{}, pt::none{}}; }
  };
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, ffn>(g, "x");
    auto w = pt::param<pt::f32, ffn, ffn>(g, "w.weight");
    return pt::sum(pt::apply<square_op>(x, w));
  }
};
}  // namespace

TEST_CASE("ops are chosen by name, axis and pass") {
  planned<planned_mlp> p;
  CHECK(p.plan.ops().size() == p.g.forward_count);
  CHECK(names(p.plan.ops("fc1*")) == strings{"fc1.bias/param", "fc1.weight/param", "fc1/bias", "fc1/linear"});
  CHECK(names(p.plan.ops("fc1")) == strings{"fc1/bias", "fc1/linear"});
  CHECK(names(p.plan.ops(pt::with<ffn>)) ==
        strings{"fc1.bias/param", "fc1.weight/param", "fc1/bias", "fc1/linear", "fc2.weight/param", "fc2/linear", "relu/relu"});
  CHECK(names(p.plan.ops("fc2", pt::pass::backward)) == strings{"fc2/linear", "fc2/linear.weight"});
  for (auto op : p.plan.ops(pt::pass::update)) CHECK(op.when() == pt::pass::update);
  CHECK(p.plan.ops(pt::pass::backward).size() > 0);
  for (auto op : p.plan.ops(pt::with<in>)) CHECK(pt::has<in>(op));
  CHECK(p.plan.first_finding().what == pt::wrong::nothing);
  CHECK(p.plan.batch_axis()->name == "sample");
}

TEST_CASE("a cut of a set skips ops without the axis; of an op by name it is an error") {
  planned<planned_mlp> p;
  p.plan.op_trans(p.plan.ops(), pt::split<ffn>{2, "tensor"});
  for (int op = 0; op < p.g.forward_count; ++op)
    CHECK(p.plan.of(op).cut_count == (pt::op_ref{&p.g, op}.has(&pt::axis_of<ffn>::info) ? 1 : 0));
  p.plan.op_trans(p.plan.ops("fc*"), pt::split<label>{2, "more"});  // a glob is a set
  CHECK(p.plan.first_finding().what == pt::wrong::nothing);
  p.plan.op_trans(p.plan.ops("relu"), pt::split<label>{2, "again"});
  CHECK(p.plan.first_finding().what == pt::wrong::op_lacks_the_axis);
  CHECK(p.plan.first_finding().op.view() == "relu");
}

TEST_CASE("the first finding is kept, with its line") {
  planned<planned_mlp> p;
  const int line = __LINE__ + 1;
  p.plan.op_trans(p.plan.ops("nothing*"), pt::split<ffn>{2, "a"});
  p.plan.op_trans(p.plan.ops("relu"), pt::split<label>{2, "b"});
  CHECK(p.plan.first_finding().what == pt::wrong::no_op_matches);
  CHECK(p.plan.first_finding().line == line);
  const std::string words = describe(p.plan.first_finding());
  CHECK(words.starts_with("no op matches \"nothing*\"; the nearest is "));
  CHECK(words.ends_with(" (policy, line " + std::to_string(line) + ")"));
}

TEST_CASE("a letter is named where an axis is bound to two") {
  CHECK(wrong<bound_twice>([](auto& plan) {
          plan.op_trans(plan.ops("w"), pt::split<ffn>{2, "t"});
        }).find("two letters") != std::string::npos);
  planned<bound_twice> p([](auto& plan) {
    plan.op_trans(plan.ops("w"), pt::split<ffn, 'n'>{2, "t"});
    plan.op_assign(plan.ops(), pt::grid{{"t", 2}});
  });
  CHECK(describe(p.wrong_with) == "");
  const int op = p.find("w", "square");
  REQUIRE(p.plan.of(op).cut_count == 1);
  CHECK(p.g.ops[op].info->dims[static_cast<int>(p.plan.of(op).cuts[0].dim)].letter == 'n');
}

TEST_CASE("later grid dimensions lie inside earlier ones, and coordinates fix a place") {
  planned<planned_mlp> p;
  p.plan.op_assign(p.plan.ops(), pt::grid{{"data", 2}});
  p.plan.op_assign(p.plan.ops(), pt::at{"stage", 2, 3});
  p.plan.op_assign(p.plan.ops(), pt::grid{{"tensor", 4}, {"one", 1}});
  p.complete();
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.c.devices == 24);
  pt::placement const& w = p.c.nodes[p.c.node_of_op[p.find("relu", "relu")]].over.where;
  REQUIRE(w.rank == 2);  // fixed coordinates and dimensions of one are folded away
  CHECK(w.extents[0] == 2);
  CHECK(w.strides[0] == 12);
  CHECK(w.extents[1] == 4);
  CHECK(w.strides[1] == 1);
  CHECK(w.base == 8);
  for (int d = 0; d < 2; ++d)
    for (int t = 0; t < 4; ++t) {
      const int at[]{d, t};
      CHECK(w.device(at) == (d * 3 + 2) * 4 + t);
    }
}

TEST_CASE("a mode without a dimension of its name is laid out in time") {
  planned<planned_mlp> p([](auto& plan) {
    plan.op_trans(plan.ops(), pt::split<sample>{2, "data"});
    plan.op_trans(plan.ops(), pt::split<sample>{3, "micro"});
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{4, "slow"});
    plan.op_assign(plan.ops(), pt::grid{{"data", 2}});
  });
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.words_of_op(p.find("relu", "relu")) == "sample/2:data sample/3:micro in time ffn/4:slow in time");
  CHECK(p.c.nodes[p.c.node_of_op[p.find("relu", "relu")]].time.size() == 12);
  // Sources are whole in time, and what counts all tokens is; both are cut in space.
  CHECK(p.words_of_op(p.find("x", "input")) == "sample/2:data");
  CHECK(p.words_of_op(p.find("fc1.weight", "param")) == "");
  CHECK(p.words_of_op(p.find("token_count", "token_count")) == "sample/2:data");
  CHECK(p.c.nodes[p.c.node_of_op[p.find("token_count", "token_count")]].time.size() == 1);
}

TEST_CASE("backward ops inherit cuts letter by letter, and places") {
  planned<planned_mlp> p([](auto& plan) {
    plan.op_trans(plan.ops(), pt::split<sample>{2, "data"});
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{2, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"data", 2}, {"tensor", 2}});
  });
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.words_of_op(p.find("fc1", "linear")) == "sample/2:data ffn/2:tensor");
  CHECK(p.words_of_op(p.find("fc1", "linear.weight", pt::pass::backward)) == "sample/2:data ffn/2:tensor");
  CHECK(p.words_of_op(p.find("fc1", "bias.grad", pt::pass::backward)) == "sample/2:data ffn/2:tensor");
  CHECK(p.words_of_op(p.find("fc2", "linear", pt::pass::backward)) == "sample/2:data ffn/2:tensor");
  CHECK(p.words_of_op(p.find("relu", "relu.grad", pt::pass::backward)) == "sample/2:data ffn/2:tensor");
  // The update lies as the stored parameter does.
  for (auto name : {"fc1.weight", "fc1.bias", "fc2.weight"})
    for (int op = 0; op < p.g.ops.size; ++op)
      if (p.g.ops[op].when == pt::pass::update && p.g.ops[op].origin == p.find(name, "param"))
        CHECK(p.words_of_op(op) == "ffn/2:tensor");
  for (int op = 0; op < p.g.ops.size; ++op) {
    pt::op_entry const& e = p.g.ops[op];
    if (e.origin == op) continue;
    CHECK(p.c.nodes[p.c.node_of_op[op]].over.where == p.c.nodes[p.c.node_of_op[e.origin]].over.where);
  }
}

TEST_CASE("a backward op's own cuts and places stand in for what it would inherit") {
  planned<planned_mlp> p([](auto& plan) {
    plan.op_trans(plan.ops(), pt::split<sample>{2, "data"});
    plan.op_assign(plan.ops(), pt::grid{{"data", 2}});
    for (auto op : plan.ops("fc1", pt::pass::backward))
      if (op.kind() == "linear.weight") plan.op_trans(op, pt::split<in>{2, "data"});
  });
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.words_of_op(p.find("fc1", "linear.weight", pt::pass::backward)) == "in/2:data");
  CHECK(p.words_of_op(p.find("fc1", "bias.grad", pt::pass::backward)) == "sample/2:data");
}

TEST_CASE("ZeRO-1 in three lines: the update cut, the parameter whole") {
  planned<pt::training<planned_mlp, pt::adamw>> p([](auto& plan) {
    plan.op_trans(plan.ops(), pt::split<sample>{2, "data"});
    plan.op_assign(plan.ops(), pt::grid{{"data", 2}});
    for (auto op : plan.ops("fc1.weight*", pt::pass::update)) plan.op_trans(op, pt::split<in>{2, "data"});
  });
  CHECK(describe(p.wrong_with) == "");
}

TEST_CASE("replicas in space") {
  planned<planned_mlp> p([](auto& plan) {
    plan.op_trans(plan.ops("relu"), pt::replicate{2, "data"});
    plan.op_assign(plan.ops(), pt::grid{{"data", 2}});
  });
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.words_of_op(p.find("relu", "relu")) == "");              // that it lacks the mode says the same
  for (moved const& m : p.moves()) CHECK(m.kind == "sum_of_all");  // the losses, which guard the update
}

TEST_CASE("what is wrong with a plan is said in words") {
  auto base = [](auto& plan) { plan.op_assign(plan.ops(), pt::grid{}); };
  CHECK(wrong<planned_mlp>(base) == "");
  CHECK(wrong<planned_mlp>([](auto&) {}) == "op x is not assigned to any device; call op_assign");
  const std::string pieces = wrong<planned_mlp>([](auto& plan) {
    plan.op_trans(plan.ops(), pt::split<label>{11, "t"});
    plan.op_assign(plan.ops(), pt::grid{{"t", 11}});
  });
  CHECK(pieces.find("axis class of extent 10 is cut into 11 pieces in space, which leaves some empty") != std::string::npos);
  CHECK(wrong<planned_mlp>([&](auto& plan) {  // in time they may be empty
          plan.op_trans(plan.ops(), pt::split<label>{11, "t"});
          base(plan);
        }) == "");
  CHECK(wrong<planned_mlp>([&](auto& plan) {
          plan.op_trans(plan.ops(), pt::split<label>{2, "t", {4, 5}});
          base(plan);
        }).find("sum to 9, its extent is 10") != std::string::npos);
  CHECK(wrong<planned_mlp>([&](auto& plan) {
          plan.op_trans(plan.ops(), pt::split<label>{2, "t", {10, 0}});
          plan.op_assign(plan.ops(), pt::grid{{"t", 2}});
        }).find("leaves some empty") != std::string::npos);
  CHECK(wrong<planned_mlp>([](auto& plan) {
          plan.op_assign(plan.ops(), pt::grid{{"a", 2}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}, {"g", 1}});
        }).find("too many dimensions") != std::string::npos);
  CHECK(wrong<planned_mlp>([](auto& plan) {
          plan.op_assign(plan.ops(), pt::grid{{"a", 0}});
        }).find("device") != std::string::npos);
}

TEST_CASE("pieces and devices that nobody could count are refused") {
  CHECK(wrong<planned_mlp>([](auto& p) {
          p.op_assign(p.ops(), pt::grid{{"a", 65536}, {"b", 65536}});
        }).find("on a grid of more than 2^24 devices") != std::string::npos);
  CHECK(wrong<planned_mlp>([](auto& p) {
          p.op_trans(p.ops(), pt::replicate{1 << 20, "a"});
          p.op_trans(p.ops(), pt::replicate{1 << 20, "b"});
        }).find("cut into more than 2^30 pieces") != std::string::npos);
}
