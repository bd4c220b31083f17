// Models to plan, and what a completed plan holds, in words a test can compare.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <partita/layout/transition.hpp>
#include <partita/model/names.hpp>
#include <partita/planning.hpp>

namespace partita::testing {

namespace planned_axes {
struct sample : axis<"sample", 8> {};
struct in : axis<"in", 12> {};
struct ffn : axis<"ffn", 16> {};
struct label : axis<"class", 10> {};
struct position : axis<"position", 6> {};
struct hidden : axis<"hidden", 24> {};
struct head : axis<"head", 4> {};
struct width : axis<"width", 6> {};
struct inner : axis<"inner", 96> {};
struct vocabulary : axis<"vocabulary", 101> {};
}  // namespace planned_axes

struct planned_mlp {
  constexpr auto operator()(auto& g) const {
    using namespace planned_axes;
    auto x = input<f32, sample, in>(g, "x");
    auto y = input<i32, sample>(g, "y");
    auto w1 = param<f32, in, ffn>(g, "fc1.weight");
    auto b1 = param<f32, ffn>(g, "fc1.bias");
    auto h = relu(linear(x, w1, b1));
    auto w2 = param<f32, ffn, label>(g, "fc2.weight");
    return cross_entropy(linear(h, w2), y);
  }
};

struct planned_gpt {
  int layers = 2;
  bool tied = true;
  constexpr auto operator()(auto& g) const {
    using namespace planned_axes;
    auto tokens = input<i32, sample, position>(g, "tokens");
    auto targets = input<i32, sample, position>(g, "targets");
    auto table = param<f32, vocabulary, hidden>(g, "wte.weight");
    auto places = param<f32, position, hidden>(g, "wpe.weight");
    auto x = ops::bias(embedding(tokens, table), places);
    for (int l = 0; l < layers; ++l) {
      auto s = partita::scope(g, "block", l);
      auto s1 = param<f32, hidden>(g, "ln1.weight");
      auto n1 = layer_norm(x, s1);
      auto wq = param<f32, hidden, head, width>(g, "q.weight");
      auto wk = param<f32, hidden, head, width>(g, "k.weight");
      auto wv = param<f32, hidden, head, width>(g, "v.weight");
      auto q = linear(n1, wq);
      auto k = linear(n1, wk);
      auto v = linear(n1, wv);
      auto a = causal_attention(q, k, v);
      auto wo = param<f32, head, width, hidden>(g, "proj.weight");
      auto o = linear(a, wo);
      auto x1 = x + o;
      auto s2 = param<f32, hidden>(g, "ln2.weight");
      auto n2 = layer_norm(x1, s2);
      auto w1 = param<f32, hidden, inner>(g, "fc1.weight");
      auto h1 = gelu(linear(n2, w1));
      auto w2 = param<f32, inner, hidden>(g, "fc2.weight");
      auto h2 = linear(h1, w2);
      x = x1 + h2;
    }
    auto sf = param<f32, hidden>(g, "lnf.weight");
    auto xf = layer_norm(x, sf);
    auto other = param<f32, vocabulary, hidden>(g, "lm_head.weight");
    return cross_entropy(linear(xf, tied ? table : other), targets);
  }
};

// A change of layout or place, as its receiver sees it.
struct moved {
  std::string op, kind;  // of the op whose output it is
  pass when = pass::forward;
  bool parameter_gradient = false, update = false;  // it is a parameter's gradient; an op of the update reads it
  std::string what;                                 // "all_reduce(data)", "send", "boxes", or several
  int times = 1;                                    // how often a step runs it
};

template <class Model> class planned {
 public:
  using training_type = as_training<Model>;
  using graph_type = recorder<planning_only, training_type>;
  graph_type g;
  completed c;
  finding wrong_with;

  template <class Policy> explicit planned(Policy const& policy, training_type const& t = {}) : planned(t) {
    policy(plan);
    complete();
  }
  explicit planned(training_type const& t = {}) : traced_(trace_into(g, t)), plan(g) {}
  void complete() { wrong_with = verify_plan(g, plan, c); }

 private:
  static int trace_into(graph_type& g, training_type const& t) {
    trace(g, t);
    return 0;
  }
  int traced_;

 public:
  plan_base plan;

  int find(std::string_view name, std::string_view kind, pass when = pass::forward) const {
    for (int op = 0; op < g.ops.size; ++op)
      if (g.ops[op].when == when && g.name(op).view() == name && (kind.empty() || g.ops[op].info->kind == kind)) return op;
    return -1;
  }
  int gradient_of(std::string_view parameter) const { return g.tensors[g.ops[find(parameter, "param")].first_output].gradient; }
  std::string mode(short m) const { return m < 0 ? "?" : std::string(plan.modes()[m].view()); }

  // "sample/2:data@space vocabulary/2:tensor@space *P..." of a value.
  std::string words(layout const& l, operand const& x) const {
    std::string s;
    for (int p = 0; p < l.count; ++p) {
      part const& q = l.parts[p];
      s += (p > 0 ? " " : "") + (q.partial() ? std::string("partial") : std::string(x.axes[static_cast<int>(q.axis)]->name)) +
           "/" + std::to_string(q.pieces) + ":" + mode(q.mode) + (q.in_time() ? " in time" : "");
    }
    return s;
  }
  std::string words_of_op(int op) const {  // its cuts, by letter
    node const& n = c.nodes[c.node_of_op[op]];
    std::string s;
    for (int p = 0; p < n.over.count; ++p) {
      part const& q = n.over.parts[p];
      s += (p > 0 ? " " : "") +
           (q.axis < 0 ? std::string("replicas") : std::string(g.ops[op].info->dims[static_cast<int>(q.axis)].axis->name)) + "/" +
           std::to_string(q.pieces) + ":" + mode(q.mode) + (q.in_time() ? " in time" : "");
    }
    return s;
  }
  std::vector<moved> moves() const {
    std::vector<moved> all;
    for (int id = 0; id < c.nodes.size; ++id) {
      node const& n = c.nodes[id];
      if (n.kind != node_kind::move) continue;
      node_value const &from = c.values[c.input(n, 0)], &to = c.values[n.first_value];
      operand const& x = g.operand_of(to.tensor);
      moved m;
      m.op = g.name(n.op).view();
      m.kind = g.ops[n.op].info->kind;
      m.when = g.ops[n.op].when;
      m.times = n.time.size();
      for (int op = 0; op < g.ops.size; ++op)
        if (g.ops[op].info->source == source_kind::parameter)
          m.parameter_gradient = m.parameter_gradient || g.tensors[g.ops[op].first_output].gradient == to.tensor;
      for (int other = 0; other < c.nodes.size; ++other)
        for (int i = 0; i < c.nodes[other].input_count; ++i)
          if (c.input(c.nodes[other], i) == n.first_value && g.ops[c.nodes[other].op].when == pass::update) m.update = true;
      bool found = false;
      if (from.lay.where == to.lay.where) {
        for (transition_step const& s : cheapest_chain(from.lay, to.lay, x.rank, 1e6, found)) {
          m.what += (m.what.empty() ? "" : ", ") + std::string(name_of(s.kind)) + "(";
          for (int l = 0, count = 0; l < from.lay.where.rank; ++l)
            if (s.levels >> l & 1) m.what += (count++ > 0 ? " " : "") + mode(from.lay.where.modes[l]);
          m.what += ")";
        }
        if (!found) m.what = "boxes";
      } else m.what = from.lay.where.same_shape(to.lay.where) ? "send" : "boxes";
      all.push_back(m);
    }
    return all;
  }
  // how many moves of a pass there are, by what they do
  std::map<std::string, int> count_moves(pass when) const {
    std::map<std::string, int> n;
    for (moved const& m : moves())
      if (m.when == when) ++n[m.what];
    return n;
  }
  int count_nodes(node_kind kind) const {
    int n = 0;
    for (node const& x : c.nodes) n += x.kind == kind;
    return n;
  }
};

}  // namespace partita::testing
