// GPT-2 for benchmarks: extents are bound where a trainer is made. Radford et al. 2019; 124M: 12 layers, hidden 768, 12
// heads, vocabulary 50257.
#pragma once
#include <random>
#include <vector>

#include <partita/partita.hpp>

namespace benchmark_model {

namespace pt = partita;

struct sample     : pt::axis<"sample"> {};
struct position   : pt::axis<"position"> {};
struct vocabulary : pt::axis<"vocabulary"> {};
struct hidden     : pt::axis<"hidden"> {};
struct head       : pt::axis<"head"> {};
struct head_width : pt::axis<"head_width"> {};
struct inner      : pt::axis<"inner"> {};

struct gpt2 {
  int layers = 12;
  constexpr auto operator()(auto& g) const {
    using pt::f32, pt::i32;
    auto norm = [&](auto x) {
      auto s = pt::scope(g, "norm");
      return pt::layer_norm(x, pt::param<f32, hidden>(g, "scale", pt::ones), pt::param<f32, hidden>(g, "bias", pt::zeros));
    };
    auto tokens = pt::input<i32, sample, position>(g, "tokens");
    auto targets = pt::input<i32, sample, position>(g, "targets");
    auto table = pt::param<f32, vocabulary, hidden>(g, "wte.weight");
    auto x = pt::bias(pt::embedding(tokens, table), pt::param<f32, position, hidden>(g, "wpe.weight"));
    for (int layer = 0; layer < layers; ++layer) {
      auto block = pt::scope(g, "block", layer);
      {
        auto s = pt::scope(g, "attention");
        auto h = norm(x);
        auto project = [&](pt::label weight, pt::label bias) {
          return pt::linear(h, pt::param<f32, hidden, head, head_width>(g, weight),
                            pt::param<f32, head, head_width>(g, bias, pt::zeros));
        };
        auto q = project("q.weight", "q.bias");
        auto k = project("k.weight", "k.bias");
        auto v = project("v.weight", "v.bias");
        x = x + pt::linear(pt::causal_attention(q, k, v), pt::param<f32, head, head_width, hidden>(g, "out.weight"),
                           pt::param<f32, hidden>(g, "out.bias", pt::zeros));
      }
      auto s = pt::scope(g, "mlp");
      auto h = pt::gelu(pt::linear(norm(x), pt::param<f32, hidden, inner>(g, "up.weight"),
                                   pt::param<f32, inner>(g, "up.bias", pt::zeros)));
      x = x + pt::linear(h, pt::param<f32, inner, hidden>(g, "down.weight"), pt::param<f32, hidden>(g, "down.bias", pt::zeros));
    }
    return pt::cross_entropy(pt::linear(norm(x), table), targets);
  }
};
using training = pt::training<gpt2, pt::adamw, pt::clip_norm>;

struct sizes {
  int layers = 12;
  std::size_t vocabulary = 50257, hidden = 768, heads = 12, samples = 4, positions = 64;
};
struct cuts {
  int data = 1, tensor = 1, stages = 1, micro_batches = 1;
  int devices() const { return data * tensor * stages; }
  constexpr void operator()(auto& plan) const {
    pt::policy::data_parallel_of{data}(plan);
    pt::policy::tensor_parallel_of{tensor}(plan);
    pt::policy::pipeline_of{stages, micro_batches}(plan);
  }
};

// A trainer and a batch of random tokens.
class run {
 public:
  run(sizes s, cuts c, int threads, bool fuse = true)
      : trainer_(training{.model = {s.layers}}, c, pt::cpu{.devices = c.devices(), .threads = threads},
                 pt::trainer_options{.fuse = fuse, .keep_gradients = false}, pt::bind<sample>(s.samples),
                 pt::bind<position>(s.positions), pt::bind<::benchmark_model::vocabulary>(s.vocabulary),
                 pt::bind<::benchmark_model::hidden>(s.hidden), pt::bind<head>(s.heads), pt::bind<head_width>(s.hidden / s.heads),
                 pt::bind<inner>(4 * s.hidden)) {
    std::mt19937 random(1);
    std::uniform_int_distribution<std::int32_t> token(0, static_cast<std::int32_t>(s.vocabulary) - 1);
    for (std::size_t i = 0; i < s.samples * s.positions; ++i) {
      tokens_.push_back(token(random));
      targets_.push_back(token(random));
    }
  }
  float step() { return trainer_.step({{"tokens", tokens_}, {"targets", targets_}}); }
  pt::trainer<training> const& trainer() const { return trainer_; }

 private:
  pt::trainer<training> trainer_;
  std::vector<std::int32_t> tokens_, targets_;
};

}  // namespace benchmark_model
