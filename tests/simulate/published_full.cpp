// Step times that were published, with the one efficiency curve of the preset: Korthikanti et al. 2022, table 5 ("present work":
// tensor and sequence parallelism, selective recompute), on A100s.
#include <doctest/doctest.h>

#include <string>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/simulate/simulate.hpp>

namespace pt = partita;

namespace {

struct sample : pt::axis<"sample"> {};
struct position : pt::axis<"position", 2048> {};
struct key : pt::axis<"key", 2048> {};
struct vocabulary : pt::axis<"vocabulary", 51200> {};
struct hidden : pt::axis<"hidden"> {};
struct head : pt::axis<"head"> {};
struct width : pt::axis<"width"> {};
struct inner : pt::axis<"inner"> {};

// As Megatron-LM of that time builds a GPT: probabilities are kept in memory, and dropped out.
struct megatron {
  int layers = 48;
  constexpr auto operator()(auto& g) const {
    using pt::bf16, pt::i32;
    auto norm = [&](auto x) {
      auto s = pt::scope(g, "norm");
      return pt::layer_norm(x, pt::param<bf16, hidden>(g, "scale", pt::ones), pt::param<bf16, hidden>(g, "bias", pt::zeros));
    };
    auto tokens = pt::input<i32, sample, position>(g, "tokens");
    auto targets = pt::input<i32, sample, position>(g, "targets");
    auto table = pt::param<bf16, vocabulary, hidden>(g, "wte.weight");
    auto x = pt::dropout(pt::bias(pt::embedding(tokens, table), pt::param<bf16, position, hidden>(g, "wpe.weight")), 0.1);
    for (int layer = 0; layer < layers; ++layer) {
      auto block = pt::scope(g, "block", layer);
      {
        auto s = pt::scope(g, "attention");
        auto h = norm(x);
        auto project = [&](pt::label weight, pt::label bias) {
          return pt::linear(h, pt::param<bf16, hidden, head, width>(g, weight), pt::param<bf16, head, width>(g, bias, pt::zeros));
        };
        auto q = project("q.weight", "q.bias");
        auto k = pt::rename<position, key>(project("k.weight", "k.bias"));
        auto v = pt::rename<position, key>(project("v.weight", "v.bias"));
        auto core = [&] {
          auto c = pt::scope(g, "core");
          auto scores = pt::einsum<"b s n d, b t n d -> b n s t">(q, k) * 0.125;
          return pt::einsum<"b n s t, b t n d -> b s n d">(pt::dropout(pt::softmax<key>(scores), 0.1), v);
        }();
        x = x + pt::dropout(pt::linear(core, pt::param<bf16, head, width, hidden>(g, "out.weight"),
                                       pt::param<bf16, hidden>(g, "out.bias", pt::zeros)),
                            0.1);
      }
      auto s = pt::scope(g, "mlp");
      auto h = pt::gelu(
          pt::linear(norm(x), pt::param<bf16, hidden, inner>(g, "up.weight"), pt::param<bf16, inner>(g, "up.bias", pt::zeros)));
      x = x + pt::dropout(pt::linear(h, pt::param<bf16, inner, hidden>(g, "down.weight"),
                                     pt::param<bf16, hidden>(g, "down.bias", pt::zeros)),
                          0.1);
    }
    return pt::cross_entropy(pt::linear(norm(x), table), targets);
  }
};

struct configuration {
  int layers, hidden, heads, tensor, stages, chunks, micro_batches, micro_batch;
  double seconds, mfu;
};
// Layer by layer round the stages, `chunks` times; embedding and output layer on the first and the last.
struct plan_as_published {
  configuration c;
  void operator()(auto& plan) const {
    const int parts = c.stages * c.chunks;
    if (c.micro_batches > 1) plan.op_trans(plan.ops(), pt::cut_axis{plan.batch_axis(), c.micro_batches, pt::mode_name("micro")});
    if (c.stages > 1)
      for (pt::op_ref op : plan.ops()) {
        const std::string name(op.name().view());
        int part = parts - 1;
        if (name.rfind("block.", 0) == 0) part = std::stoi(name.substr(6)) * parts / c.layers;
        else if (name == "tokens" || name.rfind("wte.weight", 0) == 0 || name.rfind("wpe", 0) == 0 || op.kind() == "embedding" ||
                 name == "dropout")
          part = 0;
        plan.op_assign(op, pt::at{"stage", part % c.stages, c.stages});
        if (c.chunks > 1) plan.op_assign(op, pt::phase{"chunk", part / c.stages});
      }
    pt::policy::tensor_parallel_of{c.tensor}(plan);
    pt::policy::sequence_parallel_of{c.tensor}(plan);
    pt::policy::recompute_of{"block.*.attention.core*"}(plan);
    pt::policy::narrow_sums{}(plan);  // their kernels add to f32 as they multiply; here a conversion would take time of its own
    if (c.stages > 1) pt::schedule::interleaved_of::order(plan, c.stages, c.micro_batches, c.chunks);
  }
};

pt::simulation run(configuration const& c, pt::cluster const& on) {
  const std::size_t heads = static_cast<std::size_t>(c.heads), h = static_cast<std::size_t>(c.hidden);
  pt::training<megatron, pt::adamw, pt::clip_norm> model{{c.layers}, {}, {}, {}};
  auto plan = pt::plan<decltype(model)>::by(
      plan_as_published{c}, model, pt::bind<sample>(static_cast<std::size_t>(c.micro_batches * c.micro_batch)),
      pt::bind<hidden>(h), pt::bind<head>(heads), pt::bind<width>(h / heads), pt::bind<inner>(4 * h));
  return pt::simulate(plan, on);
}
// FLOPs of a GPT step, as the paper counts them: 72 B L s h^2 (1 + s / 6h + v / 12hL).
double model_flops(configuration const& c) {
  const double b = c.micro_batches * c.micro_batch, l = c.layers, s = 2048, h = c.hidden, v = 51200;
  return 72 * b * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l));
}

}  // namespace

TEST_CASE("Korthikanti's table 5 within 5%") {
  const pt::cluster a100 = pt::preset::dgx_a100(35);
  REQUIRE(a100.kinds[0].flops_efficiency);
  const configuration all[]{{48, 6144, 64, 8, 1, 1, 1, 4, 1.10, 0.415}, {105, 20480, 128, 8, 35, 3, 280, 1, 37.83, 0.560}};
  for (configuration const& c : all) {
    const pt::simulation s = run(c, a100);
    const double flops = model_flops(c), peak = 312e12 * c.tensor * c.stages;
    CAPTURE(c.hidden);
    CAPTURE(s.seconds);
    CAPTURE(s.parts.compute);
    CAPTURE(s.parts.exposed);
    CAPTURE(s.parts.bubble);
    CHECK(flops / peak / c.seconds == doctest::Approx(c.mfu).epsilon(0.003));  // the paper's own two columns
    CHECK(s.model_flops == doctest::Approx(flops).epsilon(0.03));  // the op library's count, element-wise ops included
    CHECK(s.seconds == doctest::Approx(c.seconds).epsilon(0.05));
  }
}
