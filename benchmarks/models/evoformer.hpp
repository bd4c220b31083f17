// AlphaFold2's Evoformer in bf16 (Jumper et al. 2021, supplement 1.6): a representation of aligned sequences and one of pairs of
// residues. Gates and dropout are left out.
#pragma once
#include "axes.hpp"

namespace benchmark_model {

namespace of_evoformer {
struct sequence : pt::axis<"sequence"> {};
struct other_sequence : pt::axis<"other_sequence"> {};
struct left : pt::axis<"left"> {};    // residues, as they stand in sequences and first in pairs
struct right : pt::axis<"right"> {};  // and second in pairs
struct third : pt::axis<"third"> {};
struct aligned : pt::axis<"aligned"> {};  // features of the sequences
struct paired : pt::axis<"paired"> {};    // and of pairs
struct seen : pt::axis<"seen", 49> {};
struct outer_a : pt::axis<"outer_a", 32> {};
struct outer_b : pt::axis<"outer_b", 32> {};
struct triangle : pt::axis<"triangle", 128> {};
struct pair_head : pt::axis<"pair_head", 4> {};
struct wide_a : pt::axis<"wide_a"> {};
struct wide_b : pt::axis<"wide_b"> {};
struct word : pt::axis<"word", 23> {};
}  // namespace of_evoformer

struct evoformer {
  int blocks = 48;
  constexpr auto operator()(auto& g) const {
    using namespace of_evoformer;
    using pt::bf16;
    auto given = pt::input<bf16, sample, sequence, left, seen>(g, "sequences");
    auto relative = pt::input<bf16, sample, left, right, seen>(g, "relative");
    auto targets = pt::input<pt::i32, sample, sequence, left>(g, "targets");
    auto m = pt::linear(given, pt::param<bf16, seen, aligned>(g, "given.weight"));
    auto z = pt::linear(relative, pt::param<bf16, seen, paired>(g, "relative.weight"));
    for (int b = 0; b < blocks; ++b) {
      auto s = pt::scope(g, "block", b);
      m = m + along_rows(g, m, z);
      m = m + attention_along<aligned, head, sequence, other_sequence, true>(g, "columns", m);
      {
        auto t = pt::scope(g, "transition");
        auto h = pt::relu(pt::linear(norm<aligned>(g, m), pt::param<bf16, aligned, wide_a>(g, "up.weight")));
        m = m + pt::linear(h, pt::param<bf16, wide_a, aligned>(g, "down.weight"));
      }
      z = z + outer_product(g, m);
      z = z + triangle_update<true>(g, "outgoing", z);
      z = z + triangle_update<false>(g, "incoming", z);
      z = z + attention_along<paired, pair_head, right, third, false>(g, "starting", z);
      z = z + attention_along<paired, pair_head, left, third, true>(g, "ending", z);
      auto t = pt::scope(g, "pair_transition");
      auto h = pt::relu(pt::linear(norm<paired>(g, z), pt::param<bf16, paired, wide_b>(g, "up.weight")));
      z = z + pt::linear(h, pt::param<bf16, wide_b, paired>(g, "down.weight"));
    }
    auto words = pt::cross_entropy(pt::linear(norm<aligned>(g, m), pt::param<bf16, aligned, word>(g, "words.weight")), targets);
    return pt::outputs(pt::loss("words", words), pt::loss("pairs", pt::mean(z * z), 0.01));
  }

 private:
  template <class Features> static constexpr auto norm(auto& g, auto x, pt::label name = "norm") {
    auto s = pt::scope(g, name);
    return pt::layer_norm(x, pt::param<pt::bf16, Features>(g, "scale", pt::ones),
                          pt::param<pt::bf16, Features>(g, "bias", pt::zeros));
  }
  static constexpr auto along_rows(auto& g, auto m, auto z) {
    using namespace of_evoformer;
    using pt::bf16;
    auto s = pt::scope(g, "rows");
    auto n = norm<aligned>(g, m);
    auto q = pt::linear(n, pt::param<bf16, aligned, head, head_width>(g, "q.weight"));
    auto k = pt::rename<left, right>(pt::linear(n, pt::param<bf16, aligned, head, head_width>(g, "k.weight")));
    auto v = pt::rename<left, right>(pt::linear(n, pt::param<bf16, aligned, head, head_width>(g, "v.weight")));
    auto bias =
        pt::einsum<"b i j c, c n -> b n i j">(norm<paired>(g, z, "pair_norm"), pt::param<bf16, paired, head>(g, "bias.weight"));
    auto scores = pt::bias(pt::einsum<"b s i n d, b s j n d -> s b n i j">(q, k), bias);
    auto read = pt::einsum<"s b n i j, b s j n d -> b s i n d">(pt::softmax<right>(scores), v);
    return pt::linear(read, pt::param<bf16, head, head_width, aligned>(g, "out.weight"));
  }
  static constexpr auto outer_product(auto& g, auto m) {
    using namespace of_evoformer;
    using pt::bf16;
    auto s = pt::scope(g, "outer");
    auto n = norm<aligned>(g, m);
    auto a = pt::linear(n, pt::param<bf16, aligned, outer_a>(g, "a.weight"));
    auto b = pt::rename<left, right>(pt::linear(n, pt::param<bf16, aligned, outer_b>(g, "b.weight")));
    auto o = pt::einsum<"b s i c, b s j d -> b i j c d">(a, b);
    return pt::einsum<"b i j c d, c d z -> b i j z">(o, pt::param<bf16, outer_a, outer_b, paired>(g, "out.weight"));
  }
  template <bool Outgoing> static constexpr auto triangle_update(auto& g, pt::label name, auto z) {
    using namespace of_evoformer;
    using pt::bf16;
    auto s = pt::scope(g, name);
    auto n = norm<paired>(g, z);
    auto a = pt::linear(n, pt::param<bf16, paired, triangle>(g, "a.weight"));
    auto b = pt::linear(n, pt::param<bf16, paired, triangle>(g, "b.weight"));
    if constexpr (Outgoing) {
      auto p = pt::rename<right, third>(a);
      auto q = pt::rename<left, right>(pt::rename<right, third>(b));
      auto t = pt::einsum<"b i k c, b j k c -> b i j c">(p, q);
      return pt::linear(t, pt::param<bf16, triangle, paired>(g, "out.weight"));
    } else {
      auto p = pt::rename<right, left>(pt::rename<left, third>(a));
      auto q = pt::rename<left, third>(b);
      auto t = pt::einsum<"b k i c, b k j c -> b i j c">(p, q);
      return pt::linear(t, pt::param<bf16, triangle, paired>(g, "out.weight"));
    }
  }
  // Attention along the first of the two middle axes, for each index of the second; or the other way round. `Other` is the
  // name of that axis in keys.
  template <class Features, class Heads, class Along, class Other, bool First>
  static constexpr auto attention_along(auto& g, pt::label name, auto x) {
    using pt::bf16;
    auto s = pt::scope(g, name);
    auto n = norm<Features>(g, x);
    auto project = [&](pt::label weight) { return pt::linear(n, pt::param<bf16, Features, Heads, head_width>(g, weight)); };
    auto q = project("q.weight");
    auto k = pt::rename<Along, Other>(project("k.weight"));
    auto v = pt::rename<Along, Other>(project("v.weight"));
    auto read = [&] {
      if constexpr (First) {
        auto scores = pt::einsum<"b i j n d, b k j n d -> b j n i k">(q, k);
        return pt::einsum<"b j n i k, b k j n d -> b i j n d">(pt::softmax<Other>(scores), v);
      } else {
        auto scores = pt::einsum<"b i j n d, b i k n d -> b i n j k">(q, k);
        return pt::einsum<"b i n j k, b i k n d -> b i j n d">(pt::softmax<Other>(scores), v);
      }
    }();
    return pt::linear(read, pt::param<bf16, Heads, head_width, Features>(g, "out.weight"));
  }
};

struct evoformer_sizes {
  int blocks = 48;
  std::size_t sequences = 128, residues = 256, aligned = 256, paired = 128, heads = 8, samples = 128;
  std::vector<pt::binding> bindings() const {
    using namespace of_evoformer;
    return {pt::bind<sample>(samples),
            pt::bind<sequence>(sequences),
            pt::bind<other_sequence>(sequences),
            pt::bind<left>(residues),
            pt::bind<right>(residues),
            pt::bind<third>(residues),
            pt::bind<of_evoformer::aligned>(aligned),
            pt::bind<of_evoformer::paired>(paired),
            pt::bind<head>(heads),
            pt::bind<head_width>(32),
            pt::bind<wide_a>(4 * aligned),
            pt::bind<wide_b>(4 * paired)};
  }
};

}  // namespace benchmark_model
