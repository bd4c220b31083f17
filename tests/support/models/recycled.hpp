// A model that runs several times before it is differentiated, as AlphaFold2 recycles (Jumper et al. 2021): what a pass
// makes is an input of the next one, all but the last pass run without gradient, all have the same parameters.
#pragma once
#include <array>

#include <partita/grad/training.hpp>
#include <partita/ops/add.hpp>
#include <partita/ops/attention.hpp>
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/detach.hpp>
#include <partita/ops/embedding.hpp>
#include <partita/ops/gelu.hpp>
#include <partita/ops/layer_norm.hpp>
#include <partita/ops/linear.hpp>

#include "axes.hpp"

namespace partita::testing::models {

struct recycled {
  int passes = 3, layers = 3;  // at most 4 layers
  bool has_attention = true;
  constexpr auto operator()(auto& g) const {
    constexpr normal wide{0.3};
    auto tokens = input<i32, sample, position>(g, "tokens");
    auto targets = input<i32, sample, position>(g, "targets");
    auto begun = ops::embedding(tokens, param<f32, vocabulary, hidden>(g, "table.weight", wide));
    auto again = param<f32, hidden>(g, "again.weight", wide);
    auto out = param<f32, hidden, vocabulary>(g, "out.weight", wide);
    std::array all{weights(g, 0), weights(g, 1), weights(g, 2), weights(g, 3)};
    auto x = begun;
    for (int pass = 0; pass < passes; ++pass) {
      auto s = partita::scope(g, "pass", pass);
      if (pass > 0) x = begun + layer_norm(detach(x), again);
      for (int l = 0; l < layers; ++l) {
        auto b = partita::scope(g, "block", l);
        x = all[static_cast<std::size_t>(l)](x, has_attention);
      }
    }
    return cross_entropy(ops::linear(x, out), targets);
  }

 private:
  template <class Scale, class Query, class Key, class Value, class Out, class First, class Second> struct block {
    Scale scale;
    Query q;
    Key k;
    Value v;
    Out o;
    First first;
    Second second;
    template <class X> constexpr X operator()(X x, bool has_attention) const {
      if (has_attention) {
        auto n = layer_norm(x, scale);
        auto a = ops::attention(ops::linear(n, q), ops::linear(n, k), ops::linear(n, v));
        x = x + ops::linear(a, o);
      }
      return x + ops::linear(gelu(ops::linear(x, first)), second);
    }
  };
  static constexpr auto weights(auto& g, int l) {
    constexpr normal wide{0.3};
    auto s = partita::scope(g, "block", l);
    auto scale = param<f32, hidden>(g, "norm.weight", ones);
    auto q = param<f32, hidden, head, width>(g, "q.weight", wide);
    auto k = param<f32, hidden, head, width>(g, "k.weight", wide);
    auto v = param<f32, hidden, head, width>(g, "v.weight", wide);
    auto o = param<f32, head, width, hidden>(g, "o.weight", wide);
    auto first = param<f32, hidden, inner>(g, "first.weight", wide);
    auto second = param<f32, inner, hidden>(g, "second.weight", wide);
    return block{scale, q, k, v, o, first, second};
  }
};

}  // namespace partita::testing::models
