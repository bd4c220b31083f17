// A first program: a model, a plan proved while compiling, and training on four CPU devices.
#include <cstdio>
#include <random>
#include <vector>

#include <partita/partita.hpp>
namespace pt = partita;

struct batch : pt::axis<"batch", 32> {};
struct in : pt::axis<"in", 784> {};
struct ffn : pt::axis<"ffn", 512> {};
struct out : pt::axis<"class", 10> {};

struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, in, ffn>(g, "fc1.weight", pt::normal{0.02f})));
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, ffn, out>(g, "fc2.weight", pt::normal{0.02f})), y);
  }
};

struct two_by_two {  // data parallel by 2, times tensor parallel by 2
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::split<batch>{2, "data"});  // every op that has the axis
    plan.op_trans(plan.ops(pt::with<ffn>), pt::split<ffn>{2, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"data", 2}, {"tensor", 2}});  // pieces onto devices 0..3
  }
};
static_assert(pt::verify<mlp, two_by_two>());  // a wrong plan does not compile

int main() {
  pt::trainer<mlp> t{pt::plan_of<mlp, two_by_two>, pt::cpu{.devices = 4}, pt::trainer_options{.learning_rate = 0.1}};

  // Ten classes, each a pattern under noise.
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> patterns(out::extent * in::extent), images(batch::extent * in::extent);
  std::vector<std::int32_t> labels(batch::extent);
  for (float& p : patterns) p = normal(random);
  for (int step = 0; step <= 50; ++step) {
    for (std::size_t i = 0; i < batch::extent; ++i) {
      labels[i] = static_cast<std::int32_t>(random() % out::extent);
      for (std::size_t j = 0; j < in::extent; ++j)
        images[i * in::extent + j] = patterns[static_cast<std::size_t>(labels[i]) * in::extent + j] + 2 * normal(random);
    }
    const float loss = t.step({{"x", images}, {"y", labels}});
    if (step % 10 == 0) std::printf("step %2d  loss %.4f\n", step, loss);
  }
}
