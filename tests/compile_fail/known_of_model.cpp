// Constants of a model's type that ask for what the model does not have.
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/linear.hpp>
#include <partita/search/known_of_model.hpp>

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
#if MISTAKE == 1
constexpr int micro_batches = 1;
using only = pt::only::axes<"fb", batch>;  // expect 1: a constraint names what the model does not have
#elif MISTAKE == 2
constexpr int micro_batches = 5;  // expect 2: micro-batches are equal: their number divides the batch
using only = pt::only::axes<"*", batch>;
#else
constexpr int micro_batches = 4;
using only = pt::only::axes<"*", batch>;
#endif
static_assert(pt::candidate_cuts<model, 2, 1, micro_batches, only>.size() > 0);
