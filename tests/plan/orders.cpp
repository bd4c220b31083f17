// Orders between any sets of instances: phases, several coordinates and indices, sequences, priorities.
#include <doctest/doctest.h>

#include "../support/planned.hpp"

#include <partita/program/order.hpp>

namespace pt = partita;
using namespace pt::testing;
using namespace pt::testing::planned_axes;
using pt::pass;

namespace {
using P = pt::plan_base;
using mlp = planned<planned_mlp>;

// Where every instance of an op stands in the order, by index in time.
struct order {
  pt::list<pt::instance> all;
  template <class Planned> explicit order(Planned const& p) {
    pt::instance_graph ig;
    REQUIRE_FALSE(pt::build_instances(p.g, p.plan, p.c, ig));
    all = pt::order_instances(p.g, p.c, ig, [](pt::node const&) { return 10; });
    REQUIRE(static_cast<int>(all.size()) == ig.instances);
  }
  template <class Planned> int at(Planned const& p, int op, int index = 0) const {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (p.c.nodes[all[i].node].op == op && p.c.nodes[all[i].node].kind == pt::node_kind::compute && all[i].index == index)
        return static_cast<int>(i);
    return -1;
  }
};
template <class F> mlp made(F policy) {
  return mlp([&](P& plan) {
    plan.op_trans(plan.ops(), pt::split<sample>{4, "micro"});
    plan.op_assign(plan.ops(), pt::grid{});
    policy(plan);
  });
}
pt::moment micro(int i) { return pt::moment{}.index("micro", i); }
pt::op_ref backward_op(P& plan, std::string_view kind, std::string_view name) {
  for (auto op : plan.ops(name, pass::backward))
    if (op.kind() == kind) return op;
  FAIL("no such op");
  return {nullptr, -1};
}
}  // namespace

TEST_CASE("orders name ops by their phase, and backward ops have that of their forward op") {
  mlp p = made([](P& plan) {
    plan.op_assign(plan.ops("fc1"), pt::phase{"half", 0});
    plan.op_assign(plan.ops("fc2"), pt::phase{"half", 1});
    // The last micro-batch's second half before the first one's, forward and backward.
    for (pass when : {pass::forward, pass::backward})
      plan.op_order(micro(3).at("half", 1).of(when), micro(0).at("half", 1).of(when));
  });
  REQUIRE(describe(p.wrong_with) == "");
  const order o(p);
  const int fc2 = p.find("fc2", "linear"), input = p.find("fc2", "linear", pass::backward), fc1 = p.find("fc1", "linear");
  CHECK(o.at(p, fc2, 3) < o.at(p, fc2, 0));
  CHECK(o.at(p, fc1, 0) < o.at(p, fc1, 3));  // nothing was said of it
  CHECK(o.at(p, input, 3) < o.at(p, input, 0));
}

TEST_CASE("a backward op may have a phase of its own, and stands where its forward op does") {
  auto reordered = [](bool weights_last) {
    mlp p = made([&](P& plan) {
      plan.op_assign(plan.ops(), pt::phase{"gradients", 0});
      for (const char* name : {"fc1", "fc2"}) plan.op_assign(backward_op(plan, "linear.weight", name), pt::phase{"gradients", 1});
      const pt::moment back = pt::moment{}.of(pass::backward);
      const pt::moment others = back.at("gradients", 0), weights = back.at("gradients", 1);
      plan.op_order(weights_last ? others : weights, weights_last ? weights : others);
    });
    return p;
  };
  mlp p = reordered(true);
  REQUIRE(describe(p.wrong_with) == "");
  const order o(p);
  const int weight = p.find("fc2", "linear.weight", pass::backward), input = p.find("fc2", "linear", pass::backward);
  for (int first = 0; first < 4; ++first)
    for (int last = 0; last < 4; ++last) CHECK(o.at(p, input, first) < o.at(p, weight, last));
  CHECK(reordered(false).wrong_with.what == pt::wrong::cyclic_order);  // fc1's weight waits for fc2's input
}

TEST_CASE("a moment is at several coordinates and indices") {
  auto ordered = [](bool reversed) {
    return mlp([&](P& plan) {
      plan.op_trans(plan.ops(), pt::split<sample>{2, "outer"});
      plan.op_trans(plan.ops(), pt::split<sample>{2, "inner"});
      plan.op_assign(plan.ops(), pt::grid{});
      plan.op_assign(plan.ops("fc1"), pt::phase{"layer", 1});
      plan.op_assign(plan.ops("fc1"), pt::phase{"kind", 2});
      plan.op_assign(plan.ops("fc2"), pt::phase{"layer", 2});
      plan.op_assign(plan.ops("fc2"), pt::phase{"kind", 2});
      const auto m = pt::moment{}.at("kind", 2).at("layer", 1).of(pass::forward);
      for (int last = 0; last < 3; ++last)
        plan.op_order(m.index("outer", 1).index("inner", 1), m.index("inner", last % 2).index("outer", last / 2));
      if (reversed) plan.op_order(m.index("outer", 0), m.index("outer", 1).index("inner", 1));
    });
  };
  const mlp p = ordered(false);
  REQUIRE(describe(p.wrong_with) == "");
  const order o(p);
  const int fc1 = p.find("fc1", "linear"), fc2 = p.find("fc2", "linear");
  for (int i = 0; i < 3; ++i) CHECK(o.at(p, fc1, 3) < o.at(p, fc1, i));
  CHECK(o.at(p, fc2, 0) < o.at(p, fc2, 3));
  CHECK(ordered(true).wrong_with.what == pt::wrong::cyclic_order);
}

TEST_CASE("a sequence goes on over what no op has") {
  mlp p = made([](P& plan) {
    pt::sequence turns(plan);
    const auto forward = pt::moment{}.of(pass::forward);
    turns.then(forward.index("micro", 3));
    turns.then(forward.index("micro", 7).at("stage", 5));
    turns.then(forward.index("micro", 8));
    turns.then(forward.index("micro", 1));
    turns.then(forward.index("micro", 9));
  });
  REQUIRE(describe(p.wrong_with) == "");
  const order o(p);
  const int fc1 = p.find("fc1", "linear"), relu = p.find("relu", "");
  CHECK(o.at(p, relu, 3) < o.at(p, fc1, 1));
  CHECK(made([](P& plan) {
          pt::sequence turns(plan);
          for (int i : {0, 9, 2, 8, 0}) turns.then(micro(i).of(pass::forward));
        }).wrong_with.what == pt::wrong::cyclic_order);
}

TEST_CASE("an order that is proved by groups of nodes holds between all instances, and most that hold are proved so") {
  int holds = 0, proved = 0;
  unsigned random = 7;
  auto pick = [&](int n) {
    random = random * 1664525u + 1013904223u;
    return static_cast<int>(random >> 16) % n;
  };
  for (int trial = 0; trial < 400; ++trial) {
    const mlp p = made([&](P& plan) {
      plan.op_assign(plan.ops("fc1"), pt::phase{"half", 0});
      plan.op_assign(plan.ops("fc2"), pt::phase{"half", 1});
      for (int k = 0, wishes = 1 + pick(5); k < wishes; ++k) {
        auto any = [&] {
          pt::moment m = pick(6) > 0 ? micro(pick(5)) : pt::moment{};  // 4: there is none
          if (pick(3) > 0) m = m.at("half", pick(2));
          return m.of(pick(3) > 0 ? pass::forward : pass::backward);
        };
        if (pick(8) > 0) plan.op_order(any(), any());
        else plan.op_order(backward_op(plan, "linear.weight", pick(2) ? "fc1" : "fc2"), backward_op(plan, "linear", "fc2"));
      }
    });
    pt::instance_graph ig;
    pt::finding f = pt::build_instances(p.g, p.plan, p.c, ig);
    if (!f) f = pt::check_acyclic(p.g, p.c, ig);
    const bool by_groups = pt::detail::order_by_groups(p.g, p.plan, p.c).proved();
    CHECK_FALSE((by_groups && f));
    CHECK(p.wrong_with.what == f.what);
    holds += !f;
    proved += by_groups;
  }
  CHECK(holds > 50);
  CHECK(holds < 350);
  CHECK(proved * 10 >= holds * 7);
}

TEST_CASE("priorities break ties and nothing else") {
  auto with = [](bool any) {
    return made([&](P& plan) {
      if (!any) return;
      for (int i = 0; i < 4; ++i) plan.op_order(micro(i).of(pass::forward), pt::priority{i});
    });
  };
  const mlp plain = with(false), p = with(true);
  REQUIRE(describe(p.wrong_with) == "");
  const order before(plain), after(p);
  const int fc1 = p.find("fc1", "linear"), fc2 = p.find("fc2", "linear");
  for (int i = 0; i + 1 < 4; ++i) {
    CHECK(before.at(plain, fc2, i) < before.at(plain, fc1, i + 1));
    CHECK(after.at(p, fc2, i + 1) < after.at(p, fc1, i));  // the last micro-batch is finished first
  }
  // A priority against a wish: no cycle, the wish holds.
  const mlp both = made([&](P& plan) {
    plan.op_order(micro(0).of(pass::forward), micro(3).of(pass::forward));
    plan.op_order(micro(3).of(pass::forward), pt::priority{9});
  });
  REQUIRE(describe(both.wrong_with) == "");
  const order o(both);
  CHECK(o.at(both, fc2, 0) < o.at(both, fc1, 3));
  CHECK(o.at(both, fc2, 3) < o.at(both, fc1, 1));
  // What is said later counts; data goes before.
  const mlp last = made([&](P& plan) {
    plan.op_order(micro(3).of(pass::forward), pt::priority{9});
    plan.op_order(*plan.ops("fc1").begin(), pt::priority{-1});
  });
  const order l(last);
  for (int i = 0; i < 3; ++i) CHECK(l.at(last, fc1, i) < l.at(last, fc1, i + 1));
  CHECK(l.at(last, fc1, 3) < l.at(last, fc2, 3));
}

TEST_CASE("what orders and phases may not say") {
  auto wrong = [](auto policy) { return made(policy).wrong_with; };
  const pt::finding unknown = wrong([](P& plan) {
    plan.op_order(pt::moment{}.at("stage", 3).at("chunk", 2).index("micro", 1), pt::moment{}.of(pass::update));
  });
  CHECK(unknown.what == pt::wrong::order_names_nothing);
  CHECK(describe(unknown).find("stage 3, chunk 2 at index 1 of micro") != std::string::npos);
  CHECK(wrong([](P& plan) { plan.op_order(pt::moment{}.index("micro", 9), pt::priority{1}); }).what ==
        pt::wrong::order_names_nothing);
  auto words = [&](auto policy) { return describe(wrong(policy)); };
  CHECK(words([](P& plan) {
          pt::moment m;
          for (int i = 0; i < 5; ++i) m = m.at("stage", i);
          plan.op_order(m, pt::moment{});
        }).find("more than 4 coordinates") != std::string::npos);
  CHECK(words([](P& plan) { plan.op_order(pt::moment{}.index("micro", -1), pt::moment{}); }).find("below 0") !=
        std::string::npos);
  CHECK(words([](P& plan) { plan.op_assign(plan.ops(), pt::phase{"chunk", -1}); }).find("below 0") != std::string::npos);
  CHECK(words([](P& plan) {
          for (const char* name : {"a", "b", "c", "d", "e"}) plan.op_assign(plan.ops(), pt::phase{name, 0});
        }).find("more than 4 phases") != std::string::npos);
  CHECK(wrong([](P& plan) {
          plan.op_assign(plan.ops(), pt::phase{"chunk", 0});
          plan.op_assign(plan.ops("fc1"), pt::phase{"chunk", 1});
        }).what == pt::wrong::dimension_assigned_twice);
}
