// The model whose compile time is measured: a GPT-2 of any number of layers, backward and AdamW included.
#pragma once
#include <partita/planning.hpp>

#ifndef LAYERS
#define LAYERS 12
#endif

namespace pt = partita;

struct sample : pt::axis<"sample"> {};
struct position : pt::axis<"position", 64> {};
struct vocab : pt::axis<"vocab", 50257> {};
struct hidden : pt::axis<"hidden", 768> {};
struct head : pt::axis<"head", 12> {};
struct head_dim : pt::axis<"head_dim", 64> {};
struct inner : pt::axis<"inner", 3072> {};

struct gpt {
  int layers = LAYERS;
  template <class... Axes> static constexpr auto weight(auto& g, pt::label name) { return pt::param<pt::f32, Axes...>(g, name); }
  template <class... Axes> static constexpr auto bias(auto& g, pt::label name) {
    return pt::param<pt::f32, Axes...>(g, name, pt::zeros);
  }
  static constexpr auto norm(auto& g, auto x) {
    return pt::layer_norm(x, pt::param<pt::f32, hidden>(g, "norm.scale", pt::ones), bias<hidden>(g, "norm.bias"));
  }
  constexpr auto operator()(auto& g) const {
    auto tokens = pt::input<pt::i32, sample, position>(g, "tokens");
    auto targets = pt::input<pt::i32, sample, position>(g, "targets");
    auto table = weight<vocab, hidden>(g, "token.weight");
    auto x = pt::bias(pt::embedding(tokens, table), weight<position, hidden>(g, "position.weight"));
    for (int l = 0; l < layers; ++l) {
      auto block = pt::scope(g, "block", l);
      {
        auto attention = pt::scope(g, "attention");
        auto h = norm(g, x);
        auto q = pt::linear(h, weight<hidden, head, head_dim>(g, "q.weight"), bias<head, head_dim>(g, "q.bias"));
        auto k = pt::linear(h, weight<hidden, head, head_dim>(g, "k.weight"), bias<head, head_dim>(g, "k.bias"));
        auto v = pt::linear(h, weight<hidden, head, head_dim>(g, "v.weight"), bias<head, head_dim>(g, "v.bias"));
        x = x + pt::linear(pt::causal_attention(q, k, v), weight<head, head_dim, hidden>(g, "out.weight"),
                           bias<hidden>(g, "out.bias"));
      }
      auto u = pt::gelu(pt::linear(norm(g, x), weight<hidden, inner>(g, "up.weight"), bias<inner>(g, "up.bias")));
      x = x + pt::linear(u, weight<inner, hidden>(g, "down.weight"), bias<hidden>(g, "down.bias"));
    }
    return pt::cross_entropy(pt::linear(norm(g, x), table), targets);
  }
};
using training = pt::training<gpt, pt::adamw, pt::clip_norm>;
using plan_2x2x2 = pt::policy::compose<pt::policy::data_parallel<2>, pt::policy::tensor_parallel<2>,
                                       pt::policy::pipeline<2, pt::schedule::one_f_one_b, 2>>;
