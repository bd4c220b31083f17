// GPT-3 175B on 1,024 GPUs: searches the best plan, says why it was chosen and how far from the best it can be at most, and
// simulates it. `plan_gpt3 --report report.html` also writes a page with all of it, `--trace trace.json` a trace for Perfetto;
// with `--grid` what an expert would try is simulated too (for minutes, on 128 nodes), and compared.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/report/plan_report.hpp>
#include <partita/search/ablation.hpp>
#include <partita/search/expert_grid.hpp>
#include <partita/search/search.hpp>
#include <partita/simulate/simulate.hpp>
namespace pt = partita;

// Brown et al. 2020, table 2.1.
struct sample : pt::axis<"sample", 1536> {};
struct position : pt::axis<"position", 2048> {};
struct word : pt::axis<"word", 51200> {};
struct hidden : pt::axis<"hidden", 12288> {};
struct head : pt::axis<"head", 96> {};
struct head_width : pt::axis<"head_width", 128> {};
struct inner : pt::axis<"inner", 4 * 12288> {};

struct gpt3 {
  int layers = 96;
  constexpr auto operator()(auto& g) const {
    using pt::bf16, pt::i32;
    auto norm = [&](auto x) {
      auto s = pt::scope(g, "norm");
      return pt::layer_norm(x, pt::param<bf16, hidden>(g, "scale", pt::ones), pt::param<bf16, hidden>(g, "bias", pt::zeros));
    };
    auto tokens = pt::input<i32, sample, position>(g, "tokens");
    auto targets = pt::input<i32, sample, position>(g, "targets");
    auto table = pt::param<bf16, word, hidden>(g, "words.weight");
    auto x = pt::bias(pt::embedding(tokens, table), pt::param<bf16, position, hidden>(g, "positions.weight"));
    for (int layer = 0; layer < layers; ++layer) {
      auto block = pt::scope(g, "block", layer);
      {
        auto s = pt::scope(g, "attention");
        auto h = norm(x);
        auto project = [&](pt::label weight, pt::label bias) {
          return pt::linear(h, pt::param<bf16, hidden, head, head_width>(g, weight),
                            pt::param<bf16, head, head_width>(g, bias, pt::zeros));
        };
        auto q = project("q.weight", "q.bias"), k = project("k.weight", "k.bias"), v = project("v.weight", "v.bias");
        x = x + pt::linear(pt::causal_attention(q, k, v), pt::param<bf16, head, head_width, hidden>(g, "out.weight"),
                           pt::param<bf16, hidden>(g, "out.bias", pt::zeros));
      }
      auto s = pt::scope(g, "mlp");
      auto h = pt::gelu(
          pt::linear(norm(x), pt::param<bf16, hidden, inner>(g, "up.weight"), pt::param<bf16, inner>(g, "up.bias", pt::zeros)));
      x = x + pt::linear(h, pt::param<bf16, inner, hidden>(g, "down.weight"), pt::param<bf16, hidden>(g, "down.bias", pt::zeros));
    }
    return pt::cross_entropy(pt::linear(norm(x), table), targets);
  }
};
using training = pt::training<gpt3, pt::adamw, pt::clip_norm>;

int main(int argc, char** argv) try {
  CLI::App app("Searches the best plan of GPT-3 175B on GPUs of DGX A100 nodes, and simulates it.");
  int nodes = 128;
  std::string report, trace;
  bool grid = false;
  app.add_option("--nodes", nodes, "nodes of 8 GPUs each")->capture_default_str()->check(CLI::Range(1, 4096));
  app.add_option("--report", report, "write a page about the plan into this file (HTML)");
  app.add_option("--trace", trace, "write when everything runs into this file, for ui.perfetto.dev (JSON)");
  app.add_flag("--grid", grid, "compare with the best of all Megatron-style plans");
  CLI11_PARSE(app, argc, argv);
  auto now = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  pt::cluster cluster = pt::preset::dgx_a100(nodes);
  // [search]
  const double begin = now();
  const auto found = pt::search<training>(cluster);
  std::printf("searched %ld configurations in %.2f s\n", found.why.configurations, now() - begin);
  std::printf("%.2f s a step; no plan of the space takes less than %.2f s\n", found.seconds, found.lower_bound);
  // [/search]
  std::printf("%d stages of %d GPUs, %d micro-batches, %.1f GiB on the fullest GPU\n", found.why.stages,
              found.why.devices_per_stage, found.why.micro_batches, found.memory / (1 << 30));
  std::printf("%s\n\n", found.why.bound_by.c_str());
  std::printf("%5s %9s %7s %9s %12s %10s %9s\n", "stage", "segments", "again", "grid", "micro-batch", "step", "memory");
  for (std::size_t s = 0; s < found.why.of_stages.size(); ++s) {
    pt::found_stage const& f = found.why.of_stages[s];
    std::printf("%5zu %4d to %-3d %4d %5d x %-3d %9.1f ms %7.1f ms %5.1f GiB\n", s, f.first_block, f.first_block + f.blocks - 1,
                f.replayed, f.outer, f.inner, f.seconds * 1e3, f.step_seconds * 1e3, f.memory / (1 << 30));
  }
  std::string cuts = found.why.of_stages[found.why.of_stages.size() / 2].cuts;
  for (std::size_t at = 0; (at = cuts.find(", ", at)) != std::string::npos;) cuts.replace(at, 2, "\n  ");
  std::printf("\nhow the ops of a block are cut (along the grid's first x second dimension):\n  %s\n", cuts.c_str());

  std::printf("\nwithout one freedom at a time, by the same cost:\n");
  // [ablation]
  const std::vector<pt::ablation> ablations = pt::ablate(found, cluster);
  for (pt::ablation const& x : ablations) std::printf("  %-75s %s\n", x.without.c_str(), pt::describe(x, found.seconds).c_str());
  // [/ablation]

  const pt::simulation s = pt::simulate(found.plan, cluster);
  std::printf(
      "\nsimulated: %.2f s a step, %.1f%% MFU, bubble %.2f s, communication that is not hidden %.2f s, at most %.1f GiB a GPU%s\n",
      s.seconds, 100 * s.mfu(), s.parts.bubble, s.parts.exposed, static_cast<double>(s.peak_bytes()) / (1 << 30),
      s.fits() ? "" : ": does not fit");
  std::vector<pt::considered_plan> considered;
  if (grid) {
    // [grid]
    const std::vector<pt::expert_plan> experts = pt::expert_grid<training>(cluster);
    if (experts.empty() || !experts.front().fits) throw pt::error("no plan of the grid fits: leave --grid out");
    const auto better = pt::rescore<training>(found, experts, cluster);
    pt::expert_plan const& best = experts.front();
    std::printf("the best of %zu expert plans: %s: %.2f s, %.1f GiB\n  beside it the plan found %s\n", experts.size(),
                best.cuts.name().c_str(), best.seconds, best.memory / (1 << 30), better.difference.c_str());
    // [/grid]
    considered.push_back({best.cuts.name(), best.seconds, static_cast<std::size_t>(best.memory), best.fits,
                          "the best of an expert's grid; beside it the plan found " + better.difference});
  }
  if (!report.empty())
    pt::write_text_file(report, pt::plan_report({.title = "GPT-3 175B on " + std::to_string(8 * nodes) + " A100",
                                                 .simulated = &s,
                                                 .searched = &found.why,
                                                 .ablations = ablations,
                                                 .found_seconds = found.seconds,
                                                 .considered = considered,
                                                 .lower_bound = found.lower_bound}));
  if (!trace.empty()) pt::write_text_file(trace, pt::perfetto_json(pt::simulated_timeline(s)));
} catch (pt::error const& wrong) {
  std::fprintf(stderr, "plan_gpt3: %s\n", wrong.what());
  return 1;
}
