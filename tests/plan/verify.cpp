// Proofs of plans: faults put into completed plans by hand are found, cycles are named, and what is found while compiling
// is what is found at run time.
#include <doctest/doctest.h>

#include <functional>

#include "../support/planned.hpp"

namespace pt = partita;
using namespace pt::testing;
using namespace pt::testing::planned_axes;
using pt::node_kind;
using pt::pass;
namespace policy = pt::policy;

namespace {
using gpt = pt::training<planned_gpt, pt::adamw, pt::clip_norm>;
using gpt_plan = planned<gpt>;

// Data, tensor and micro-batches: every kind of node and part.
gpt_plan three_ways() {
  return gpt_plan(policy::compose<policy::data_parallel<2>, policy::tensor_parallel<2>, policy::micro_batches<2>>{},
                  {{1}, {}, {}, {}});
}
bool found(gpt_plan const& p) { return pt::detail::check_flow(p.g, p.plan, p.c).what == pt::wrong::flow_differs; }

// Puts the fault into every place where `fault` can (it says whether it could), one at a time, and counts those that
// check_flow does not see.
struct tally {
  int places = 0, missed = 0;
  std::string where;
};
tally try_all(gpt_plan& p, int count, std::function<bool(int)> const& fault) {
  tally t;
  const pt::completed good = p.c;
  for (int i = 0; i < count; ++i) {
    p.c = good;
    if (!fault(i)) continue;
    ++t.places;
    if (!found(p)) {
      ++t.missed;
      if (t.where.empty()) t.where = std::to_string(i);
    }
  }
  p.c = good;
  return t;
}
#define ALL_FOUND(count, ...)                                                   \
  do {                                                                          \
    const tally t = try_all(p, count, [&]([[maybe_unused]] int i) __VA_ARGS__); \
    INFO("first missed: ", t.where);                                            \
    CHECK(t.places > 0);                                                        \
    CHECK(t.missed == 0);                                                       \
  } while (false)
}  // namespace

TEST_CASE("a completed plan flows") {
  gpt_plan p = three_ways();
  REQUIRE(describe(p.wrong_with) == "");
  CHECK_FALSE(found(p));
}

TEST_CASE("faults in a completed plan are found") {
  gpt_plan p = three_ways();
  REQUIRE(describe(p.wrong_with) == "");
  auto read = [&](int v) {  // by an op; not by the sum of all norms, which takes what there is
    for (pt::node const& n : p.c.nodes)
      for (int i = 0; i < n.input_count; ++i)
        if (p.c.input(n, i) == v && !(n.kind == node_kind::compute && p.g.ops[n.op].info->variadic)) return true;
    return false;
  };
  auto parts = [&](int v) -> pt::layout& { return p.c.values[v].lay; };
  const int values = p.c.values.size, inputs = p.c.inputs.size, nodes = p.c.nodes.size;

  SUBCASE("a move is left out") {
    ALL_FOUND(inputs, {
      pt::node const& made = p.c.nodes[p.c.values[p.c.inputs[i]].node];
      if (made.kind != node_kind::move) return false;
      for (pt::node const& n : p.c.nodes)
        if (i >= n.first_input && i < n.first_input + n.input_count && p.g.ops[n.op].info->variadic) return false;
      p.c.inputs[i] = p.c.input(made, 0);
      return true;
    });
  }
  SUBCASE("pieces in time are not put together") {
    ALL_FOUND(inputs, {
      pt::node const& made = p.c.nodes[p.c.values[p.c.inputs[i]].node];
      if (made.kind != node_kind::assemble) return false;
      for (pt::node const& n : p.c.nodes)  // a move puts them together itself
        if (i >= n.first_input && i < n.first_input + n.input_count && n.kind == node_kind::move) return false;
      p.c.inputs[i] = p.c.input(made, 0);
      return true;
    });
  }
  SUBCASE("a cut falls on another axis") {
    ALL_FOUND(values, {
      const int rank = p.g.operand_of(p.c.values[i].tensor).rank;
      if (rank < 2 || parts(i).count == 0 || parts(i).parts[0].partial() || !read(i)) return false;
      parts(i).parts[0].axis = static_cast<signed char>((parts(i).parts[0].axis + 1) % rank);
      return true;
    });
  }
  SUBCASE("a tensor lies on other devices") {
    ALL_FOUND(values, {
      if (!read(i)) return false;
      parts(i).where.base += 1;
      return true;
    });
  }
  SUBCASE("a grid is turned round") {
    ALL_FOUND(values, {
      if (parts(i).where.rank < 2 || parts(i).count == 0 || !read(i)) return false;
      std::swap(parts(i).where.strides[0], parts(i).where.strides[1]);
      return true;
    });
  }
  SUBCASE("partial results pass for whole ones") {
    ALL_FOUND(values, {
      pt::layout& l = parts(i);
      if (l.count == 0 || !l.parts[l.count - 1].partial() || p.g.ops[p.g.tensors[p.c.values[i].tensor].op].info->variadic)
        return false;
      --l.count;
      return true;
    });
  }
  SUBCASE("whole results pass for partial ones") {
    ALL_FOUND(values, {
      if (p.c.nodes[p.c.values[i].node].kind != node_kind::compute || parts(i).count > 0 || !read(i)) return false;
      pt::part q;
      q.level = 0;
      q.pieces = 2;
      parts(i).push(q);
      return true;
    });
  }
  SUBCASE("a piece passes for the whole") {
    ALL_FOUND(values, {
      pt::layout& l = parts(i);
      if (p.c.nodes[p.c.values[i].node].kind != node_kind::compute || l.count == 0 || l.parts[l.count - 1].partial())
        return false;
      --l.count;
      return true;
    });
  }
  SUBCASE("a cut has other sizes") {
    ALL_FOUND(values, {
      if (parts(i).count == 0 || !read(i)) return false;
      parts(i).parts[0].sizes = 0;
      return true;
    });
  }
  SUBCASE("a cut has another number of pieces") {
    ALL_FOUND(values, {
      if (parts(i).count == 0 || !read(i)) return false;
      parts(i).parts[0].pieces += 3;
      return true;
    });
  }
  SUBCASE("a cut takes its index from another dimension") {
    ALL_FOUND(values, {
      if (parts(i).count == 0 || parts(i).parts[0].in_time() || !read(i)) return false;
      parts(i).parts[0].level = static_cast<signed char>(1 - parts(i).parts[0].level);
      return true;
    });
  }
  SUBCASE("a cut in time takes its index from another mode") {
    ALL_FOUND(values, {
      for (int k = 0; k < parts(i).count; ++k)
        if (parts(i).parts[k].in_time() && read(i)) {
          parts(i).parts[k].mode += 1;
          return true;
        }
      return false;
    });
  }
  SUBCASE("nested cuts change places") {
    ALL_FOUND(values, {
      pt::layout& l = parts(i);
      if (l.count < 2 || l.parts[0].axis != l.parts[1].axis || l.parts[0].partial() || !read(i)) return false;
      std::swap(l.parts[0], l.parts[1]);
      return true;
    });
  }
  SUBCASE("another tensor is read") {
    ALL_FOUND(inputs, {
      const int v = p.c.inputs[i];
      for (int other = 0; other < p.c.values.size; ++other) {
        pt::node_value const &a = p.c.values[v], &b = p.c.values[other];
        if (a.tensor == b.tensor || b.node > a.node || a.lay.count != b.lay.count) continue;
        p.c.inputs[i] = other;
        return true;
      }
      return false;
    });
  }
  SUBCASE("an op has another cut than its tensors") {
    ALL_FOUND(nodes, {
      pt::node& n = p.c.nodes[i];
      if (n.kind != node_kind::compute || n.over.count == 0 || n.input_count == 0) return false;
      --n.over.count;
      return true;
    });
  }
  SUBCASE("a node reads what is made behind it") {
    ALL_FOUND(nodes, {
      pt::node const& n = p.c.nodes[i];
      if (n.input_count == 0 || n.value_count == 0 || n.kind != node_kind::compute) return false;
      p.c.values[p.c.input(n, 0)].node = i + 1;
      return true;
    });
  }
  SUBCASE("a new state does not lie as the old one") {
    ALL_FOUND(p.g.tensors.size, {
      if (p.g.tensors[i].carried < 0) return false;
      parts(p.c.source_value[i]).where.base += 1;
      return true;
    });
  }
}

TEST_CASE("orders that contradict data, or each other, are found, and both ops named") {
  auto place = [](auto& plan) { plan.op_assign(plan.ops(), pt::grid{}); };
  auto wrong = [&](auto policy) {
    planned<planned_mlp> p([&](auto& plan) {
      place(plan);
      policy(plan);
    });
    return p.wrong_with;
  };
  using P = pt::plan_base;
  auto op = [](P& plan, const char* name) { return *plan.ops(name).begin(); };
  CHECK_FALSE(wrong([&](P& plan) { plan.op_order(op(plan, "relu"), op(plan, "token_count")); }));
  CHECK_FALSE(wrong([&](P& plan) { plan.op_order(op(plan, "token_count"), op(plan, "relu")); }));
  pt::finding f = wrong([&](P& plan) { plan.op_order(op(plan, "softmax_terms"), op(plan, "relu")); });
  CHECK(f.what == pt::wrong::cyclic_order);
  f = wrong([&](P& plan) {
    plan.op_order(op(plan, "relu"), op(plan, "token_count"));
    plan.op_order(op(plan, "token_count"), op(plan, "fc1"));
  });
  CHECK(f.what == pt::wrong::cyclic_order);
  CHECK(f.line > 0);
  CHECK(describe(f).find("the wished order has a cycle") == 0);
  // backward before forward; an op before itself
  CHECK(wrong([&](P& plan) { plan.op_order(pt::moment{}.of(pass::update), pt::moment{}.of(pass::forward)); }).what ==
        pt::wrong::cyclic_order);
  CHECK(wrong([&](P& plan) { plan.op_order(op(plan, "relu"), op(plan, "relu")); }).what == pt::wrong::cyclic_order);
  CHECK(wrong([&](P& plan) { plan.op_order(pt::moment{}.at("stage", 0), pt::moment{}.at("stage", 1)); }).what ==
        pt::wrong::order_names_nothing);
}

TEST_CASE("orders between micro-batches") {
  auto check = [](int first, int second) {
    planned<planned_mlp> p([&](auto& plan) {
      plan.op_trans(plan.ops(), pt::split<sample>{4, "micro"});
      plan.op_assign(plan.ops(), pt::grid{});
      const auto m = pt::moment{};
      plan.op_order(m.of(pass::backward).index("micro", first), m.of(pass::forward).index("micro", second));
    });
    return p.wrong_with.what;
  };
  // The count of tokens is whole in time, so that the loss waits for all inputs, not for all forwards.
  CHECK(check(0, 1) == pt::wrong::nothing);
  CHECK(check(3, 0) == pt::wrong::nothing);
  CHECK(check(1, 1) == pt::wrong::cyclic_order);
  CHECK(check(4, 0) == pt::wrong::order_names_nothing);
}

// -- while compiling and at run time
namespace {
struct good_policy {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::split<sample>{2, "data"});
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{2, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"data", 2}, {"tensor", 2}});
  }
};
struct grid_differs {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{4, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"tensor", 2}});
  }
};
struct cyclic {
  constexpr void operator()(auto& plan) const {
    plan.op_assign(plan.ops(), pt::grid{});
    plan.op_order(pt::moment{}.of(pass::backward), pt::moment{}.of(pass::forward));
  }
};
struct too_many {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::split<label>{16, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"tensor", 16}});
  }
};
struct unknown_name {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops("fc9*"), pt::split<label>{2, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{});
  }
};
static_assert(pt::verify<planned_mlp, good_policy>());
static_assert(pt::verify<planned_mlp, policy::tensor_parallel<2>>());
constexpr planned_gpt one_layer{.layers = 1};
static_assert(
    pt::verify<one_layer, policy::compose<policy::data_parallel<2>, policy::pipeline<2, pt::schedule::one_f_one_b, 2>>>());

template <class Policy> void same_finding(pt::wrong what) {
  constexpr pt::finding compiled = pt::check<planned_mlp, Policy>;
  const planned<planned_mlp> p(Policy{});
  CHECK(compiled.what == what);
  CHECK(p.wrong_with.what == what);
  CHECK(compiled.op.view() == p.wrong_with.op.view());
  CHECK(compiled.other.view() == p.wrong_with.other.view());
  CHECK(compiled.have == p.wrong_with.have);
  CHECK(compiled.allowed == p.wrong_with.allowed);
  CHECK(compiled.line == p.wrong_with.line);
  CHECK(compiled.axis == p.wrong_with.axis);
}
}  // namespace

TEST_CASE("the same is found while compiling and at run time") {
  same_finding<good_policy>(pt::wrong::nothing);
  same_finding<grid_differs>(pt::wrong::pieces_differ_from_the_grid);
  same_finding<cyclic>(pt::wrong::cyclic_order);
  same_finding<too_many>(pt::wrong::too_many_pieces);
  same_finding<unknown_name>(pt::wrong::no_op_matches);
  CHECK(pt::plan_of<planned_mlp, good_policy>.devices() == 4);
  CHECK(pt::plan<planned_mlp>::by(good_policy{}).devices() == 4);
  CHECK_FALSE(pt::plan<planned_mlp>::by(good_policy{}).check());
  CHECK(pt::plan<planned_mlp>::by(too_many{}).check().what == pt::wrong::too_many_pieces);
}

namespace {
struct mistyped_dimension {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::split<sample>{2, "data"});
    plan.op_assign(plan.ops(), pt::grid{{"dta", 2}});
  }
};
struct copies_on_purpose {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::replicate{2, "copy"});
    plan.op_assign(plan.ops(), pt::grid{{"copy", 2}, {"one", 1}});
  }
};
}  // namespace

TEST_CASE("a dimension over which nothing is cut is named, with the mode that may have been meant") {
  constexpr pt::finding mistyped = pt::check<planned_mlp, mistyped_dimension>;
  CHECK(mistyped.what == pt::wrong::nothing_is_cut_over_the_dimension);
  CHECK(
      pt::describe(mistyped) ==
      "nothing is cut under the name of the grid's dimension \"dta\", so that its 2 devices do the same; the mode \"data\" is on "
      "no dimension: is it the one that is meant? (policy, line " +
          std::to_string(mistyped.line) + ")");
  CHECK(!pt::check<planned_mlp, copies_on_purpose>);
  const pt::finding ready_made = pt::plan<planned_mlp>::by(pt::policy::data_parallel_of{1000}).check();
  CHECK(ready_made.ready_made() == "data_parallel");
  CHECK_MESSAGE(pt::describe(ready_made).find(" (partita/policy/data_parallel.hpp, line ") != std::string::npos,
                pt::describe(ready_made));
  CHECK(pt::line_of(14, "/home/me/partita/policy/mine.hpp") == 14);
  CHECK(pt::line_of(14, "/home/me/zero.hpp") == 14);
  CHECK(pt::line_of(14, "zero.hpp") == 14);
}

TEST_CASE("names that are near") {
  CHECK(pt::distance("tensro", "tensor") == 2);
  CHECK(pt::distance("", "abc") == 3);
  CHECK(pt::distance("*.bias", "fc1.bias") == 0);
  CHECK(pt::distance("block.*.fc9", "block.11.fc1") == 1);
  CHECK(pt::distance("kitten", "sitting") == 3);
  static_assert(pt::distance("fc", "fc1") == 1);
}
