// Ops that move elements about: merge, split_axis, rename, transpose, slice, concatenate.
#include <doctest/doctest.h>

#include <partita/ops/concatenate.hpp>
#include <partita/ops/rename.hpp>
#include <partita/ops/reshape.hpp>
#include <partita/ops/slice.hpp>
#include <partita/ops/transpose.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;
using pt::f32;
using pt::f64;

namespace {
struct batch : pt::axis<"batch", 2> {};
struct position : pt::axis<"position"> {};
struct early : pt::axis<"early"> {};
struct late : pt::axis<"late"> {};
struct later : pt::axis<"later"> {};
struct head : pt::axis<"head", 3> {};
struct width : pt::axis<"width", 5> {};
struct hidden : pt::axis<"hidden", 15> {};
struct tall : pt::axis<"tall", 67> {};
struct wide : pt::axis<"wide", 41> {};
struct single : pt::axis<"single", 1> {};
const std::vector<pt::binding> bound{pt::bind<position>(9), pt::bind<early>(4), pt::bind<late>(5), pt::bind<later>(5)};

void check_equal(buffer const& y, std::vector<double> const& expected) {
  REQUIRE(y.size() == expected.size());
  bool same = true;
  for (std::size_t i = 0; i < y.size(); ++i) same &= y.get(i) == expected[i];
  CHECK(same);
}
double count(int input, std::size_t i) { return 1000 * input + static_cast<double>(i); }

struct all_of_them {
  constexpr auto operator()(auto& g) const {
    auto a = pt::param<f32, batch, early, head, width>(g, "a", pt::uniform{-1, 1});
    auto b = pt::param<f32, batch, late, head, width>(g, "b", pt::uniform{-1, 1});
    auto joined = pt::concatenate<position>(a, b);           // batch position head width
    auto part = pt::slice<position, late>(joined, 2);        // batch late head width
    auto flat = pt::merge<head, width, hidden>(part);        // batch late hidden
    auto other = pt::split_axis<hidden, width, head>(flat);  // batch late width head
    auto turned = pt::transpose<head, late, width>(pt::transpose<width, head>(other));
    return weighted_sum(pt::rename<late, later>(turned));
  }
};
struct renames_to_another_extent {
  constexpr auto operator()(auto& g) const { return weighted_sum(pt::rename<late, early>(pt::param<f32, late>(g, "a"))); }
};
struct loses_its_product {
  constexpr auto operator()(auto& g) const {
    auto a = pt::param<f32, early, late>(g, "a");
    return weighted_sum(pt::merge<early, late, position>(a));
  }
};
}  // namespace

TEST_CASE("merge and split_axis keep the bytes, and are cut by the leading axis") {
  const auto merge = lone_op::make<pt::merge_op<hidden, 1, 1>, pt::like<f32, batch, head, width, single>>({}, {}, count);
  check_equal(merge.run_whole()[0], merge.inputs[0].values());
  check_pieces<pt::merge_op<hidden, 2, 0>, pt::like<f32, batch, position, head, width>>({}, bound);
  check_pieces<pt::merge_op<hidden, 0, 1>, pt::like<f64, head, width, position>>({}, bound);
  check_pieces<pt::split_axis_op<head, width, 1, 1>, pt::like<f32, batch, hidden, position>>({}, bound);
}

TEST_CASE("rename keeps the bytes and the cuts") {
  check_pieces<pt::rename_op<late, 1, 1>, pt::like<f32, batch, position, head>>({}, bound);
}

TEST_CASE("transpose") {
  const auto square = lone_op::make<pt::transpose_op<1, 0>, pt::like<f32, batch, tall, wide>>({}, {}, count);
  std::vector<double> expected;
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t j = 0; j < 41; ++j)
      for (std::size_t i = 0; i < 67; ++i) expected.push_back(square.inputs[0].get((b * 67 + i) * 41 + j));
  check_equal(square.run_whole()[0], expected);
  const auto cycle = lone_op::make<pt::transpose_op<2, 0, 1>, pt::like<f32, head, tall, width>>({}, {}, count);
  expected.clear();
  for (std::size_t k = 0; k < 5; ++k)
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 67; ++j) expected.push_back(cycle.inputs[0].get((i * 67 + j) * 5 + k));
  check_equal(cycle.run_whole()[0], expected);
  check_pieces<pt::transpose_op<1, 0, 2>, pt::like<f32, batch, position, head, width>>({}, bound);
  check_pieces<pt::transpose_op<3, 1, 2, 0>, pt::like<f32, tall, head, single, wide>>();
  check_pieces<pt::transpose_op<1, 0>, pt::like<f64, single, single>>();
}

TEST_CASE("slice, counted from the beginning and from the end") {
  for (bool end : {false, true}) {
    const pt::attributes given{{end ? 0. : 3., end ? 1. : 0.}};
    const std::size_t first = end ? 5 : 3;  // of 9, of which it takes 4
    const auto op = lone_op::make<pt::slice_op<early, 1, 1>, pt::like<f32, batch, position, head>>(given, bound, count);
    std::vector<double> expected;
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t i = 0; i < 4 * 3; ++i) expected.push_back(op.inputs[0].get(b * 27 + first * 3 + i));
    check_equal(op.run_whole()[0], expected);
    const auto back = lone_op::make<pt::slice_grad_op<position, 1, 1>, pt::like<f32, batch, early, head>>(given, bound, count);
    expected.assign(54, 0);
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t i = 0; i < 4 * 3; ++i) expected[b * 27 + first * 3 + i] = back.inputs[0].get(b * 12 + i);
    check_equal(back.run_whole()[0], expected);
    check_cuts(op);
    check_cuts(back);
  }
  auto outside = lone_op::make<pt::slice_op<early, 0, 0>, pt::like<f32, position>>({{6}}, bound, count);
  CHECK_THROWS_WITH_AS(outside.run_whole(), "slice: elements 6 to 10 are not inside an axis of 9", pt::error);
}

TEST_CASE("concatenate") {
  const auto op =
      lone_op::make<pt::concatenate_op<position, 1, 1>, pt::like<f32, batch, early, head>, pt::like<f32, batch, late, head>>(
          {}, bound, count);
  std::vector<double> expected;
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t i = 0; i < 12; ++i) expected.push_back(op.inputs[0].get(b * 12 + i));
    for (std::size_t i = 0; i < 15; ++i) expected.push_back(op.inputs[1].get(b * 15 + i));
  }
  check_equal(op.run_whole()[0], expected);
  check_cuts(op);
  const std::vector<pt::binding> wrong{pt::bind<position>(8), pt::bind<early>(4), pt::bind<late>(5)};
  const auto bad = lone_op::make<pt::concatenate_op<position, 0, 0>, pt::like<f32, early>, pt::like<f32, late>>({}, wrong, count);
  CHECK_THROWS_WITH_AS(bad.run_whole(), "concatenate: axis position has 8 elements, not 4 + 5", pt::error);
}

TEST_CASE("gradients against differences") { check_gradients<all_of_them>({}, bound); }

TEST_CASE("extents bound at run time are checked before anything runs") {
  CHECK_THROWS_WITH_AS(check_gradients<loses_its_product>({}, bound),
                       "a (merge): axis position has 9 elements, early and late have 4 x 5", pt::error);
  CHECK_THROWS_WITH_AS(check_gradients<renames_to_another_extent>({}, bound), "a (rename): axis early has 4 elements, late has 5",
                       pt::error);
  CHECK_THROWS_WITH_AS(check_gradients<loses_its_product>({}, {pt::bind<early>(4), pt::bind<position>(9)}),
                       "axis late has no extent: give pt::bind<late>(..) where the trainer, plan or search is made", pt::error);
}
