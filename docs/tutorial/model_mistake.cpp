// Tutorial, chapter 1: what a compiler says of a mistake. The words are checked by the tests.
#include <partita/planning.hpp>

namespace pt = partita;

struct sample : pt::axis<"sample"> {};
struct pixel : pt::axis<"pixel", 64> {};
struct hidden : pt::axis<"hidden", 32> {};
struct digit : pt::axis<"digit", 10> {};

// [model]
struct classifier {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, pixel>(g, "x");
    auto y = pt::input<pt::i32, sample>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, pixel, hidden>(g, "enter.weight")));
    auto skip = pt::linear(x, pt::param<pt::f32, pixel, digit>(g, "skip.weight"));
    return pt::cross_entropy(h + skip, y);
  }
};
static_assert(pt::verify<classifier, pt::policy::single_device>());
// [/model]
// expect 1: mistake::one_letter_names_two_axes<partita::add_op, partita::letter<'.'>, .*hidden.*digit
