// mBART's form (Liu et al. 2020): an encoder, a decoder that attends to it, one table of a large vocabulary for both
// embeddings and the output layer.
#pragma once
#include "axes.hpp"

namespace benchmark_model {

template <pt::dtype Type> struct encoder_decoder_in {
  int layers = 12;  // on either side
  constexpr auto operator()(auto& g) const {
    using pt::i32;
    auto given = pt::input<i32, sample, source>(g, "source_tokens");
    auto tokens = pt::input<i32, sample, position>(g, "tokens");
    auto targets = pt::input<i32, sample, position>(g, "targets");
    auto table = pt::param<Type, vocabulary, hidden>(g, "table.weight");
    auto y = pt::bias(pt::embedding(given, table), pt::param<Type, source, hidden>(g, "source_positions.weight"));
    for (int l = 0; l < layers; ++l) {
      auto s = pt::scope(g, "encoder", l);
      auto h = layer_norm_of_hidden<Type>(g, y);
      y = y + attend(g, "self", h, h, false);
      y = y + unit(g, layer_norm_of_hidden<Type>(g, y, "norm2"));
    }
    auto x = pt::bias(pt::embedding(tokens, table), pt::param<Type, position, hidden>(g, "positions.weight"));
    for (int l = 0; l < layers; ++l) {
      auto s = pt::scope(g, "decoder", l);
      auto h = layer_norm_of_hidden<Type>(g, x);
      x = x + attend(g, "self", h, h, true);
      x = x + attend(g, "cross", layer_norm_of_hidden<Type>(g, x, "norm2"), y, false);
      x = x + unit(g, layer_norm_of_hidden<Type>(g, x, "norm3"));
    }
    return pt::cross_entropy(pt::linear(layer_norm_of_hidden<Type>(g, x), table), targets, 0.1);
  }

 private:
  static constexpr auto attend(auto& g, pt::label name, auto x, auto over, bool causal) {
    auto s = pt::scope(g, name);
    auto q = pt::linear(x, pt::param<Type, hidden, head, head_width>(g, "q.weight"));
    auto k = pt::linear(over, pt::param<Type, hidden, head, head_width>(g, "k.weight"));
    auto v = pt::linear(over, pt::param<Type, hidden, head, head_width>(g, "v.weight"));
    auto a = causal ? pt::causal_attention(q, k, v) : pt::attention(q, k, v);
    return pt::linear(a, pt::param<Type, head, head_width, hidden>(g, "out.weight"));
  }
  static constexpr auto unit(auto& g, auto x) {
    auto h = pt::gelu(pt::linear(x, pt::param<Type, hidden, inner>(g, "up.weight")));
    return pt::linear(h, pt::param<Type, inner, hidden>(g, "down.weight"));
  }
};
using encoder_decoder = encoder_decoder_in<pt::bf16>;

struct encoder_decoder_sizes {
  int layers = 12;
  std::size_t vocabulary = 250000, hidden = 1024, heads = 16, samples = 256, positions = 1024;
  std::vector<pt::binding> bindings() const {
    return {pt::bind<sample>(samples),
            pt::bind<position>(positions),
            pt::bind<source>(positions),
            pt::bind<benchmark_model::vocabulary>(vocabulary),
            pt::bind<benchmark_model::hidden>(hidden),
            pt::bind<head>(heads),
            pt::bind<head_width>(hidden / heads),
            pt::bind<inner>(4 * hidden)};
  }
};

}  // namespace benchmark_model
