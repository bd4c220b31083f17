// A search while compiling that finds nothing.
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/linear.hpp>
#include <partita/search/at_compile_time.hpp>

namespace pt = partita;

struct batch : pt::axis<"batch", 32> {};
struct in : pt::axis<"in", 784> {};
struct label : pt::axis<"class", 10> {};

struct model {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    return pt::cross_entropy(pt::linear(x, pt::param<pt::f32, in, label>(g, "fc.weight")), y);
  }
};
struct machine {
#if MISTAKE == 1
  static constexpr pt::plain_machine of{.memory = 1000};  // expect 1: mistake::no_plan_of_these_axes_fits_the_memory_of_the_machine<model, machine>
#else
  static constexpr pt::plain_machine of{.memory = 1e9};
#endif
};
static_assert(pt::verify<model, pt::searched_at_compile_time<model, machine, 4, batch>>());
