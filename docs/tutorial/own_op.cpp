// Tutorial, chapter 1: an op of one's own, planned and trained like the library's.
#include <cstdio>
#include <partita/partita.hpp>

namespace pt = partita;

// [gradient]
struct squared_error_gradient {
  static constexpr std::string_view name = "squared_error.grad", annotation = ", ..., ... -> ...";
  template <class Call> static void kernel(Call& call) {
    const auto dy = *call.template input<0>();
    auto const* a = call.template input<1>();
    auto const* b = call.template input<2>();
    auto* da = call.template output<0>();
    call.each(call.size(), [=](std::size_t i) { da[i] = dy * 2 * (a[i] - b[i]); });
  }
};
// [/gradient]
// [op]
struct squared_error {  // the sum over all elements of (a - b)^2
  static constexpr std::string_view name = "squared_error", annotation = "...+, ...+ ->";
  static constexpr double flops_per_point = 3;
  static constexpr auto gradient(auto dy, auto /*y*/, auto a, auto b) {
    return pt::gradients{pt::apply<squared_error_gradient>(dy, a, b), pt::none{}};
  }
  template <class Call> static void kernel(Call& call) {
    auto const* a = call.template input<0>();
    auto const* b = call.template input<1>();
    *call.template output<0>() = call.sum(call.size(), [=](std::size_t i) { return (a[i] - b[i]) * (a[i] - b[i]); });
  }
};
// [/op]

struct sample : pt::axis<"sample", 8> {};
struct from : pt::axis<"from", 4> {};
struct to : pt::axis<"to", 6> {};

// [model]
struct regression {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, from>(g, "x");
    auto wanted = pt::input<pt::f32, sample, to>(g, "wanted");
    return pt::apply<squared_error>(pt::linear(x, pt::param<pt::f32, from, to>(g, "weight")), wanted);
  }
};
// [/model]

// [plan]
struct both_axes {  // four devices: the samples cut in two, the outputs cut in two
  constexpr void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::split<sample>{2, "data"});
    plan.op_trans(plan.ops(pt::with<to>), pt::split<to>{2, "tensor"});
    plan.op_assign(plan.ops(), pt::grid{{"data", 2}, {"tensor", 2}});
  }
};
static_assert(pt::verify<regression, both_axes>());
// [/plan]

int main() {
  std::vector<float> x(8 * 4), wanted(8 * 6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) / 4;
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<float>(i % 3);
  pt::trainer<regression> one{pt::plan_of<regression, pt::policy::single_device>, pt::cpu{},
                              pt::trainer_options{.learning_rate = 0.01}};
  pt::trainer<regression> four{pt::plan_of<regression, both_axes>, pt::cpu{.devices = 4},
                               pt::trainer_options{.learning_rate = 0.01}};
  for (int step = 1; step <= 3; ++step)
    std::printf("step %d: %.3f on one device, %.3f on four\n", step, one.step({{"x", x}, {"wanted", wanted}}),
                four.step({{"x", x}, {"wanted", wanted}}));
}
