// A mixture of experts, trained on one device and on four that hold two experts each: the same losses.
#include <cstdio>
#include <random>
#include <vector>

#include <partita/partita.hpp>
namespace pt = partita;

struct sample : pt::axis<"sample", 16> {};
struct position : pt::axis<"position", 12> {};
struct vocabulary : pt::axis<"vocabulary", 64> {};
struct hidden : pt::axis<"hidden", 32> {};
struct expert : pt::axis<"expert", 8> {};
struct slot : pt::axis<"slot", 4> {};  // of each expert for each sample: 12 tokens x 2 choices / 8 experts, and one more
struct inner : pt::axis<"inner", 48> {};

struct mixture {
  constexpr auto operator()(auto& g) const {
    auto tokens = pt::input<pt::i32, sample, position>(g, "tokens");
    auto targets = pt::input<pt::i32, sample, position>(g, "targets");
    auto x = pt::embedding(tokens, pt::param<pt::f32, vocabulary, hidden>(g, "embedding.weight", pt::normal{1}));

    // [layer]
    auto router = pt::param<pt::f32, hidden, expert>(g, "router.weight", pt::normal{0.2});
    auto probabilities = pt::softmax<expert>(pt::linear(x, router));  // [sample, position, expert]
    auto gates = pt::top_k<expert>(probabilities, 2);                 // zero but for the two largest
    auto slots = pt::assign_slots<slot>(gates);                       // [sample, expert, slot], numbers of tokens
    auto up = pt::param<pt::f32, expert, hidden, inner>(g, "up.weight", pt::normal{0.2});
    auto down = pt::param<pt::f32, expert, inner, hidden>(g, "down.weight", pt::normal{0.2});
    auto h = pt::gelu(pt::einsum<"... e c h, e h f -> ... e c f">(pt::dispatch(x, slots), up));
    x = x + pt::combine(pt::einsum<"... e c f, e f h -> ... e c h">(h, down), gates, slots);
    auto balance = pt::mean(pt::load_balance(probabilities, gates));
    // [/layer]

    auto logits = pt::linear(x, pt::param<pt::f32, hidden, vocabulary>(g, "output.weight", pt::normal{0.2}));
    return pt::outputs(pt::loss("loss", pt::cross_entropy(logits, targets)), pt::loss("balance", balance, 0.01));
  }
};
using training = pt::training<mixture, pt::adamw>;
using experts_on_four = pt::policy::expert_parallel<4, expert>;
static_assert(pt::verify<training, experts_on_four>());

int main() {
  const pt::trainer_options options{.learning_rate = 0.01};
  pt::trainer<training> one{pt::plan_of<training, pt::policy::single_device>, pt::cpu{.devices = 1}, options};
  pt::trainer<training> four{pt::plan_of<training, experts_on_four>, pt::cpu{.devices = 4}, options};
  // Each token is followed by the one that a fixed table names.
  std::mt19937 random(1);
  std::vector<std::int32_t> table(vocabulary::extent), tokens(sample::extent * position::extent), targets(tokens.size());
  for (std::int32_t& next : table) next = static_cast<std::int32_t>(random() % vocabulary::extent);
  for (int step = 0; step <= 60; ++step) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(random() % vocabulary::extent);
      targets[i] = table[static_cast<std::size_t>(tokens[i])];
    }
    const float a = one.step({{"tokens", tokens}, {"targets", targets}});
    const float b = four.step({{"tokens", tokens}, {"targets", targets}});
    if (step % 20 == 0) std::printf("step %2d  loss %.4f on one device, %.4f on four\n", step, a, b);
  }
}
