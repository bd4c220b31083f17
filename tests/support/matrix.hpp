// One model under many plans, each compared with one device.
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include <partita/policy/context_parallel.hpp>
#include <partita/policy/coshard.hpp>
#include <partita/policy/data_parallel.hpp>
#include <partita/policy/expert_parallel.hpp>
#include <partita/policy/interlaced_pipeline.hpp>
#include <partita/policy/pipeline.hpp>
#include <partita/policy/recompute.hpp>
#include <partita/policy/sequence_parallel.hpp>
#include <partita/policy/tensor_parallel.hpp>
#include <partita/policy/zero.hpp>

#include "models/axes.hpp"
#include "random_plan.hpp"
#include "same_training.hpp"

namespace partita::testing {

using plan_maker = std::function<void(plan_base&)>;
struct named_plan {
  std::string name;
  plan_maker make;
};
// One policy after the other: each is a value with a call operator.
template <class... Policies> named_plan composed(std::string name, Policies... policies) {
  return {std::move(name), [=](plan_base& plan) { (policies(plan), ...); }};
}
inline policy::pipeline_of gpipe(int stages, int micro) { return {stages, micro, &schedule::gpipe::order}; }
inline policy::pipeline_of one_f_one_b(int stages, int micro) { return {stages, micro, &schedule::one_f_one_b::order}; }
inline policy::pipeline_of interleaved(int stages, int micro, int chunks = 2) {
  return {stages, micro, schedule::interleaved_of{chunks}};
}
inline policy::pipeline_of three_f_one_b(int stages, int micro) { return {stages, micro, schedule::three_f_one_b{}}; }
template <schedule::zero_bubble_kind Kind> policy::pipeline_of zero_bubble(int stages, int micro) {
  return {stages, micro, schedule::zero_bubble<Kind>{}};
}

// What every model here is tried with: `Sequence`, `Head` and `Inner` are the axes that it has for them, `blocks` the names
// of ops that run again. Plans that want more heads than there are, are left out.
template <class Sequence, class Head, class Inner>
std::vector<named_plan> common_plans(models::sizes const& sizes, std::string_view blocks = "block.*") {
  using namespace policy;
  axis_info const *sequence = &axis_of<Sequence>::info, *heads = &axis_of<Head>::info, *inner = &axis_of<Inner>::info;
  const data_parallel_of two{2}, three{3};
  const tensor_parallel_of tensor2{2}, tensor3{3};
  const sequence_parallel_of along2{2, sequence}, along3{3, sequence};
  const context_parallel_of context2{2, sequence, heads}, context3{3, sequence, heads};
  const recompute_of again{blocks};
  const coshard_of shard2{inner, 2, blocks}, shard3{inner, 3, blocks};
  auto zero = [](int stage, int n) { return zero_of{stage, n}; };
  std::vector<named_plan> all{
      composed("one device", single_device{}),
      composed("data 3", three),
      composed("3 micro-batches", micro_batches_of{3}),
      composed("data 2, 2 micro-batches", two, micro_batches_of{2}),
      composed("tensor 2", tensor2),
      composed("tensor 3", tensor3),
      composed("tensor 2, sequence", tensor2, along2),
      composed("tensor 3, sequence", tensor3, along3),
      composed("context 2", context2),
      composed("zero 1 over 2", two, zero(1, 2)),
      composed("zero 2 over 3", three, zero(2, 3)),
      composed("zero 3 over 2", two, zero(3, 2)),
      composed("gpipe 2 x 3", gpipe(2, 3)),
      composed("1f1b 3 x 4", one_f_one_b(3, 4)),
      composed("1f1b 4 x 2", one_f_one_b(4, 2)),
      composed("interleaved 2 x 4", interleaved(2, 4)),
      composed("interleaved 3 x 2, 3 chunks", interleaved(3, 2, 3)),
      composed("zero bubble h2 4 x 3", zero_bubble<schedule::h2>(4, 3)),
      composed("zero bubble h1 3 x 4", zero_bubble<schedule::h1>(3, 4)),
      composed("zero bubble v 2 x 3", zero_bubble<schedule::v_shaped>(2, 3)),
      composed("zero bubble v 4 x 1", zero_bubble<schedule::v_shaped>(4, 1)),
      composed("interlaced 2 x 3", interlaced_pipeline_of{2, 3}),
      composed("interlaced 3 x 2, in step", interlaced_pipeline_of{3, 2, nullptr, true}),
      composed("recompute", single_device{}, again),
      composed("co-shard 3", single_device{}, shard3),
      composed("data 2, tensor 2, zero 2", two, tensor2, zero(2, 2)),
      composed("data 2, tensor 2, sequence, zero 3", two, tensor2, along2, zero(3, 2)),
      composed("data 2, context 2, zero 1", two, context2, zero(1, 2)),
      composed("data 2, gpipe 2 x 3, zero 1", two, gpipe(2, 3), zero(1, 2)),
      composed("data 2, 1f1b 2 x 2, recompute, zero 2", two, one_f_one_b(2, 2), again, zero(2, 2)),
      composed("data 2, 1f1b 3 x 3, zero 3", two, one_f_one_b(3, 3), zero(3, 2)),
      composed("data 2, interleaved 2 x 3, zero 1", two, interleaved(2, 3), zero(1, 2)),
      composed("data 2, interleaved 2 x 2, recompute, zero 3", two, interleaved(2, 2), again, zero(3, 2)),
      composed("data 2, zero bubble v 2 x 3, recompute, zero 2", two, zero_bubble<schedule::v_shaped>(2, 3), again, zero(2, 2)),
      composed("tensor 2, zero bubble h2 2 x 3, recompute", tensor2, zero_bubble<schedule::h2>(2, 3), again),
      composed("data 2, tensor 2, zero bubble h1 2 x 2, sequence, zero 1", two, tensor2, zero_bubble<schedule::h1>(2, 2), along2,
               zero(1, 2)),
      composed("data 2, interlaced 2 x 3, recompute, zero 2", two, interlaced_pipeline_of{2, 3}, again, zero(2, 2)),
      composed("tensor 2, 1f1b 2 x 3, sequence", tensor2, one_f_one_b(2, 3), along2),
      composed("context 2, 1f1b 2 x 2", context2, one_f_one_b(2, 2)),
      composed("data 2, co-shard 2, zero 1", two, shard2, zero(1, 2)),
      composed("tensor 3, recompute", tensor3, again),
      composed("data 2, tensor 2, 1f1b 2 x 2, sequence, recompute, zero 1", two, tensor2, one_f_one_b(2, 2), along2, again,
               zero(1, 2)),
  };
  if (sizes.heads >= 3) all.push_back(composed("context 3", context3));
  if (sizes.heads >= 4) all.push_back(composed("context 2, tensor 2", context2, tensor2));
  return all;
}

// A table over `Words` spread over the stages of a pipeline.
template <class Words> std::vector<named_plan> interlaced_plans() {
  using namespace policy;
  constexpr axis_info const* words = &axis_of<Words>::info;
  return {composed("interlaced 2 x 3", interlaced_pipeline_of{2, 3, words}),
          composed("interlaced 3 x 5", interlaced_pipeline_of{3, 5, words}),
          composed("interlaced 4 x 2, in step", interlaced_pipeline_of{4, 2, words, true}),
          composed("data 2, interlaced 3 x 2, zero 3", data_parallel_of{2}, interlaced_pipeline_of{3, 2, words}, zero_of{3, 2}),
          composed("tensor 2, interlaced 2 x 3", tensor_parallel_of{2}, interlaced_pipeline_of{2, 3, words}),
          composed("interlaced 3 x 4, in step, recompute", interlaced_pipeline_of{3, 4, words, true}, recompute_of{"block.*"})};
}

// Attention whose keys go round in a ring, up to 8 pieces of a sequence, in the plain and in the folded form.
template <class Sequence> std::vector<named_plan> ring_plans() {
  using namespace policy;
  auto ring = [](int pieces, ring_form form = ring_form::plain) {
    return context_parallel_of{pieces, &axis_of<Sequence>::info, nullptr, form};
  };
  constexpr ring_form folded = ring_form::folded;
  const recompute_of again{"block.*"};
  return {composed("ring 3", ring(3)),
          composed("ring 8", ring(8)),
          composed("folded ring 4", ring(4, folded)),
          composed("data 2, folded ring 3, zero 3", data_parallel_of{2}, ring(3, folded), zero_of{3, 2}),
          composed("tensor 2, folded ring 4", tensor_parallel_of{2}, ring(4, folded)),
          composed("ring 2, 1f1b 4 x 3", ring(2), one_f_one_b(4, 3)),
          composed("folded ring 2, 1f1b 2 x 3, recompute", ring(2, folded), one_f_one_b(2, 3), again)};
}

// Experts in space, beside all else.
template <class Expert, class Sequence, class Inner> std::vector<named_plan> expert_plans() {
  using namespace policy;
  auto experts = [](int n) { return expert_parallel_of{n, &axis_of<Expert>::info}; };
  const data_parallel_of data2{2};
  const tensor_parallel_of tensor2{2};
  const sequence_parallel_of along2{2, &axis_of<Sequence>::info};
  return {
      composed("experts 2", experts(2)),
      composed("experts 3", experts(3)),
      composed("2 micro-batches, experts 2", micro_batches_of{2}, experts(2)),
      composed("data 2, experts 2", data2, experts(2)),
      composed("experts 3, data 2", experts(3), data2),
      composed("data 2, experts 2, zero 1", data2, experts(2), zero_of{1, 2}),
      composed("data 2, experts 2, zero 3", data2, experts(2), zero_of{3, 2}),
      composed("experts 2, zero 2 over the same devices", experts(2), zero_of{2, 2, mode_name("expert")}),
      composed("experts 3, zero 3 over the same devices", experts(3), zero_of{3, 3, mode_name("expert")}),
      composed("experts 2, tensor 2", experts(2), tensor2),
      composed("experts 2, tensor 2, sequence", experts(2), tensor2, along2),
      composed("gpipe 2 x 3, experts 2", gpipe(2, 3), experts(2)),
      composed("1f1b 2 x 2, experts 3, recompute", one_f_one_b(2, 2), experts(3), recompute_of{"block.*"}),
      composed("experts 2, co-shard 3", experts(2), coshard_of{&axis_of<Inner>::info, 3, "block.*"}),
      composed("data 2, 1f1b 2 x 2, experts 2, tensor 2, zero 1", data2, one_f_one_b(2, 2), experts(2), tensor2, zero_of{1, 2}),
  };
}

// A model at given sizes; `Type` is the type of its floats.
template <class Model, dtype Type = f64> class tried {
 public:
  using training_type = training<in_precision<Model, Type>, either_optimizer, clip_norm>;
  using exact_type = training<in_precision<Model, f64>, either_optimizer, clip_norm>;

  explicit tried(models::sizes const& sizes, Model const& model = {}, bool is_adamw = true, std::uint64_t seed = 3)
      : random_(static_cast<unsigned>(seed)),
        both_(as<training_type>(model, is_adamw), as<exact_type>(model, is_adamw), sizes.extents(), seed) {}

  // Empty when two steps under the plan do what one device does.
  std::string fault(plan_maker const& make, comparison_options const& how = {.steps = 2}) {
    plan_base plan(both_.graph());
    make(plan);
    random_.seed(5);
    return both_
        .under(
            plan, [this] { return inputs(); }, how)
        .fault;
  }
  void check(std::vector<named_plan> const& plans, comparison_options const& how = {.steps = 2}) {
    for (named_plan const& p : plans) {
      const std::string found = fault(p.make, how);
      CHECK_MESSAGE(found.empty(), p.name, ": ", found);
    }
  }
  // Plans drawn at random: compositions of policies, and cuts, places and orders op by op.
  void check_random(unsigned first, unsigned count, comparison_options const& how = {.steps = 2}) {
    for (unsigned seed = first; seed < first + count; ++seed) {
      std::string words;
      const std::string found = fault(
          [&](plan_base& plan) {
            std::mt19937 random(seed);
            words = random_plan(plan, random, 8).make();
          },
          how);
      CHECK_MESSAGE(found.empty(), "random plan ", seed, " (", words, "): ", found);
    }
  }
  graph_data const& graph() const { return both_.graph(); }
  int forward_ops() const { return both_.graph().forward_count; }
  std::function<void(named_values&)> change_inputs = [](named_values&) {};  // what a step is given, before it is given

 private:
  template <class Of> static Of as(Model const& model, bool is_adamw) {
    Of t{};
    t.model.model = model;
    t.optimizer.is_adamw = is_adamw;
    t.optimizer.first.weight_decay = 0.1;
    t.optimizer.second.momentum = 0.9;
    t.clip.max = 0.5;
    return t;
  }
  // Numbers for the float inputs, words for the others; one target in four counts nowhere, so that pieces of a batch hold
  // different numbers of tokens.
  named_values inputs() {
    graph_data const& g = both_.graph();
    named_values all;
    for (op_entry const& e : g.ops) {
      if (e.info->source != source_kind::input) continue;
      std::size_t n = 1;
      for (int d = 0; d < e.info->dim_count; ++d) n *= g.extent(e.info->dims[d].axis);
      const std::string name(g.name(static_cast<int>(&e - g.ops.at)).view());
      const std::size_t words = g.extent(&axis_of<models::vocabulary>::info);
      values v;
      for (std::size_t i = 0; i < n; ++i)
        if (is_float(e.info->outputs[0].type)) v.all.push_back(std::uniform_real_distribution<float>(-1, 1)(random_));
        else if (name == "targets" && random_() % 4 == 0) v.all.push_back(-1);
        else v.all.push_back(static_cast<double>(random_() % words));
      all[name] = v;
    }
    change_inputs(all);
    return all;
  }

  std::mt19937 random_;
  same_training<training_type, exact_type> both_;
};

}  // namespace partita::testing
