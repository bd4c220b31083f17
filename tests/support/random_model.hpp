// One model type with run-time choices and run-time extents: many different graphs for the price of compiling one.
#pragma once
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <partita/grad/training.hpp>
#include <partita/ops/ops.hpp>

#include "reference.hpp"

namespace partita::testing {

namespace random_axes {
struct sample : axis<"sample"> {};
struct position : axis<"position"> {};
struct key : axis<"key"> {};      // position under another name
struct front : axis<"front"> {};  // position = front + rest
struct rest : axis<"rest"> {};
struct vocabulary : axis<"vocabulary"> {};
struct hidden : axis<"hidden"> {};
struct head : axis<"head"> {};
struct share : axis<"share"> {};  // heads that share keys
struct width : axis<"width"> {};
struct joined : axis<"joined"> {};  // head x width
struct inner : axis<"inner"> {};
struct feature : axis<"feature"> {};
struct label : axis<"label"> {};
struct expert : axis<"expert"> {};
struct slot : axis<"slot"> {};
}  // namespace random_axes

struct random_block {
  int norm = 0;               // 0: none, 1: layer norm, 2: layer norm without bias, 3: root mean square
  int attention = 0;          // 0: none, 1: causal, 2: all positions, 3: products and a softmax, 4: causal, heads share keys
  bool joined_heads = false;  // heads by splitting and merging an axis
  bool rotary = false;
  int unit = 0;     // 0: none, 1: gelu, 2: relu, 3: silu, gated, 4: a weight that blocks share, 5: experts
  int choices = 1;  // of experts, by a token
  bool bias = false, residual = true, skip = false;  // skip: adds what the model began with
  double dropout = 0;
  int extra = 0;  // 0: none, 1: transposed, 2: sliced and joined, 3: scaled, 4: squared, 5: softmax over the hidden axis,
                  // 6: adds itself without gradient, 7: a pass ends: what follows reads it without gradient (not drawn)
};

struct random_model {
  bool tokens = true;  // else numbers
  bool positions = true;
  bool tied = false;    // the output layer has the table of the input
  bool unused = false;  // a parameter and an input that nobody reads
  int first_loss = 0;   // 0: cross-entropy of each position, 1: of the mean over positions, 2: mean of squares
  int second_loss = 0;  // 0: mean of squares, 1: cross-entropy of each sample
  double first_weight = 1, second_weight = 0.5, smoothing = 0;
  int blocks = 0;
  random_block block[3]{};

  constexpr auto operator()(auto& g) const {
    using namespace random_axes;
    constexpr dtype t = f32;
    constexpr normal wide{0.4};
    auto ids = input<i32, sample, position>(g, "tokens");
    auto given = input<t, sample, position, feature>(g, "numbers");
    auto targets = input<i32, sample, position>(g, "targets");
    auto labels = input<i32, sample>(g, "labels");
    if (unused) {
      (void)input<t, sample, feature>(g, "spare");
      (void)param<t, hidden, feature>(g, "spare.weight");
    }
    auto table = param<t, vocabulary, hidden>(g, "table.weight", wide);
    auto x = tokens ? ops::embedding(ids, table) : ops::linear(given, param<t, feature, hidden>(g, "in.weight", wide));
    if (positions) x = ops::bias(x, param<t, position, hidden>(g, "positions.weight", wide));
    const auto began = x;
    auto shared = param<t, hidden, inner>(g, "shared.weight", wide);
    auto balance = mean(x);  // of experts; not used where there are none
    bool has_experts = false;
    auto norm = [&](auto y, int kind) {
      if (kind == 1) return layer_norm(y, param<t, hidden>(g, "norm.scale", ones), param<t, hidden>(g, "norm.bias", wide));
      if (kind == 2) return layer_norm(y, param<t, hidden>(g, "norm.scale", ones));
      if (kind == 3) return rms_norm(y, param<t, hidden>(g, "norm.scale", ones));
      return y;
    };
    for (int l = 0; l < blocks; ++l) {
      auto s = pt_scope(g, l);
      random_block const& b = block[l];
      if (b.attention == 4) x = attend_by_groups(g, b, x, norm);
      else if (b.attention > 0) x = attend(g, b, x, norm);
      if (b.unit == 5) {
        balance = has_experts ? balance + mix(g, b, x, norm) : mix(g, b, x, norm);
        has_experts = true;
      } else if (b.unit > 0) {
        auto s2 = partita::scope(g, "unit");
        auto h = norm(x, b.norm);
        auto u = b.unit == 4 ? ops::linear(h, shared) : ops::linear(h, param<t, hidden, inner>(g, "first.weight", wide));
        if (b.bias) u = ops::bias(u, param<t, inner>(g, "first.bias", wide));
        if (b.unit == 1) u = gelu(u);
        if (b.unit == 2) u = relu(u);
        if (b.unit == 3) u = silu(ops::linear(h, param<t, hidden, inner>(g, "gate.weight", wide))) * u;
        auto y = ops::linear(u, param<t, inner, hidden>(g, "second.weight", wide));
        if (b.bias) y = ops::bias(y, param<t, hidden>(g, "second.bias", wide));
        if (b.dropout > 0) y = ops::dropout(y, b.dropout);
        x = b.residual ? x + y : y;
      }
      if (b.extra == 1) {
        auto y = softmax<position>(transpose<hidden, position>(x));
        x = x + transpose<position, hidden>(y);
      }
      if (b.extra == 2) {
        auto y = slice<position, front>(x, 0);
        auto z = slice<position, rest>(x, g.extent(&axis_of<front>::info));
        x = concatenate<position>(ops::scale(y, 0.5), z);
      }
      if (b.extra == 3) x = ops::scale(x, -0.75);
      if (b.extra == 4) x = x + ops::scale(x * x, 0.1);
      if (b.extra == 5) x = x + softmax<hidden>(x);
      if (b.extra == 6) x = x + detach(ops::scale(x, 0.4));
      if (b.extra == 7) x = began + detach(x);
      if (b.skip) x = x + began;
    }
    auto logits = tied ? ops::linear(x, table) : ops::linear(x, param<t, hidden, vocabulary>(g, "out.weight", wide));
    auto mean_of_squares = [&] { return mean(x * x); };
    auto of_samples = [&] {
      return ops::cross_entropy(
          ops::linear(mean_over<position>(x), param<t, hidden, random_axes::label>(g, "label.weight", wide)), labels);
    };
    auto first = first_loss == 0   ? ops::cross_entropy(logits, targets, smoothing)
                 : first_loss == 1 ? of_samples()
                                   : mean_of_squares();
    auto second = second_loss == 1 && first_loss != 1 ? of_samples() : mean_of_squares();
    if (has_experts) second = second + balance;
    return outputs(loss("loss", first, first_weight), loss("second", second, second_weight), output("logits", logits),
                   output("table", table));
  }

 private:
  static constexpr auto pt_scope(auto& g, int l) { return partita::scope(g, "block", l); }
  static constexpr auto attend(auto& g, random_block const& b, auto x, auto const& norm) {
    using namespace random_axes;
    constexpr dtype t = f32;
    constexpr normal wide{0.4};
    auto s = partita::scope(g, "attention");
    auto h = norm(x, b.norm);
    auto heads = [&](partita::label weight, partita::label bias) {
      auto y = b.joined_heads ? split_axis<joined, head, width>(ops::linear(h, param<t, hidden, joined>(g, weight, wide)))
                              : ops::linear(h, param<t, hidden, head, width>(g, weight, wide));
      return b.bias ? ops::bias(y, param<t, head, width>(g, bias, wide)) : y;
    };
    auto q = heads("q.weight", "q.bias");
    // No bias: it moves all scores of a query alike, and a gradient of zero is all rounding.
    auto k = b.joined_heads ? split_axis<joined, head, width>(ops::linear(h, param<t, hidden, joined>(g, "k.weight", wide)))
                            : ops::linear(h, param<t, hidden, head, width>(g, "k.weight", wide));
    auto v = heads("v.weight", "v.bias");
    auto by_hand = [&] {
      auto scores = einsum<"b s n d, b t n d -> b n s t">(ops::scale(q, 0.5), rename<position, key>(k));
      return einsum<"b n s t, b t n d -> b s n d">(softmax<key>(scores), rename<position, key>(v));
    };
    if (b.rotary) {
      q = rotary<position>(q, 10);
      k = rotary<position>(k, 10);
    }
    auto y = b.attention == 1 ? causal_attention(q, k, v) : b.attention == 2 ? ops::attention(q, k, v) : by_hand();
    auto o = b.joined_heads ? ops::linear(merge<head, width, joined>(y),
                                          b.bias ? param<t, joined, hidden>(g, "o.weight", wide)
                                                 : merge<head, width, joined>(param<t, head, width, hidden>(g, "o.weight", wide)))
                            : ops::linear(y, param<t, head, width, hidden>(g, "o.weight", wide));
    if (b.bias) o = ops::bias(o, param<t, hidden>(g, "o.bias", wide));
    return b.residual ? x + o : o;
  }
  static constexpr auto attend_by_groups(auto& g, random_block const& b, auto x, auto const& norm) {
    using namespace random_axes;
    constexpr dtype t = f32;
    constexpr normal wide{0.4};
    auto s = partita::scope(g, "attention");
    auto h = norm(x, b.norm);
    auto q = ops::linear(h, param<t, hidden, head, share, width>(g, "q.weight", wide));
    auto k = ops::linear(h, param<t, hidden, head, width>(g, "k.weight", wide));
    auto v = ops::linear(h, param<t, hidden, head, width>(g, "v.weight", wide));
    auto y = b.rotary ? causal_attention(rotary<position>(q, 10), rotary<position>(k, 10), v) : causal_attention(q, k, v);
    auto o = ops::linear(y, param<t, head, share, width, hidden>(g, "o.weight", wide));
    return b.residual ? x + o : o;
  }
  // Experts; x becomes what they make, returned is the loss of their balance.
  static constexpr auto mix(auto& g, random_block const& b, auto& x, auto const& norm) {
    using namespace random_axes;
    constexpr dtype t = f32;
    constexpr normal wide{0.4};
    auto s = partita::scope(g, "unit");
    auto n = norm(x, b.norm);
    auto probabilities = softmax<expert>(ops::linear(n, param<t, hidden, expert>(g, "router.weight", normal{2})));
    auto gates = top_k<expert>(probabilities, static_cast<std::size_t>(b.choices));
    auto slots = assign_slots<slot>(gates);
    auto h =
        gelu(einsum<"... e c h, e h f -> ... e c f">(dispatch(n, slots), param<t, expert, hidden, inner>(g, "up.weight", wide)));
    auto z = einsum<"... e c f, e f h -> ... e c h">(h, param<t, expert, inner, hidden>(g, "down.weight", wide));
    auto y = combine(z, gates, slots);
    x = b.residual ? x + y : y;
    return mean(load_balance(probabilities, gates));
  }
};

// A model, the extents of its axes, and what a step is given.
struct random_case {
  random_model model;
  glob frozen{};
  std::vector<binding> extents;
  double learning_rate = 0.01, clip = 1;

  std::size_t extent(axis_info const* axis) const {
    for (binding const& b : extents)
      if (b.axis->id == axis->id) return b.extent;
    return 0;
  }
  template <class Axis> std::size_t extent() const { return extent(&axis_of<Axis>::info); }

  named_values inputs(std::mt19937& random) const {
    using namespace random_axes;
    const std::size_t tokens = extent<sample>() * extent<position>();
    auto draw = [&](std::size_t n, auto f) {
      values v;
      for (std::size_t i = 0; i < n; ++i) v.all.push_back(f());
      return v;
    };
    auto below = [&](std::size_t n) { return static_cast<double>(std::uniform_int_distribution<std::size_t>(0, n - 1)(random)); };
    auto real = [&] { return std::uniform_real_distribution<float>(-1, 1)(random); };
    named_values v;
    const std::size_t ignored = 1 + static_cast<std::size_t>(below(6));  // one in so many, none if it is 1
    auto target = [&](std::size_t classes) { return ignored > 1 && below(ignored) == 0 ? -1 : below(classes); };
    v["tokens"] = draw(tokens, [&] { return below(extent<vocabulary>()); });
    v["numbers"] = draw(tokens * extent<feature>(), real);
    v["targets"] = draw(tokens, [&] { return target(extent<vocabulary>()); });
    v["labels"] = draw(extent<sample>(), [&] { return target(extent<random_axes::label>()); });
    v["spare"] = draw(extent<sample>() * extent<feature>(), real);
    return v;
  }
};

// `experts`: mixtures of experts, too, whose choices may turn on rounding.
inline random_case make_random_case(std::mt19937& random, bool experts) {
  using namespace random_axes;
  auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  auto chance = [&](int percent) { return below(100) < percent; };
  random_case c;
  random_model& m = c.model;
  m.tokens = chance(60);
  m.positions = chance(50);
  m.tied = chance(40);
  m.unused = chance(20);
  m.first_loss = chance(70) ? 0 : 1 + below(2);
  m.second_loss = below(2);
  m.first_weight = chance(50) ? 1 : 0.3;
  m.second_weight = chance(30) ? 1 : 0.01;
  m.smoothing = chance(30) ? 0.1 : 0;
  m.blocks = below(4);
  if (m.blocks == 3 && chance(50)) m.blocks = 1;
  for (int l = 0; l < m.blocks; ++l) {
    random_block& b = m.block[l];
    b.norm = below(4);
    b.attention = chance(55) ? 1 + below(4) : 0;
    b.joined_heads = chance(40);
    b.rotary = chance(30);
    b.unit = chance(80) ? 1 + below(experts ? 5 : 4) : 0;
    b.choices = 1 + below(3);
    b.bias = chance(50);
    b.residual = chance(70);
    b.skip = chance(20);
    b.dropout = chance(30) ? 0.3 : 0;
    b.extra = chance(35) ? 1 + below(6) : 0;
  }
  auto some = [&](int most) { return static_cast<std::size_t>(1 + below(most)); };
  auto add = [&](axis_info const* axis, std::size_t n) { c.extents.push_back({axis, n}); };
  const std::size_t positions = some(9), heads = some(5), widths = some(4), hiddens = some(13);
  if (hiddens < 3)  // a norm over one or two elements has a gradient of almost nothing, all rounding
    for (random_block& b : m.block) b.norm = 0;
  add(&axis_of<sample>::info, chance(20) ? some(2) : 1 + some(9));
  add(&axis_of<position>::info, positions);
  add(&axis_of<key>::info, positions);
  const std::size_t first = positions > 1 ? 1 + static_cast<std::size_t>(below(static_cast<int>(positions) - 1)) : 1;
  add(&axis_of<front>::info, first);
  add(&axis_of<rest>::info, positions > 1 ? positions - first : 1);
  if (positions == 1)
    for (random_block& b : m.block)
      if (b.extra == 2) b.extra = 3;
  add(&axis_of<vocabulary>::info, 1 + some(12));
  add(&axis_of<hidden>::info, hiddens);
  add(&axis_of<head>::info, heads);
  if (widths % 2 != 0)  // rotary positions turn pairs
    for (random_block& b : m.block) b.rotary = false;
  add(&axis_of<width>::info, widths);
  add(&axis_of<joined>::info, heads * widths);
  add(&axis_of<inner>::info, some(13));
  add(&axis_of<feature>::info, some(7));
  add(&axis_of<random_axes::label>::info, 1 + some(6));
  add(&axis_of<share>::info, some(3));
  add(&axis_of<expert>::info, some(5));
  add(&axis_of<slot>::info, some(4));
  if (chance(25)) {
    const char* names[]{"block.0.*", "table.weight", "*norm*", "*.bias", "shared.weight in.weight", "block.1.* table.weight"};
    c.frozen = glob(std::string_view(names[below(6)]));
  }
  c.learning_rate = chance(50) ? 0.01 : 0.1;
  c.clip = chance(60) ? 0.3 : 1e6;
  return c;
}

}  // namespace partita::testing
