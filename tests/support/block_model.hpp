// A model of blocks between an embedding and an output layer, of any sizes; and a cluster for small ones.
#pragma once
#include <cstddef>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>

namespace partita::testing {

template <std::size_t Samples, std::size_t Positions, std::size_t Words, std::size_t Hidden, std::size_t Inner>
struct block_axes {
  struct sample : axis<"sample", Samples> {};
  struct position : axis<"position", Positions> {};
  struct word : axis<"word", Words> {};
  struct hidden : axis<"hidden", Hidden> {};
  struct inner : axis<"inner", Inner> {};
};

enum class output_table { its_own, of_the_input };

template <class Axes, int Layers, output_table Table> struct block_model {
  int layers = Layers;
  constexpr auto operator()(auto& g) const {
    using hidden = typename Axes::hidden;
    using inner = typename Axes::inner;
    using word = typename Axes::word;
    auto tokens = input<i32, typename Axes::sample, typename Axes::position>(g, "tokens");
    auto targets = input<i32, typename Axes::sample, typename Axes::position>(g, "targets");
    auto table = param<f32, word, hidden>(g, "table.weight");
    auto x = embedding(tokens, table);
    for (int l = 0; l < layers; ++l) {
      auto s = scope(g, "block", l);
      auto h = gelu(linear(x, param<f32, hidden, inner>(g, "up.weight")));
      x = x + linear(h, param<f32, inner, hidden>(g, "down.weight"));
    }
    if constexpr (Table == output_table::of_the_input) return cross_entropy(linear(x, table), targets);
    else return cross_entropy(linear(x, param<f32, hidden, word>(g, "words.weight")), targets);
  }
};

// Links and devices of about equal weight for a small model.
inline cluster slow_cluster() {
  cluster c = preset::dgx_a100(1);
  c.kinds[0].flops = {{"f32", 1e9}};
  c.kinds[0].memory_bandwidth = 1e9;
  c.kinds[0].launch = 1e-6;
  c.links[0].seconds_per_byte = 1e-9;
  return c;
}

}  // namespace partita::testing
