// A transformer of an encoder and a decoder (Vaswani et al. 2017): attention across two sequences, one table for both
// embeddings and the output layer, label smoothing.
#pragma once
#include <partita/grad/training.hpp>
#include <partita/ops/add.hpp>
#include <partita/ops/attention.hpp>
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/embedding.hpp>
#include <partita/ops/layer_norm.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/relu.hpp>

#include "axes.hpp"

namespace partita::testing::models {

struct encoder_decoder {
  int layers = 1;
  constexpr auto operator()(auto& g) const {
    constexpr normal wide{0.3};
    auto given = input<i32, sample, source>(g, "source_tokens");
    auto tokens = input<i32, sample, position>(g, "tokens");
    auto targets = input<i32, sample, position>(g, "targets");
    auto table = param<f32, vocabulary, hidden>(g, "table.weight", wide);
    auto y = ops::bias(ops::embedding(given, table), param<f32, source, hidden>(g, "source_positions.weight", wide));
    for (int l = 0; l < layers; ++l) {
      auto s = partita::scope(g, "encoder", l);
      y = attend(g, "self", y, y, false);
      y = unit(g, y);
    }
    auto x = ops::bias(ops::embedding(tokens, table), param<f32, position, hidden>(g, "positions.weight", wide));
    for (int l = 0; l < layers; ++l) {
      auto s = partita::scope(g, "block", l);
      x = attend(g, "self", x, x, true);
      x = attend(g, "cross", x, y, false);
      x = unit(g, x);
    }
    return cross_entropy(ops::linear(x, table), targets, 0.1);
  }

 private:
  static constexpr auto attend(auto& g, label name, auto x, auto over, bool causal) {
    constexpr normal wide{0.3};
    auto s = partita::scope(g, name);
    auto q = ops::linear(x, param<f32, hidden, head, width>(g, "q.weight", wide));
    auto k = ops::linear(over, param<f32, hidden, head, width>(g, "k.weight", wide));
    auto v = ops::linear(over, param<f32, hidden, head, width>(g, "v.weight", wide));
    auto a = causal ? causal_attention(q, k, v) : ops::attention(q, k, v);
    auto o = ops::linear(a, param<f32, head, width, hidden>(g, "o.weight", wide));
    auto scale = param<f32, hidden>(g, "norm.weight", ones);
    return layer_norm(x + o, scale, param<f32, hidden>(g, "norm.bias", wide));
  }
  static constexpr auto unit(auto& g, auto x) {
    constexpr normal wide{0.3};
    auto h = relu(ops::linear(x, param<f32, hidden, inner>(g, "fc1.weight", wide)));
    auto o = ops::linear(h, param<f32, inner, hidden>(g, "fc2.weight", wide));
    auto scale = param<f32, hidden>(g, "norm.weight", ones);
    return layer_norm(x + o, scale, param<f32, hidden>(g, "norm.bias", wide));
  }
};

}  // namespace partita::testing::models
