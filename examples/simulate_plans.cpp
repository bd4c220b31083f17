// Which way of cutting a model of 2.6 billion parameters over 16 GPUs is fastest, and which fit? Nothing is run: every plan is
// lowered to the programs that the devices would run, and these are simulated. A page about the fastest plan is written into the
// file that is given.
#include <cstdio>
#include <string>
#include <vector>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/report/plan_report.hpp>
#include <partita/simulate/simulate.hpp>
namespace pt = partita;

struct sample : pt::axis<"sample", 256> {};
struct position : pt::axis<"position", 1024> {};
struct word : pt::axis<"word", 50304> {};
struct hidden : pt::axis<"hidden", 2560> {};
struct head : pt::axis<"head", 32> {};
struct head_width : pt::axis<"head_width", 80> {};
struct inner : pt::axis<"inner", 10240> {};

// GPT-2's form in bf16, without biases.
struct gpt {
  constexpr auto operator()(auto& g) const {
    using pt::bf16, pt::i32;
    auto norm = [&](auto x, pt::label scale) { return pt::rms_norm(x, pt::param<bf16, hidden>(g, scale, pt::ones)); };
    auto tokens = pt::input<i32, sample, position>(g, "tokens");
    auto targets = pt::input<i32, sample, position>(g, "targets");
    auto table = pt::param<bf16, word, hidden>(g, "words.weight");
    auto x = pt::bias(pt::embedding(tokens, table), pt::param<bf16, position, hidden>(g, "positions.weight"));
    for (int layer = 0; layer < 32; ++layer) {
      auto block = pt::scope(g, "block", layer);
      auto h = norm(x, "norm1.scale");
      auto q = pt::linear(h, pt::param<bf16, hidden, head, head_width>(g, "q.weight"));
      auto k = pt::linear(h, pt::param<bf16, hidden, head, head_width>(g, "k.weight"));
      auto v = pt::linear(h, pt::param<bf16, hidden, head, head_width>(g, "v.weight"));
      x = x + pt::linear(pt::causal_attention(q, k, v), pt::param<bf16, head, head_width, hidden>(g, "out.weight"));
      auto up = pt::gelu(pt::linear(norm(x, "norm2.scale"), pt::param<bf16, hidden, inner>(g, "up.weight")));
      x = x + pt::linear(up, pt::param<bf16, inner, hidden>(g, "down.weight"));
    }
    return pt::cross_entropy(pt::linear(norm(x, "norm.scale"), table), targets);
  }
};
using training = pt::training<gpt, pt::adamw, pt::clip_norm>;

// [plan]
struct cuts {
  int stages, data, tensor, zero;
  void operator()(auto& plan) const {
    pt::policy::pipeline_of{stages, 16}(plan);  // the outermost dimension of the grid
    pt::policy::data_parallel_of{data}(plan);
    pt::policy::tensor_parallel_of{tensor}(plan);  // the innermost: neighbouring devices
    pt::policy::sequence_parallel_of{tensor}(plan);
    pt::policy::zero_of{zero, data}(plan);
  }
};
// [/plan]

int main(int argc, char** argv) try {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fprintf(stderr, "simulate_plans [FILE]\nFILE: for a page about the fastest plan that fits (HTML)\n");
    return 2;
  }
  const pt::cluster cluster = pt::preset::dgx_a100(2);  // or pt::cluster::load("cluster.json")
  std::printf("%-28s %9s %9s %9s %9s %6s %9s\n", "stages x data x tensor, ZeRO", "step ms", "compute", "exposed", "bubble", "MFU",
              "peak GiB");
  pt::simulation best;
  for (cuts c : std::vector<cuts>{{1, 16, 1, 1}, {1, 2, 8, 1}, {2, 1, 8, 1}, {2, 4, 2, 1}, {4, 4, 1, 1}, {1, 16, 1, 3}}) {
    // [simulate]
    const pt::simulation s = pt::simulate(pt::plan<training>::by(c), cluster);
    std::printf("%2d x %2d x %2d, ZeRO %d           %9.1f %9.1f %9.1f %9.1f %5.1f%% %9.1f%s\n", c.stages, c.data, c.tensor,
                c.zero, s.seconds * 1e3, s.parts.compute * 1e3, s.parts.exposed * 1e3, s.parts.bubble * 1e3, 100 * s.mfu(),
                static_cast<double>(s.peak_bytes()) / (1 << 30), s.fits() ? "" : "  does not fit");
    // [/simulate]
    if (s.fits() && (best.seconds == 0 || s.seconds < best.seconds)) best = s;
  }
  if (best.lowered == nullptr) return 1;
  // [held]
  pt::simulated_class const& first = best.classes[0];
  std::printf("\nThe fastest one that fits holds, at its peak, beside %.1f GiB of state:\n",
              static_cast<double>(first.what.state_bytes) / (1 << 30));
  int lines = 0;
  for (pt::held_tensor const& held : pt::held_at_peak(first, best.lowered->graph()))
    if (lines++ < 4) std::printf("  %7.2f GiB  %s\n", static_cast<double>(held.bytes) / (1 << 30), held.name.c_str());
  // [/held]
  if (argc > 1) pt::write_text_file(argv[1], pt::plan_report({.title = "The fastest of six plans", .simulated = &best}));
} catch (pt::error const& wrong) {
  std::fprintf(stderr, "simulate_plans: %s\n", wrong.what());
  return 1;
}
