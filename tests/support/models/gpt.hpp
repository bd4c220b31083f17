// GPT-2's form: learned positions, layer norms, gelu, biases, dropout, the output layer tied to the embedding.
#pragma once
#include <partita/grad/training.hpp>
#include <partita/ops/add.hpp>
#include <partita/ops/attention.hpp>
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/dropout.hpp>
#include <partita/ops/embedding.hpp>
#include <partita/ops/gelu.hpp>
#include <partita/ops/layer_norm.hpp>
#include <partita/ops/linear.hpp>

#include "axes.hpp"

namespace partita::testing::models {

template <dtype Type = f32> struct gpt_of {
  int layers = 2;
  double dropout = 0.2, smoothing = 0.1;
  constexpr auto operator()(auto& g) const {
    constexpr normal wide{0.3};
    auto tokens = input<i32, sample, position>(g, "tokens");
    auto targets = input<i32, sample, position>(g, "targets");
    auto table = param<Type, vocabulary, hidden>(g, "wte.weight", wide);
    auto x = ops::bias(ops::embedding(tokens, table), param<Type, position, hidden>(g, "wpe.weight", wide));
    x = ops::dropout(x, dropout);
    for (int l = 0; l < layers; ++l) {
      auto s = partita::scope(g, "block", l);
      auto n1 = norm(g, "ln1.weight", "ln1.bias", x);
      auto wq = param<Type, hidden, head, width>(g, "q.weight", wide);
      auto bq = param<Type, head, width>(g, "q.bias", wide);
      auto wk = param<Type, hidden, head, width>(g, "k.weight", wide);
      auto wv = param<Type, hidden, head, width>(g, "v.weight", wide);
      auto bv = param<Type, head, width>(g, "v.bias", wide);
      auto a = causal_attention(ops::linear(n1, wq, bq), ops::linear(n1, wk), ops::linear(n1, wv, bv));
      auto wo = param<Type, head, width, hidden>(g, "proj.weight", wide);
      auto bo = param<Type, hidden>(g, "proj.bias", wide);
      x = x + ops::dropout(ops::linear(a, wo, bo), dropout);
      auto n2 = norm(g, "ln2.weight", "ln2.bias", x);
      auto w1 = param<Type, hidden, inner>(g, "fc1.weight", wide);
      auto b1 = param<Type, inner>(g, "fc1.bias", wide);
      auto w2 = param<Type, inner, hidden>(g, "fc2.weight", wide);
      auto b2 = param<Type, hidden>(g, "fc2.bias", wide);
      x = x + ops::dropout(ops::linear(gelu(ops::linear(n2, w1, b1)), w2, b2), dropout);
    }
    x = norm(g, "lnf.weight", "lnf.bias", x);
    return cross_entropy(ops::linear(x, table), targets, smoothing);
  }

 private:
  static constexpr auto norm(auto& g, label scale, label bias, auto x) {
    auto s = param<Type, hidden>(g, scale, ones);
    auto b = param<Type, hidden>(g, bias, normal{0.3});
    return layer_norm(x, s, b);
  }
};

using gpt = gpt_of<>;

}  // namespace partita::testing::models
