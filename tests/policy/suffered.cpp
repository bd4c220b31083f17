// What users of other systems suffered, each a test.
#include <doctest/doctest.h>

#include <partita/planning.hpp>
#include <partita/train/trainer.hpp>

#include "../support/matrix.hpp"
#include "../support/models/gpt.hpp"

namespace pt = partita;
using namespace partita::testing;
using namespace partita::policy;

namespace {
pt::op_ref op_of_kind(pt::plan_base& plan, std::string_view kind) {
  for (auto op : plan.ops())
    if (op.kind() == kind) return op;
  throw pt::error("the model has no op " + std::string(kind));
}
bool is_cut(pt::plan_base& plan, pt::op_ref op, std::string_view axis, std::string_view mode) {
  pt::op_plan const& p = plan.of(op.id);
  for (int c = 0; c < p.cut_count; ++c)
    if (p.cuts[c].dim >= 0 && op.entry().info->dims[p.cuts[c].dim].axis->name == axis &&
        plan.modes()[p.cuts[c].mode].view() == mode)
      return true;
  return false;
}
int stage_of(pt::plan_base& plan, pt::op_ref op) {
  pt::op_plan const& p = plan.of(op.id);
  for (int l = 0; l < p.level_count; ++l)
    if (plan.modes()[p.levels[l].mode].view() == "stage") return p.levels[l].coordinate;
  return -1;
}
// The table is in its first op and in the linear of the logits.
pt::op_ref logits_of(pt::plan_base& plan) {
  pt::op_ref last = op_of_kind(plan, "linear");
  for (auto op : plan.ops())
    if (op.kind() == "linear") last = op;
  return last;
}
}  // namespace

TEST_CASE("a table tied over the first and the last stage, the optimizer's state in parts") {
  for (bool adamw : {true, false}) {
    tried<models::gpt> gpt({}, {}, adamw);
    for (int stage : {1, 2, 3})
      for (int stages : {2, 3})
        CHECK(gpt.fault([&](pt::plan_base& plan) {
          data_parallel_of{2}(plan);
          one_f_one_b(stages, 3)(plan);
          zero_of{stage, 2}(plan);
          CHECK(stage_of(plan, op_of_kind(plan, "embedding")) == 0);
          CHECK(stage_of(plan, logits_of(plan)) == stages - 1);
        }) == "");
    std::vector<named_plan> plans;
    for (int stage : {1, 2, 3})
      for (pipeline_of how : {interleaved(2, 3), zero_bubble<pt::schedule::h1>(3, 3), zero_bubble<pt::schedule::v_shaped>(2, 3)})
        plans.push_back(composed("zero " + std::to_string(stage), data_parallel_of{2}, how, zero_of{stage, 2}));
    plans.push_back(composed("interlaced", data_parallel_of{2},
                             interlaced_pipeline_of{3, 3, &pt::axis_of<models::vocabulary>::info}, zero_of{2, 2}));
    gpt.check(plans);
  }
}

TEST_CASE("label smoothing and cross-entropy over a vocabulary cut unevenly") {
  tried<models::gpt> gpt({.samples = 4, .vocabulary = 11}, {.layers = 1, .smoothing = 0.2});
  for (int n : {2, 3, 4, 7})
    CHECK(gpt.fault([&](pt::plan_base& plan) {
      tensor_parallel_of{n}(plan);
      CHECK(is_cut(plan, op_of_kind(plan, "softmax_terms"), "vocabulary", "tensor"));
      CHECK(is_cut(plan, op_of_kind(plan, "row_max"), "vocabulary", "tensor"));
    }) == "");
  CHECK(gpt.fault([](pt::plan_base& plan) {  // the vocabulary in time
    plan.op_trans(plan.ops(pt::with<models::vocabulary>), pt::split<models::vocabulary>{3, "words"});
    single_device{}(plan);
  }) == "");
}

TEST_CASE("a vocabulary of 50257 over 4 devices") {
  tried<models::gpt> gpt({.samples = 2, .positions = 3, .vocabulary = 50257, .hidden = 4}, {.layers = 1});
  gpt.change_inputs = [](named_values& given) {  // words at the ends of pieces
    given["tokens"].all = {0, 12564, 12565, 25128, 25129, 50256};
    given["targets"].all = {12565, 50256, 37693, 0, 12564, 37692};
  };
  CHECK(gpt.fault(
            [](pt::plan_base& plan) {
              tensor_parallel_of{4}(plan);
              CHECK(is_cut(plan, op_of_kind(plan, "softmax_terms"), "vocabulary", "tensor"));
              CHECK(is_cut(plan, op_of_kind(plan, "embedding"), "vocabulary", "tensor"));
            },
            {.steps = 1}) == "");
}

TEST_CASE("gradients of norms whose sequence is in parts") {
  tried<models::gpt> gpt({.positions = 7});
  for (int n : {2, 3, 5})
    CHECK(gpt.fault([&](pt::plan_base& plan) {
      tensor_parallel_of{n}(plan);
      sequence_parallel_of{n}(plan);
      CHECK(is_cut(plan, op_of_kind(plan, "layer_norm"), "position", "tensor"));
    }) == "");
}

TEST_CASE("the norm of all gradients over stages, with parameters that devices hold alike") {
  using training = pt::training<pt::in_precision<models::gpt, pt::f64>, pt::sgd, pt::clip_norm>;
  pt::recorder<pt::planning_only, training> g;
  pt::trace(g, training{});
  bool compared = false;
  for (pt::op_entry const& e : g.ops) compared = compared || (e.info->is_output && e.when == pt::pass::update);
  CHECK(compared);  // the norm is an output: `tried` compares it, as the weights that it scales
  tried<models::gpt> gpt({});
  CHECK(gpt.fault([](pt::plan_base& plan) {
    data_parallel_of{2}(plan);
    tensor_parallel_of{2}(plan);
    one_f_one_b(2, 3)(plan);
  }) == "");
  CHECK(gpt.fault([](pt::plan_base& plan) {
    data_parallel_of{3}(plan);
    gpipe(3, 2)(plan);
    zero_of{2, 3}(plan);
  }) == "");
}

TEST_CASE("micro-batches with different numbers of tokens that count, and with none") {
  tried<models::gpt> gpt({});
  gpt.change_inputs = [](named_values& given) {
    auto& targets = given["targets"].all;  // 6 samples of 5: the first two have no target, the third one target
    for (std::size_t i = 0; i < 14; ++i) targets[i] = -1;
    targets[14] = 3;
  };
  gpt.check({composed("3 micro-batches", micro_batches_of{3}), composed("data 3", data_parallel_of{3}),
             composed("data 2, 1f1b 2 x 3", data_parallel_of{2}, one_f_one_b(2, 3)), composed("gpipe 3 x 6", gpipe(3, 6))});
}

TEST_CASE("a batch of 8 in 3 micro-batches") {
  tried<models::gpt> gpt({.samples = 8});
  gpt.check({composed("3 micro-batches", micro_batches_of{3}), composed("1f1b 2 x 3", one_f_one_b(2, 3)),
             composed("data 2, gpipe 2 x 3", data_parallel_of{2}, gpipe(2, 3)), composed("interleaved 2 x 3", interleaved(2, 3)),
             composed("zero bubble h1 2 x 3", zero_bubble<pt::schedule::h1>(2, 3)),
             composed("zero bubble v 2 x 3", zero_bubble<pt::schedule::v_shaped>(2, 3)),
             composed("interlaced 2 x 3", interlaced_pipeline_of{2, 3}),
             composed("data 3, 3 micro-batches", data_parallel_of{3}, micro_batches_of{3})});
}

namespace {
struct drops {
  constexpr auto operator()(auto& g) const {
    using namespace models;
    auto x = pt::input<pt::f32, sample, position, feature>(g, "x");
    auto h = pt::linear(x, pt::param<pt::f32, feature, inner>(g, "w1", pt::normal{1}));
    auto dropped = pt::dropout(h, 0.5);
    auto y = pt::linear(dropped, pt::param<pt::f32, inner, feature>(g, "w2", pt::normal{1}));
    return pt::outputs(pt::loss("loss", pt::mean(y * y)), pt::output("dropped", dropped));
  }
};
}  // namespace

TEST_CASE("one dropout mask under every plan") {
  tried<drops> model({.samples = 7, .positions = 5, .inner = 9});
  const tensor_parallel_of tensor{3};
  model.check({composed("data 3", data_parallel_of{3}), composed("micro-batches", micro_batches_of{4}),
               composed("tensor 3", tensor),
               composed("data 2, tensor 3, micro-batches", data_parallel_of{2}, tensor, micro_batches_of{2}),
               composed("tensor 2, sequence", tensor_parallel_of{2}, sequence_parallel_of{2}),
               composed("1f1b 2 x 3", one_f_one_b(2, 3)), composed("run again", single_device{}, recompute_of{"dropout*"}),
               composed("co-shard", single_device{}, coshard_of{&pt::axis_of<models::inner>::info, 4, "*"})});
  CHECK(model.fault([](pt::plan_base& plan) {  // it is cut, not replicated
    tensor_parallel_of{3}(plan);
    CHECK(is_cut(plan, op_of_kind(plan, "dropout"), "inner", "tensor"));
  }) == "");
}

namespace {
struct five : pt::axis<"five", 5> {};
struct ten : pt::axis<"ten", 10> {};
struct batch : pt::axis<"batch", 4> {};
struct five_by_ten {
  constexpr auto operator()(auto& g) const {
    auto y = pt::linear(pt::input<pt::f32, batch, five>(g, "x"), pt::param<pt::f32, five, ten>(g, "w", pt::normal{1}));
    return pt::mean(y * y);
  }
};
}  // namespace

TEST_CASE("a tensor of 5 x 10 over 4 devices, gathered whole") {
  using training = pt::training<five_by_ten>;
  std::vector<float> x(20);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  pt::trainer<five_by_ten> one{training{}, single_device{}, pt::cpu{.devices = 1}};
  auto by_five = [](auto& plan) {
    plan.op_trans(plan.ops("w*"), pt::split<five>{4, "a"});  // 2, 1, 1, 1
    plan.op_assign(plan.ops(), pt::grid{{"a", 4}});
  };
  auto by_ten = [](auto& plan) {
    plan.op_trans(plan.ops("w*"), pt::split<ten>{4, "a"});  // 3, 3, 2, 2
    plan.op_assign(plan.ops(), pt::grid{{"a", 4}});
  };
  auto stored = [](auto& plan) {
    data_parallel_of{4}(plan);
    zero_of{3, 4}(plan);
  };
  pt::trainer<five_by_ten> a{training{}, by_five, pt::cpu{.devices = 4}}, b{training{}, by_ten, pt::cpu{.devices = 4}},
      c{training{}, stored, pt::cpu{.devices = 4}};
  auto numbers = [](pt::host_tensor const& t) {
    std::vector<double> all;
    for (std::size_t i = 0; i < t.size(); ++i) all.push_back(t[i]);
    return all;
  };
  for (auto* t : {&a, &b, &c}) CHECK(numbers(t->parameter("w")) == numbers(one.parameter("w")));
  one.step({{"x", x}});
  for (auto* t : {&a, &b, &c}) {
    t->step({{"x", x}});
    const std::vector<double> wanted = numbers(one.parameter("w")), have = numbers(t->parameter("w"));
    REQUIRE(have.size() == 50);
    for (std::size_t i = 0; i < 50; ++i) CHECK(have[i] == doctest::Approx(wanted[i]).epsilon(1e-6));
  }
}
