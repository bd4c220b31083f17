// Whole training steps of a GPT by the code of CUDA devices and NCCL communicators, on a pretended machine, beside CPU
// devices. Other models, under all policies and random plans: random/pretended_full.cpp; faults of the machine: cuda_faults.cpp.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <partita/comm/sockets/processes.hpp>
#include <partita/partita.hpp>
#include <partita/train/checkpoint.hpp>
#include <partita/train/cuda_devices.hpp>

#include "../../benchmarks/cuda/steps.hpp"
#include "../support/agreement.hpp"
#include "../support/free_port.hpp"
#include "../support/models/gpt.hpp"
#include "../support/plan_by_sizes.hpp"
#include "../support/pretend/cuda.hpp"
#include "../support/pretend/nccl.hpp"

namespace pt = partita;
using namespace partita::testing;
using doctest::Contains;

namespace {
using source = pt::on_cuda::cuda_source<pretend::cuda, pretend::nccl>;

struct batch {
  std::vector<std::int32_t> tokens, targets;
  batch(models::sizes const& s, unsigned seed) {
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < s.samples * s.positions; ++i) {
      tokens.push_back(static_cast<std::int32_t>(random() % s.vocabulary));
      targets.push_back(random() % 4 == 0 ? -1 : static_cast<std::int32_t>(random() % s.vocabulary));
    }
  }
  std::vector<pt::feed> feeds() const { return {{"tokens", tokens}, {"targets", targets}}; }
};
std::vector<double> values_of(pt::host_tensor const& t) {
  std::vector<double> all(t.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = t[i];
  return all;
}

// The training traced with CPU kernels and with those of the pretended GPUs: once for all tests of a size.
template <class Model> struct both_of {
  using training_type = pt::training<Model, pt::adamw, pt::clip_norm>;
  models::sizes sizes;
  pt::recorder<pt::on_cpu::backend, training_type> on_cpu;
  pt::on_cuda::detail::traced_with<pretend::launch, training_type> on_gpu;

  explicit both_of(models::sizes const& s = {}) : sizes(s), on_gpu(training_type{}, s.extents()) {
    for (pt::binding const& b : s.extents()) on_cpu.bindings.push(b);
    trace(on_cpu, training_type{});
  }
  static pt::trainer_options options() { return {.seed = 3, .learning_rate = 0.01}; }
  auto alone() {
    pt::plan_base plan(on_cpu);
    plan_by_sizes{}(plan);
    const std::span<pt::on_cpu::launcher const> launchers(on_cpu.launchers.at, static_cast<std::size_t>(on_cpu.launchers.size));
    return std::make_unique<pt::detail::engine>(on_cpu, on_cpu.losses, std::move(plan),
                                                device_source_of(pt::cpu{.threads = 1}, launchers), options());
  }
  template <class Policy> static auto pretended(pt::on_cuda::traced_training const& traced, Policy const& policy,
                                                pt::on_cuda::cuda_options const& how = {}) {
    pt::plan_base plan(*traced.graph);
    policy(plan);
    return std::make_unique<pt::detail::engine>(*traced.graph, traced.losses, std::move(plan),
                                                std::make_unique<source>(how, traced), options());
  }
  template <class Policy> auto pretended(Policy const& policy, pt::on_cuda::cuda_options const& how = {}) {
    return pretended(on_gpu, policy, how);
  }
};

using both = both_of<models::gpt>;

template <class Both> void compare(Both& b, pt::detail::engine& gpu, int steps = 2) {
  auto cpu = b.alone();
  agreement rule(pt::f32);
  for (int step = 0; step < steps; ++step) {
    const batch data(b.sizes, 10 + static_cast<unsigned>(step));
    for (std::string const& name : cpu->parameter_names()) {
      const pt::host_tensor now = cpu->parameter(name);
      if (step == 0) CHECK(gpu.parameter(name).bytes == now.bytes);
      else gpu.set_parameter(name, pt::feed(name, now.bytes.data(), now.size(), now.type));
    }
    rule.loss(cpu->evaluate(data.feeds()), gpu.evaluate(data.feeds()));
    rule.loss(cpu->step(data.feeds()), gpu.step(data.feeds()));
    double most = 0;
    for (std::string const& name : cpu->parameter_names(true)) most = std::max(most, largest(values_of(cpu->gradient(name))));
    for (std::string const& name : cpu->parameter_names(true)) {
      const std::vector<double> gradient = values_of(cpu->gradient(name)), weight = values_of(cpu->parameter(name));
      const double allowed = rule.allowed(gradient, most);
      rule.tensor("gradient of " + name, gradient, values_of(gpu.gradient(name)), allowed);
      rule.adamw(name, weight, values_of(gpu.parameter(name)), gradient, allowed, 0.01);
    }
  }
  CHECK_MESSAGE(rule.holds(), rule.where() << " differs by " << rule.worst() << " of what is allowed");
}
}  // namespace

TEST_CASE("a step on one pretended GPU does what one on the CPU does") {
  const pretend::machine machine;
  both b;
  SUBCASE("instruction by instruction") { compare(b, *b.pretended(plan_by_sizes{}, {.capture = false}), 3); }
  SUBCASE("captured as a graph") { compare(b, *b.pretended(plan_by_sizes{}), 4); }
}

TEST_CASE("a profiler sees the passes of a step, and in them the graph's scopes") {
  pretend::machine machine({.devices = 2});
  both b;
  auto gpu = b.pretended(plan_by_sizes{.data = 2});
  const batch data(b.sizes, 1);
  gpu->step(data.feeds());
  for (int d : {0, 1}) {
    CHECK(machine.at(d).open_ranges() == 0);
    CHECK(machine.at(d).ranges_seen() == std::set<std::string>{"forward", "forward/block.0", "forward/block.1", "backward",
                                                               "backward/block.0", "backward/block.1", "update", "update/block.0",
                                                               "update/block.1"});
  }
}

TEST_CASE("three dimensions at once, at uneven sizes, for several steps") {
  both b({.samples = 7, .positions = 8, .vocabulary = 13, .hidden = 9, .heads = 5, .width = 3, .inner = 16});
  const pretend::machine machine({.devices = 8});
  compare(b, *b.pretended(plan_by_sizes{.data = 2, .tensor = 2, .stages = 2, .micro_batches = 2}), 3);
  compare(b, *b.pretended(plan_by_sizes{.data = 3, .zero = 3}), 3);
}

namespace {
// Two processes, as threads, with two of the pretended GPUs each: f(engine, process) on both; what each throws.
template <class F>
std::vector<std::string> two_processes(both& b, plan_by_sizes const& plan, int port, F f, double timeout_seconds = 20) {
  std::vector<std::string> thrown(2);
  auto process = [&](int me) {
    try {
      auto together =
          std::make_shared<pt::socket_processes>(pt::meeting_place{.rank = me, .size = 2, .port = port, .timeout_seconds = 20});
      pt::plan_base made(*b.on_gpu.graph);
      plan(made);
      pt::detail::engine gpu(*b.on_gpu.graph, b.on_gpu.losses, std::move(made),
                             std::make_unique<source>(pt::on_cuda::cuda_options{.place = me, .timeout_seconds = timeout_seconds},
                                                      b.on_gpu, together),
                             both::options());
      f(gpu, me);
    } catch (pt::error const& e) { thrown[static_cast<std::size_t>(me)] = e.what(); }
  };
  std::thread other(process, 1);
  process(0);
  other.join();
  return thrown;
}
}  // namespace

TEST_CASE("two processes that share the pretended GPUs of a plan do what one does") {
  both b;
  const pretend::machine machine({.devices = 4});
  const batch data(b.sizes, 6);
  auto cpu = b.alone();
  const double wanted = cpu->step(data.feeds());
  const std::vector<double> gradient = values_of(cpu->gradient("block.0.fc1.weight"));
  for (plan_by_sizes const& plan :
       {plan_by_sizes{.data = 2, .tensor = 2}, plan_by_sizes{.tensor = 2, .stages = 2, .micro_batches = 3}}) {
    double losses[2]{};
    std::vector<double> gradients[2];
    const auto thrown = two_processes(b, plan, free_port(), [&](pt::detail::engine& gpu, int me) {
      losses[me] = gpu.step(data.feeds());
      gradients[me] = values_of(gpu.gradient("block.0.fc1.weight"));
    });
    CHECK(thrown == std::vector<std::string>(2));
    for (int me : {0, 1}) {
      CHECK(losses[me] == doctest::Approx(wanted).epsilon(1e-5));
      CHECK(farthest(gradients[me], gradient) < 1e-5 * largest(gradient));
    }
  }
}

TEST_CASE("a checkpoint of two processes with pretended GPUs goes on on one GPU and on the CPU") {
  both b;
  const pretend::machine machine({.devices = 4});
  namespace fs = std::filesystem;
  const fs::path file = fs::temp_directory_path() / ("partita_cuda_" + std::to_string(getpid()) + ".safetensors");
  std::vector<std::byte> moments;
  const auto thrown = two_processes(b, {.data = 2, .tensor = 2, .zero = 3}, free_port(), [&](pt::detail::engine& gpu, int me) {
    gpu.step(batch(b.sizes, 6).feeds());
    pt::detail::save_checkpoint(gpu, file, {});
    const pt::host_tensor whole = gpu.state("block.0.fc1.weight.v");
    if (me == 0) moments = whole.bytes;
    pt::detail::load_checkpoint(gpu, file, false);
  });
  CHECK(thrown == std::vector<std::string>(2));
  auto cpu = b.alone(), gpu = b.pretended(plan_by_sizes{});
  for (pt::detail::engine* each : {cpu.get(), gpu.get()}) {
    pt::detail::load_checkpoint(*each, file, false);
    CHECK(each->steps() == 1);
    CHECK(each->state("block.0.fc1.weight.v").bytes == moments);
  }
  fs::remove(file);
  const batch data(b.sizes, 7);
  CHECK(gpu->step(data.feeds()) == doctest::Approx(cpu->step(data.feeds())).epsilon(1e-5));
}

TEST_CASE("where a rank of one of two processes never comes, both say which and in what") {
  both b;
  for (plan_by_sizes const& plan : {plan_by_sizes{.data = 4}, plan_by_sizes{.stages = 4, .micro_batches = 2}}) {
    const pretend::machine machine({.devices = 4, .endless_launch = 9});  // of rank 0
    const batch data(b.sizes, 6);
    const auto thrown = two_processes(
        b, plan, free_port(), [&](pt::detail::engine& gpu, int) { gpu.step(data.feeds()); }, 5);
    for (std::string const& words : thrown) {
      CAPTURE(words);
      CHECK(words.find("did not end within 5") != std::string::npos);
      // In a pipeline a stage waits for the one before it, which may wait itself.
      CHECK(words.find(plan.data == 4 ? "; rank 0 of process 0 has not begun it" : " has not begun it") != std::string::npos);
      CHECK((words.find("rank ") == 0 || words.find(" failed first: rank ") != std::string::npos));
    }
    CHECK(machine.last_words() == "");
  }
}

TEST_CASE("where one of two processes fails the other one stops, with its reason") {
  both b;
  const pretend::machine machine({.devices = 4});
  const auto thrown = two_processes(b, {.data = 2, .tensor = 2}, free_port(), [&](pt::detail::engine& gpu, int me) {
    batch data(b.sizes, 6);
    if (me == 1) data.tokens.back() = 99;
    gpu.step(data.feeds());
  });
  CAPTURE(thrown[0]);
  CHECK(thrown[1].find("embedding: number 99") != std::string::npos);
  CHECK(thrown[0].find("process 1 failed first: ") != std::string::npos);
  CHECK(thrown[0].find("embedding: number 99") != std::string::npos);
  // Of its own, between two steps, while the other one waits for its GPU.
  const auto begin = std::chrono::steady_clock::now();
  const auto own = two_processes(b, {.data = 2, .tensor = 2}, free_port(), [&](pt::detail::engine& gpu, int me) {
    const batch data(b.sizes, 6);
    gpu.step(data.feeds());
    if (me == 1) throw pt::error("out of paper");
    gpu.step(data.feeds());
  });
  CAPTURE(own[0]);
  CHECK(own[1] == "out of paper");
  CHECK(own[0].find("process 1 failed first: an exception ended it") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  const auto third = two_processes(b, {.data = 3, .tensor = 2}, free_port(), [&](pt::detail::engine&, int) {});
  CHECK(third[1] ==
        "the plan is for 6 CUDA devices, 3 for each process, this machine has 4, of which 1 processes before this one take 3");
  const auto uneven = two_processes(b, {.data = 3}, free_port(), [&](pt::detail::engine&, int) {});
  CHECK(uneven[0] == "the plan is for 3 CUDA devices, which 2 processes cannot share evenly");
}

TEST_CASE("what gpu-check prints of kernels, steps, collectives and the simulator, at small sizes") {
  namespace bench = benchmark_cuda;
  const pretend::machine machine({.devices = 3});
  both b({.inner = 8});
  const auto vocabulary = static_cast<std::int32_t>(b.sizes.vocabulary);
  const bench::planned made(b.on_gpu, pt::policy::single_device{});
  bench::timed_program<pretend::cuda, pretend::nccl> timed(b.on_gpu, made, vocabulary,
                                                           {.seconds_each = 1e-4, .steps = 2, .most_repeats = 2});
  int made_ready = 0, run = 0;
  const bench::program_times times = timed.run([&](pt::on_cuda::product const& p, pretend::stream_state*) {
    ++made_ready;
    CHECK(p.m > 0);
    return [&] { ++run; };
  });
  int instructions = 0, products = 0, taken_in = 0, products_making_more = 0;
  for (bench::instruction_row const& r : times.rows) {
    instructions += r.count;
    products += r.is_product;
    CHECK((r.seconds > 0) == !r.taken_in);
    taken_in += r.taken_in ? r.count : 0;
    CHECK(r.is_product == (r.call != nullptr && r.what.starts_with("linear")));
    CHECK(r.makes_more == r.what.ends_with(", with what follows it"));
    products_making_more += r.makes_more ? 1 : 0;
  }
  CHECK(instructions == static_cast<int>(made.what.instructions.size()));
  CHECK(times.rows.size() < made.what.instructions.size());  // layers are alike
  CHECK(products == made_ready);
  CHECK(products_making_more > 0);
  CHECK(products_making_more < products);
  // Of each block five biases, a gelu, its gradient, the sum of that over the rows and two sums of the gradient by products; two
  // dropouts into the sums after them, and as many in the gradient, by chains.
  CHECK(taken_in == 2 * (5 + 1 + 2 + 2 + 2 + 2));
  CHECK(run > made_ready);
  CHECK(times.step > 0);
  // One lane, whose ops take what they took alone: the step is their sum.
  double ops = 0;
  for (bench::instruction_row const& r : times.rows)
    if (r.call != nullptr) ops += r.count * r.seconds;
  const double simulated = pt::simulate(*made.shared, bench::costs_of(*b.on_gpu.graph, times, 1e15)).seconds;
  CHECK(simulated == doctest::Approx(ops).epsilon(0.02));

  const std::size_t tokens = b.sizes.samples * b.sizes.positions;
  const auto steps =
      bench::time_steps<pretend::cuda, pretend::nccl>(b.on_gpu, plan_by_sizes{.data = 2}, vocabulary, tokens, 2, 0);
  CHECK(steps.seconds > 0);
  CHECK(steps.planned > 0);
  CHECK(steps.held.planned >= steps.planned);
  CHECK(steps.held.executors >= pt::on_cuda::products<pretend::cuda>::workspace_bytes);
  CHECK(steps.held_after >= steps.held.all());
  CHECK(times.chains == 8);
  CHECK(times.saved_bytes > 0);
  const auto collectives = bench::time_collectives<pretend::cuda, pretend::nccl>(3, {64, 1200}, 2);
  REQUIRE(collectives.size() == 6);
  CHECK(collectives[0].bytes == 60);  // whole elements for each of three
  for (auto const& c : collectives)
    CHECK(c.bus == doctest::Approx((c.what == "all_reduce" ? 2 : 1) * 2.0 / 3 * static_cast<double>(c.bytes) / c.seconds));
}

namespace {
// The program of a rank; `arranged` as for a GPU.
template <class Policy> pt::program lowered(both& b, Policy const& policy, int rank, bool arranged) {
  pt::plan_base plan(*b.on_gpu.graph);
  policy(plan);
  pt::completed done;
  REQUIRE_FALSE(pt::verify_plan(*b.on_gpu.graph, plan, done, false));
  pt::lowering_options how;
  how.fuse = false;
  how.workspace = [&](int op, std::size_t const* extents) {
    return pt::on_cuda::scratch_bytes(b.on_gpu.launchers[static_cast<std::size_t>(op)], *b.on_gpu.graph->ops[op].info, extents);
  };
  if (arranged) how.arrange = [&](pt::program& p) { pt::on_cuda::gather_followers(p, *b.on_gpu.graph, b.on_gpu.launchers); };
  return pt::lower(pt::lowering(*b.on_gpu.graph, plan, done, std::move(how)), rank);
}
// Instructions that are `what`, and of them those that follow the maker of what they read, or another that does.
struct followers {
  int all = 0, near = 0;
  followers(both& b, pt::program const& p, pt::after_product what) {
    for (std::size_t at = 1; at < p.instructions.size(); ++at) {
      auto call = [&](std::size_t k) { return &p.computes[static_cast<std::size_t>(p.instructions[k].payload)]; };
      auto is = [&](std::size_t k, pt::after_product of) {
        return p.instructions[k].kind == pt::instruction_kind::compute &&
               b.on_gpu.launchers[static_cast<std::size_t>(call(k)->op)].after == of;
      };
      if (!is(at, what)) continue;
      ++all;
      const int read = p.references[static_cast<std::size_t>(call(at)->first_input)].buffer;
      near += p.instructions[at - 1].kind == pt::instruction_kind::compute &&
              p.references[static_cast<std::size_t>(call(at - 1)->first_output)].buffer == read;
    }
  }
};
}  // namespace

TEST_CASE("what products of the backward pass take in stands behind them, and no more memory is planned for that") {
  both b({.inner = 32});
  auto look = [&](auto const& policy, int ranks, int near) {
    for (int rank = 0; rank < ranks; ++rank) {
      const pt::program as_is = lowered(b, policy, rank, false), arranged = lowered(b, policy, rank, true);
      const followers slopes(b, arranged, pt::after_product::gelu_gradient);
      CHECK(slopes.all > 0);
      CHECK(slopes.near == near);
      CHECK(followers(b, as_is, pt::after_product::gelu_gradient).near == 0);
      CHECK(pt::report_memory(arranged).lower_bound <= pt::report_memory(as_is).lower_bound);
      CHECK(arranged.arena_bytes <= as_is.arena_bytes);
    }
  };
  look(plan_by_sizes{}, 1, 2);
  look(plan_by_sizes{.data = 2, .tensor = 2}, 4, 2);
  look(plan_by_sizes{.data = 2, .zero = 3}, 2, 2);
  look(plan_by_sizes{.stages = 2, .micro_batches = 3}, 2, 3);
  auto recomputing = [](auto& plan) {
    plan_by_sizes{.data = 2}(plan);
    pt::policy::recompute<"block.*">{}(plan);
  };
  look(recomputing, 2, 0);  // what gelu is applied to is made again between
}

TEST_CASE("nothing moves behind a product that cannot take it in") {
  both b({.inner = 20});
  for (plan_by_sizes const& plan : {plan_by_sizes{}, plan_by_sizes{.tensor = 2}}) {
    const pt::program as_is = lowered(b, plan, 0, false), arranged = lowered(b, plan, 0, true);
    REQUIRE(arranged.instructions.size() == as_is.instructions.size());
    for (std::size_t at = 0; at < as_is.instructions.size(); ++at) {
      CHECK(arranged.instructions[at].kind == as_is.instructions[at].kind);
      CHECK(arranged.instructions[at].payload == as_is.instructions[at].payload);
    }
    CHECK(arranged.arena_bytes == as_is.arena_bytes);
  }
}

TEST_CASE("the op that made the first number that is not finite is named") {
  const pretend::machine machine({.devices = 2});
  both b;
  for (plan_by_sizes const& plan : {plan_by_sizes{}, plan_by_sizes{.data = 2}}) {
    auto gpu = b.pretended(plan);
    const pt::host_tensor weight = gpu->parameter("block.1.fc2.weight");
    std::vector<float> huge(weight.size(), 3e38f);
    gpu->set_parameter("block.1.fc2.weight", pt::feed("block.1.fc2.weight", huge));
    const batch data(b.sizes, 1);
    CHECK_THROWS_WITH_AS(gpu->step(data.feeds()), Contains("op block.1.fc2 (linear, forward)"), pt::error);
  }
}

namespace {
// What an engine throws that is made and takes two steps.
template <class Policy>
std::string thrown(both& b, Policy const& policy, pt::on_cuda::cuda_options const& how = {.timeout_seconds = 0.3}) {
  try {
    auto gpu = b.pretended(policy, how);
    const batch data(b.sizes, 1);
    gpu->step(data.feeds());
    gpu->step(data.feeds());
  } catch (pt::error const& e) { return e.what(); }
  return "nothing";
}
// Waits for the other lane are taken out of what rank 0 runs.
struct forgetful_source : source {
  int only;  // the number of the wait that is forgotten; -1: all
  int* waits;
  forgetful_source(both& b, int which, int* count) : source({.timeout_seconds = 1}, b.on_gpu), only(which), waits(count) {}
  std::unique_ptr<pt::local_devices> make(pt::graph_data const& graph, std::span<std::uint64_t const> keys,
                                          pt::list<pt::list<pt::program>> sets) override {
    *waits = 0;
    for (pt::instruction& i : sets[0][0].instructions)
      if (i.wait > 0)
        if (const int number = (*waits)++; only < 0 || number == only) i.wait = 0;
    return source::make(graph, keys, std::move(sets));
  }
};
std::string thrown_without_wait(both& b, plan_by_sizes const& plan, int which, int& waits) {
  const pretend::machine machine({.devices = plan.devices()});
  pt::plan_base made(*b.on_gpu.graph);
  plan(made);
  pt::detail::engine gpu(*b.on_gpu.graph, b.on_gpu.losses, std::move(made), std::make_unique<forgetful_source>(b, which, &waits),
                         both::options());
  const batch data(b.sizes, 1);
  try {
    gpu.step(data.feeds());
  } catch (pt::error const& e) { return e.what(); }
  return {};
}

}  // namespace

TEST_CASE("a stream that forgets to wait for the other one is noticed") {
  both b;
  for (plan_by_sizes const& plan : {plan_by_sizes{.tensor = 2}, plan_by_sizes{.stages = 2, .micro_batches = 3}}) {
    int waits = 0, noticed = 0;
    const std::string all = thrown_without_wait(b, plan, -1, waits);
    CAPTURE(all);
    CHECK(all.find("and waits for no event between") != std::string::npos);
    const int count = waits;
    REQUIRE(count > 2);
    // One after a stronger one of the same lane may be spared.
    for (int which = 0; which < count; which += 3)
      noticed += thrown_without_wait(b, plan, which, waits).find("and waits for no event between") != std::string::npos;
    CHECK(noticed >= (count + 2) / 3 / 2);
  }
}

TEST_CASE("what goes wrong on a pretended GPU is an error that says what and where, and nothing hangs") {
  both b;
  const plan_by_sizes four{.data = 2, .tensor = 2};
  SUBCASE("more devices than there are") {
    const pretend::machine machine({.devices = 2});
    CHECK_THROWS_WITH_AS(b.pretended(four), "the plan is for 4 CUDA devices, this machine has 2", pt::error);
    CHECK_THROWS_WITH_AS(b.pretended(plan_by_sizes{.data = 2}, {.devices = 1}),
                         "the plan is for 2 CUDA devices, the trainer may use 1", pt::error);
  }
  SUBCASE("options that no device can be made of") {
    const pretend::machine machine;
    CHECK_THROWS_WITH_AS(b.pretended(plan_by_sizes{}, {.devices = -1}), Contains("pt::cuda{.devices = -1}: give 0"), pt::error);
    CHECK_THROWS_WITH_AS(b.pretended(plan_by_sizes{}, {.place = -1}), Contains("pt::cuda{.place = -1}"), pt::error);
    CHECK_THROWS_WITH_AS(b.pretended(plan_by_sizes{}, {.first_device = -2}), Contains("pt::cuda{.first_device = -2}"), pt::error);
    for (double seconds : {0.0, -1.0, std::nan("")})
      CHECK_THROWS_WITH_AS(b.pretended(plan_by_sizes{}, {.timeout_seconds = seconds}), Contains("pt::cuda{.timeout_seconds = "),
                           pt::error);
  }
  SUBCASE("too little memory") {
    const pretend::machine machine({.devices = 1, .memory_bytes = 4096});
    const std::string words = thrown(b, plan_by_sizes{});
    CAPTURE(words);
    CHECK(words.find("memory: the device does not give") != std::string::npos);
    CHECK(words.find("rank 0's parameters and optimizer state (out of memory; 0.00390") != std::string::npos);
    CHECK(words.find("MiB are free). Cut the model over more devices") != std::string::npos);
  }
  SUBCASE("a number that no row of the table has") {
    const pretend::machine machine;
    auto gpu = b.pretended(plan_by_sizes{});
    batch data(b.sizes, 1);
    data.tokens[7] = 11;
    CHECK_THROWS_WITH_AS(
        gpu->step(data.feeds()),
        "rank 0, op wte (embedding, forward): embedding: number 11 at position 7 is outside the table of 11 rows", pt::error);
    data.tokens[7] = 1;
    CHECK_THROWS_WITH_AS(gpu->step(data.feeds()), Contains("the devices run no more, because a step failed: rank 0, op wte"),
                         pt::error);
  }
  SUBCASE("a target that is no class") {
    const pretend::machine machine({.devices = 4});
    auto gpu = b.pretended(four);
    batch data(b.sizes, 1);
    data.targets[3] = 11;
    CHECK_THROWS_WITH_AS(gpu->step(data.feeds()), Contains("cross_entropy: target 11 is not below the last axis's extent 11"),
                         pt::error);
  }
}
