// Tutorial, chapter 3: training under a plan, and what a trainer tells.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <partita/partita.hpp>
#include <partita/train/checkpoint.hpp>

namespace pt = partita;

// [model]
struct sample : pt::axis<"sample"> {};
struct pixel : pt::axis<"pixel", 64> {};
struct inner : pt::axis<"inner", 96> {};
struct digit : pt::axis<"digit", 10> {};

struct classifier {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, pixel>(g, "x");
    auto y = pt::input<pt::i32, sample>(g, "y");
    auto up = pt::linear(x, pt::param<pt::f32, pixel, inner>(g, "up.weight"));
    auto h = pt::dropout(pt::gelu(up), 0.1);
    auto logits = pt::linear(h, pt::param<pt::f32, inner, digit>(g, "down.weight"));
    return pt::outputs(pt::loss("loss", pt::cross_entropy(logits, y)), pt::output("logits", logits));
  }
};
using training = pt::training<classifier, pt::adamw, pt::clip_norm>;
// [/model]

// Images made up by a rule: digit d lights the pixels whose number leaves d when divided by ten, in noise.
struct images {
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
};
images make_images(int count, std::uint64_t seed) {
  images all;
  for (int i = 0; i < count; ++i) {
    all.labels.push_back(i % 10);
    for (int p = 0; p < 64; ++p)
      all.pixels.push_back((p % 10 == i % 10 ? 1.0f : 0.0f) +
                           pt::random_uniform(seed, 0, static_cast<std::uint64_t>(i * 64 + p)));
  }
  return all;
}

int main() {
  const images train = make_images(64, 1), test = make_images(64, 2);

  // [make]
  using plan = pt::policy::compose<pt::policy::data_parallel<2>, pt::policy::tensor_parallel<2>>;
  const training recipe{.model = {}, .optimizer = {.weight_decay = 0.01}, .clip = {.max = 1.0}};
  pt::trainer<training> four{recipe, plan{}, pt::cpu{.devices = 4}, pt::bind<sample>(64), pt::trainer_options{.seed = 7}};
  // [/make]
  // [one]
  pt::trainer<training> one{recipe, pt::policy::single_device{}, pt::cpu{}, pt::bind<sample>(64), pt::trainer_options{.seed = 7}};
  // [/one]

  // [memory]
  for (pt::memory_use const& device : four.memory())
    std::printf("planned %s: %s of parameters and state, %s of everything else\n", pt::bytes_text(device.planned).c_str(),
                pt::bytes_text(device.state).c_str(), pt::bytes_text(device.arena).c_str());
  // [/memory]

  // [loop]
  constexpr std::uint64_t steps = 60;
  const auto rate = pt::learning_rate::cosine(/*peak*/ 5e-3, /*warm-up*/ 5, steps, /*floor*/ 5e-4);
  for (std::uint64_t step = 0; step < steps; ++step) {
    four.set_learning_rate(rate.rate(step));
    const float loss = four.step({{"x", train.pixels}, {"y", train.labels}});
    if ((step + 1) % 20 == 0)
      std::printf("step %2d: loss %.2f, gradient norm %.2f\n", static_cast<int>(step + 1), loss, four.output("gradient_norm")[0]);
  }
  // [/loop]

  // [evaluate]
  std::printf("held-out loss %.2f\n", four.evaluate({{"x", test.pixels}, {"y", test.labels}}));
  const pt::host_tensor logits = four.output("logits");  // [sample, digit], whole, row-major
  int right = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    std::size_t best = 0;
    for (std::size_t d = 1; d < 10; ++d)
      if (logits[i * 10 + d] > logits[i * 10 + best]) best = d;
    right += static_cast<std::int32_t>(best) == test.labels[i];
  }
  std::printf("%d of 64 right\n", right);
  for (pt::host_tensor const& output : four.outputs())
    std::printf("output %s of %zu elements\n", output.name.c_str(), output.size());
  // [/evaluate]

  // [same]
  double farthest = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    one.set_learning_rate(rate.rate(step));
    one.step({{"x", train.pixels}, {"y", train.labels}});
  }
  const pt::host_tensor a = one.parameter("up.weight"), b = four.parameter("up.weight");
  for (std::size_t i = 0; i < a.size(); ++i) farthest = std::max(farthest, std::abs(a[i] - b[i]));
  std::printf("after %d steps the weights of one device and of four differ by less than 1e-3: %s\n", static_cast<int>(steps),
              farthest < 1e-3 ? "yes" : "no");
  // [/same]

  // [carry]
  pt::trainer<training> fresh{recipe, pt::policy::single_device{}, pt::cpu{}, pt::bind<sample>(64)};
  for (std::string const& name : four.parameter_names()) {
    const pt::host_tensor whole = four.parameter(name);
    fresh.set_parameter(name, std::span(whole.as<float>(), whole.size()));
  }
  const float before = four.evaluate({{"x", test.pixels}, {"y", test.labels}});
  const float after = fresh.evaluate({{"x", test.pixels}, {"y", test.labels}});
  std::printf("carried over, the held-out loss is the same within 1e-5: %s\n",
              std::abs(before - after) < 1e-5 * before ? "yes" : "no");
  // [/carry]

  // [use]
  const pt::communication_use sent = four.communication();
  std::printf("sent: %llu bytes in %llu calls\n", static_cast<unsigned long long>(sent.bytes),
              static_cast<unsigned long long>(sent.calls));
  bool fits = true;
  for (pt::memory_use const& device : four.memory()) fits = fits && device.measured <= device.planned;
  std::printf("measured memory is within the plan: %s\n", fits ? "yes" : "no");
  std::printf("%zu parameters, %.3g FLOPs a step\n", four.parameter_count(), four.step_flops());
  // [/use]

  // [feed]
  try {
    four.step({{"x", train.pixels}});
  } catch (pt::error const& e) { std::printf("%s\n", e.what()); }
  // [/feed]
  // [finite]
  std::vector<float> broken = train.pixels;
  broken[5] = NAN;
  try {
    four.step({{"x", broken}, {"y", train.labels}});
  } catch (pt::error const& e) { std::printf("%s\n", e.what()); }
  std::printf("and the next step has a loss of %.2f\n", four.step({{"x", train.pixels}, {"y", train.labels}}));
  // [/finite]

  // [save]
  pt::save(four, "digits.safetensors", {{"data", "all of it, 61 times"}});
  // [/save]

  // [load]
  pt::trainer<training> again{recipe, plan{}, pt::cpu{.devices = 4}, pt::bind<sample>(64)};
  const pt::checkpoint_notes notes = pt::load(again, "digits.safetensors");
  std::printf("%lld steps were done; of the data was read: %s\n", static_cast<long long>(again.steps()),
              notes.at("data").c_str());
  const float goes_on = four.step({{"x", train.pixels}, {"y", train.labels}});
  std::printf("the next step has the same loss: %s\n",
              again.step({{"x", train.pixels}, {"y", train.labels}}) == goes_on ? "yes" : "no");
  std::printf("and leaves the same bits: %s\n",
              again.parameter("up.weight").bytes == four.parameter("up.weight").bytes ? "yes" : "no");
  // [/load]

  // [other]
  pt::load(one, "digits.safetensors");  // that of one device
  // [/other]
  std::filesystem::remove("digits.safetensors");
}
