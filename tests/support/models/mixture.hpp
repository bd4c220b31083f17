// A mixture of experts (GShard, Lepikhin et al. 2020; Mixtral, Jiang et al. 2024) in every block: each sample, or each
// stretch of one, is a group of tokens, each token chooses two experts, and an expert has so many slots for a group; what
// is over is dropped.
#pragma once
#include <limits>

#include <partita/ops/einsum.hpp>
#include <partita/ops/experts.hpp>
#include <partita/ops/reshape.hpp>
#include <partita/ops/routing.hpp>
#include <partita/ops/softmax.hpp>
#include <partita/ops/sum.hpp>
#include <partita/ops/top_k.hpp>

#include "llama.hpp"

namespace partita::testing::models {

template <bool Stretches> struct mixture_of {
  int layers = 2;
  bool normalised = true;  // the gates of a token sum to 1; else they are its probabilities
  std::size_t choices = 2;
  constexpr auto operator()(auto& g) const {
    constexpr normal deviation{0.3};
    auto tokens = input<i32, sample, position>(g, "tokens");
    auto targets = input<i32, sample, position>(g, "targets");
    auto x = ops::embedding(tokens, param<f32, vocabulary, hidden>(g, "embedding.weight", normal{1}));
    auto balance = experts(g, 0, x);
    for (int l = 1; l < layers; ++l) balance = balance + experts(g, l, x);
    x = rms_norm(x, param<f32, hidden>(g, "norm.weight", ones));
    auto logits = ops::linear(x, param<f32, hidden, vocabulary>(g, "output.weight", deviation));
    return outputs(loss("loss", cross_entropy(logits, targets)), loss("balance", balance, 0.1));
  }

 private:
  // A block: x becomes what it makes; returned is the loss of its balance.
  constexpr auto experts(auto& g, int l, auto& x) const {
    auto s = partita::scope(g, "block", l);
    x = grouped_attention(g, x);
    auto n = rms_norm(x, param<f32, hidden>(g, "norm2.weight", ones));
    if constexpr (Stretches) {
      auto [y, balance] = route(g, split_axis<position, stretch, token>(n));
      x = x + merge<stretch, token, position>(y);
      return balance;
    } else {
      auto [y, balance] = route(g, n);
      x = x + y;
      return balance;
    }
  }
  constexpr auto route(auto& g, auto n) const {
    constexpr normal deviation{0.5};
    auto logits = ops::linear(n, param<f32, hidden, expert>(g, "router.weight", normal{2}));
    auto probabilities = softmax<expert>(logits);
    auto gates = normalised ? softmax<expert>(ops::top_k<expert>(logits, choices, -std::numeric_limits<double>::infinity()))
                            : ops::top_k<expert>(probabilities, choices);
    auto slots = assign_slots<slot>(gates);
    auto y = dispatch(n, slots);
    auto gate = silu(einsum<"... e c h, e h f -> ... e c f">(y, param<f32, expert, hidden, inner>(g, "gate.weight", deviation)));
    auto up = einsum<"... e c h, e h f -> ... e c f">(y, param<f32, expert, hidden, inner>(g, "up.weight", deviation));
    auto z = einsum<"... e c f, e f h -> ... e c h">(gate * up, param<f32, expert, inner, hidden>(g, "down.weight", deviation));
    return std::pair{combine(z, gates, slots), mean(load_balance(probabilities, gates))};
  }
};
using mixture = mixture_of<false>;

}  // namespace partita::testing::models
