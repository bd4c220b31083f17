// What goes wrong on pretended GPUs, or in a program that they run: on every rank an error that says what and where, and soon.
// Faults of data, and of two processes: cuda_devices_full.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <partita/train/cuda_devices.hpp>

#include "../support/pretend/cuda.hpp"
#include "../support/pretend/nccl.hpp"
#include "../support/small_net.hpp"

namespace pt = partita;
using namespace partita::testing;
using doctest::Contains;

namespace {
using recipe = pt::training<small_net, pt::adamw, pt::clip_norm>;
using program_change = std::function<void(pt::program&)>;  // of rank 0's training

// Gives rank 0 another program than the one that was planned.
struct changing_source : pt::on_cuda::cuda_source<pretend::cuda, pretend::nccl> {
  program_change change;
  changing_source(pt::on_cuda::traced_training const& traced, program_change what)
      : cuda_source({.timeout_seconds = 0.3}, traced), change(std::move(what)) {}
  std::unique_ptr<pt::local_devices> make(pt::graph_data const& graph, std::span<std::uint64_t const> keys,
                                          pt::list<pt::list<pt::program>> sets) override {
    if (change) change(sets[0][0]);
    return cuda_source::make(graph, keys, std::move(sets));
  }
};
pt::on_cuda::traced_training const& traced() {
  static const pt::binding extents[]{pt::bind<small::sample>(small_samples)};
  static const pt::on_cuda::detail::traced_with<pretend::launch, recipe> once(recipe{}, extents);
  return once;
}
std::unique_ptr<pt::detail::engine> make(small_plan const& plan, program_change change = {}) {
  pt::plan_base made(*traced().graph);
  plan(made);
  return std::make_unique<pt::detail::engine>(*traced().graph, traced().losses, std::move(made),
                                              std::make_unique<changing_source>(traced(), std::move(change)),
                                              pt::trainer_options{});
}
// What an engine throws that is made and takes two steps; in bounded time, whatever happens.
std::string thrown(small_plan const& plan, program_change change = {}) {
  const auto begin = std::chrono::steady_clock::now();
  std::string words = "nothing";
  try {
    const auto gpu = make(plan, std::move(change));
    const small_batch<float> b;
    for (int step = 0; step < 2; ++step) gpu->step(b.feeds());
  } catch (pt::error const& e) { words = e.what(); }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  return words;
}
bool has(std::string const& words, char const* part) { return words.find(part) != std::string::npos; }

constexpr small_plan four{.data = 2, .tensor = 2}, stages{.stages = 2, .micro_batches = 3};

bool is_collective(pt::instruction const& i) {
  return i.kind == pt::instruction_kind::all_reduce || i.kind == pt::instruction_kind::all_gather ||
         i.kind == pt::instruction_kind::reduce_scatter;
}
}  // namespace

TEST_CASE("nothing is wrong with what was planned") {
  const pretend::machine machine({.devices = 4});
  for (small_plan const& plan : {small_plan{}, four, stages}) CHECK(thrown(plan) == "nothing");
}

TEST_CASE("any of the allocations fails") {
  for (small_plan const& plan : {small_plan{}, four})
    for (int which = 0, failed = 1; which < 30 && failed > 0; ++which) {
      const pretend::machine machine({.devices = 4, .failing_allocation = which});
      const std::string words = thrown(plan);
      CAPTURE(which);
      CAPTURE(words);
      if (words == "nothing") failed = 0;
      else CHECK((has(words, "out of memory") && has(words, "MiB are free")));
      CHECK((which > 3 || failed > 0));  // state, arena, a step's numbers and the products' workspace at least
    }
}

TEST_CASE("a launch is refused, and a kernel fails after its launch was taken") {
  for (int which : {0, 1, 7, 20}) {
    const std::string refused = [&] {
      const pretend::machine machine({.devices = 4, .failing_launch = which});
      return thrown(four);
    }();
    CAPTURE(refused);
    CHECK(refused.find("rank 0, op ") == 0);
    CHECK(has(refused, "a launch: a launch failed, as it was told to"));
    const std::string failed = [&] {
      const pretend::machine machine({.devices = 4, .failing_kernel = which});
      return thrown(four);
    }();
    CAPTURE(failed);
    CHECK(failed.find("rank 0, ") == 0);
    CHECK(has(failed, "a kernel failed, as it was told to"));
  }
  const pretend::machine machine({.failing_kernel = 3});  // of a captured step, too
  CHECK(has(thrown(small_plan{}), "a kernel failed, as it was told to"));
}

TEST_CASE("a collective fails on one rank, or one never comes to it") {
  for (int which : {0, 2}) {
    const pretend::machine machine({.devices = 4, .failing_collective = which});
    const std::string words = thrown(four);
    CAPTURE(words);
    CHECK(words.find("rank ") == 0);
    CHECK(has(words, "NCCL, in group "));
    CHECK(has(words, "a collective failed, as it was told to"));
  }
  for (int which : {0, 9}) {
    const pretend::machine machine({.devices = 2, .endless_launch = which});
    const std::string words = thrown(small_plan{.data = 2});
    CAPTURE(words);
    CHECK(words.find("rank 1, all_reduce of ") == 0);
    CHECK(has(words, "did not end within 0.3"));
    CHECK(has(words, "; rank 0 has not begun it"));
  }
}

TEST_CASE("members of one collective make different calls") {
  const pretend::machine machine({.devices = 4});
  int changed = 0;
  const std::string words = thrown(four, [&](pt::program& p) {
    for (pt::instruction const& i : p.instructions)
      if (i.kind == pt::instruction_kind::all_reduce && p.collectives[static_cast<std::size_t>(i.payload)].counts[0] > 1) {
        --p.collectives[static_cast<std::size_t>(i.payload)].counts[0];
        ++changed;
        return;
      }
  });
  CAPTURE(words);
  REQUIRE(changed == 1);
  CHECK(has(words, "members of one collective make different calls"));
}

TEST_CASE("two collectives in another order than another of their ranks has") {
  const pretend::machine machine({.devices = 4});
  int changed = 0;
  const std::string words = thrown(four, [&](pt::program& p) {
    auto group = [&](pt::instruction const& i) { return p.collectives[static_cast<std::size_t>(i.payload)].group; };
    auto shared_by = [&](pt::list<int> const& a, pt::list<int> const& b) {
      return std::count_if(a.begin(), a.end(), [&](int rank) { return std::binary_search(b.begin(), b.end(), rank); });
    };
    for (std::size_t one = 0; one < p.instructions.size(); ++one)
      for (std::size_t two = one + 1; two < p.instructions.size(); ++two) {
        pt::instruction &first = p.instructions[one], &second = p.instructions[two];
        if (!is_collective(first) || !is_collective(second) || group(first) == group(second)) continue;
        auto members = [&](pt::instruction const& i) { return p.groups[static_cast<std::size_t>(group(i))]; };
        if (shared_by(members(first), members(second)) < 2) continue;
        std::swap(first.payload, second.payload);
        std::swap(first.call_count, second.call_count);
        std::swap(first.kind, second.kind);
        std::swap(first.type, second.type);
        ++changed;
        return;
      }
  });
  CAPTURE(words);
  REQUIRE(changed == 1);
  CHECK(words.find("rank ") == 0);
  CHECK(has(words, "did not end within 0.3"));
}

TEST_CASE("a stream forgets to wait for the other one") {
  for (small_plan const& plan : {four, stages}) {
    const pretend::machine machine({.devices = 4});
    const std::string words = thrown(plan, [](pt::program& p) {
      for (pt::instruction& i : p.instructions) i.wait = 0;
    });
    CAPTURE(words);
    CHECK(has(words, "and waits for no event between"));
  }
}

TEST_CASE("memory is used after it was freed") {
  for (small_plan const& plan : {small_plan{}, four}) {
    pretend::machine machine({.devices = 4});
    const auto gpu = make(plan);
    const small_batch<float> b;
    gpu->step(b.feeds());
    machine.at(0).release_all();
    CHECK_THROWS_WITH_AS(gpu->step(b.feeds()), Contains("memory is used after it was freed"), pt::error);
  }
}
