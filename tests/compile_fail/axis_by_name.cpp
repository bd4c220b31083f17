// An op over an axis that the caller names and the tensor has not.
#include <partita/grad/training.hpp>
#include <partita/ops/softmax.hpp>
#include <partita/ops/sum.hpp>

namespace pt = partita;

struct sample : pt::axis<"sample", 32> {};
struct key : pt::axis<"key", 16> {};
struct value : pt::axis<"value", 16> {};

struct model {
  constexpr auto operator()(auto& g) const {
    auto x = pt::param<pt::f32, sample, key>(g, "x");
#if MISTAKE == 1
    return pt::sum(pt::softmax<value>(x));  // expect 1: mistake::tensor_has_no_such_axis<.*softmax_op.*value
#elif MISTAKE == 2
    return pt::sum(pt::sum_over<key, value>(x));  // expect 2: mistake::tensor_has_no_such_axis<.*sum_axis_op.*value
#else
    return pt::sum(pt::mean_over<key>(pt::softmax<key>(x)));
#endif
  }
};
constexpr int ops = [] {
  pt::recorder<pt::planning_only, pt::training<model>> g;
  pt::trace(g, pt::training<model>{});
  return g.ops.size;
}();
