// Which axes tensor parallelism finds by itself.
#include <doctest/doctest.h>

#include "../support/planned.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 8> {};
template <int N> struct features;
template <> struct features<0> : pt::axis<"f0", 8> {};
template <> struct features<1> : pt::axis<"f1", 8> {};
template <> struct features<2> : pt::axis<"f2", 8> {};
template <> struct features<3> : pt::axis<"f3", 8> {};
template <> struct features<4> : pt::axis<"f4", 8> {};
struct label : pt::axis<"class", 3> {};

struct deep {  // features 0 -> 1 -> 2 -> 3 -> 4 -> class
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, features<0>>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto a = pt::relu(pt::linear(x, pt::param<pt::f32, features<0>, features<1>>(g, "fc1.weight")));
    auto b = pt::relu(pt::linear(a, pt::param<pt::f32, features<1>, features<2>>(g, "fc2.weight")));
    auto c = pt::relu(pt::linear(b, pt::param<pt::f32, features<2>, features<3>>(g, "fc3.weight")));
    auto d = pt::relu(pt::linear(c, pt::param<pt::f32, features<3>, features<4>>(g, "fc4.weight")));
    return pt::cross_entropy(pt::linear(d, pt::param<pt::f32, features<4>, label>(g, "fc5.weight")), y);
  }
};
struct square {  // one axis before and behind every linear
  constexpr auto operator()(auto& g) const {
    auto h = pt::input<pt::f32, batch, features<0>>(g, "x");
    for (int l = 0; l < 2; ++l) {
      auto s = pt::scope(g, "layer", l);
      h = pt::relu(pt::linear(h, pt::param<pt::f32, features<0>, features<0>>(g, "fc.weight")));
    }
    return pt::mean(h);
  }
};
struct mixed {
  constexpr auto operator()(auto& g) const {
    auto x = pt::cast<pt::bf16>(pt::input<pt::f32, batch, features<0>>(g, "x"));
    auto h = pt::gelu(pt::linear(x, pt::param<pt::bf16, features<0>, features<1>>(g, "fc1.weight")));
    return pt::mean(pt::linear(h, pt::param<pt::bf16, features<1>, features<0>>(g, "fc2.weight")));
  }
};
template <class Model> std::string found(int pieces, Model const& model = {}) {
  pt::recorder<pt::planning_only, pt::training<Model>> g;
  pt::trace(g, pt::training<Model>{model, {}, {}, {}});
  std::vector<std::string> names;
  for (pt::axis_info const* a : pt::policy::detail::tensor_parallel_axes(g, pieces)) names.emplace_back(a->name);
  std::sort(names.begin(), names.end());
  std::string s;
  for (std::string const& n : names) s += (s.empty() ? "" : " ") + n;
  return s;
}
}  // namespace

TEST_CASE("the features between two linears, heads, and the vocabulary; never the hidden axis") {
  CHECK(found(2, planned_mlp{}) == "ffn");
  CHECK(found(2, planned_gpt{}) == "head inner vocabulary");
  CHECK(found(2, planned_gpt{2, false}) == "head inner vocabulary");
  CHECK(found(4, planned_gpt{}) == "head inner vocabulary");
  CHECK(found(5, planned_gpt{}) == "inner vocabulary");  // four heads are too few
}

TEST_CASE("an axis that is too short for the pieces is named, where others are cut and where nothing is") {
  pt::plan<planned_gpt> some;
  pt::policy::tensor_parallel_of{5}(static_cast<pt::plan_base&>(some));
  CHECK(some.advice().axis->name == "head");
  CHECK(pt::advice_text(some.advice()) == "axis head of extent 4 is too short for 5 pieces and stays whole on each device");
  CHECK(!pt::find_idle_dimension(some));
  pt::plan<planned_mlp> none;
  pt::policy::tensor_parallel_of{1000}(static_cast<pt::plan_base&>(none));
  const pt::finding f = pt::find_idle_dimension(none);
  CHECK(f.what == pt::wrong::nothing_is_cut_over_the_dimension);
  CHECK(f.axis->name == "ffn");
  CHECK_MESSAGE(
      pt::describe(f).find("dimension \"tensor\", so that its 1000 devices do the same; axis ffn of extent") != std::string::npos,
      pt::describe(f));
  CHECK(f.ready_made() == "tensor_parallel");
  // Advice of one dimension says nothing of another of as many devices.
  pt::plan<planned_gpt> both;
  pt::policy::tensor_parallel_of{5}(static_cast<pt::plan_base&>(both));
  static_cast<pt::plan_base&>(both).op_assign(both.ops(), pt::grid{{"dta", 5}});
  const pt::finding of_other = pt::find_idle_dimension(both);
  CHECK(of_other.op.view() == "dta");
  CHECK(of_other.axis == nullptr);
}

TEST_CASE("in a chain of linears every other axis, so that weights are cut by column and by row in turn") {
  CHECK(found<deep>(2) == "class f1 f3");
  CHECK(found<square>(2) == "");  // an op that has an axis under two letters
}

TEST_CASE("a parameter used in another type is a parameter") { CHECK(found<mixed>(2) == "f1"); }

TEST_CASE("what is found makes legal plans, whose weights are cut as Megatron-LM cuts them") {
  planned<planned_gpt> p(pt::policy::tensor_parallel<2>{});
  REQUIRE_FALSE(p.wrong_with);
  auto cut = [&](const char* name) { return p.words_of_op(p.find(name, "param")); };
  CHECK(cut("wte.weight") == "vocabulary/2:tensor");
  CHECK(cut("wpe.weight") == "");
  for (auto name : {"q.weight", "k.weight", "v.weight", "proj.weight"})
    CHECK(cut(("block.0." + std::string(name)).c_str()) == "head/2:tensor");
  CHECK(cut("block.1.fc1.weight") == "inner/2:tensor");
  CHECK(cut("block.1.fc2.weight") == "inner/2:tensor");
  CHECK(cut("block.0.ln1.weight") == "");
  CHECK_FALSE(planned<deep>(pt::policy::tensor_parallel<4>{}).wrong_with);
  CHECK_FALSE(planned<square>(pt::policy::tensor_parallel<4>{}).wrong_with);
  CHECK_FALSE(planned<mixed>(pt::policy::tensor_parallel<8>{}).wrong_with);
}

TEST_CASE("named axes are cut, and no others") {
  using namespace planned_axes;
  planned<planned_gpt> p(pt::policy::tensor_parallel<2, inner>{});
  REQUIRE_FALSE(p.wrong_with);
  CHECK(p.words_of_op(p.find("block.0.fc1.weight", "param")) == "inner/2:tensor");
  CHECK(p.words_of_op(p.find("block.0.q.weight", "param")) == "");
  CHECK(p.words_of_op(p.find("wte.weight", "param")) == "");
}
