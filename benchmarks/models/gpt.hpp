// GPT-2's and GPT-3's form (Radford et al. 2019; Brown et al. 2020).
#pragma once
#include "axes.hpp"

namespace benchmark_model {

template <pt::dtype Type> struct gpt {
  int layers = 12;
  double dropout = 0;
  constexpr auto operator()(auto& g) const {
    auto drop = [&](auto x) { return dropout > 0 ? pt::dropout(x, dropout) : x; };
    auto norm = [&](auto x) { return layer_norm_of_hidden<Type>(g, x); };
    auto tokens = pt::input<pt::i32, sample, position>(g, "tokens");
    auto targets = pt::input<pt::i32, sample, position>(g, "targets");
    auto table = pt::param<Type, vocabulary, hidden>(g, "wte.weight");
    auto x = drop(pt::bias(pt::embedding(tokens, table), pt::param<Type, position, hidden>(g, "wpe.weight")));
    for (int layer = 0; layer < layers; ++layer) {
      auto block = pt::scope(g, "block", layer);
      {
        auto s = pt::scope(g, "attention");
        auto h = norm(x);
        auto project = [&](pt::label weight, pt::label bias) {
          return pt::linear(h, pt::param<Type, hidden, head, head_width>(g, weight),
                            pt::param<Type, head, head_width>(g, bias, pt::zeros));
        };
        auto q = project("q.weight", "q.bias");
        auto k = project("k.weight", "k.bias");
        auto v = project("v.weight", "v.bias");
        x = x + drop(pt::linear(pt::causal_attention(q, k, v), pt::param<Type, head, head_width, hidden>(g, "out.weight"),
                                pt::param<Type, hidden>(g, "out.bias", pt::zeros)));
      }
      auto s = pt::scope(g, "mlp");
      auto h = pt::gelu(
          pt::linear(norm(x), pt::param<Type, hidden, inner>(g, "up.weight"), pt::param<Type, inner>(g, "up.bias", pt::zeros)));
      x = x + drop(pt::linear(h, pt::param<Type, inner, hidden>(g, "down.weight"),
                              pt::param<Type, hidden>(g, "down.bias", pt::zeros)));
    }
    return pt::cross_entropy(pt::linear(norm(x), table), targets);
  }
};

struct gpt_sizes {
  int layers = 12;
  std::size_t vocabulary = 50257, hidden = 768, heads = 12, samples = 4, positions = 64;
  std::vector<pt::binding> bindings() const {
    return {pt::bind<sample>(samples),
            pt::bind<position>(positions),
            pt::bind<benchmark_model::vocabulary>(vocabulary),
            pt::bind<benchmark_model::hidden>(hidden),
            pt::bind<head>(heads),
            pt::bind<head_width>(hidden / heads),
            pt::bind<inner>(4 * hidden)};
  }
};

}  // namespace benchmark_model
