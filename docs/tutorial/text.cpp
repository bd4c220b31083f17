// Tutorial, chapter 3: text as data, the step line, a sample, and Ctrl-C.
#include <chrono>
#include <iostream>
#include <partita/partita.hpp>

namespace pt = partita;

// [model]
struct window : pt::axis<"window"> {};
struct position : pt::axis<"position"> {};
struct byte : pt::axis<"byte", 256> {};
struct hidden : pt::axis<"hidden", 32> {};

struct next_byte {  // guesses the next byte from the last one alone
  constexpr auto operator()(auto& g) const {
    auto tokens = pt::input<pt::i32, window, position>(g, "tokens");
    auto targets = pt::input<pt::i32, window, position>(g, "targets");
    auto h = pt::tanh(pt::embedding(tokens, pt::param<pt::f32, byte, hidden>(g, "table", pt::normal{0.5})));
    auto logits = pt::linear(h, pt::param<pt::f32, hidden, byte>(g, "out.weight"));
    return pt::outputs(pt::loss("loss", pt::cross_entropy(logits, targets)), pt::output("logits", logits));
  }
};
// [/model]

int main() {
  std::string words;
  for (int i = 0; i < 400; ++i) words += "the op, the cut, the piece, the plan. ";

  // [data]
  const pt::text_data text = pt::text_data::from_bytes(words, {.held_out = 0.1, .held_out_block = 1024});
  constexpr std::size_t windows = 16, length = 32;
  // [/data]
  using training = pt::training<next_byte, pt::adamw>;
  pt::trainer<training> trainer{training{},
                                pt::policy::data_parallel<2>{},
                                pt::cpu{.devices = 2},
                                pt::bind<window>(windows),
                                pt::bind<position>(length),
                                pt::trainer_options{.learning_rate = 0.02}};

  // [loop]
  constexpr std::uint64_t steps = 60;
  pt::interrupt stop;
  pt::progress progress(std::cout, {.steps = steps, .every = 20});
  for (std::uint64_t step = 0; step < steps && !stop.requested(); ++step) {
    const pt::text_batch batch = text.batch(step, windows, length);
    const auto begin = std::chrono::steady_clock::now();
    const float loss = trainer.step({{"tokens", batch.inputs}, {"targets", batch.targets}});
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    progress.step({.step = step + 1,
                   .loss = loss,
                   .learning_rate = trainer.learning_rate(),
                   .seconds = time.count(),
                   .tokens = windows * length});
  }
  // [/loop]

  // [held_out]
  double loss = 0;
  const pt::held_out_batches held_out = text.held_out(windows, length);
  for (pt::text_batch const& batch : held_out) loss += trainer.evaluate({{"tokens", batch.inputs}, {"targets", batch.targets}});
  loss /= static_cast<double>(held_out.size());
  std::cout << "better than without context: " << (loss < text.unigram_loss() ? "yes" : "no") << '\n';
  // [/held_out]

  // [sample]
  std::vector<std::int32_t> tokens(windows * length), targets(windows * length, -1);  // -1: counts nowhere
  std::string written = "t";
  for (std::uint64_t i = 0; i < 40; ++i) {
    tokens[0] = written.back();
    trainer.evaluate({{"tokens", tokens}, {"targets", targets}});
    const pt::host_tensor logits = trainer.output("logits");
    written += static_cast<char>(
        pt::sample_token(std::span(logits.as<float>(), 256), pt::random_uniform(1, 0, i), {.temperature = 0.5}));
  }
  std::cout << pt::printable(written) << '\n';
  // [/sample]
}
