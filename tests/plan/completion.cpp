// What completion puts between ops: the fewest changes of layout that known plans are known for.
#include <doctest/doctest.h>

#include <functional>
#include <set>

#include "../support/planned.hpp"

namespace pt = partita;
using namespace pt::testing;
using namespace pt::testing::planned_axes;
using pt::node_kind;
using pt::pass;
using counts = std::map<std::string, int>;
namespace policy = pt::policy;

namespace {
template <class P> int gradients_reduced_once(P const& p) {
  int n = 0;
  for (moved const& m : p.moves())
    if (m.parameter_gradient) {
      CHECK(m.what == "all_reduce(data)");
      CHECK(m.times == 1);
      ++n;
    }
  return n;
}
template <class P> int parameters(P const& p) {
  int n = 0;
  for (int op = 0; op < p.g.forward_count; ++op)
    n += p.g.ops[op].info->source == pt::source_kind::parameter && p.g.tensors[p.g.ops[op].first_output].gradient >= 0;
  return n;
}
// What the moves of one op's outputs do, by op name and kind.
template <class P> std::string moves_of(P const& p, std::string_view name, std::string_view kind, pass when) {
  std::string s;
  for (moved const& m : p.moves())
    if (m.op == name && m.kind == kind && m.when == when) s += (s.empty() ? "" : "; ") + m.what;
  return s;
}
}  // namespace

TEST_CASE("one device moves nothing") {
  planned<planned_gpt> p(policy::single_device{});
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.moves().empty());
  CHECK(p.count_nodes(node_kind::assemble) == 0);
  CHECK(p.c.nodes.size == p.g.ops.size);
  CHECK(p.c.devices == 1);
}

TEST_CASE("data parallelism: one all-reduce a gradient, scalars for the loss, nothing else") {
  for (int n : {2, 3}) {
    planned<planned_gpt> p(policy::data_parallel_of{n});
    REQUIRE(describe(p.wrong_with) == "");
    CHECK(gradients_reduced_once(p) == parameters(p));
    CHECK(p.count_moves(pass::forward) == counts{{"all_reduce(data)", 2}});  // the count of tokens, the loss
    CHECK(p.count_moves(pass::backward) == counts{{"all_reduce(data)", parameters(p)}});
    for (moved const& m : p.moves())
      if (m.when == pass::update) CHECK(m.kind == "sum_of_all");  // of the losses, which guards the update: one scalar
  }
}

TEST_CASE("data parallelism over micro-batches: gradients are summed in time first, then moved once") {
  planned<planned_gpt> p(policy::compose<policy::data_parallel<2>, policy::micro_batches<4>>{});
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(gradients_reduced_once(p) == parameters(p));
  CHECK(p.count_moves(pass::backward) == counts{{"all_reduce(data)", parameters(p)}});
  // The two terms of the tied table's gradient are each summed over time, then added.
  CHECK(p.count_nodes(node_kind::assemble) == parameters(p) + 1 + 1);
}

TEST_CASE("tensor parallelism: two all-reduces a block forward, two backward") {
  for (int layers : {1, 3}) {
    planned<planned_gpt> p(policy::tensor_parallel<2>{}, pt::training<planned_gpt>{{layers}, {}, {}, {}});
    REQUIRE(describe(p.wrong_with) == "");
    // forward: embedding, then two a block, then maximum, sum and target of the vocabulary's cross-entropy
    CHECK(p.count_moves(pass::forward) == counts{{"all_reduce(tensor)", 1 + 2 * layers + 3}});
    // backward: the logits' input gradient, and two a block
    CHECK(p.count_moves(pass::backward) == counts{{"all_reduce(tensor)", 1 + 2 * layers}});
    for (int l = 0; l < layers; ++l) {
      const std::string block = "block." + std::to_string(l);
      CHECK(moves_of(p, block + ".proj", "linear", pass::forward) == "all_reduce(tensor)");
      CHECK(moves_of(p, block + ".fc2", "linear", pass::forward) == "all_reduce(tensor)");
      CHECK(moves_of(p, block + ".fc1", "linear", pass::backward) == "all_reduce(tensor)");
      // q, k and v: their input gradients are partial sums, added before they are moved once
      for (auto name : {".q", ".k", ".v"}) CHECK(moves_of(p, block + name, "linear", pass::backward) == "");
      CHECK(moves_of(p, block + ".ln1", "add", pass::backward) == "all_reduce(tensor)");
    }
    for (moved const& m : p.moves()) CHECK_FALSE(m.parameter_gradient);
  }
}

TEST_CASE("both: each gradient of a cut weight is reduced over the data mode alone") {
  planned<planned_gpt> p(policy::compose<policy::data_parallel<2>, policy::tensor_parallel<2>>{});
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.c.devices == 4);
  CHECK(gradients_reduced_once(p) == parameters(p));
  CHECK(p.count_moves(pass::forward) == counts{{"all_reduce(tensor)", 1 + 4 + 3}, {"all_reduce(data)", 2}});
  CHECK(p.count_moves(pass::backward) == counts{{"all_reduce(tensor)", 1 + 4}, {"all_reduce(data)", parameters(p)}});
}

TEST_CASE("the order of composition changes which devices take part, not what is moved") {
  planned<planned_gpt> p(policy::compose<policy::tensor_parallel<2>, policy::data_parallel<2>>{});
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(gradients_reduced_once(p) == parameters(p));
  CHECK(p.count_moves(pass::forward) == counts{{"all_reduce(tensor)", 1 + 4 + 3}, {"all_reduce(data)", 2}});
}

namespace {
// Blocks on stages of one's own choice; the end of the model on the last.
struct staged_blocks {
  int stages, blocks_a_stage, micro;
  void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::split<sample>{micro, "micro"});
    int stage = 0;
    for (auto op : plan.ops()) {
      const std::string name(op.name().view());
      int mine = name.starts_with("lnf") || name.find("softmax") != name.npos ? stages - 1 : stage;
      if (name.starts_with("block.")) stage = mine = std::stoi(name.substr(6)) / blocks_a_stage;
      plan.op_assign(op, pt::at{"stage", name.starts_with("wte.weight") || name == "tokens" ? 0 : mine, stages});
    }
  }
};
}  // namespace

TEST_CASE("a pipeline sends one activation a boundary and micro-batch, and its gradient back") {
  for (int micro : {2, 4}) {
    planned<planned_gpt> p(staged_blocks{2, 2, micro}, pt::training<planned_gpt>{{4, false}, {}, {}, {}});
    REQUIRE(describe(p.wrong_with) == "");
    int forward = 0, backward = 0;
    for (moved const& m : p.moves()) {
      if (m.when == pass::forward && !m.update) {
        // targets stand on stage 0 as the first block does, and are read by the last stage
        if (m.kind == "input") continue;
        CHECK(m.op == "block.1.add");
        CHECK(m.what == "send");
        CHECK(m.times == micro);
        ++forward;
      }
      if (m.when == pass::backward) {
        CHECK(m.what == "send");
        CHECK(m.times == micro);
        ++backward;
      }
      CHECK_FALSE(m.parameter_gradient);
    }
    CHECK(forward == 1);
    CHECK(backward == 1);
  }
}

TEST_CASE("a table tied over stages: the parameter is sent once a step, and the second term of its gradient back") {
  planned<planned_gpt> p(staged_blocks{2, 1, 4}, pt::training<planned_gpt>{{2, true}, {}, {}, {}});
  REQUIRE(describe(p.wrong_with) == "");
  int parameter = 0, term = 0;
  for (moved const& m : p.moves()) {
    if (m.kind == "param") {
      CHECK(m.op == "wte.weight");
      CHECK(m.times == 1);
      ++parameter;
    }
    if (m.kind == "linear.weight") {
      CHECK(m.op == "wte");
      CHECK(m.times == 1);  // summed over micro-batches where it is made
      ++term;
    }
  }
  CHECK(parameter == 1);
  CHECK(term == 1);
}

TEST_CASE("three ways at once") {
  planned<pt::training<planned_gpt, pt::adamw, pt::clip_norm>> p(
      policy::compose<policy::data_parallel<2>, policy::tensor_parallel<2>, policy::pipeline<2, pt::schedule::one_f_one_b, 2>>{},
      {{4, false}, {}, {}, {}});
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.c.devices == 8);
  CHECK(gradients_reduced_once(p) == parameters(p));
  int sends = 0;
  for (moved const& m : p.moves()) sends += m.what == "send";
  CHECK(sends > 0);
}

TEST_CASE("nested cuts of one axis, in either order") {
  // micro inside data: nothing but gradients is moved. data inside micro: inputs are regrouped, the rest is the same.
  planned<planned_mlp> inside(policy::compose<policy::data_parallel<2>, policy::micro_batches<2>>{});
  planned<planned_mlp> outside(policy::compose<policy::micro_batches<2>, policy::data_parallel<2>>{});
  for (auto* p : {&inside, &outside}) {
    REQUIRE(describe(p->wrong_with) == "");
    CHECK(gradients_reduced_once(*p) == 3);
  }
  CHECK(inside.count_moves(pass::forward) == counts{{"all_reduce(data)", 2}});
  CHECK(outside.count_moves(pass::forward) == counts{{"all_reduce(data)", 2}, {"all_gather(data)", 2}});
  CHECK(inside.words_of_op(inside.find("relu", "relu")) == "sample/2:data sample/2:micro in time");
  CHECK(outside.words_of_op(outside.find("relu", "relu")) == "sample/2:micro in time sample/2:data");
}

TEST_CASE("features cut in time: co-shard without communication") {
  planned<planned_mlp> p([](auto& plan) {
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{4, "part"});
    plan.op_assign(plan.ops(), pt::grid{});
  });
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.moves().empty());
  CHECK(p.count_nodes(node_kind::assemble) == 4);  // the sum over parts, and three gradients put together
  CHECK(p.c.nodes[p.c.node_of_op[p.find("fc1", "linear")]].time.size() == 4);
  CHECK(p.c.nodes[p.c.node_of_op[p.find("softmax_terms", "softmax_terms")]].time.size() == 1);
}

TEST_CASE("pieces may be of unequal size") {
  planned<planned_gpt> vocabulary_by_2(policy::tensor_parallel<2>{});  // 101 rows
  CHECK(describe(vocabulary_by_2.wrong_with) == "");
  planned<planned_gpt> batch_by_3(policy::compose<policy::data_parallel<3>, policy::micro_batches<2>>{});  // of 8
  CHECK(describe(batch_by_3.wrong_with) == "");
  planned<planned_mlp> sizes([](auto& plan) {
    plan.op_trans(plan.ops(), pt::split<ffn>{3, "tensor", {10, 1, 5}});
    plan.op_trans(plan.ops(), pt::split<sample>{3, "micro", {4, 0, 4}});
    plan.op_assign(plan.ops(), pt::grid{{"tensor", 3}});
  });
  CHECK(describe(sizes.wrong_with) == "");
  // Equal numbers of pieces, other sizes: not the same layout, so something is moved between.
  planned<planned_mlp> differ([](auto& plan) {
    plan.op_trans(plan.ops("fc1*"), pt::split<ffn>{2, "tensor", {10, 6}});
    plan.op_trans(plan.ops("relu"), pt::split<ffn>{2, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"tensor", 2}});
  });
  REQUIRE(describe(differ.wrong_with) == "");
  CHECK_FALSE(moves_of(differ, "fc1", "bias", pass::forward).empty());
}

TEST_CASE("what is read in two layouts is moved once for each, and never twice for one") {
  planned<planned_mlp> p([](auto& plan) {
    plan.op_trans(plan.ops(), pt::split<sample>{2, "data"});
    plan.op_trans(plan.ops("fc2*"), pt::split<label>{2, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"data", 2}, {"tensor", 2}});
  });
  REQUIRE(describe(p.wrong_with) == "");
  for (int id = 0; id < p.c.values.size; ++id)
    for (int other = 0; other < id; ++other) {
      pt::node_value const &a = p.c.values[id], &b = p.c.values[other];
      if (a.tensor != b.tensor || !(a.lay.where == b.lay.where) || a.lay.count != b.lay.count) continue;
      bool same = pt::same_on_axis(a.lay, b.lay, -1);
      for (int axis = 0; axis < p.g.operand_of(a.tensor).rank; ++axis) same = same && pt::same_on_axis(a.lay, b.lay, axis);
      CHECK_FALSE(same);
    }
}

TEST_CASE("a completed plan is whole: nodes stand behind what they read, values belong to their nodes") {
  const std::vector<std::function<planned<planned_gpt>()>> plans{
      [] {
        return planned<planned_gpt>(
            policy::compose<policy::data_parallel<2>, policy::tensor_parallel<2>, policy::micro_batches<2>>{});
      },
      [] { return planned<planned_gpt>(policy::pipeline<3, pt::schedule::gpipe, 3>{}); }};
  for (auto const& make : plans) {
    const planned<planned_gpt> p = make();
    REQUIRE(describe(p.wrong_with) == "");
    for (int id = 0; id < p.c.nodes.size; ++id) {
      pt::node const& n = p.c.nodes[id];
      for (int i = 0; i < n.input_count; ++i) CHECK(p.c.values[p.c.input(n, i)].node < id);
      for (int o = 0; o < n.value_count; ++o) CHECK(p.c.values[n.first_value + o].node == id);
      if (n.kind == node_kind::compute) CHECK(p.c.node_of_op[n.op] == id);
      else {
        CHECK(n.input_count == 1);
        CHECK(p.c.values[p.c.input(n, 0)].tensor == p.c.values[n.first_value].tensor);
      }
    }
  }
}
