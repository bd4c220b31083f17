// What is known of a model's type while it compiles.
#include <algorithm>
#include <string_view>

#include <doctest/doctest.h>

#include <partita/ops/add.hpp>
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/relu.hpp>
#include <partita/plan/typed_plan.hpp>
#include <partita/search/known_of_model.hpp>

namespace pt = partita;

namespace {
struct batch : pt::axis<"batch", 32> {};
struct in : pt::axis<"in", 784> {};
struct width : pt::axis<"width", 64> {};
struct ffn : pt::axis<"ffn", 256> {};
struct out : pt::axis<"class", 10> {};

struct stack {
  constexpr auto operator()(auto& g) const {
    auto x = pt::linear(pt::input<pt::f32, batch, in>(g, "x"), pt::param<pt::f32, in, width>(g, "in.weight"));
    auto y = pt::input<pt::i32, batch>(g, "y");
    for (int l = 0; l < 3; ++l) {
      auto s = pt::scope(g, "block", l);
      auto h = pt::relu(pt::linear(x, pt::param<pt::f32, width, ffn>(g, "up.weight")));
      x = x + pt::linear(h, pt::param<pt::f32, ffn, width>(g, "down.weight"));
    }
    return pt::cross_entropy(pt::linear(x, pt::param<pt::f32, width, out>(g, "out.weight")), y);
  }
};
constexpr bool may_be_cut(std::string_view op, pt::axis_info const& axis) {
  return std::any_of(pt::legal_cuts<stack>.begin(), pt::legal_cuts<stack>.end(),
                     [&](pt::legal_cut const& x) { return x.op.view() == op && x.axis->id == axis.id; });
}
constexpr bool follow(std::string_view first, std::string_view second) {
  return std::any_of(pt::followers<stack>.begin(), pt::followers<stack>.end(),
                     [&](pt::following_ops const& x) { return x.first.view() == first && x.second.view() == second; });
}
template <int Outer, int Inner, class... Constraint> constexpr long ways_to_cut(std::string_view op) {
  auto const& all = pt::candidate_cuts<stack, Outer, Inner, 1, Constraint...>;
  return std::count_if(all.begin(), all.end(), [&](pt::candidate_cut const& x) { return x.op.view() == op; });
}
// [known]
static_assert(pt::repeated_blocks<stack>.size() == 2);  // block.1 and block.2 are as block.0 is
static_assert(pt::repeated_blocks<stack>[1].block.view() == "block.2" &&
              pt::repeated_blocks<stack>[1].earlier.view() == "block.0");
static_assert(may_be_cut("block.0.up", pt::axis_of<ffn>::info));  // a search of pt::legal_cuts<stack>
static_assert(follow("block.0.up", "block.0.relu"));              // of pt::followers<stack>
static_assert(ways_to_cut<2, 4>("block.0.up") == 16);             // of pt::candidate_cuts<stack, 2, 4>
static_assert(ways_to_cut<2, 4, pt::only::axes<"block.*.up", batch, ffn>>("block.0.up") == 9);
// [/known]
static_assert(ways_to_cut<8, 1>("out") == 4 && ways_to_cut<16, 1>("out") == 3);  // ten classes are too few for 16 pieces
static_assert(may_be_cut("block.0.up", pt::axis_of<batch>::info) && !may_be_cut("block.0.up", pt::axis_of<out>::info));
static_assert(may_be_cut("token_loss", pt::axis_of<batch>::info) && !may_be_cut("token_loss", pt::axis_of<out>::info));
static_assert(follow("block.0.relu", "block.0.down") && !follow("block.0.down", "block.0.up"));
// Two ops read the logits. Of what leaves a block the readers are in another one.
static_assert(follow("row_max", "softmax_terms") && !follow("out", "row_max") && !follow("out", "softmax_terms"));
static_assert(follow("block.0.down", "block.0.add") && !follow("block.0.add", "block.1.up") && !follow("block.2.add", "out"));

// An op that reads a tensor twice is one that reads it.
struct squares {
  constexpr auto operator()(auto& g) const {
    auto x = pt::relu(pt::linear(pt::input<pt::f32, batch, in>(g, "x"), pt::param<pt::f32, in, out>(g, "in.weight")));
    return pt::cross_entropy(x + x, pt::input<pt::i32, batch>(g, "y"));
  }
};
static_assert(pt::followers<squares>[1].first.view() == "relu" && pt::followers<squares>[1].second.view() == "add");
// One that reads both of what another makes follows it once.
static_assert(std::count_if(pt::followers<squares>.begin(), pt::followers<squares>.end(), [](pt::following_ops const& x) {
                return x.first.view() == "softmax_terms" && x.second.view() == "token_loss";
              }) == 1);
}  // namespace

TEST_CASE("what is known of a model's type is what a search reads at run time") {
  pt::recorder<pt::planning_only, pt::training<stack>> g;
  pt::trace(g, pt::training<stack>{});
  pt::spaces::segmented_model m = pt::spaces::find_segments(g, g.forward_count);
  pt::spaces::name_kinds(m);
  namespace facts = pt::detail::known_of_model;
  auto same = [&]<class Fact>(Fact, auto const& known, auto const& alike) {
    std::size_t n = 0;
    Fact::visit_all(m, [&](auto const& x) {
      REQUIRE(n < known.size());
      CHECK(alike(x, known[n++]));
    });
    CHECK(n == known.size());
  };
  same(facts::cuts_of_ops{}, pt::legal_cuts<stack>, [](pt::legal_cut const& x, pt::legal_cut const& y) {
    return x.op.view() == y.op.view() && x.axis->id == y.axis->id && x.letter == y.letter;
  });
  same(facts::ops_that_follow{}, pt::followers<stack>, [](pt::following_ops const& x, pt::following_ops const& y) {
    return x.first.view() == y.first.view() && x.second.view() == y.second.view();
  });
  using facts_of_a_grid = facts::cuts_on_a_grid<2, 16, 4, pt::only::pieces<"*.up", 1, 8>>;
  same(facts_of_a_grid{}, pt::candidate_cuts<stack, 2, 16, 4, pt::only::pieces<"*.up", 1, 8>>,
       [](pt::candidate_cut const& x, pt::candidate_cut const& y) {
         auto id = [](pt::axis_info const* a) { return a == nullptr ? decltype(a->id){} : a->id; };
         return x.op.view() == y.op.view() && id(x.outer) == id(y.outer) && id(x.inner) == id(y.inner);
       });
  same(facts::blocks_that_repeat{}, pt::repeated_blocks<stack>, [](pt::repeated_block const& x, pt::repeated_block const& y) {
    return x.block.view() == y.block.view() && x.earlier.view() == y.earlier.view();
  });
}
