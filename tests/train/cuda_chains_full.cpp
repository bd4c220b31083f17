// Chains of element-wise ops as one kernel, on a pretended machine: whole steps with them and without give the same bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <partita/partita.hpp>
#include <partita/train/cuda_devices.hpp>

#include "../support/pretend/cuda.hpp"
#include "../support/pretend/nccl.hpp"

namespace pt = partita;
using namespace partita::testing;

namespace {
struct sample : pt::axis<"sample"> {};
struct wide : pt::axis<"wide"> {};
struct inner : pt::axis<"inner"> {};
struct kind : pt::axis<"kind", 5> {};

// Gated units with dropout, twice: silu, tanh and their product, dropout and the sum, and in the gradients their reverse.
struct gated {
  constexpr auto operator()(auto& g) const {
    constexpr pt::normal start{0.3};
    auto x = pt::input<pt::f32, sample, wide>(g, "x");
    auto y = pt::input<pt::i32, sample>(g, "y");
    auto h = pt::linear(x, pt::param<pt::f32, wide, inner>(g, "in.weight", start));
    for (int l = 0; l < 2; ++l) {
      auto s = pt::scope(g, "block", l);
      auto gate = pt::silu(pt::linear(h, pt::param<pt::f32, inner, wide>(g, "gate.weight", start)));
      auto up = pt::tanh(pt::linear(h, pt::param<pt::f32, inner, wide>(g, "up.weight", start)));
      h = h + pt::dropout(0.5 * pt::linear(gate * up, pt::param<pt::f32, wide, inner>(g, "down.weight", start)), 0.25);
    }
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, inner, kind>(g, "out.weight", start)), y);
  }
};

using pretended_devices = pt::on_cuda::cuda_devices<pretend::cuda, pretend::nccl>;

struct counts {
  std::size_t chains = 0, longest = 0, saved = 0, launches = 0;
  std::size_t two_ends = 0;  // chains that begin with two ops neither of which touches what the other one does
};
// Of two ops in front of a chain.
bool touch(pt::on_cuda::chain_finder::chain const& c) {
  auto const& from = c.kernel->pattern.from[1];
  bool any = from[0] >= 0 || from[1] >= 0;
  for (void const* a : c.arguments.links[0].inputs)
    for (void const* b : c.arguments.links[1].inputs) any = any || (a != nullptr && a == b);
  return any;
}
// Says of the devices it makes what they fuse.
struct watched_source : pt::on_cuda::cuda_source<pretend::cuda, pretend::nccl> {
  counts* seen;
  watched_source(pt::on_cuda::kernels_of_training const& kernels, counts* to) : cuda_source({}, kernels), seen(to) {}
  std::unique_ptr<pt::local_devices> make(pt::graph_data const& graph, std::span<std::uint64_t const> keys,
                                          pt::list<pt::list<pt::program>> sets) override {
    auto made = cuda_source::make(graph, keys, std::move(sets));
    auto const& devices = static_cast<pretended_devices const&>(*made);
    for (auto const& c : devices.chains(0, 0)) {
      ++seen->chains;
      seen->longest = std::max(seen->longest, static_cast<std::size_t>(c.count));
      seen->saved += c.saved_bytes;
      seen->two_ends += touch(c) ? 0 : 1;
    }
    seen->launches = devices.launches(0, 0);
    return made;
  }
};

// Losses and parameters of a few steps.
struct outcome {
  std::vector<float> losses;
  std::vector<std::vector<std::byte>> parameters;
  bool operator==(outcome const&) const = default;
};
template <class Policy> outcome train(pt::on_cuda::traced_training const& traced, bool fuse, Policy const& policy,
                                      std::size_t samples, std::size_t width, counts& seen) {
  const pretend::machine machine({.devices = 4});
  pt::plan_base plan(*traced.graph);
  policy(plan);
  pt::detail::engine engine(*traced.graph, traced.losses, std::move(plan), std::make_unique<watched_source>(traced, &seen),
                            {.seed = 3, .learning_rate = 0.05, .fuse = fuse});
  std::mt19937 random(5);
  outcome all;
  for (int step = 0; step < 3; ++step) {
    std::vector<float> x(samples * width);
    std::vector<std::int32_t> y(samples);
    for (float& v : x) v = static_cast<float>(random() % 2001) / 1000 - 1;
    for (std::int32_t& v : y) v = static_cast<std::int32_t>(random() % 5);
    all.losses.push_back(engine.step(std::vector<pt::feed>{{"x", x}, {"y", y}}));
  }
  for (std::string const& name : engine.parameter_names()) {
    auto const bytes = engine.parameter(name).bytes;
    all.parameters.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}
template <class Model> void compare(std::size_t samples, std::size_t width, std::size_t between) {
  using training = pt::training<Model, pt::adamw, pt::clip_norm>;
  const std::vector<pt::binding> extents{pt::bind<sample>(samples), pt::bind<wide>(width), pt::bind<inner>(between)};
  const pt::on_cuda::detail::traced_with<pretend::launch, training> traced(training{}, extents);
  const auto both = [&](auto const& policy, std::size_t least, std::size_t longest) {
    counts fused, single;
    const outcome have = train(traced, true, policy, samples, width, fused),
                  wanted = train(traced, false, policy, samples, width, single);
    CHECK(have.losses == wanted.losses);
    CHECK(have == wanted);
    CHECK(single.chains == 0);
    CHECK(fused.chains >= least);
    CHECK(fused.longest >= longest);
    CHECK(fused.two_ends == 2);
    CHECK(fused.saved > 0);
    CHECK(fused.launches < single.launches);
  };
  both(pt::policy::single_device{}, 6, 3);
  both(pt::policy::data_parallel_of{2}, 6, 3);
  both(pt::policy::compose<pt::policy::data_parallel<2>, pt::policy::tensor_parallel<2>>{}, 4, 2);
}
}  // namespace

TEST_CASE("a step whose chains are one kernel each gives the bits of one whose ops are") {
  compare<gated>(12, 16, 24);
  compare<gated>(7, 9, 5);
}

TEST_CASE("and in bf16, where what an op makes is rounded before the next one takes it") {
  compare<pt::in_precision<gated, pt::bf16>>(12, 16, 24);
}
