// GPT-3's form in bf16, to be planned and never run: extents are bound where a plan is made. Brown et al. 2020, table
// 2.1; 175B: 96 layers, hidden 12288, 96 heads.
#pragma once
#include <vector>

#include <partita/planning.hpp>

namespace benchmark_model {

namespace pt = partita;

namespace large {
struct sample     : pt::axis<"sample"> {};
struct position   : pt::axis<"position"> {};
struct vocabulary : pt::axis<"vocabulary"> {};
struct hidden     : pt::axis<"hidden"> {};
struct head       : pt::axis<"head"> {};
struct head_width : pt::axis<"head_width"> {};
struct inner      : pt::axis<"inner"> {};
}  // namespace large

struct gpt3 {
  int layers = 96;
  double dropout = 0;
  constexpr auto operator()(auto& g) const {
    using namespace large;
    using pt::bf16, pt::f32, pt::i32;
    auto drop = [&](auto x) { return dropout > 0 ? pt::dropout(x, dropout) : x; };
    auto norm = [&](auto x) {
      auto s = pt::scope(g, "norm");
      return pt::layer_norm(x, pt::param<bf16, hidden>(g, "scale", pt::ones), pt::param<bf16, hidden>(g, "bias", pt::zeros));
    };
    auto tokens = pt::input<i32, sample, position>(g, "tokens");
    auto targets = pt::input<i32, sample, position>(g, "targets");
    auto table = pt::param<bf16, vocabulary, hidden>(g, "wte.weight");
    auto x = drop(pt::bias(pt::embedding(tokens, table), pt::param<bf16, position, hidden>(g, "wpe.weight")));
    for (int layer = 0; layer < layers; ++layer) {
      auto block = pt::scope(g, "block", layer);
      {
        auto s = pt::scope(g, "attention");
        auto h = norm(x);
        auto project = [&](pt::label weight, pt::label bias) {
          return pt::linear(h, pt::param<bf16, hidden, head, head_width>(g, weight),
                            pt::param<bf16, head, head_width>(g, bias, pt::zeros));
        };
        auto q = project("q.weight", "q.bias");
        auto k = project("k.weight", "k.bias");
        auto v = project("v.weight", "v.bias");
        x = x + drop(pt::linear(pt::causal_attention(q, k, v), pt::param<bf16, head, head_width, hidden>(g, "out.weight"),
                                pt::param<bf16, hidden>(g, "out.bias", pt::zeros)));
      }
      auto s = pt::scope(g, "mlp");
      auto h = pt::gelu(pt::linear(norm(x), pt::param<bf16, hidden, inner>(g, "up.weight"),
                                   pt::param<bf16, inner>(g, "up.bias", pt::zeros)));
      x = x + drop(pt::linear(h, pt::param<bf16, inner, hidden>(g, "down.weight"), pt::param<bf16, hidden>(g, "down.bias", pt::zeros)));
    }
    return pt::cross_entropy(pt::linear(norm(x), table), targets);
  }
};

struct large_sizes {
  int layers = 96;
  std::size_t hidden = 12288, heads = 96, vocabulary = 51200, positions = 2048, samples = 1536;
  std::vector<pt::binding> bindings() const {
    return {pt::bind<large::sample>(samples), pt::bind<large::position>(positions), pt::bind<large::vocabulary>(vocabulary),
            pt::bind<large::hidden>(hidden),  pt::bind<large::head>(heads),         pt::bind<large::head_width>(hidden / heads),
            pt::bind<large::inner>(4 * hidden)};
  }
};
// Stages outside, tensor parallelism with sequence parallelism innermost: on neighbouring devices.
struct large_cuts {
  int tensor = 8, stages = 16, data = 8, micro_batches = 64, zero = 1;
  bool recompute = false;
  void operator()(auto& plan) const {
    pt::policy::pipeline_of{stages, micro_batches}(plan);
    pt::policy::data_parallel_of{data}(plan);
    pt::policy::tensor_parallel_of{tensor}(plan);
    pt::policy::sequence_parallel_of{tensor}(plan);
    if (zero > 0) pt::policy::zero_of{zero, data}(plan);
  }
};
inline pt::plan<gpt3> plan_large(large_sizes const& s, large_cuts const& c) {
  pt::plan<gpt3> p(pt::training<gpt3>{{s.layers}}, s.bindings());
  c(p);
  return p;
}

}  // namespace benchmark_model
