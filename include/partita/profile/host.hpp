// This machine as a cluster: its CPU devices, measured.
//   pt::profile measured = pt::measure_library(pt::cpu{.devices = 2});
//   pt::costs costs(pt::host_cluster(measured), measured);
#pragma once
#include <algorithm>
#include <string>

#include <partita/ops/ops.hpp>
#include <partita/profile/profile.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail::catalogue {

struct sample : axis<"sample", 16> {};
struct position : axis<"position", 128> {};
struct vocabulary : axis<"vocabulary", 2048> {};
struct hidden : axis<"hidden", 512> {};
struct head : axis<"head", 8> {};
struct width : axis<"width", 64> {};
struct inner : axis<"inner", 2048> {};

// Blocks as GPT-2 and as Llama have them: the ops of the library that take time in training.
struct model {
  constexpr auto operator()(auto& g) const {
    auto tokens = input<i32, sample, position>(g, "tokens");
    auto targets = input<i32, sample, position>(g, "targets");
    auto table = param<f32, vocabulary, hidden>(g, "table");
    auto x = ops::dropout(ops::bias(ops::embedding(tokens, table), param<f32, position, hidden>(g, "positions")), 0.1);
    auto attend = [&](auto h) {
      auto q = ops::linear(h, param<f32, hidden, head, width>(g, "q.weight"), param<f32, head, width>(g, "q.bias"));
      auto k = ops::linear(h, param<f32, hidden, head, width>(g, "k.weight"));
      auto v = ops::linear(h, param<f32, hidden, head, width>(g, "v.weight"));
      return ops::linear(ops::causal_attention(q, k, v), param<f32, head, width, hidden>(g, "out.weight"),
                         param<f32, hidden>(g, "out.bias"));
    };
    {
      auto s = scope(g, "first");
      x = x + attend(ops::layer_norm(x, param<f32, hidden>(g, "norm1.scale", ones), param<f32, hidden>(g, "norm1.bias")));
      auto h = ops::layer_norm(x, param<f32, hidden>(g, "norm2.scale", ones), param<f32, hidden>(g, "norm2.bias"));
      auto up = ops::gelu(ops::linear(h, param<f32, hidden, inner>(g, "up.weight"), param<f32, inner>(g, "up.bias")));
      x = x + ops::linear(up, param<f32, inner, hidden>(g, "down.weight"));
    }
    auto s = scope(g, "second");
    auto h = ops::rms_norm(x, param<f32, hidden>(g, "norm.scale", ones));
    auto gate = ops::silu(ops::linear(h, param<f32, hidden, inner>(g, "gate.weight")));
    auto up = ops::relu(ops::linear(h, param<f32, hidden, inner>(g, "up.weight")));
    x = x + ops::linear(gate * up, param<f32, inner, hidden>(g, "down.weight"));
    return ops::cross_entropy(ops::linear(x, table), targets);
  }
};

}  // namespace detail::catalogue

// Ops of the library in the sizes of a small transformer, for plans of models that were not measured themselves. What a
// model has in other sizes is extrapolated; `measure<model>` knows better.
template <class Catalogue = detail::catalogue::model>  // a template, so that its kernels are compiled where it is called
profile measure_library(cpu devices, measure_options const& how = {}) {
  using training_type = training<Catalogue, adamw, clip_norm>;
  return measure<training_type>(devices, training_type{}, how);
}

// The devices that were measured and the links between them, as a cluster. Costs take from the profile what it holds; the
// cluster speaks for the rest.
inline cluster host_cluster(profile const& measured) {
  const profiled curves(measured);
  device_kind core{};
  core.name = words({"CPU device of ", measured.threads, measured.threads == 1 ? " thread" : " threads"});
  core.flops = measured.flops;
  if (core.flops["f32"] <= 0) core.flops["f32"] = 1e10;
  core.memory = measured.memory;
  const double large = 1 << 26;
  const double copied = curves.transfer("copy", 1, large);
  core.memory_bandwidth = copied > 0 ? large / copied : 1e10;
  core.launch = std::max(0.0, curves.transfer("copy", 1, 64));
  core.source = words({"measured on ", measured.machine});
  link_level threads{};
  threads.name = "memory of the machine";
  threads.devices = std::max(1, measured.devices);
  const double small = curves.transfer("send", 2, 64), sent = curves.transfer("send", 2, large);
  threads.latency = small > 0 ? small : 0;
  threads.seconds_per_byte = sent > small && small > 0 ? (sent - small) / large : 1 / core.memory_bandwidth;
  threads.source = core.source;
  cluster c{};
  c.format = "partita cluster";
  c.version = cluster_file_version;
  c.name = "host";
  c.kinds = {core};
  c.devices = {{core.name, threads.devices}};
  c.links = {threads};
  c.check();
  return c;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
