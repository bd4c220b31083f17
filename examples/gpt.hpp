// A GPT over bytes, as GPT-2 is built (Radford et al. 2019): token and position embeddings, blocks that normalise
// first, causal attention, gelu, and the embedding table again as the last layer. A token is a byte.
#pragma once
#include <cmath>

#include <partita/planning.hpp>

namespace pt = partita;

// Axes without an extent get one where a trainer is made, so that a flag can say how large a model is.
struct sample : pt::axis<"sample"> {};
struct position : pt::axis<"position"> {};
struct byte : pt::axis<"byte", 256> {};
struct hidden : pt::axis<"hidden"> {};
struct head : pt::axis<"head"> {};
struct head_width : pt::axis<"head_width"> {};
struct inner : pt::axis<"inner"> {};

struct gpt {
  int layers = 4;
  double dropout = 0;
  double deviation = 0.02;  // of initial weights; 1 / sqrt(hidden) keeps the size of features

  constexpr auto operator()(auto& g) const {
    using pt::f32, pt::i32;
    auto drop = [&](auto x) { return dropout > 0 ? pt::dropout(x, dropout) : x; };
    auto norm = [&](auto x) {
      auto s = pt::scope(g, "norm");
      return pt::layer_norm(x, pt::param<f32, hidden>(g, "scale", pt::ones), pt::param<f32, hidden>(g, "bias", pt::zeros));
    };
    // What is added to the residual stream starts smaller, so that its variance does not grow with depth.
    const pt::normal initial{deviation}, residual{deviation / std::sqrt(2.0 * layers)};

    auto tokens = pt::input<i32, sample, position>(g, "tokens");
    auto targets = pt::input<i32, sample, position>(g, "targets");
    auto table = pt::param<f32, byte, hidden>(g, "bytes.weight", initial);
    auto x = drop(pt::bias(pt::embedding(tokens, table), pt::param<f32, position, hidden>(g, "positions.weight", initial)));

    for (int layer = 0; layer < layers; ++layer) {
      auto block = pt::scope(g, "block", layer);
      {
        auto s = pt::scope(g, "attention");
        auto h = norm(x);
        auto project = [&](pt::label weight) {
          return pt::linear(h, pt::param<f32, hidden, head, head_width>(g, weight, initial));
        };
        auto with_bias = [&](auto z, pt::label bias) {
          return pt::bias(z, pt::param<f32, head, head_width>(g, bias, pt::zeros));
        };
        auto q = with_bias(project("q.weight"), "q.bias");
        // A bias of k would add the same to all scores of a query, which softmax takes out again.
        auto k = project("k.weight");
        auto v = with_bias(project("v.weight"), "v.bias");
        auto y = pt::linear(pt::causal_attention(q, k, v), pt::param<f32, head, head_width, hidden>(g, "out.weight", residual),
                            pt::param<f32, hidden>(g, "out.bias", pt::zeros));
        x = x + drop(y);
      }
      auto s = pt::scope(g, "mlp");
      auto h = pt::gelu(pt::linear(norm(x), pt::param<f32, hidden, inner>(g, "up.weight", initial),
                                   pt::param<f32, inner>(g, "up.bias", pt::zeros)));
      auto y = pt::linear(h, pt::param<f32, inner, hidden>(g, "down.weight", residual),
                          pt::param<f32, hidden>(g, "down.bias", pt::zeros));
      x = x + drop(y);
    }
    auto logits = pt::linear(norm(x), table);
    return pt::outputs(pt::loss("loss", pt::cross_entropy(logits, targets)), pt::output("logits", logits));
  }
};

using gpt_training = pt::training<gpt, pt::adamw, pt::clip_norm>;
