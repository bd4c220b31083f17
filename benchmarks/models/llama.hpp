// Llama's form (Touvron et al. 2023; Llama 3: Dubey et al. 2024), and with a mixture of experts in place of the
// gated units (Mixtral, Jiang et al. 2024): each sample is a group of tokens, each token chooses two experts, an expert has
// so many slots for a group.
#pragma once
#include <limits>
#include <utility>

#include "axes.hpp"

namespace benchmark_model {

template <bool Experts, pt::dtype Type = pt::bf16> struct llama_of {
  int layers = 32;
  constexpr auto operator()(auto& g) const {
    using pt::i32;
    auto tokens = pt::input<i32, sample, position>(g, "tokens");
    auto targets = pt::input<i32, sample, position>(g, "targets");
    auto x = pt::embedding(tokens, pt::param<Type, vocabulary, hidden>(g, "embedding.weight"));
    auto balance = block(g, 0, x);
    for (int l = 1; l < layers; ++l) {
      if constexpr (Experts) balance = balance + block(g, l, x);
      else block(g, l, x);
    }
    x = norm(g, "norm.weight", x);
    auto loss = pt::cross_entropy(pt::linear(x, pt::param<Type, hidden, vocabulary>(g, "output.weight")), targets);
    if constexpr (Experts) return pt::outputs(pt::loss("loss", loss), pt::loss("balance", balance, 0.01));
    else return loss;
  }

 private:
  static constexpr auto norm(auto& g, pt::label name, auto x) {
    return pt::rms_norm(x, pt::param<Type, hidden>(g, name, pt::ones));
  }
  // x becomes what the block makes; returned is the loss of its experts' balance, or nothing.
  static constexpr auto block(auto& g, int l, auto& x) {
    auto s = pt::scope(g, "block", l);
    auto n = norm(g, "norm1.weight", x);
    auto q = pt::linear(n, pt::param<Type, hidden, head, share, head_width>(g, "q.weight"));
    auto k = pt::linear(n, pt::param<Type, hidden, head, head_width>(g, "k.weight"));
    auto v = pt::linear(n, pt::param<Type, hidden, head, head_width>(g, "v.weight"));
    auto a = pt::causal_attention(pt::rotary<position>(q), pt::rotary<position>(k), v);
    x = x + pt::linear(a, pt::param<Type, head, share, head_width, hidden>(g, "out.weight"));
    auto m = norm(g, "norm2.weight", x);
    if constexpr (Experts) {
      auto logits = pt::linear(m, pt::param<Type, hidden, expert>(g, "router.weight"));
      auto gates = pt::softmax<expert>(pt::top_k<expert>(logits, 2, -std::numeric_limits<double>::infinity()));
      auto slots = pt::assign_slots<slot>(gates);
      auto y = pt::dispatch(m, slots);
      auto gate = pt::silu(pt::einsum<"b e c h, e h f -> b e c f">(y, pt::param<Type, expert, hidden, inner>(g, "gate.weight")));
      auto up = pt::einsum<"b e c h, e h f -> b e c f">(y, pt::param<Type, expert, hidden, inner>(g, "up.weight"));
      auto z = pt::einsum<"b e c f, e f h -> b e c h">(gate * up, pt::param<Type, expert, inner, hidden>(g, "down.weight"));
      x = x + pt::combine(z, gates, slots);
      return pt::mean(pt::load_balance(pt::softmax<expert>(logits), gates));
    } else {
      auto gate = pt::silu(pt::linear(m, pt::param<Type, hidden, inner>(g, "gate.weight")));
      auto up = pt::linear(m, pt::param<Type, hidden, inner>(g, "up.weight"));
      x = x + pt::linear(gate * up, pt::param<Type, inner, hidden>(g, "down.weight"));
      return 0;
    }
  }
};
using llama = llama_of<false>;
using mixture = llama_of<true>;

struct llama_sizes {
  int layers = 32;
  std::size_t vocabulary = 128256, hidden = 4096, heads = 8, share = 4, inner = 14336, samples = 64, positions = 8192;
  std::size_t experts = 8, slots = 1280;
  std::vector<pt::binding> bindings() const {
    return {pt::bind<sample>(samples),
            pt::bind<position>(positions),
            pt::bind<benchmark_model::vocabulary>(vocabulary),
            pt::bind<benchmark_model::hidden>(hidden),
            pt::bind<head>(heads),
            pt::bind<benchmark_model::share>(share),
            pt::bind<head_width>(hidden / heads / share),
            pt::bind<benchmark_model::inner>(inner),
            pt::bind<expert>(experts),
            pt::bind<slot>(slots)};
  }
};

}  // namespace benchmark_model
