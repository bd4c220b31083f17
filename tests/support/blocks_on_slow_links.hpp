// A small model of blocks, and a cluster on which a search has to weigh its ways against each other.
#pragma once
#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>

namespace partita::testing::blocks_on_slow_links {

struct sample : axis<"sample", 16> {};
struct position : axis<"position", 32> {};
struct word : axis<"word", 512> {};
struct hidden : axis<"hidden", 32> {};
struct inner : axis<"inner", 128> {};

// With an output layer that takes as long as some blocks.
struct model {
  int layers = 6;
  constexpr auto operator()(auto& g) const {
    auto tokens = input<i32, sample, position>(g, "tokens");
    auto targets = input<i32, sample, position>(g, "targets");
    auto x = embedding(tokens, param<f32, word, hidden>(g, "table.weight"));
    for (int l = 0; l < layers; ++l) {
      auto s = scope(g, "block", l);
      auto h = gelu(linear(x, param<f32, hidden, inner>(g, "up.weight")));
      x = x + linear(h, param<f32, inner, hidden>(g, "down.weight"));
    }
    return cross_entropy(linear(x, param<f32, hidden, word>(g, "words.weight")), targets);
  }
};
using trained = training<model, adamw>;

// Links and devices of about equal weight for a small model; links so many times slower.
inline cluster slow_cluster(double slow = 1) {
  cluster c = preset::dgx_a100(1);
  c.devices[0].count = 4;
  c.kinds[0].flops = {{"f32", 1e9}};
  c.kinds[0].memory_bandwidth = 1e9;
  c.kinds[0].flops_efficiency.reset();
  c.kinds[0].memory_efficiency.reset();
  c.links[0].seconds_per_byte = slow * 1e-9;
  return c;
}

}  // namespace partita::testing::blocks_on_slow_links
