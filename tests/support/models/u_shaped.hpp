// A model in the shape of a U (Ronneberger et al. 2015) over patches: on the way down two positions become one, on the
// way up one becomes two, and what each level had on the way down is joined to what comes up: long skip connections from
// the first ops to the last ones. Trained to give its input without the noise.
#pragma once
#include <partita/grad/training.hpp>
#include <partita/ops/add.hpp>
#include <partita/ops/attention.hpp>
#include <partita/ops/concatenate.hpp>
#include <partita/ops/layer_norm.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/multiply.hpp>
#include <partita/ops/reshape.hpp>
#include <partita/ops/silu.hpp>
#include <partita/ops/subtract.hpp>
#include <partita/ops/sum.hpp>

#include "axes.hpp"

namespace partita::testing::models {

// The number of positions is even.
struct u_shaped {
  int layers = 1;  // on either side of either level
  constexpr auto operator()(auto& g) const {
    constexpr normal deviation{0.3};
    auto noisy = input<f32, sample, position, feature>(g, "noisy");
    auto clean = input<f32, sample, position, feature>(g, "clean");
    auto x = ops::linear(noisy, param<f32, feature, hidden>(g, "patch.weight", deviation));
    for (int l = 0; l < layers; ++l) x = unit(g, "down", l, x);
    auto pairs = split_axis<position, coarse, pair>(x);
    auto y = ops::linear(pairs, param<f32, pair, hidden, wide>(g, "merge.weight", deviation));
    for (int l = 0; l < layers; ++l) {
      auto s = partita::scope(g, "block", l);
      auto n = layer_norm(y, param<f32, wide>(g, "norm.weight", ones));
      auto q = ops::linear(n, param<f32, wide, head, width>(g, "q.weight", deviation));
      auto k = ops::linear(n, param<f32, wide, head, width>(g, "k.weight", deviation));
      auto v = ops::linear(n, param<f32, wide, head, width>(g, "v.weight", deviation));
      y = y + ops::linear(ops::attention(q, k, v), param<f32, head, width, wide>(g, "o.weight", deviation));
    }
    auto up = ops::linear(y, param<f32, wide, pair, risen>(g, "divide.weight", deviation));
    auto joined = concatenate<wide>(x, merge<coarse, pair, position>(up));
    auto z = ops::linear(joined, param<f32, wide, hidden>(g, "join.weight", deviation));
    for (int l = 0; l < layers; ++l) z = unit(g, "up", l, z);
    auto given = ops::linear(z, param<f32, hidden, feature>(g, "out.weight", deviation)) + noisy;
    auto off = given - clean;
    return outputs(loss("loss", mean(off * off)), output("given", given));
  }

 private:
  static constexpr auto unit(auto& g, label name, int l, auto x) {
    auto s = partita::scope(g, name, l);
    auto n = layer_norm(x, param<f32, hidden>(g, "norm.weight", ones));
    auto h = silu(ops::linear(n, param<f32, hidden, inner>(g, "fc1.weight", normal{0.3})));
    return x + ops::linear(h, param<f32, inner, hidden>(g, "fc2.weight", normal{0.3}));
  }
};

}  // namespace partita::testing::models
