// The page about a plan, and its table as text.
#include <cstdio>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/report/plan_report.hpp>
#include <partita/simulate/simulate.hpp>

namespace pt = partita;
struct batch : pt::axis<"batch", 64> {};
struct width : pt::axis<"width", 1024> {};
struct inner : pt::axis<"inner", 4096> {};

struct tower {
  int layers = 6;
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, width>(g, "x");
    for (int l = 0; l < layers; ++l) {
      auto block = pt::scope(g, "block", l);
      x = x + pt::linear(pt::relu(pt::linear(x, pt::param<pt::f32, width, inner>(g, "up.weight"))),
                         pt::param<pt::f32, inner, width>(g, "down.weight"));
    }
    return pt::mean(x);
  }
};
using model = pt::training<tower, pt::adamw>;
using parallel = pt::policy::compose<pt::policy::pipeline<2, pt::schedule::one_f_one_b, 4>, pt::policy::tensor_parallel<4>>;

int main() {
  // [report]
  const auto plan = pt::plan<model>::by(parallel{});
  const pt::simulation step = pt::simulate<model>(plan, pt::preset::dgx_a100());
  pt::write_text_file("plan.html", pt::plan_report({.title = "A tower on eight GPUs",
                                                    .simulated = &step,
                                                    .facts = {{"model", "6 blocks, width 1024"}, {"cluster", "DGX A100"}}}));
  // [/report]
  pt::lowering const& shared = *step.lowered;
  for (pt::planned_layers const& l : pt::plan_table(shared.graph(), shared.plan(), shared.plan_completed())) {
    std::printf("%s: devices %s\n", l.name().c_str(), l.devices.c_str());
    for (pt::planned_op const& o : l.ops) std::printf("  %-8s %s\n", o.name.c_str(), o.cuts.c_str());
  }
}
