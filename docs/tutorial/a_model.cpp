// Tutorial, chapter 1: a model, and what its trace holds.
#include <cstdio>
#include <partita/model/names.hpp>
#include <partita/planning.hpp>
#include <partita/program/words.hpp>

namespace pt = partita;

// [axes]
struct sample : pt::axis<"sample"> {};    // how many, is said when a trainer or a plan is made
struct pixel : pt::axis<"pixel", 64> {};  // always 64
struct hidden : pt::axis<"hidden", 32> {};
struct inner : pt::axis<"inner", 128> {};
struct digit : pt::axis<"digit", 10> {};
// [/axes]

// [model]
struct classifier {
  int layers = 1;

  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, pixel>(g, "x");
    auto y = pt::input<pt::i32, sample>(g, "y");

    auto h = pt::linear(x, pt::param<pt::f32, pixel, hidden>(g, "enter.weight"));
    for (int layer = 0; layer < layers; ++layer) {
      auto block = pt::scope(g, "block", layer);
      auto up = pt::linear(h, pt::param<pt::f32, hidden, inner>(g, "up.weight"));
      auto active = pt::gelu(up);
      h = h + pt::linear(active, pt::param<pt::f32, inner, hidden>(g, "down.weight", pt::normal{0.01}));
    }
    auto logits = pt::linear(h, pt::param<pt::f32, hidden, digit>(g, "leave.weight"));
    logits = pt::bias(logits, pt::param<pt::f32, digit>(g, "leave.bias", pt::zeros));
    return pt::outputs(pt::loss("loss", pt::cross_entropy(logits, y)), pt::output("logits", logits));
  }
};
// [/model]

// [training]
using training = pt::training<classifier, pt::adamw, pt::clip_norm>;
constexpr training recipe{.model = {.layers = 2}, .optimizer = {.weight_decay = 0.1, .no_decay = "*.bias"}, .clip = {.max = 1.0}};
// [/training]

// [constant]
constexpr int ops_of_two_blocks = [] {
  pt::recorder<pt::planning_only, training> g;
  pt::trace(g, recipe);
  return g.ops.size;
}();
// [/constant]

int main() {
  // [trace]
  const pt::plan<training> traced(training{.model = {.layers = 1}}, pt::bind<sample>(16));
  pt::graph_data const& graph = traced.graph();
  const pt::list<std::string> names = pt::unique_names(graph);
  for (int op = 0; op < graph.ops.size; ++op) {
    pt::op_entry const& e = graph.ops[op];
    std::string axes;
    for (int o = 0; o < e.info->output_count; ++o) {
      if (o > 0) axes += ",";
      for (int a = 0; a < e.info->outputs[o].rank; ++a) axes += " " + std::string(e.info->outputs[o].axes[a]->name);
    }
    std::printf("%-8s  %-36s ->%s\n", pt::name_of(e.when).data(), names[static_cast<std::size_t>(op)].c_str(), axes.c_str());
  }
  // [/trace]
  std::printf("two blocks: %d ops\n", ops_of_two_blocks);
}
