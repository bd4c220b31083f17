#include <doctest/doctest.h>

#include <string_view>

#include <partita/ops/einsum.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 2> {};
struct query : pt::axis<"query", 7> {};
struct key : pt::axis<"key"> {};
struct head : pt::axis<"head", 3> {};
struct width : pt::axis<"width", 5> {};
struct other : pt::axis<"other", 11> {};
struct single : pt::axis<"single", 1> {};
const std::vector<pt::binding> bound{pt::bind<key>(9)};

// By the definition: every point of all letters adds a product.
void check_definition(lone_op const& op) {
  const buffer c = op.run_whole()[0];
  std::vector<double> expected(c.size(), 0);
  std::size_t points = 1;
  for (int d = 0; d < op.info.dim_count; ++d) points *= op.wholes[d];
  for (std::size_t p = 0; p < points; ++p) {
    std::size_t at[pt::max_dims]{}, left = p;
    for (int d = 0; d < op.info.dim_count; ++d) at[d] = left % op.wholes[d], left /= op.wholes[d];
    auto index = [&](pt::operand const& x) {
      std::size_t i = 0;
      for (int a = 0; a < x.rank; ++a) i = i * op.wholes[x.dims[a]] + at[x.dims[a]];
      return i;
    };
    expected[index(op.info.outputs[0])] +=
        op.inputs[0].get(index(op.info.inputs[0])) * op.inputs[1].get(index(op.info.inputs[1]));
  }
  double worst = 0;
  for (std::size_t i = 0; i < c.size(); ++i) worst = std::max(worst, std::abs(c.get(i) - expected[i]));
  CHECK(worst <= 1e-5);
}
template <pt::fixed_string Text, class A, class B> void check_all() {
  INFO(Text.view());
  const auto op = lone_op::make<pt::einsum_op<Text>, A, B>({}, bound, number);
  check_definition(op);
  check_cuts(op);
}
template <pt::fixed_string Text> bool matrices(std::vector<std::size_t> const& extents) {
  constexpr pt::signature s = pt::annotation_of<pt::einsum_op<Text>>::parsed;
  pt::op_info info;
  std::string letters;
  auto fill = [&](pt::pattern const& p) {
    pt::operand x;
    x.rank = static_cast<signed char>(p.rank);
    for (int i = 0; i < p.rank; ++i) {
      if (letters.find(p.terms[i].letter) == std::string::npos) letters += p.terms[i].letter;
      x.dims[i] = static_cast<signed char>(letters.find(p.terms[i].letter));
    }
    return x;
  };
  info.inputs[0] = fill(s.inputs[0]);
  info.inputs[1] = fill(s.inputs[1]);
  info.outputs[0] = fill(s.outputs[0]);
  info.dim_count = static_cast<signed char>(letters.size());
  pt::detail::contraction_axes axes(info, extents.data());
  return pt::detail::choose_matrices(axes).matrices;
}

struct attention_by_hand {
  constexpr auto operator()(auto& g) const {
    auto q = pt::param<pt::f32, batch, query, head, width>(g, "q", pt::uniform{-1, 1});
    auto k = pt::param<pt::f32, batch, key, head, width>(g, "k", pt::uniform{-1, 1});
    auto v = pt::param<pt::f32, batch, key, head, other>(g, "v", pt::uniform{-1, 1});
    auto scores = pt::einsum<"b s n d, b t n d -> b n s t">(q, k);
    auto y = pt::einsum<"b n s t, b t n e -> b s n e">(scores, v);
    auto w = pt::param<pt::f32, batch, query, other, single>(g, "w", pt::uniform{-1, 1});
    return weighted_sum(pt::matmul(y, w));
  }
};
}  // namespace

TEST_CASE("an axis that the result lacks is summed") {
  constexpr std::string_view forward = pt::einsum_op<"b s n d, b t n d -> b n s t">::annotation;
  static_assert(forward == "b s n d+, b t n d+ -> b n s t");
  constexpr std::string_view first = pt::einsum_op<"... m k, ... k n -> ... m n", 1>::annotation;
  static_assert(first == "... m n+, ... k n+ -> ... m k");
  constexpr std::string_view rest = pt::einsum_op<"... m, ... n -> m n">::annotation;
  static_assert(rest == "...+ m, ...+ n -> m n");
}

TEST_CASE("einsum is what its definition says, whole and in pieces") {
  using pt::f32;
  using pt::f64;
  check_all<"b s n d, b t n d -> b n s t", pt::like<f32, batch, query, head, width>, pt::like<f32, batch, key, head, width>>();
  check_all<"b n s t, b t n d -> b s n d", pt::like<f64, batch, head, query, key>, pt::like<f64, batch, key, head, width>>();
  check_all<"... m k, ... k n -> ... m n", pt::like<f32, batch, head, query, width>, pt::like<f32, batch, head, width, other>>();
  check_all<"m k, k n -> n m", pt::like<f32, query, width>, pt::like<f32, width, other>>();
  check_all<"k m, n k -> m n", pt::like<f32, width, query>, pt::like<f32, other, width>>();
  check_all<"... m, ... n -> m n", pt::like<f32, batch, key, width>, pt::like<f32, batch, key, other>>();
  check_all<"a b, a b -> a b", pt::like<f32, query, width>, pt::like<f32, query, width>>();
  check_all<"a b, a b -> a", pt::like<f32, query, width>, pt::like<f32, query, width>>();
  check_all<"a b, b a ->", pt::like<f32, query, width>, pt::like<f32, width, query>>();
  check_all<"a, b -> a b", pt::like<f32, query>, pt::like<f32, width>>();
  check_all<"a, b -> b a", pt::like<f32, query>, pt::like<f32, width>>();
  check_all<"a x b y, y b c -> c x a", pt::like<f32, query, batch, width, head>, pt::like<f32, head, width, other>>();
  check_all<"i b j, b i c -> c j", pt::like<f32, query, head, width>, pt::like<f32, head, query, other>>();
  check_all<"m k, k n -> m n", pt::like<f32, query, single>, pt::like<f32, single, other>>();
  check_all<"m k, k n -> m n", pt::like<f32, single, width>, pt::like<f32, width, single>>();
  check_all<"s b n d, b t n d -> s t n b", pt::like<f32, query, batch, head, width>, pt::like<f32, batch, key, head, width>>();
}

TEST_CASE("the usual products are matrix products") {
  CHECK(matrices<"b s n d, b t n d -> b n s t">({2, 7, 3, 5, 9}));
  CHECK(matrices<"b n s t, b t n d -> b s n d">({2, 3, 7, 9, 5}));
  CHECK(matrices<"m k, k n -> n m">({3, 4, 5}));
  CHECK(matrices<"a x, a y -> x y">({3, 4, 5}));
  CHECK(matrices<"a, b -> a b">({3, 4}));
  CHECK_FALSE(matrices<"a b, a b -> a b">({3, 4}));
}

TEST_CASE("gradients of einsum against differences") { check_gradients<attention_by_hand>({}, bound); }
