// What users of other systems suffered with pipelines, each a test.
#include <doctest/doctest.h>

#include "../support/matrix.hpp"
#include "../support/models/gpt.hpp"

#include <partita/ops/multiply.hpp>
#include <partita/ops/sum.hpp>

namespace pt = partita;
using namespace partita::testing;
using namespace partita::policy;

namespace {
// Two halves that give each other what they have made, twice.
struct crossing {
  constexpr auto operator()(auto& g) const {
    using namespace models;
    auto x = pt::input<pt::f32, sample, position, feature>(g, "x");
    auto layer = [&](int half, int step, auto of) {
      auto s = pt::scope(g, "half", half);
      auto t = pt::scope(g, "step", step);
      return pt::linear(pt::linear(of, pt::param<pt::f32, feature, inner>(g, "up.weight", pt::normal{0.5})),
                        pt::param<pt::f32, inner, feature>(g, "down.weight", pt::normal{0.5}));
    };
    auto a = layer(0, 0, x), b = layer(1, 0, x);
    auto c = layer(0, 1, a + b), d = layer(1, 1, b * a);
    auto e = layer(0, 2, c + d), f = layer(1, 2, d * c);
    return pt::outputs(pt::loss("first", pt::mean(e * e)), pt::loss("second", pt::mean(f * f)));
  }
};
}  // namespace

TEST_CASE("two stages that both send first") {
  tried<crossing> model({.samples = 6});
  // Each half on a device: a sum or a product stands where its half does, so that both send at once, forward and backward.
  auto halves = [](int micro) {
    return [micro](pt::plan_base& plan) {
      if (micro > 1) plan.op_trans(plan.ops(), pt::cut_axis{plan.batch_axis(), micro, pt::mode_name("micro")});
      int half = 0;
      for (auto op : plan.ops()) {
        const auto name = op.name();
        if (name.view().find("half.") == 0) half = name.view()[5] - '0';
        if (op.kind() == "multiply") half = 1;
        if (op.kind() == "add") half = 0;
        plan.op_assign(op, pt::at{"stage", half, 2});
      }
    };
  };
  for (int micro : {1, 3})
    for (int lanes : {1, 2}) CHECK(model.fault(halves(micro), {.steps = 2, .on_threads = true, .lanes = lanes}) == "");
  for (int lanes : {1, 2})  // a stage sends what it made forward, its neighbour what it made backward
    CHECK(model.fault([](pt::plan_base& plan) { one_f_one_b(2, 5)(plan); }, {.steps = 2, .on_threads = true, .lanes = lanes}) ==
          "");
}

TEST_CASE("fewer micro-batches than stages") {
  tried<models::gpt> gpt({.samples = 4}, {.layers = 3});
  std::vector<named_plan> plans;
  for (int micro : {1, 2, 3})
    for (auto const& [name, how] : {std::pair{"1f1b", pt::schedule::recipe(pt::schedule::one_f_one_b{})},
                                    {"gpipe", pt::schedule::recipe(pt::schedule::gpipe{})},
                                    {"interleaved", pt::schedule::recipe(pt::schedule::interleaved<2>{})},
                                    {"h1", pt::schedule::recipe(pt::schedule::zero_bubble<>{})},
                                    {"h2", pt::schedule::recipe(pt::schedule::zero_bubble<pt::schedule::h2>{})},
                                    {"v", pt::schedule::recipe(pt::schedule::zero_bubble<pt::schedule::v_shaped>{})}})
      plans.push_back(composed(std::string(name) + " 5 x " + std::to_string(micro), pipeline_of{5, micro, how}));
  gpt.check(plans, {.steps = 1});
}
