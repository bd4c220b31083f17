// GPT-2 for benchmarks. Radford et al. 2019; 124M: 12 layers, hidden 768, 12 heads, vocabulary
// 50257.
#pragma once
#include <random>
#include <vector>

#include <partita/partita.hpp>

#include "models/gpt.hpp"

namespace benchmark_model {

using gpt2 = gpt<pt::f32>;
using training = pt::training<gpt2, pt::adamw, pt::clip_norm>;
using sizes = gpt_sizes;
struct cuts {
  int data = 1, tensor = 1, stages = 1, micro_batches = 1, zero = 0;
  int devices() const { return data * tensor * stages; }
  constexpr void operator()(auto& plan) const {
    pt::policy::data_parallel_of{data}(plan);
    pt::policy::tensor_parallel_of{tensor}(plan);
    pt::policy::pipeline_of{stages, micro_batches}(plan);
    if (zero > 0) pt::policy::zero_of{zero, data}(plan);
  }
};

// A trainer and a batch of random tokens.
class run {
 public:
  run(sizes s, cuts c, int threads, bool fuse = true, double bucket_bytes = pt::trainer_options{}.bucket_bytes)
      : trainer_(training{.model = {s.layers}}, c, pt::cpu{.devices = c.devices(), .threads = threads},
                 pt::trainer_options{.fuse = fuse, .keep_gradients = false, .bucket_bytes = bucket_bytes},
                 pt::bind<sample>(s.samples), pt::bind<position>(s.positions), pt::bind<vocabulary>(s.vocabulary),
                 pt::bind<hidden>(s.hidden), pt::bind<head>(s.heads), pt::bind<head_width>(s.hidden / s.heads),
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
