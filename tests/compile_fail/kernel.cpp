// An op without a kernel plans, and does not run.
#include <partita/device/cpu/backend.hpp>
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/linear.hpp>
#include <partita/plan/verify.hpp>
#include <partita/policy/data_parallel.hpp>

namespace pt = partita;

struct batch : pt::axis<"batch", 32> {};
struct in : pt::axis<"in", 784> {};
struct label : pt::axis<"class", 10> {};

struct swish_gradient {
  static constexpr std::string_view name = "swish.grad", annotation = "..., ... -> ...";
#if MISTAKE != 2
  template <class Call> static void kernel(Call&) {}
#endif
};
struct swish {
  static constexpr std::string_view name = "swish", annotation = "... -> ...";
  static constexpr auto gradient(auto dy, auto, auto x) { return std::tuple{pt::apply<swish_gradient>(dy, x)}; }
#if MISTAKE != 1
  template <class Call> static void kernel(Call&) {}
#endif
};
struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    return pt::cross_entropy(pt::apply<swish>(pt::linear(x, pt::param<pt::f32, in, label>(g, "fc.weight"))), y);
  }
};
static_assert(pt::verify<mlp, pt::policy::single_device>());

inline void make_launchers() {
  pt::recorder<pt::on_cpu::backend, pt::training<mlp>> g;
  pt::trace(g, pt::training<mlp>{});
  // expect 1: mistake::op_has_no_kernel<swish, partita::found_dtype<.*f32
  // expect 2: mistake::op_has_no_kernel<swish_gradient, partita::found_dtype<.*f32
}
