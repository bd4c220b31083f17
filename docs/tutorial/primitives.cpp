// Tutorial, chapter 2: plans in the three primitives' own words, and the ready-made ones.
#include <cstdio>
#include <partita/planning.hpp>

#include "show_plan.hpp"

namespace pt = partita;

// [model]
struct sample : pt::axis<"sample", 32> {};
struct pixel : pt::axis<"pixel", 64> {};
struct inner : pt::axis<"inner", 48> {};
struct digit : pt::axis<"digit", 10> {};

struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, pixel>(g, "x");
    auto y = pt::input<pt::i32, sample>(g, "y");
    auto up = pt::linear(x, pt::param<pt::f32, pixel, inner>(g, "up.weight"));
    auto h = pt::relu(up);
    auto logits = pt::linear(h, pt::param<pt::f32, inner, digit>(g, "down.weight"));
    return pt::cross_entropy(logits, y);
  }
};
// [/model]

// [data]
struct data_parallel {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::split<sample>{2, "data"});
    plan.op_assign(plan.ops(), pt::grid{{"data", 2}});
  }
};
// [/data]
// [verify]
static_assert(pt::verify<mlp, data_parallel>());
// [/verify]

// [micro]
struct micro_batches {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::split<sample>{4, "micro"});
    plan.op_assign(plan.ops(), pt::grid{});  // device 0; no dimension is called "micro", so the pieces run in turn
  }
};
// [/micro]
static_assert(pt::verify<mlp, micro_batches>());

// [tensor]
struct tensor_parallel {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(pt::with<inner>), pt::split<inner>{2, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"tensor", 2}});
  }
};
// [/tensor]
static_assert(pt::verify<mlp, tensor_parallel>());

// [pipeline]
struct pipeline {
  static constexpr int micro_batches = 4;

  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::split<sample>{micro_batches, "micro"});
    // Two stages: the first ends with relu.
    for (auto op : plan.ops()) {
      const auto name = op.name();
      const bool first = name.view() == "x" || name.view() == "relu" || pt::matches("up*", name.view());
      plan.op_assign(op, pt::at{"stage", first ? 0 : 1, 2});
    }
    // One forward, one backward. Stage 1 turns round at once; stage 0 is never more than two micro-batches ahead.
    auto turn = [](int stage, pt::pass pass, int micro) {
      return pt::moment{}.at("stage", stage).of(pass).index("micro", micro);
    };
    for (int i = 0; i + 1 < micro_batches; ++i) plan.op_order(turn(1, pt::pass::backward, i), turn(1, pt::pass::forward, i + 1));
    for (int i = 0; i + 2 < micro_batches; ++i) plan.op_order(turn(0, pt::pass::backward, i), turn(0, pt::pass::forward, i + 2));
  }
};
// [/pipeline]
static_assert(pt::verify<mlp, pipeline>());

// [uneven]
struct uneven {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::split<sample>{5, "data"});                            // 7, 7, 6, 6, 6 samples
    plan.op_trans(plan.ops(pt::with<inner>), pt::split<inner>{2, "tensor", {32, 16}});  // these sizes
    plan.op_assign(plan.ops(), pt::grid{{"data", 5}, {"tensor", 2}});                   // devices 0 to 9
  }
};
// [/uneven]
static_assert(pt::verify<mlp, uneven>());

// [named]
struct only_up {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops("up*"), pt::split<inner>{2, "tensor"});
    plan.op_trans(plan.ops("relu"), pt::split<sample>{2, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"tensor", 2}});
  }
};
// [/named]
static_assert(pt::verify<mlp, only_up>());

// [ready]
using ready_made = pt::policy::compose<pt::policy::data_parallel<2>, pt::policy::tensor_parallel<2>,
                                       pt::policy::pipeline<2, pt::schedule::one_f_one_b, 4>>;
static_assert(pt::verify<mlp, ready_made>());
static_assert(pt::plan_of<mlp, ready_made>.devices() == 8);
// [/ready]

// [value]
// A policy is any object that can be called with a plan; this one gets its numbers at run time.
struct data_by_tensor {
  int data = 1, tensor = 1;
  constexpr void operator()(auto& plan) const {
    pt::policy::data_parallel_of{data}(plan);
    pt::policy::tensor_parallel_of{tensor}(plan);
  }
};
// [/value]

// [finding]
struct too_fine {
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(pt::with<digit>), pt::split<digit>{11, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"tensor", 11}});
  }
};
constexpr pt::finding found = pt::check<mlp, too_fine>;
static_assert(found.what == pt::wrong::too_many_pieces && found.have == 11 && found.allowed == 10);
// [/finding]

template <class Policy> std::string shown(Policy policy, pt::pass pass) {
  return show::completed_plan(pt::plan<mlp>::by(policy), pass);
}
void print(const char* title, const std::string& lines) { std::printf("== %s\n%s\n", title, lines.c_str()); }

int main() {
  print("data parallel, forward", shown(data_parallel{}, pt::pass::forward));
  print("data parallel, backward", shown(data_parallel{}, pt::pass::backward));
  print("data parallel, update", shown(data_parallel{}, pt::pass::update));
  print("micro-batches, backward", shown(micro_batches{}, pt::pass::backward));
  print("tensor parallel, forward", shown(tensor_parallel{}, pt::pass::forward));
  print("tensor parallel, backward", shown(tensor_parallel{}, pt::pass::backward));
  print("pipeline, forward", shown(pipeline{}, pt::pass::forward));
  print("only up, forward", shown(only_up{}, pt::pass::forward));
  print("uneven, forward", shown(uneven{}, pt::pass::forward));
  print("ready-made, forward", shown(ready_made{}, pt::pass::forward));
  auto same = [](auto a, auto b) {
    for (pt::pass pass : {pt::pass::forward, pt::pass::backward, pt::pass::update})
      if (shown(a, pass) != shown(b, pass)) return "no";
    return "yes";
  };
  std::printf("data_parallel is pt::policy::data_parallel<2>: %s\n", same(data_parallel{}, pt::policy::data_parallel<2>{}));
  std::printf("micro_batches is pt::policy::micro_batches<4>: %s\n", same(micro_batches{}, pt::policy::micro_batches<4>{}));
  std::printf("tensor_parallel is pt::policy::tensor_parallel<2>: %s\n",
              same(tensor_parallel{}, pt::policy::tensor_parallel<2>{}));

  // [run_time]
  auto plan = pt::plan<mlp>::by(data_by_tensor{2, 2});
  std::printf("devices: %d\n", plan.devices());
  if (const pt::finding f = pt::plan<mlp>::by(too_fine{}).check()) std::printf("%s\n", pt::describe(f).c_str());
  // [/run_time]
}
