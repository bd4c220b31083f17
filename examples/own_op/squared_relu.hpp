// An op of one's own: y = max(x, 0)^2 (So et al. 2021), which the library does not have. It is complete with what
// stands here: from the annotation follow its types, how plans may cut it, and what its pieces hold.
#pragma once
#include <partita/partita.hpp>

// The gradient is an op as any other. Its inputs and output share all their axes, whatever these are: "..."
struct squared_relu_gradient {
  static constexpr std::string_view name = "squared_relu.grad", annotation = "..., ... -> ...";
  static constexpr double flops_per_point = 3;
  template <class Call> static void kernel(Call& call) {
    auto const *dy = call.template input<0>(), *x = call.template input<1>();
    auto* dx = call.template output<0>();
    call.each(call.size(), [=](std::size_t i) { dx[i] = x[i] > 0 ? 2 * x[i] * dy[i] : 0; });
  }
};

struct squared_relu_op {
  static constexpr std::string_view name = "squared_relu", annotation = "... -> ...";
  static constexpr double flops_per_point = 2;
  static constexpr auto gradient(auto dy, auto /*y*/, auto x) {  // one entry per input
    return partita::gradients{partita::apply<squared_relu_gradient>(dy, x)};
  }
  template <class Call> static void kernel(Call& call) {  // of one piece, in whatever type the model is in
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    call.each(call.size(), [=](std::size_t i) { y[i] = x[i] > 0 ? x[i] * x[i] : 0; });
  }
};

constexpr auto squared_relu(partita::handle auto x) { return partita::apply<squared_relu_op>(x); }
