// Swin's form in bf16 (Liu et al. 2021, 2022): attention inside windows, four levels; from one to the next four windows become
// one and features twice as many, so that early layers have huge activations and late ones the weights. Which four
// patches are put together, and the shift of every other layer's windows, change neither sizes nor work and are left out.
#pragma once
#include "axes.hpp"

namespace benchmark_model {

namespace of_swin {
template <int Level> struct window;
template <> struct window<0> : pt::axis<"window0"> {};
template <> struct window<1> : pt::axis<"window1"> {};
template <> struct window<2> : pt::axis<"window2"> {};
template <> struct window<3> : pt::axis<"window3"> {};
template <int Level> struct features;
template <> struct features<0> : pt::axis<"features0"> {};
template <> struct features<1> : pt::axis<"features1"> {};
template <> struct features<2> : pt::axis<"features2"> {};
template <> struct features<3> : pt::axis<"features3"> {};
template <int Level> struct head;
template <> struct head<0> : pt::axis<"head0"> {};
template <> struct head<1> : pt::axis<"head1"> {};
template <> struct head<2> : pt::axis<"head2"> {};
template <> struct head<3> : pt::axis<"head3"> {};
template <int Level> struct inner;
template <> struct inner<0> : pt::axis<"inner0"> {};
template <> struct inner<1> : pt::axis<"inner1"> {};
template <> struct inner<2> : pt::axis<"inner2"> {};
template <> struct inner<3> : pt::axis<"inner3"> {};
struct four : pt::axis<"four", 4> {};
struct patch : pt::axis<"patch"> {};  // of a window
struct pixel : pt::axis<"pixel", 48> {};
struct label : pt::axis<"label"> {};
}  // namespace of_swin

struct swin {
  int layers[4]{2, 2, 18, 2};
  constexpr auto operator()(auto& g) const {
    using namespace of_swin;
    auto image = pt::input<pt::bf16, sample, window<0>, patch, pixel>(g, "image");
    auto labels = pt::input<pt::i32, sample>(g, "labels");
    auto x0 = level<0>(g, pt::linear(image, pt::param<pt::bf16, pixel, features<0>>(g, "patch.weight")), 0);
    auto x1 = level<1>(g, joined<0>(g, x0), layers[0]);
    auto x2 = level<2>(g, joined<1>(g, x1), layers[0] + layers[1]);
    auto x3 = level<3>(g, joined<2>(g, x2), layers[0] + layers[1] + layers[2]);
    auto pooled = pt::mean_over<window<3>, patch>(norm<3>(g, x3));
    return pt::cross_entropy(pt::linear(pooled, pt::param<pt::bf16, features<3>, of_swin::label>(g, "head.weight")), labels);
  }

 private:
  template <int L> static constexpr auto norm(auto& g, auto x, pt::label name = "norm") {
    using namespace of_swin;
    auto s = pt::scope(g, name);
    return pt::layer_norm(x, pt::param<pt::bf16, features<L>>(g, "scale", pt::ones),
                          pt::param<pt::bf16, features<L>>(g, "bias", pt::zeros));
  }
  template <int L> constexpr auto level(auto& g, auto x, int first) const {
    using namespace of_swin;
    using pt::bf16;
    for (int l = 0; l < layers[L]; ++l) {
      auto b = pt::scope(g, "block", first + l);
      auto n = norm<L>(g, x);
      auto q = pt::linear(n, pt::param<bf16, features<L>, of_swin::head<L>, head_width>(g, "q.weight"));
      auto k = pt::linear(n, pt::param<bf16, features<L>, of_swin::head<L>, head_width>(g, "k.weight"));
      auto v = pt::linear(n, pt::param<bf16, features<L>, of_swin::head<L>, head_width>(g, "v.weight"));
      x = x + pt::linear(pt::attention(q, k, v), pt::param<bf16, of_swin::head<L>, head_width, features<L>>(g, "out.weight"));
      auto h = pt::gelu(pt::linear(norm<L>(g, x, "norm2"), pt::param<bf16, features<L>, of_swin::inner<L>>(g, "up.weight")));
      x = x + pt::linear(h, pt::param<bf16, of_swin::inner<L>, features<L>>(g, "down.weight"));
    }
    return x;
  }
  template <int L> static constexpr auto joined(auto& g, auto x) {
    using namespace of_swin;
    constexpr pt::label names[]{"join0.weight", "join1.weight", "join2.weight"};
    auto fours = pt::split_axis<window<L>, window<L + 1>, four>(x);
    return pt::einsum<"b w f t h, f h g -> b w t g">(fours, pt::param<pt::bf16, four, features<L>, features<L + 1>>(g, names[L]));
  }
};

struct swin_sizes {
  int layers[4]{2, 2, 18, 2};
  std::size_t features = 128, heads = 4, windows = 64, patches = 49, samples = 1024, labels = 1000;
  std::vector<pt::binding> bindings() const {
    using namespace of_swin;
    return {pt::bind<sample>(samples),
            pt::bind<patch>(patches),
            pt::bind<of_swin::label>(labels),
            pt::bind<head_width>(features / heads),
            pt::bind<window<0>>(windows),
            pt::bind<window<1>>(windows / 4),
            pt::bind<window<2>>(windows / 16),
            pt::bind<window<3>>(windows / 64),
            pt::bind<of_swin::features<0>>(features),
            pt::bind<of_swin::features<1>>(2 * features),
            pt::bind<of_swin::features<2>>(4 * features),
            pt::bind<of_swin::features<3>>(8 * features),
            pt::bind<of_swin::head<0>>(heads),
            pt::bind<of_swin::head<1>>(2 * heads),
            pt::bind<of_swin::head<2>>(4 * heads),
            pt::bind<of_swin::head<3>>(8 * heads),
            pt::bind<of_swin::inner<0>>(4 * features),
            pt::bind<of_swin::inner<1>>(8 * features),
            pt::bind<of_swin::inner<2>>(16 * features),
            pt::bind<of_swin::inner<3>>(32 * features)};
  }
};

}  // namespace benchmark_model
