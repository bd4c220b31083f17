// What a trace records: names, scopes, ties, precision, frozen parameters, named results; and that it records the same at
// compile time and at run time, up to the numbers of ops.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <partita/grad/training.hpp>
#include <partita/model/names.hpp>
#include <partita/ops/ops.hpp>

namespace pt = partita;

namespace {
struct batch : pt::axis<"batch", 4> {};
struct in : pt::axis<"in", 6> {};
struct hidden : pt::axis<"hidden", 8> {};
struct label : pt::axis<"class", 3> {};

// Operands made inside calls, whose order of evaluation differs between the two times.
struct residual {
  constexpr auto operator()(auto& g) const {
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto h = pt::linear(pt::input<pt::f32, batch, in>(g, "x"), pt::param<pt::f32, in, hidden>(g, "embed.weight"));
    for (int l = 0; l < 2; ++l) {
      auto s = pt::scope(g, "block", l);
      h = pt::relu(pt::linear(h, pt::param<pt::f32, hidden, hidden>(g, "up.weight"))) +
          pt::tanh(pt::linear(h, pt::param<pt::f32, hidden, hidden>(g, "side.weight")));
    }
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, hidden, label>(g, "out.weight")), y);
  }
};

// A graph in language arrays, so that a constant can hold it.
template <int Ops, int Edges, int Tensors, int Names, int Scopes> struct kept {
  pt::op_entry ops[Ops]{};
  int edges[Edges]{};
  pt::tensor_entry tensors[Tensors]{};
  pt::name_entry names[Names]{};
  pt::scope_entry scopes[Scopes]{};
};
template <class Training> using graph_of = pt::recorder<pt::planning_only, Training>;
template <class Training> constexpr graph_of<Training> traced() {
  graph_of<Training> g;
  pt::trace(g, Training{});
  return g;
}
template <class Training> constexpr auto keep() {
  constexpr auto count = [] {
    auto g = traced<Training>();
    return std::array<int, 5>{g.ops.size, g.edges.size, g.tensors.size, g.names.size, g.scopes.size + 1};
  }();
  kept<count[0], count[1], count[2], count[3], count[4]> k;
  auto g = traced<Training>();
  for (int i = 0; i < g.ops.size; ++i) k.ops[i] = g.ops[i];
  for (int i = 0; i < g.edges.size; ++i) k.edges[i] = g.edges[i];
  for (int i = 0; i < g.tensors.size; ++i) k.tensors[i] = g.tensors[i];
  for (int i = 0; i < g.names.size; ++i) k.names[i] = g.names[i];
  for (int i = 0; i < g.scopes.size; ++i) k.scopes[i] = g.scopes[i];
  return k;
}
template <int... N> pt::graph_data thawed(kept<N...> const& k) {
  pt::graph_data g;
  for (auto const& x : k.ops) g.ops.push(x);
  for (auto const& x : k.edges) g.edges.push(x);
  for (auto const& x : k.tensors) g.tensors.push(x);
  for (auto const& x : k.names) g.names.push(x);
  for (auto const& x : k.scopes) g.scopes.push(x);
  return g;
}
// One line an op: its name, kind, pass, attributes, inputs, the op it stems from, gradients and carried pairs by name.
std::vector<std::string> by_name(pt::graph_data const& g) {
  const pt::list<std::string> names = pt::unique_names(g);
  auto tensor = [&](int t) {
    return t < 0 ? std::string("-")
                 : names[static_cast<std::size_t>(g.tensors[t].op)] + ":" + std::to_string(g.tensors[t].output);
  };
  std::vector<std::string> lines;
  for (int op = 0; op < g.ops.size; ++op) {
    pt::op_entry const& e = g.ops[op];
    std::string line = names[static_cast<std::size_t>(op)] + " " + std::string(e.info->kind) + " " +
                       std::to_string(static_cast<int>(e.when)) + " of " + names[static_cast<std::size_t>(e.origin)] + " <-";
    std::vector<std::string> inputs;
    for (int i = 0; i < e.input_count; ++i) inputs.push_back(tensor(g.input(e, i)));
    // terms of a sum come in the order of the ops that made them
    if (e.info->kind == "add" || e.info->variadic) std::sort(inputs.begin(), inputs.end());
    for (std::string const& name : inputs) line += " " + name;
    for (double v : e.given.values) line += " " + std::to_string(v);
    for (int d = 0; d < e.info->dim_count; ++d) line += " " + std::to_string(e.origin_dims[d]);
    for (int o = 0; o < e.info->output_count; ++o) {
      pt::tensor_entry const& x = g.tensors[e.first_output + o];
      line += " | " + tensor(x.gradient) + " " + tensor(x.carried) + (x.differentiable ? " d" : " c");
    }
    lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}
template <class Training> int op_named(graph_of<Training> const& g, std::string_view name, pt::pass when = pt::pass::forward) {
  for (int op = 0; op < g.ops.size; ++op)
    if (g.ops[op].when == when && g.name(op).view() == name) return op;
  return -1;
}
template <class G> std::vector<std::string> names_of(G const& g, pt::pass when) {
  std::vector<std::string> all;
  for (int op = 0; op < g.ops.size; ++op)
    if (g.ops[op].when == when) all.emplace_back(g.name(op).view());
  return all;
}
}  // namespace

TEST_CASE("a graph is the same at compile time and at run time, up to the numbers of its ops") {
  auto same = []<class Training>(Training const& t) {
    static constexpr auto compiled = keep<Training>();
    graph_of<Training> g;
    pt::trace(g, t);
    const auto one = by_name(thawed(compiled)), other = by_name(g);
    REQUIRE(one.size() == other.size());
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i] == other[i]);
  };
  same(pt::training<residual, pt::adamw, pt::clip_norm>{});
  same(pt::training<residual>{});
}

namespace {
struct scoped {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto outer = pt::scope(g, "encoder");
    auto h = pt::linear(x, pt::param<pt::f32, in, hidden>(g, "fc.weight"), pt::param<pt::f32, hidden>(g, "fc.bias"));
    for (int l = 0; l < 2; ++l) {
      auto s = pt::scope(g, "layer", l);
      h = pt::relu(pt::linear(h, pt::param<pt::f32, hidden, hidden>(g, "proj")));
    }
    return pt::sum(pt::linear(h, pt::param<pt::f32, hidden, label>(g, "attention.q.weight")));
  }
};
}  // namespace

TEST_CASE("an op is named by scope and its first parameter's label up to the last dot, else by its kind") {
  graph_of<pt::training<scoped>> g;
  pt::trace(g, pt::training<scoped>{});
  const std::vector<std::string> expected{"x",
                                          "encoder.fc.weight",
                                          "encoder.fc.bias",
                                          "encoder.fc",
                                          "encoder.fc",
                                          "encoder.layer.0.proj",
                                          "encoder.layer.0.proj",
                                          "encoder.layer.0.relu",
                                          "encoder.layer.1.proj",
                                          "encoder.layer.1.proj",
                                          "encoder.layer.1.relu",
                                          "encoder.attention.q.weight",
                                          "encoder.attention.q",
                                          "encoder.sum",
                                          "loss"};
  auto names = names_of(g, pt::pass::forward), wanted = expected;
  std::sort(names.begin(), names.end());  // run-time evaluation of arguments has an order of its own
  std::sort(wanted.begin(), wanted.end());
  CHECK(names == wanted);
  for (int op = 0; op < g.ops.size; ++op)
    if (g.ops[op].when == pt::pass::backward) CHECK(g.name(op).view() == g.name(g.ops[op].origin).view());
}

namespace {
struct tied {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, hidden>(g, "x");
    auto w = pt::param<pt::f32, hidden, hidden>(g, "shared.weight");
    return pt::sum(pt::linear(pt::relu(pt::linear(x, w)), w));
  }
};
}  // namespace

TEST_CASE("a parameter used twice is one parameter, its gradient the sum of both terms") {
  graph_of<pt::training<tied>> g;
  pt::trace(g, pt::training<tied>{});
  int parameters = 0, updates = 0;
  for (int op = 0; op < g.ops.size; ++op) {
    parameters += g.ops[op].info->source == pt::source_kind::parameter;
    updates += g.ops[op].info->kind == "sgd";
  }
  CHECK(parameters == 1);
  CHECK(updates == 1);
  const int w = op_named(g, "shared.weight");
  const int gradient = g.tensors[g.ops[w].first_output].gradient;
  pt::op_entry const& sum = g.ops[g.tensors[gradient].op];
  CHECK(sum.info->kind == "add");
  CHECK(sum.origin == w);  // it lies as the parameter does
  CHECK(sum.origin_dims[0] == 0);
  CHECK(sum.origin_dims[1] == 1);
}

namespace {
struct mixed {
  constexpr auto operator()(auto& g) const {
    auto x = pt::cast<pt::bf16>(pt::input<pt::f32, batch, in>(g, "x"));
    auto y = pt::input<pt::i32, batch>(g, "y");
    return pt::cross_entropy(pt::linear(x, pt::param<pt::bf16, in, label>(g, "fc.weight")), y);
  }
};
template <class G> bool any_of_type(G const& g, pt::dtype type) {
  for (int t = 0; t < g.tensors.size; ++t)
    if (g.operand_of(t).type == type) return true;
  return false;
}
}  // namespace

TEST_CASE("a bf16 parameter is stored in f32 and used in bf16; in_precision turns every float into f64") {
  graph_of<pt::training<mixed>> g;
  pt::trace(g, pt::training<mixed>{});
  const int w = op_named(g, "fc.weight");
  CHECK(g.operand_of(g.ops[w].first_output).type == pt::f32);
  CHECK(any_of_type(g, pt::bf16));
  const int gradient = g.tensors[g.ops[w].first_output].gradient;
  REQUIRE(gradient >= 0);
  CHECK(g.operand_of(gradient).type == pt::f32);
  int casts = 0;
  for (int op = 0; op < g.ops.size; ++op)
    if (g.ops[op].when == pt::pass::forward && g.ops[op].info->kind == "cast") {
      ++casts;
      CHECK((g.name(op).view() == "fc" || g.name(op).view() == "cast"));  // that of a parameter has its name
    }
  CHECK(casts == 2);

  graph_of<pt::training<pt::in_precision<mixed, pt::f64>, pt::adamw, pt::clip_norm>> d;
  pt::trace(d, pt::training<pt::in_precision<mixed, pt::f64>, pt::adamw, pt::clip_norm>{});
  for (pt::dtype type : {pt::f32, pt::bf16, pt::f16}) CHECK_FALSE(any_of_type(d, type));
  CHECK(any_of_type(d, pt::f64));
  CHECK(any_of_type(d, pt::i32));
  for (int op = 0; op < d.ops.size; ++op) CHECK(d.ops[op].info->kind != "cast");

  graph_of<pt::training<pt::in_precision<mixed, pt::f32>>> single;
  pt::trace(single, pt::training<pt::in_precision<mixed, pt::f32>>{});
  for (pt::dtype type : {pt::f64, pt::bf16, pt::f16}) CHECK_FALSE(any_of_type(single, type));
}

TEST_CASE("globs") {
  CHECK(pt::matches("fc*", "fc1.weight"));
  CHECK(pt::matches("block.*.fc*", "block.11.fc1"));
  CHECK_FALSE(pt::matches("block.*.fc*", "block.11.attention"));
  CHECK(pt::matches("*", ""));
  CHECK(pt::matches("", ""));
  CHECK_FALSE(pt::matches("", "a"));
  CHECK(pt::matches("a*b*c", "a.b.b.c"));
  CHECK_FALSE(pt::matches("a*b*c", "a.c.b"));
  CHECK(pt::matches("*ab", "aab"));  // goes back to where the star stood
  CHECK(pt::matches("**a**", "a"));
  CHECK_FALSE(pt::matches("fc1", "fc1.weight"));
  constexpr pt::glob two{"*.bias  norm*"};
  CHECK(two.contains("fc.bias"));
  CHECK(two.contains("norm.weight"));
  CHECK_FALSE(two.contains("fc.weight"));
  CHECK_FALSE(pt::glob{}.contains(""));
  CHECK_FALSE(pt::glob{}.contains("a"));
}

namespace {
struct two_losses {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto h = pt::linear(x, pt::param<pt::f32, in, hidden>(g, "fc.weight"));
    auto logits = pt::linear(h, pt::param<pt::f32, hidden, label>(g, "out.weight"));
    return pt::outputs(pt::output("logits", logits), pt::loss("main", pt::cross_entropy(logits, y)),
                       pt::loss("small", pt::mean(h), 0.25), pt::output("labels", y));
  }
};
}  // namespace

TEST_CASE("named results: losses are seeded with their weights, outputs are not; integers may be results") {
  graph_of<pt::training<two_losses>> g;
  pt::trace(g, pt::training<two_losses>{});
  CHECK_FALSE(g.poisoned);
  std::map<std::string, double> seeds;
  int results = 0;
  for (int op = 0; op < g.ops.size; ++op) {
    pt::op_entry const& e = g.ops[op];
    results += e.info->is_output;
    if (e.info->source == pt::source_kind::constant && e.when == pt::pass::backward)
      seeds[std::string(g.name(e.origin).view())] = e.given.values[0];
  }
  CHECK(results == 4);
  CHECK(seeds.size() == 2);
  REQUIRE(g.losses.size == 2);
  CHECK(g.name(g.losses[0].op).view() == "main");
  CHECK(g.losses[0].weight == 1);
  CHECK(g.name(g.losses[1].op).view() == "small");
  CHECK(g.losses[1].weight == 0.25);
  for (auto name : {"logits", "main", "small", "labels"}) CHECK(op_named(g, name) >= 0);
  for (int op = 0; op < g.forward_count; ++op)
    if (g.ops[op].info->is_output) CHECK(g.tensors[g.ops[op].first_output].gradient == -1);
}

TEST_CASE("every op stands after what it reads, and tensors belong to their ops") {
  graph_of<pt::training<residual, pt::adamw, pt::clip_norm>> g;
  pt::trace(g, pt::training<residual, pt::adamw, pt::clip_norm>{});
  for (int op = 0; op < g.ops.size; ++op) {
    pt::op_entry const& e = g.ops[op];
    for (int i = 0; i < e.input_count; ++i) CHECK(g.tensors[g.input(e, i)].op < op);
    for (int o = 0; o < e.info->output_count; ++o) {
      CHECK(g.tensors[e.first_output + o].op == op);
      CHECK(g.tensors[e.first_output + o].output == o);
    }
    CHECK(g.ops[e.origin].origin == e.origin);
    CHECK(g.ops[e.origin].when <= e.when);
  }
}
