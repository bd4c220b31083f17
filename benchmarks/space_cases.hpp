// The spaces of benchmarks/spaces that are made from models: small ones on small clusters, under constraints that leave so few
// plans that all of them can be written down.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/search/space.hpp>
#include <partita/search/space_file.hpp>

#include "models/encoder_decoder.hpp"
#include "models/gpt.hpp"
#include "models/llama.hpp"
#include "models/swin.hpp"

namespace benchmark_spaces {

namespace pt = partita;
using namespace benchmark_model;

struct classifier {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, hidden>(g, "x");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, hidden, inner>(g, "first.weight")));
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, inner, vocabulary>(g, "second.weight")),
                             pt::input<pt::i32, sample>(g, "y"));
  }
};
struct attention {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::bf16, sample, position, head, head_width>(g, "x");
    auto read = pt::causal_attention(x, x, x);
    return pt::mean(pt::linear(read, pt::param<pt::bf16, head, head_width, hidden>(g, "out.weight")));
  }
};
// Blocks of an MLP; the output layer is tied to the embedding.
struct tied_blocks {
  int layers = 4;
  constexpr auto operator()(auto& g) const {
    using pt::bf16;
    auto table = pt::param<bf16, vocabulary, hidden>(g, "words.weight");
    auto x = pt::embedding(pt::input<pt::i32, sample, position>(g, "tokens"), table);
    for (int l = 0; l < layers; ++l) {
      auto block = pt::scope(g, "block", l);
      x = x + pt::linear(pt::gelu(pt::linear(x, pt::param<bf16, hidden, inner>(g, "up.weight"))),
                         pt::param<bf16, inner, hidden>(g, "down.weight"));
    }
    return pt::cross_entropy(pt::linear(x, table), pt::input<pt::i32, sample, position>(g, "targets"));
  }
};

inline pt::cluster part_of(pt::cluster c, int devices, std::string const& name) {
  c.devices = {{c.kinds.front().name, devices}};
  c.name = std::to_string(devices) + " " + name;
  return c;
}
inline pt::cluster a100(int devices) { return part_of(pt::preset::dgx_a100(1), devices, "A100-80GB of a DGX A100"); }
inline pt::cluster v100(int devices) { return part_of(pt::preset::dgx2(1), devices, "V100-32GB of a DGX-2"); }
inline pt::cluster over_ethernet(int devices) {
  pt::cluster c = part_of(pt::preset::dgx_a100(1), devices, "A100-80GB, joined by 10 Gb/s Ethernet");
  c.links = {{"Ethernet", devices, 3e-5, 1 / 1.25e9, {}, "10 Gb/s"}};
  return c;
}
inline pt::cluster unequal() {
  pt::cluster c = a100(2);
  c.name = "2 A100-80GB, then 2 V100-32GB, joined by links of a DGX-2";
  c.kinds.push_back(pt::preset::dgx2(1).kinds.front());
  c.devices.push_back({c.kinds.back().name, 2});
  c.links = pt::preset::dgx2(1).links;
  return c;
}

// What constraints say, member by member.
inline std::string in_words(pt::constraints const& c) {
  constexpr char const* schedules[]{"one_f_one_b",    "gpipe",      "interleaved",       "zero_bubble_h1",
                                    "zero_bubble_h2", "interlaced", "interlaced_in_step"};
  constexpr char const* rules[]{"either", "always", "never"};
  std::string s;
  auto part = [&](std::string const& words) { s += (s.empty() ? "" : "; ") + words; };
  auto numbers = [&](char const* name, std::vector<int> const& all) {
    std::string words = std::string(name) + ":";
    for (int n : all) words += " " + std::to_string(n);
    if (!all.empty()) part(words);
  };
  if (c.memory > 0) part("memory: " + std::to_string(static_cast<long>(c.memory)));
  if (c.devices > 0) part("devices: " + std::to_string(c.devices));
  numbers("stages", c.stages);
  numbers("devices_per_stage", c.devices_per_stage);
  numbers("micro_batches", c.micro_batches);
  numbers("chunks", c.chunks);
  numbers("zero", c.zero);
  numbers("coshard", c.coshard);
  std::string kinds;
  for (pt::schedule_kind k : c.schedules) kinds += std::string(" ") + schedules[static_cast<int>(k)];
  if (!kinds.empty()) part("schedules:" + kinds);
  for (pt::recompute_constraint const& r : c.recompute)
    part("recompute of " + std::string(r.blocks.patterns.view()) + ": " + rules[static_cast<int>(r.rule)]);
  for (pt::cut_rule const& r : c.cuts) {
    std::string words = "cuts of " + std::string(r.ops.patterns.view()) + ":";
    for (pt::axis_info const* a : r.axes) words += " " + std::string(a->name);
    if (r.no_axes) words += " none";
    if (!r.replicas) words += " no replicas";
    part(words);
  }
  for (pt::region_constraint const& r : c.regions)
    part("region of " + std::string(r.ops.patterns.view()) + ": " + std::to_string(r.first) + " to " + std::to_string(r.last));
  return s;
}

// Visits every case: visit(name, model in words, model, extents, cluster, constraints).
template <class Visit> void each_case(Visit&& visit) {
  using namespace pt::only;
  using pt::constrained;
  using enum pt::schedule_kind;
  constexpr auto never = pt::recompute_rule::never;
  using extents = std::vector<pt::binding>;
  auto sized = [](std::size_t samples, std::size_t of_hidden, std::size_t of_inner, std::size_t words) {
    return extents{pt::bind<sample>(samples), pt::bind<hidden>(of_hidden), pt::bind<inner>(of_inner),
                   pt::bind<vocabulary>(words)};
  };
  const extents layers = sized(32, 1024, 4096, 32768);
  extents blocks = sized(32, 1024, 4096, 32768);
  blocks.push_back(pt::bind<position>(512));
  extents heads = blocks;
  heads.push_back(pt::bind<head>(16));
  heads.push_back(pt::bind<head_width>(64));
  const std::string of_layers = "a classifier of two layers, 1,024 x 4,096 x 32,768, 32 samples, f32, AdamW";
  auto of_blocks = [](int n) {
    return std::to_string(n) +
           " blocks of an MLP, 1,024 x 4,096, 32,768 words whose table is the output layer's too, 32 samples " +
           "of 512 words, bf16, AdamW";
  };
  visit("classifier", of_layers, classifier{}, layers, over_ethernet(2),
        constrained<pt::only::zero<0, 1>, micro_batches<1>, axes<"*", sample, inner>>());
  visit("attention", "attention of 16 heads of 64 and a product, 32 samples of 512 words, bf16, AdamW", attention{}, heads,
        a100(4), constrained<devices_per_stage<4>, pt::only::zero<0>, micro_batches<1>, axes<"*", sample, head, hidden>>());
  visit("tied_cuts", of_blocks(1), tied_blocks{1}, blocks, a100(2),
        constrained<devices_per_stage<2>, pt::only::zero<0>, micro_batches<1>, axes<"*", sample>, no_replicas<"block.* words">,
                    recompute<never>>());
  visit("tied_unequal", of_blocks(6), tied_blocks{6}, blocks, unequal(),
        constrained<devices_per_stage<1>, stages<2, 3, 4>, micro_batches<8>>());
  visit("tied_coshard", of_blocks(4), tied_blocks{4}, blocks, v100(1),
        constrained<micro_batches<1, 2>, coshard<2, 4>, memory<4'500'000'000>>());
  visit("gpt_pipeline", "GPT, 8 layers of hidden size 1,024 and 16 heads, 50,304 words, 16 samples of 1,024, bf16, AdamW",
        gpt<pt::bf16>{8}, gpt_sizes{8, 50304, 1024, 16, 16, 1024}.bindings(), a100(4),
        constrained<devices_per_stage<1>, stages<2, 3, 4>, micro_batches<4, 8, 16>, recompute<never>,
                    schedules<one_f_one_b, gpipe, zero_bubble_h1>>());
  visit("gpt_recompute", "GPT, 8 layers of hidden size 2,048 and 16 heads, 50,304 words, 8 samples of 2,048, bf16, AdamW",
        gpt<pt::bf16>{8}, gpt_sizes{8, 50304, 2048, 16, 8, 2048}.bindings(), v100(2),
        constrained<devices_per_stage<1>, stages<1, 2>, micro_batches<4, 8>, memory<8'000'000'000>>());
  visit("swin_stages", "Swin, 1, 1, 4 and 2 layers of 128 to 1,024 features, 32 samples of 64 windows of 49 patches, bf16, AdamW",
        swin{{1, 1, 4, 2}}, swin_sizes{{1, 1, 4, 2}, 128, 4, 64, 49, 32, 1000}.bindings(), a100(4),
        constrained<devices_per_stage<1>, micro_batches<4, 8, 16>, recompute<never>, schedules<one_f_one_b, zero_bubble_h1>>());
  visit("mbart_stages", "mBART, 2 and 2 layers of hidden size 1,024, 65,536 words, 16 samples of 256, bf16, AdamW",
        encoder_decoder{2}, encoder_decoder_sizes{2, 65536, 1024, 16, 16, 256}.bindings(), v100(4),
        constrained<devices_per_stage<1>, micro_batches<4, 8>>());
  visit(
      "experts_stages",
      "Mixtral, 8 layers of hidden size 1,024 and 16 heads with 8 experts of 3,584 features, 32,000 words, 16 samples of 512, " +
          std::string("bf16, AdamW"),
      mixture{8}, llama_sizes{8, 32000, 1024, 4, 4, 3584, 16, 512, 8, 160}.bindings(), unequal(),
      constrained<devices_per_stage<1>, micro_batches<4, 8, 16>, schedules<one_f_one_b, gpipe>>());
}

}  // namespace benchmark_spaces
