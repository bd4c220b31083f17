// A plan proved with Boost.Hana alone.
#include <partita/planning.hpp>

namespace pt = partita;

struct sample : pt::axis<"sample", 8> {};
struct hidden : pt::axis<"hidden", 768> {};
struct label : pt::axis<"label", 2> {};

struct linear_model {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, hidden>(g, "x");
    auto y = pt::input<pt::i32, sample>(g, "y");
    return pt::cross_entropy(pt::linear(x, pt::param<pt::f32, hidden, label>(g, "fc.weight")), y);
  }
};
static_assert(pt::verify<linear_model, pt::policy::data_parallel<2>>());

int main() {}
