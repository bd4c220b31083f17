// Draws what policies cut, and counts the collectives that follow. With the name of a folder as argument it writes a
// picture of each policy into it.
#include <cstdio>
#include <map>
#include <string>

#include <partita/planning.hpp>
#include <partita/report/plan_picture.hpp>
#include <partita/report/timeline_picture.hpp>
namespace pt = partita;

struct sample : pt::axis<"sample", 8> {};
struct position : pt::axis<"position", 16> {};
struct vocabulary : pt::axis<"vocabulary", 64> {};
struct hidden : pt::axis<"hidden", 32> {};
struct head : pt::axis<"head", 4> {};
struct head_width : pt::axis<"head_width", 8> {};
struct inner : pt::axis<"inner", 128> {};
struct expert : pt::axis<"expert", 4> {};
struct slot : pt::axis<"slot", 8> {};

// Blocks of a transformer: attention, and an MLP.
struct transformer {
  int layers = 1;
  constexpr auto operator()(auto& g) const {
    auto norm = [&](auto x, pt::label scale, pt::label bias) {
      return pt::layer_norm(x, pt::param<pt::f32, hidden>(g, scale, pt::ones), pt::param<pt::f32, hidden>(g, bias, pt::zeros));
    };
    auto table = pt::param<pt::f32, vocabulary, hidden>(g, "table.weight");
    auto x = pt::embedding(pt::input<pt::i32, sample, position>(g, "tokens"), table);
    for (int l = 0; l < layers; ++l) {
      auto block = pt::scope(g, "block", l);
      auto h = norm(x, "norm1.scale", "norm1.bias");
      auto q = pt::linear(h, pt::param<pt::f32, hidden, head, head_width>(g, "q.weight"));
      auto k = pt::linear(h, pt::param<pt::f32, hidden, head, head_width>(g, "k.weight"));
      auto v = pt::linear(h, pt::param<pt::f32, hidden, head, head_width>(g, "v.weight"));
      x = x + pt::linear(pt::causal_attention(q, k, v), pt::param<pt::f32, head, head_width, hidden>(g, "out.weight"));
      auto u = pt::gelu(pt::linear(norm(x, "norm2.scale", "norm2.bias"), pt::param<pt::f32, hidden, inner>(g, "up.weight")));
      x = x + pt::linear(u, pt::param<pt::f32, inner, hidden>(g, "down.weight"));
    }
    return pt::cross_entropy(pt::linear(x, table), pt::input<pt::i32, sample, position>(g, "targets"));
  }
};
struct mixture {
  constexpr auto operator()(auto& g) const {
    auto x = pt::embedding(pt::input<pt::i32, sample, position>(g, "tokens"),
                           pt::param<pt::f32, vocabulary, hidden>(g, "table.weight"));
    auto block = pt::scope(g, "block", 0);
    auto gates = pt::top_k<expert>(pt::softmax<expert>(pt::linear(x, pt::param<pt::f32, hidden, expert>(g, "router.weight"))), 2);
    auto slots = pt::assign_slots<slot>(gates);
    auto up = pt::param<pt::f32, expert, hidden, inner>(g, "up.weight");
    auto down = pt::param<pt::f32, expert, inner, hidden>(g, "down.weight");
    auto h = pt::gelu(pt::einsum<"... e c h, e h f -> ... e c f">(pt::dispatch(x, slots), up));
    x = x + pt::combine(pt::einsum<"... e c f, e f h -> ... e c h">(h, down), gates, slots);
    return pt::cross_entropy(pt::linear(x, pt::param<pt::f32, hidden, vocabulary>(g, "output.weight")),
                             pt::input<pt::i32, sample, position>(g, "targets"));
  }
};

namespace policy = pt::policy;
// [data]
using data = policy::data_parallel<2>;
// [/data]
// [tensor]
using tensor = policy::tensor_parallel<2>;
// [/tensor]
// [sequence]
using sequence = policy::compose<policy::tensor_parallel<2>, policy::sequence_parallel<2>>;
// [/sequence]
// [context]
using context = policy::context_parallel<2, position, head>;
// [/context]
// [ring]
using ring = policy::ring_attention<4, position>;
using folded = policy::ring_attention<4, position, policy::ring_form::folded>;
// [/ring]
// [expert]
using experts = policy::expert_parallel<2, expert>;
// [/expert]
// [zero]
using zero1 = policy::compose<policy::data_parallel<2>, policy::zero<1, 2>>;  // the optimizer's state is shared out
using zero2 = policy::compose<policy::data_parallel<2>, policy::zero<2, 2>>;  // and the gradients
using zero3 = policy::compose<policy::data_parallel<2>, policy::zero<3, 2>>;  // and the parameters
using in_turns = policy::compose<policy::data_parallel<2>, policy::micro_batches<2>, policy::zero<2, 2>>;
// [/zero]
// [recompute]
using again = policy::compose<policy::single_device, policy::recompute<"block.*">>;
// [/recompute]
// [selective]
using selective = policy::compose<policy::single_device, policy::recompute<"block.*.attention*">>;
// [/selective]
// [coshard]
using coshard = policy::compose<policy::single_device, policy::coshard<inner, 4, "block.*">>;
// [/coshard]
// [composed]
using composed = policy::compose<policy::data_parallel<2>, policy::tensor_parallel<2>, policy::sequence_parallel<2>>;
// [/composed]

namespace {
std::string folder;  // empty: nothing is drawn

pt::pass pass_of(pt::lowering const& s, int move) {
  pt::completed const& c = s.plan_completed();
  return c.nodes[move].for_backward || c.values[c.nodes[move].first_value].replayed ? pt::pass::backward
                                                                                    : s.graph().ops[c.nodes[move].op].when;
}
// How often each collective occurs in the plan of one step.
std::string count_collectives(pt::lowering const& s, pt::pass when) {
  std::map<std::string, int> counts;
  pt::completed const& c = s.plan_completed();
  for (int id = 0; id < c.nodes.size; ++id)
    if (c.nodes[id].kind == pt::node_kind::move && pass_of(s, id) == when) {
      if (c.nodes[id].ring != pt::ring_kind::none) {
        ++counts[c.nodes[id].ring == pt::ring_kind::pieces ? "ring of pieces" : "ring of sums"];
        continue;
      }
      for (pt::transition_step const& t : s.route_of(id).steps)
        if (t.kind != pt::transition_kind::slice) ++counts[std::string(pt::name_of(t.kind))];
    }
  std::string words;
  for (auto const& [name, n] : counts) words += (words.empty() ? "" : ", ") + std::to_string(n) + " " + name;
  return words.empty() ? "none" : words;
}
template <class Model, class Policy>
void show(const char* name, pt::plan_picture_options const& how, int layers = 1, bool timeline = false) {
  using training = pt::training<Model, pt::adamw>;
  training t;
  if constexpr (requires { t.model.layers; }) t.model.layers = layers;
  const auto plan = pt::plan<training>::by(Policy{}, t);
  pt::completed c;
  if (const pt::finding f = pt::verify_plan(plan.traced(), plan, c)) throw pt::error(pt::describe(f));
  const pt::lowering s(plan.traced(), plan, c);
  std::printf("%-10s forward: %s\n           backward: %s\n           update: %s\n", name,
              count_collectives(s, pt::pass::forward).c_str(), count_collectives(s, pt::pass::backward).c_str(),
              count_collectives(s, pt::pass::update).c_str());
  if (folder.empty()) return;
  pt::write_text_file(folder + "/policy-" + name + ".svg",
                      timeline ? pt::timeline_svg(pt::planned_timeline(s)) : pt::plan_svg(s, how));
}
}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) folder = argv[1];
  const pt::plan_picture_options block{.ops = pt::glob("block.0.*")};
  show<transformer, data>("data", block);
  show<transformer, tensor>("tensor", block);
  show<transformer, sequence>("sequence", block);
  show<transformer, context>("context", block);
  const pt::plan_picture_options attention{.ops = pt::glob("block.0.q* block.0.k* block.0.v* block.0.attention* block.0.out*")};
  show<transformer, ring>("ring", attention);
  show<transformer, folded>("folded", attention);
  show<mixture, experts>("experts", block);
  show<transformer, zero1>("zero1", {.ops = pt::glob("block.0.q.* block.0.up.*"), .when = pt::pass::update});
  show<transformer, zero2>("zero2", {.ops = pt::glob("block.0.q* block.0.up*"), .when = pt::pass::backward});
  show<transformer, zero3>("zero3", block);
  show<transformer, in_turns>("zero2-micro", {.ops = pt::glob("block.0.q* block.0.up*"), .when = pt::pass::backward});
  show<transformer, again>("recompute", block, 3, true);
  show<transformer, selective>("selective", block, 3, true);
  show<transformer, coshard>("coshard", block);
  show<transformer, composed>("composed", block);
}
