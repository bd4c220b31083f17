// What differentiation and the update add to a graph; numbers are compared elsewhere.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <partita/grad/training.hpp>
#include <partita/ops/ops.hpp>

namespace pt = partita;

namespace {
struct batch : pt::axis<"batch", 4> {};
struct in : pt::axis<"in", 6> {};
struct hidden : pt::axis<"hidden", 8> {};
struct label : pt::axis<"class", 3> {};

struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, in, hidden>(g, "fc1.weight"), pt::param<pt::f32, hidden>(g, "fc1.bias")));
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, hidden, label>(g, "fc2.weight")), y);
  }
};
template <class Training> struct traced : pt::recorder<pt::planning_only, Training> {
  explicit traced(Training const& t = {}) { pt::trace(static_cast<pt::recorder<pt::planning_only, Training>&>(*this), t); }
  int find(std::string_view name) const {
    for (int op = 0; op < this->ops.size; ++op)
      if (this->ops[op].when == pt::pass::forward && this->name(op).view() == name) return op;
    return -1;
  }
  int count(std::string_view kind, pt::pass when) const {
    int n = 0;
    for (pt::op_entry const& e : this->ops) n += e.when == when && e.info->kind == kind;
    return n;
  }
  int gradient_of(std::string_view parameter) const { return this->tensors[this->ops[find(parameter)].first_output].gradient; }
  // The update ops of a parameter, by kind.
  std::vector<int> updates(std::string_view parameter) const {
    std::vector<int> all;
    const int p = find(parameter);
    for (int op = 0; op < this->ops.size; ++op)
      if (this->ops[op].when == pt::pass::update && this->ops[op].origin == p &&
          this->ops[op].info->source == pt::source_kind::none)
        all.push_back(op);
    return all;
  }
};
}  // namespace

TEST_CASE("every parameter has one gradient of its own type and axes, and no input has one") {
  traced<pt::training<mlp>> g;
  for (int op = 0; op < g.forward_count; ++op) {
    pt::op_info const& f = *g.ops[op].info;
    if (f.source == pt::source_kind::none) continue;
    const int t = g.ops[op].first_output, gradient = g.tensors[t].gradient;
    CHECK((gradient >= 0) == (f.source == pt::source_kind::parameter));
    if (gradient < 0) continue;
    pt::operand const &a = g.operand_of(t), &b = g.operand_of(gradient);
    REQUIRE(a.rank == b.rank);
    CHECK(a.type == b.type);
    for (int k = 0; k < a.rank; ++k) CHECK(a.axes[k]->id == b.axes[k]->id);
  }
  // No gradient of the data is made, though linear's rule knows one.
  CHECK(g.count("linear", pt::pass::backward) == 1);
  CHECK(g.count("linear.weight", pt::pass::backward) == 2);
  CHECK(g.count("bias.grad", pt::pass::backward) == 1);
}

TEST_CASE("backward ops know their forward op and the letters that they share with it") {
  traced<pt::training<mlp>> g;
  for (int op = g.forward_count; op < g.ops.size; ++op) {
    pt::op_entry const& e = g.ops[op];
    if (e.when != pt::pass::backward || e.info->source != pt::source_kind::none) continue;
    CHECK(g.ops[e.origin].when == pt::pass::forward);
    pt::op_info const& f = *g.ops[e.origin].info;
    for (int d = 0; d < e.info->dim_count; ++d)
      if (e.origin_dims[d] >= 0) {
        REQUIRE(e.origin_dims[d] < f.dim_count);
        INFO(std::string(e.info->kind), " letter ", e.info->dims[d].letter);
        CHECK(e.info->dims[d].axis->id == f.dims[e.origin_dims[d]].axis->id);
      } else {
        CAPTURE(std::string(e.info->kind));
        CHECK(e.info->dim_count == 0);  // none of these rules makes an axis
      }
  }
}

namespace {
struct unread {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    (void)pt::input<pt::f32, batch, hidden>(g, "spare");
    auto unused = pt::param<pt::f32, in, hidden>(g, "unused.weight");
    (void)pt::relu(unused);  // read, but not on the way to the loss
    auto h = pt::linear(x, pt::param<pt::f32, in, hidden>(g, "fc.weight"));
    auto aside = pt::tanh(h);
    return pt::outputs(pt::loss("loss", pt::sum(h)), pt::output("aside", aside));
  }
};
}  // namespace

TEST_CASE("what the loss does not depend on has no gradient, no backward op and no update") {
  traced<pt::training<unread, pt::adamw, pt::clip_norm>> g;
  CHECK(g.gradient_of("unused.weight") == -1);
  CHECK(g.gradient_of("fc.weight") >= 0);
  CHECK(g.count("relu.grad", pt::pass::backward) == 0);
  CHECK(g.count("tanh.grad", pt::pass::backward) == 0);
  CHECK(g.updates("unused.weight").empty());
  CHECK(g.count("square_sum", pt::pass::update) == 1);
  CHECK(g.count("adamw", pt::pass::update) == 1);
}

namespace {
struct no_rule_op {
  static constexpr std::string_view name = "no_rule", annotation = "... -> ...";
};
struct stuck_model {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto data = pt::apply<no_rule_op>(x);  // no parameter before it: no gradient is wanted
    auto h = pt::linear(data, pt::param<pt::f32, in, hidden>(g, "fc.weight"));
    return pt::sum(pt::apply<no_rule_op>(h));
  }
};
}  // namespace

TEST_CASE("an op without a gradient rule stops differentiation only between a parameter and the loss") {
  traced<pt::training<stuck_model>> g;
  REQUIRE(g.stuck >= 0);
  CHECK(g.ops[g.stuck].info->kind == "no_rule");
  CHECK(g.stuck > g.find("fc"));  // the second one
  traced<pt::training<stuck_model>> f({.frozen = {"fc*"}});
  CHECK(f.stuck == -1);
}

namespace {
struct shared {
  constexpr auto operator()(auto& g) const {
    auto w = pt::param<pt::f32, hidden, hidden>(g, "w.weight");
    auto h = pt::input<pt::f32, batch, hidden>(g, "x");
    for (int l = 0; l < 3; ++l) h = pt::relu(pt::linear(h, w));
    return pt::sum(h);
  }
};
int leaves_of_sum(pt::graph_data const& g, int tensor) {
  pt::op_entry const& e = g.ops[g.tensors[tensor].op];
  if (e.info->kind != "add") return 1;
  return leaves_of_sum(g, g.input(e, 0)) + leaves_of_sum(g, g.input(e, 1));
}
}  // namespace

TEST_CASE("the terms of a parameter used three times are added, and the norm counts it once") {
  traced<pt::training<shared, pt::sgd, pt::clip_norm>> g;
  CHECK(leaves_of_sum(g, g.gradient_of("w.weight")) == 3);
  CHECK(g.count("add", pt::pass::backward) == 2);
  CHECK(g.count("square_sum", pt::pass::update) == 1);
  CHECK(g.updates("w.weight").size() == 2);  // its term of the norm, its step
}

TEST_CASE("frozen parameters have neither gradient nor update, and their layer passes gradients on") {
  pt::training<mlp, pt::adamw, pt::clip_norm> t;
  t.frozen = {"fc2.*"};
  traced<pt::training<mlp, pt::adamw, pt::clip_norm>> g(t);
  CHECK(g.gradient_of("fc2.weight") == -1);
  CHECK(g.updates("fc2.weight").empty());
  CHECK(g.gradient_of("fc1.weight") >= 0);
  CHECK(g.gradient_of("fc1.bias") >= 0);
  CHECK(g.count("linear", pt::pass::backward) == 1);
  CHECK(g.count("linear.weight", pt::pass::backward) == 1);
  for (pt::op_entry const& e : g.ops)
    if (e.info->source == pt::source_kind::state) CHECK(e.origin != g.find("fc2.weight"));
  // All frozen: nothing to train, and nothing to go wrong.
  t.frozen = {"*"};
  traced<pt::training<mlp, pt::adamw, pt::clip_norm>> none(t);
  CHECK(none.count("adamw", pt::pass::update) == 0);
  CHECK(none.count("linear.weight", pt::pass::backward) == 0);
}

TEST_CASE("the optimizer's state is carried: every parameter and moment has one successor of its own type") {
  auto check = [](auto const& g, std::size_t per_parameter) {
    std::map<int, int> successors;
    for (int t = 0; t < g.tensors.size; ++t)
      if (const int before = g.tensors[t].carried; before >= 0) {
        ++successors[before];
        CHECK(g.operand_of(t).type == g.operand_of(before).type);
        CHECK(g.operand_of(t).rank == g.operand_of(before).rank);
        const pt::source_kind kind = g.ops[g.tensors[before].op].info->source;
        CHECK((kind == pt::source_kind::parameter || kind == pt::source_kind::state));
      }
    CHECK(successors.size() == 3 * per_parameter);
    for (auto const& [tensor, n] : successors) CHECK(n == 1);
  };
  check(traced<pt::training<mlp>>{}, 1);
  check(traced<pt::training<mlp, pt::sgd>>(pt::training<mlp, pt::sgd>{.optimizer = {.momentum = 0.9}}), 2);
  check(traced<pt::training<mlp, pt::adamw>>{}, 3);
  traced<pt::training<mlp, pt::adamw>> g;
  std::vector<std::string> states;
  for (int op = 0; op < g.ops.size; ++op)
    if (g.ops[op].info->source == pt::source_kind::state) states.emplace_back(g.name(op).view());
  std::sort(states.begin(), states.end());
  CHECK(states ==
        std::vector<std::string>{"fc1.bias.m", "fc1.bias.v", "fc1.weight.m", "fc1.weight.v", "fc2.weight.m", "fc2.weight.v"});
}

TEST_CASE("weight decay goes by names") {
  pt::training<mlp, pt::adamw> t;
  t.optimizer.weight_decay = 0.3;
  t.optimizer.no_decay = {"*.bias fc2.*"};
  traced<pt::training<mlp, pt::adamw>> g(t);
  auto decay = [&](std::string_view name) { return g.ops[g.updates(name).back()].given.values[0]; };
  CHECK(decay("fc1.weight") == 0.3);
  CHECK(decay("fc1.bias") == 0);
  CHECK(decay("fc2.weight") == 0);
  pt::training<mlp, pt::sgd> s;
  s.optimizer = {.weight_decay = 0.2, .no_decay = {"*.bias"}};
  traced<pt::training<mlp, pt::sgd>> h(s);
  CHECK(h.ops[h.updates("fc1.weight").back()].given.values[0] == 0.2);
  CHECK(h.ops[h.updates("fc1.bias").back()].given.values[0] == 0);
}

TEST_CASE("clipping: one sum of squares a parameter, one norm of all, one scale that every update reads") {
  pt::training<mlp, pt::sgd, pt::clip_norm> t;
  t.clip.max = 2.5;
  traced<pt::training<mlp, pt::sgd, pt::clip_norm>> g(t);
  CHECK(g.count("square_sum", pt::pass::update) == 3);
  CHECK(g.count("sum_of_all", pt::pass::update) == 1);
  CHECK(g.count("clip_scale", pt::pass::update) == 1);
  int norm_outputs = 0;
  for (int op = 0; op < g.ops.size; ++op) {
    pt::op_entry const& e = g.ops[op];
    norm_outputs += e.info->is_output && g.name(op).view() == "gradient_norm";
    if (e.info->kind == "sum_of_all") CHECK(e.input_count == 3);
    if (e.info->kind == "clip_scale") CHECK(e.given.values[0] == 2.5);
    if (e.info->kind == "sgd") CHECK(g.input(e, e.input_count - 1) == g.scale);
  }
  CHECK(norm_outputs == 1);
  for (auto name : {"fc1.weight", "fc1.bias", "fc2.weight"}) {
    const std::vector<int> updates = g.updates(name);
    REQUIRE(updates.size() == 2);
    CHECK(g.input(g.ops[updates[0]], 0) == g.gradient_of(name));
  }
}

TEST_CASE("a model that is only evaluated has a forward pass alone") {
  pt::recorder<pt::planning_only, pt::training<mlp>> g;
  g.trains = false;
  pt::trace(g, pt::training<mlp>{});
  CHECK(g.forward_count == g.ops.size);
}
