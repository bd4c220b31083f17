// What goes wrong on pretended GPUs, or in a program that they run: on every rank an error that says what and where, and soon.
// Faults of data, and between processes: cuda_devices_full.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <partita/train/cuda_devices.hpp>

#include "../support/number_of.hpp"
#include "../support/pretend/cuda.hpp"
#include "../support/pretend/nccl.hpp"
#include "../support/small_net.hpp"
#include "../support/threads_as_processes.hpp"

namespace pt = partita;
using namespace partita::testing;
using doctest::Contains;

namespace {
using recipe = pt::training<small_net, pt::adamw, pt::clip_norm>;
using program_change = std::function<void(pt::program&)>;  // of rank 0's training

// Gives rank 0 another program than the one that was planned.
struct changing_source : pt::on_cuda::cuda_source<pretend::cuda, pretend::nccl> {
  program_change change;
  changing_source(pt::on_cuda::traced_training const& traced, program_change what,
                  pt::on_cuda::cuda_options how = {.timeout_seconds = 0.3}, std::shared_ptr<pt::processes> together = {})
      : cuda_source(how, traced, std::move(together)), change(std::move(what)) {}
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
    for (int which = 0, failed = 1; which < 30 && failed > 0; which += sanitized_briefly ? 3 : 1) {
      const pretend::machine machine({.devices = 4, .failing_allocation = which});
      const std::string words = thrown(plan);
      CAPTURE(which);
      CAPTURE(words);
      if (words == "nothing") failed = 0;
      else CHECK((has(words, "out of memory") && has(words, "MiB are free") && has(words, "rank 0")));
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

namespace {
constexpr char const* under_way = "; it was under way";
constexpr char const* next_one = "; it is the next of them, and had not begun on this rank";
constexpr char const* last_one = "; it is the last of them, and had ended on this rank";
}  // namespace

TEST_CASE("a collective fails on one rank, or one never comes to it") {
  const auto check = [](std::string const& words) {
    CAPTURE(words);
    CHECK(words.find("rank ") == 0);
    CHECK(has(words, "NCCL, in group "));
    CHECK(has(words, " of "));  // which collective, of what
    CHECK((has(words, under_way) || has(words, next_one) || has(words, last_one)));
    CHECK(has(words, "a collective failed, as it was told to"));
  };
  for (int which : {0, 2}) {
    const pretend::machine machine({.devices = 4, .failing_collective = which});
    check(thrown(four));
  }
  int count = 0;
  for (;; ++count) {  // each of two steps
    const pretend::machine machine({.devices = 2, .late_failing_collective = count});
    const std::string words = thrown(small_plan{.data = 2});
    if (words == "nothing") break;
    check(words);
  }
  // The host may ask between a collective's end and the event behind it, and take it for under way.
  bool told = false;
  for (unsigned seed = 1; seed <= 50 && !told; ++seed) {
    const pretend::machine machine({.devices = 2, .seed = seed, .late_failing_collective = count - 1});
    told = has(thrown(small_plan{.data = 2}), last_one);
  }
  CHECK(told);
  for (int which : {0, 9}) {
    const pretend::machine machine({.devices = 2, .endless_launch = which});
    const std::string words = thrown(small_plan{.data = 2});
    CAPTURE(words);
    CHECK(words.find("rank 1, all_reduce of ") == 0);
    CHECK(has(words, "did not end within 0.3"));
    CHECK(has(words, "; rank 0 has not begun it"));
  }
}

TEST_CASE("communicators whose collectives hang are ended together, not one after another") {
  for (small_plan const& plan : {four, stages})
    for (int which : {0, 9}) {
      const pretend::machine machine({.devices = 4, .endless_launch = which});
      const std::string words = thrown(plan);
      CAPTURE(words);
      CHECK(has(words, "did not end within 0.3"));
      CHECK(machine.last_words() == "");  // no call of NCCL hung
    }
}

TEST_CASE("cuBLASLt refuses a product when it is made ready, or when it is put") {
  for (int which : {0, 2}) {
    for (bool ready : {true, false}) {
      const pretend::machine machine(ready ? pretend::machine_options{.devices = 4, .failing_product = which}
                                           : pretend::machine_options{.devices = 4, .failing_multiplication = which});
      const std::string words = thrown(four);
      CAPTURE(words);
      CHECK(words.find("rank 0, op ") == 0);
      CHECK(has(words, ready ? ": a product of " : ": a matrix product: a product failed, as it was told to"));
      CHECK((!ready || has(words, ": no algorithm was found, as it was told to")));
    }
  }
}

TEST_CASE("a communicator cannot be made") {
  const pretend::machine machine({.devices = 4, .failing_communicator = 1});
  const std::string words = thrown(four);
  CAPTURE(words);
  CHECK(words.find("rank 0, ncclCommInitRank, group ") == 0);
  CHECK(has(words, "} (first for "));
  CHECK(has(words, "): a communicator failed, as it was told to"));
}

TEST_CASE("a rank that never comes, or a call that never returns, ends the process with its words") {
  const auto last_words = [](pretend::machine_options const& how) {
    const pretend::machine machine(how);
    CHECK(thrown(small_plan{.data = 2}) != "nothing");
    return machine.last_words();
  };
  const std::string absent = last_words({.devices = 2, .absent_device = 1});
  CAPTURE(absent);
  CHECK(has(absent, ", ncclCommInitRank, group 0 {0, 1} (first for "));
  CHECK(has(absent, "), has not returned within "));
  const std::string endless = last_words({.devices = 2, .endless_group = 0});
  CAPTURE(endless);
  CHECK(endless.find("rank 0, ncclGroupEnd, group 0 {0, 1} (first for ") == 0);
  CHECK(has(endless, "so this process ends"));
  const std::string abort = last_words({.devices = 2, .failing_kernel = 3, .endless_abort = 0});
  CAPTURE(abort);
  CHECK(abort.find("rank 0, ncclCommAbort, all its communicators, has not returned within ") == 0);
  CHECK(has(abort, "; all ranks stop: rank 0 failed first: "));
}

TEST_CASE("a call that may wait for late ranks is given up only once a rank has failed") {
  const pretend::machine machine;
  pt::nccl_world world(2, {}, {0}, 0.1);
  pt::watchdog<pretend::nccl> by(world, [](auto const& call, double) { return std::string(call.what) + ", has not returned"; });
  const pt::watchdog<pretend::nccl>::watched call(by, {"ncclCommDestroy", -1, true});
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  CHECK(machine.last_words() == "");
  world.abort("rank 1 failed");
  const auto begin = std::chrono::steady_clock::now();
  machine.wait_for_end();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK(machine.last_words().find("ncclCommDestroy, has not returned") == 0);
  CHECK(has(machine.last_words(), "; all ranks stop: rank 1 failed. No call of NCCL can be interrupted"));
}

TEST_CASE("launches that a full queue holds up are looked after too, between calls of NCCL and after them") {
  const pretend::machine machine;
  pt::nccl_world world(2, {}, {0}, 0.1);
  pt::watchdog<pretend::nccl> by(world, [](auto const& call, double) { return std::string(call.what); });
  using watched = pt::watchdog<pretend::nccl>::watched;
  const watched launches(by, {"launching a step", -1, false, true});
  { const watched call(by, {"ncclGroupEnd", 0}); }
  machine.wait_for_end();
  CHECK(machine.last_words().find("launching a step") == 0);
}

TEST_CASE("a library or a driver that is older than what the program was built with") {
  const auto with = [](pretend::machine_options const& how, small_plan const& plan) {
    const pretend::machine machine(how);
    return thrown(plan);
  };
  CHECK(has(with({.devices = 2, .nccl_version = 22707}, {.data = 2}),
            "NCCL 2.27.7 is loaded, the program was built with the headers of 2.28.9: let it load a 2.x"));
  CHECK(has(with({.devices = 2, .nccl_version = 2804}, {.data = 2}), "NCCL 2.8.4 is loaded"));
  CHECK(has(with({.devices = 2, .nccl_version = 30000}, {.data = 2}), "NCCL 3.0.0 is loaded"));
  CHECK(with({.devices = 2, .nccl_version = 22900}, {.data = 2}) == "nothing");
  CHECK(with({.nccl_version = 22707}, {}) == "nothing");  // one device needs none
  CHECK(with({.driver = 12020}, {}) ==
        "the machine's driver is for CUDA 12.2, the program was built with CUDA 13.0: install a driver for that or a newer one, "
        "or build the program with an older toolkit");
  CHECK(with({.driver = 0}, {}) == "the plan is for 1 CUDA devices, this machine has 0");
  CHECK(with({.devices = 0}, {}) == "the plan is for 1 CUDA devices, this machine has 0");
}

namespace {
// The second of two processes, to which the first one says what it says itself.
struct second_process : pt::processes {
  int rank() const override { return 1; }
  int size() const override { return 2; }
  void all_gather(void const* mine, void* all, std::span<std::size_t const> bytes, std::string_view) override {
    for (std::size_t p = 0; p < 2 && bytes[0] > 0; ++p) std::memcpy(static_cast<std::byte*>(all) + p * bytes[0], mine, bytes[0]);
  }
  void abort(std::string) override {}
};
}  // namespace

TEST_CASE("a process without the first rank of any group sets NCCL's variables too, and keeps what the user has set") {
  const pretend::machine machine;
  constexpr char const* name = "NCCL_LAUNCH_ORDER_IMPLICIT";
  const pt::nccl_world world(2, {{0, 1}}, {1});
  const int here[]{1};
  second_process together;
  unsetenv(name);
  pretend::rank_comm* made = nullptr;
  CHECK(pretend::nccl::create(made, 1, {}, 0) == pretend::nccl::failed);
  for (char const* set : {"1", "0"}) {
    (void)pt::make_unique_ids<pretend::nccl>(world, here, together);
    CHECK(std::string(std::getenv(name)) == set);
    setenv(name, "0", 1);
  }
  setenv(name, "1", 1);
  CHECK(std::string(std::getenv("NCCL_GRAPH_REGISTER")) == "0");
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

namespace {
// Processes, as threads, with a pretended GPU each: f(engine) in all of them; what each throws.
template <class F>
std::vector<std::string> processes_of_one(small_plan const& plan, std::vector<bool> const& capture, F f, double timeout = 20) {
  return thread_processes::run(plan.devices(), [&](std::shared_ptr<pt::processes> const& together, int me) {
    pt::plan_base made(*traced().graph);
    plan(made);
    const pt::on_cuda::cuda_options how{
        .place = me, .capture = capture[static_cast<std::size_t>(me) % capture.size()], .timeout_seconds = timeout};
    pt::detail::engine gpu(*traced().graph, traced().losses, std::move(made),
                           std::make_unique<changing_source>(traced(), program_change{}, how, together), pt::trainer_options{});
    f(gpu, me);
  });
}
struct outcome {
  std::vector<double> losses;
  std::vector<std::byte> weights;
  std::uint64_t bytes = 0, calls = 0;
  int launched = 0;
  bool operator==(outcome const&) const = default;
};
void take_steps(pt::detail::engine& gpu, int count) {
  const small_batch<float> b;
  for (int step = 0; step < count; ++step) gpu.step(b.feeds());
}
}  // namespace

TEST_CASE("steps of processes with one GPU each are captured, all or none, and do what they do uncaptured") {
  const auto trained = [](small_plan const& plan, std::vector<bool> const& capture) {
    pretend::machine machine({.devices = plan.devices()});
    outcome of_first;
    const auto thrown = processes_of_one(plan, capture, [&](pt::detail::engine& gpu, int me) {
      outcome mine;
      for (unsigned step = 0; step < 4; ++step) {
        const small_batch<float> b(step);
        mine.losses.push_back(gpu.step(b.feeds()));
        if (step > 1) mine.losses.push_back(gpu.evaluate(b.feeds()));
      }
      mine.weights = gpu.parameter("fc1.weight").bytes;
      const pt::communication_use use = gpu.communication();
      mine.bytes = use.bytes;
      mine.calls = use.calls;
      if (me == 0) of_first = mine;
    });
    CHECK(thrown == std::vector<std::string>(thrown.size()));
    for (int d = 1; d < plan.devices(); ++d) CHECK(machine.at(d).graphs_launched() == machine.at(0).graphs_launched());
    for (int d = 0; d < plan.devices(); ++d) CHECK(machine.at(d).error().empty());
    of_first.launched = machine.at(0).graphs_launched();
    return of_first;
  };
  for (small_plan const& plan : {small_plan{.data = 2}, small_plan{.tensor = 2}, stages, four}) {
    if (sanitized_briefly && plan.devices() == 2 && plan.data == 2) continue;  // four does it, too
    outcome captured = trained(plan, {true});
    const outcome uncaptured = trained(plan, {false}), mixed = trained(plan, {true, false});
    CHECK(captured.launched == 3 + 1);  // steps but the first, evaluations but the first
    CHECK(captured.calls > 0);
    CHECK(uncaptured.launched == 0);
    CHECK(mixed == uncaptured);
    captured.launched = 0;
    CHECK(captured == uncaptured);
  }
}

TEST_CASE("what goes wrong in a captured step is said as in one that is not, and nothing waits for ever") {
  constexpr small_plan plan{.data = 2};
  struct counts {
    int kernels, calls, launches;
  };
  const counts a_step = [&] {
    pretend::machine machine({.devices = 2});
    processes_of_one(plan, {true}, [](pt::detail::engine& gpu, int) { take_steps(gpu, 1); });
    return counts{machine.at(0).kernels_begun(), machine.at(0).calls_made(), machine.at(0).launches_made()};
  }();
  const auto thrown = [&](pretend::machine_options how, bool capture, std::string const& of_machine = {}) {
    how.devices = 2;
    pretend::machine machine(how);
    const auto begin = std::chrono::steady_clock::now();
    auto words = processes_of_one(
        plan, {capture}, [](pt::detail::engine& gpu, int) { take_steps(gpu, 4); }, 0.3);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
    for (int d : {0, 1}) {
      CHECK(machine.at(d).error() == (d == 0 ? of_machine : ""));  // also not that a communicator ends too early
      CHECK(!machine.at(d).capturing());
      CHECK(machine.at(d).open_ranges() == 0);
    }
    return words;
  };
  for (int step : {1, 2}) {  // of which the first is captured and the second only launched
    const int kernels = step * a_step.kernels, calls = step * a_step.calls;
    const std::string why = "a kernel failed, as it was told to";
    const auto kernel = thrown({.failing_kernel = kernels + 3}, true, why);
    CHECK(kernel[0] == "rank 0, the step: the step: " + why);
    CHECK(kernel[0] == thrown({.failing_kernel = kernels + 3}, false, why)[0]);
    CHECK(has(kernel[1], "process 0 failed first: "));
    const auto endless = thrown({.endless_launch = kernels}, true);
    CAPTURE(endless[1]);
    CHECK(endless == thrown({.endless_launch = kernels}, false));
    CHECK(endless[1].find("rank 1, all_reduce of ") == 0);
    CHECK(has(endless[1], "did not end within 0.3"));
    CHECK(has(endless[1], "; rank 0 of process 0 has not begun it"));
    CHECK(has(endless[0], "process 1 failed first: rank 1, all_reduce of "));
    for (bool late : {false, true}) {
      const auto words = thrown(late ? pretend::machine_options{.late_failing_collective = calls + 1}
                                     : pretend::machine_options{.failing_collective = calls + 1},
                                true);
      CAPTURE(words[0]);
      const bool other_first = !late && has(words[0], "process 1 failed first: rank 1, all_reduce of ");  // both are told
      CHECK((words[0].find("rank 0, all_reduce of ") == 0 || other_first));
      CHECK(has(words[0], "NCCL, in group "));
      CHECK((has(words[0], under_way) || has(words[0], next_one) || has(words[0], last_one)));
      CHECK((has(words[1], "process 0 failed first: ") || (!late && has(words[1], "NCCL, in group "))));
    }
  }
  const int last = 3 * a_step.kernels - 1;  // after all collectives
  CHECK(thrown({.endless_launch = last}, true) == thrown({.endless_launch = last}, false));
  // While a step is captured.
  const auto call = thrown({.refused_call = a_step.calls + 1}, true);
  CHECK(call[0] == thrown({.refused_call = a_step.calls + 1}, false)[0]);
  CHECK(call[0].find("rank 0, all_reduce of ") == 0);
  CHECK(has(call[0], ": ncclAllReduce: a call was refused, as it was told to"));
  const auto launch = thrown({.refused_launch = a_step.launches + 2}, true);
  CHECK(launch[0] == thrown({.refused_launch = a_step.launches + 2}, false)[0]);
  CHECK(launch[0].find("rank 0, op ") == 0);
  CHECK(has(launch[0], ": a launch: failed"));
}

TEST_CASE("a stream whose capture has failed takes other work") {
  pretend::machine machine({.refused_launch = [] {
    pretend::machine whole;
    const auto gpu = make({});
    take_steps(*gpu, 1);
    return whole.at(0).launches_made() + 3;
  }()});
  const auto gpu = make({});
  take_steps(*gpu, 1);
  const pt::host_tensor before = gpu->parameter("fc1.weight");
  CHECK_THROWS_WITH_AS(take_steps(*gpu, 1), Contains(": a launch: failed"), pt::error);
  CHECK(gpu->parameter("fc1.weight").bytes == before.bytes);
  CHECK(machine.at(0).error().empty());
}
