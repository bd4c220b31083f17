// Llama's form (Touvron et al. 2023): root mean square norms, rotary positions, gated units, heads of queries that share
// keys, no biases, an output layer of its own.
#pragma once
#include <partita/grad/training.hpp>
#include <partita/ops/add.hpp>
#include <partita/ops/attention.hpp>
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/embedding.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/multiply.hpp>
#include <partita/ops/rms_norm.hpp>
#include <partita/ops/rotary.hpp>
#include <partita/ops/silu.hpp>

#include "axes.hpp"

namespace partita::testing::models {

constexpr auto grouped_attention(auto& g, auto x) {
  constexpr normal wide{0.3};
  auto n = rms_norm(x, param<f32, hidden>(g, "norm1.weight", ones));
  auto wq = param<f32, hidden, head, share, width>(g, "q.weight", wide);
  auto wk = param<f32, hidden, head, width>(g, "k.weight", wide);
  auto wv = param<f32, hidden, head, width>(g, "v.weight", wide);
  auto a = causal_attention(rotary<position>(ops::linear(n, wq)), rotary<position>(ops::linear(n, wk)), ops::linear(n, wv));
  return x + ops::linear(a, param<f32, head, share, width, hidden>(g, "proj.weight", wide));
}

struct llama {
  int layers = 2;
  constexpr auto operator()(auto& g) const {
    constexpr normal wide{0.3};
    auto tokens = input<i32, sample, position>(g, "tokens");
    auto targets = input<i32, sample, position>(g, "targets");
    auto x = ops::embedding(tokens, param<f32, vocabulary, hidden>(g, "embedding.weight", wide));
    for (int l = 0; l < layers; ++l) {
      auto s = partita::scope(g, "block", l);
      x = grouped_attention(g, x);
      auto n = rms_norm(x, param<f32, hidden>(g, "norm2.weight", ones));
      auto gate = silu(ops::linear(n, param<f32, hidden, inner>(g, "gate.weight", wide)));
      auto up = ops::linear(n, param<f32, hidden, inner>(g, "up.weight", wide));
      x = x + ops::linear(gate * up, param<f32, inner, hidden>(g, "down.weight", wide));
    }
    x = rms_norm(x, param<f32, hidden>(g, "norm.weight", ones));
    return cross_entropy(ops::linear(x, param<f32, hidden, vocabulary>(g, "output.weight", wide)), targets);
  }
};

}  // namespace partita::testing::models
