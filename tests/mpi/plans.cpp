// Whole trainings whose devices are processes: the same bits as between threads, and the result of one device.
#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <partita/core/hash.hpp>
#include <partita/policy/expert_parallel.hpp>
#include <partita/train/checkpoint.hpp>

#include "../comm/ranks.hpp"
#include "../support/agreement.hpp"
#include "../support/matrix.hpp"
#include "../support/number_of.hpp"
#include "model.hpp"

using namespace partita::testing;
using partita_test::processes;
namespace pt = partita;

namespace {

std::vector<double> numbers(pt::host_tensor const& t) {
  std::vector<double> all(t.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = t[i];
  return all;
}
std::string bytes_of(pt::host_tensor const& t) { return {reinterpret_cast<char const*>(t.bytes.data()), t.bytes.size()}; }

// Everything that a step leaves, as bytes.
std::vector<std::string> left_by(pt::detail::engine& e, double loss) {
  std::vector<std::string> all{std::string(reinterpret_cast<char const*>(&loss), sizeof loss)};
  for (std::string const& name : e.parameter_names()) {
    all.push_back(bytes_of(e.parameter(name)));
    all.push_back(bytes_of(e.state(name + ".m")));
    all.push_back(bytes_of(e.gradient(name)));
  }
  for (std::string const& name : e.output_names()) all.push_back(bytes_of(e.output(name)));
  return all;
}
// Whether all processes have been given the same.
bool same_everywhere(std::vector<std::string> const& mine) {
  std::uint64_t digest = pt::hash_seed;
  for (std::string const& each : mine) digest = pt::hash(each, digest);
  const pt::list<std::uint64_t> all = pt::gather(*processes, digest);
  return std::equal(all.begin() + 1, all.end(), all.begin());
}

// What is wrong; empty where nothing is. The first process computes what is to come out.
std::string fault_under(model_of_processes const& model, named_plan const& plan, int lanes, double bucket_bytes, int& devices) {
  constexpr double rate = 1e-2;
  const pt::trainer_options options{.learning_rate = rate, .bucket_bytes = bucket_bytes};
  pt::plan_base made(model.graph());
  plan.make(made);
  pt::completed c;
  if (const pt::finding f = pt::verify_plan(model.graph(), made, c)) return "rejected: " + pt::describe(f);
  devices = c.devices;
  if (devices > processes->size()) return {};
  auto mine = model.train(plan.make, pt::mpi_cpu{.world = *processes, .devices = devices, .threads = 1, .lanes = lanes}, options);
  std::unique_ptr<pt::detail::engine> threads, one;
  if (processes->rank() == 0) {
    threads = model.train(plan.make, pt::cpu{.devices = devices, .threads = 1}, options);
    one = model.train(pt::policy::single_device{}, pt::cpu{.threads = 1}, options);
  }
  std::string fault;
  auto expect = [&](bool holds, std::string const& words) {
    if (!holds && fault.empty()) fault = words;
  };
  for (unsigned step = 0; step < 2; ++step) {
    const batch_of_words b(model.graph(), step);
    const double evaluated = mine->evaluate(b.feeds()), loss = mine->step(b.feeds());
    const std::vector<std::string> left = left_by(*mine, loss);
    expect(same_everywhere(left), "processes differ");
    expect(mine->memory().size() == static_cast<std::size_t>(devices), "memory is not told of every device");
    const pt::communication_use sent = mine->communication();
    if (processes->rank() != 0) continue;
    expect(evaluated == threads->evaluate(b.feeds()), "an evaluation differs");
    expect(left == left_by(*threads, threads->step(b.feeds())), "other bits than between threads");
    expect(sent.bytes == threads->communication().bytes && sent.calls == threads->communication().calls, "other traffic");
    if (step > 0) continue;  // from equal weights, and with the bits that threads have
    agreement rule(pt::f64);
    rule.loss(one->step(b.feeds()), loss);
    double most = 0;
    for (std::string const& name : one->parameter_names()) most = std::max(most, largest(numbers(one->gradient(name))));
    for (std::string const& name : one->parameter_names()) {
      const std::vector<double> gradient = numbers(one->gradient(name));
      const double allowed = rule.allowed(gradient, most);
      rule.tensor("gradient of " + name, gradient, numbers(threads->gradient(name)), allowed);
      rule.adamw(name, numbers(one->parameter(name)), numbers(threads->parameter(name)), gradient, allowed, rate);
    }
    expect(rule.holds(), "not what one device does: " + rule.where() + " by " + std::to_string(rule.worst()));
  }
  return fault;
}

}  // namespace

namespace {
// The numbers of devices of the plans that are run: those that want more than there are processes are not.
std::set<int> check_plans(model_of_processes const& model, std::vector<named_plan> const& plans, std::size_t every = 1) {
  std::set<int> sizes_of_worlds;
  for (std::size_t i = 0; i < plans.size(); i += every) {
    int devices = 0;
    const std::string fault = fault_under(model, plans[i], static_cast<int>(i % 3), i / every % 4 == 0 ? 1e6 : 0, devices);
    CHECK_MESSAGE(fault.empty(), plans[i].name, ": ", fault);
    if (devices <= processes->size()) sizes_of_worlds.insert(devices);
  }
  return sizes_of_worlds;
}
}  // namespace

TEST_CASE("every policy over processes makes the bits of threads and the result of one device") {
  const models::sizes sizes{.samples = 8};
  const std::vector<named_plan> plans = common_plans<models::position, models::head, models::inner>(sizes);
  using namespace pt::policy;
  // Eight processes share few cores: every second of what policy/models has tried on threads.
  const model_of_processes model(sizes);
  std::set<int> sizes_of_worlds = check_plans(model, plans, drawn(2, 1));
  sizes_of_worlds.merge(check_plans(model, expert_plans<models::expert, models::position, models::inner>(), drawn(2, 1)));
  sizes_of_worlds.merge(
      check_plans(model, {composed("data 5, zero 2", data_parallel_of{5}, zero_of{2, 5}),
                          composed("data 7, zero 3", data_parallel_of{7}, zero_of{3, 7}),
                          composed("2 x 2 x 2", data_parallel_of{2}, one_f_one_b(2, 2), tensor_parallel_of{2}),
                          composed("data 2, 1f1b 2 x 2, experts 2, zero 1", data_parallel_of{2}, one_f_one_b(2, 2),
                                   expert_parallel_of{2, &pt::axis_of<models::expert>::info}, zero_of{1, 2})}));
  CHECK(sizes_of_worlds == std::set<int>{1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("a GPT over processes: rings, folded rings, and a table over the stages of a pipeline") {
  const model_of_processes model({.samples = 8, .positions = 8}, which_model::gpt);
  std::vector<named_plan> plans = ring_plans<models::position>();
  for (named_plan const& p : interlaced_plans<models::vocabulary>()) plans.push_back(p);
  using namespace pt::policy;
  plans.push_back(composed("data 2, tensor 2, zero 3", data_parallel_of{2}, tensor_parallel_of{2}, zero_of{3, 2}));
  plans.push_back(composed("data 2, zero bubble v 3 x 2", data_parallel_of{2}, zero_bubble<pt::schedule::v_shaped>(3, 2)));
  plans.push_back(composed("data 5, 2 micro-batches", data_parallel_of{5}, micro_batches_of{2}));
  CHECK(check_plans(model, plans) == std::set<int>{2, 3, 4, 5, 6, 8});
}

TEST_CASE("passes without gradient over processes: 3F1B") {
  using namespace pt::policy;
  CHECK(check_plans(model_of_processes({.samples = 8}, which_model::recycled),
                    {composed("3f1b 2 x 4", three_f_one_b(2, 4)), composed("3f1b 3 x 5", three_f_one_b(3, 5)),
                     composed("data 2, tensor 2, 3f1b 2 x 2, zero 1", data_parallel_of{2}, tensor_parallel_of{2},
                              three_f_one_b(2, 2), zero_of{1, 2})}) == std::set<int>{2, 3, 8});
}

TEST_CASE("random plans over processes make the bits of threads and the result of one device") {
  const model_of_processes model;
  for (unsigned seed = 1; seed <= drawn(6, 12); ++seed) {
    std::string words;
    int devices = 0;
    const named_plan plan{"random plan " + std::to_string(seed), [&](pt::plan_base& made) {
                            std::mt19937 random(seed);
                            words = random_plan(made, random, processes->size()).make();
                          }};
    const std::string fault = fault_under(model, plan, static_cast<int>(seed % 3), seed % 2 == 0 ? 1e6 : 0, devices);
    CHECK_MESSAGE(fault.empty(), plan.name, " (", words, "): ", fault);
  }
}

TEST_CASE("a process may be given the box that it reads of an input") {
  const model_of_processes model;
  using namespace pt::policy;
  const auto policy = [](pt::plan_base& plan) { data_parallel_of{2}(plan), tensor_parallel_of{2}(plan); };
  const pt::mpi_cpu four{.world = *processes, .devices = 4, .threads = 1, .record_times = true};
  auto whole = model.train(policy, four), parts = model.train(policy, four);
  const pt::box read = parts->input_box("tokens");
  const std::size_t length = models::sizes{}.positions;
  CHECK(read.elements() == (processes->rank() < 4 ? 4 * length : 0));
  for (unsigned step = 0; step < 2; ++step) {
    const batch_of_words b(model.graph(), step);
    auto part = [&](std::vector<std::int32_t> const& all) {
      if (read.elements() == 0) return std::vector<std::int32_t>{};
      auto const first = all.begin() + static_cast<std::ptrdiff_t>(read.at[0].begin * length);
      return std::vector(first, first + static_cast<std::ptrdiff_t>(read.elements()));
    };
    const std::vector<std::int32_t> tokens = part(b.tokens), targets = part(b.targets);
    const double loss = whole->step(b.feeds());
    CHECK(parts->step(std::vector<pt::feed>{{"tokens", tokens}, {"targets", targets}}) == loss);
  }
  CHECK(left_by(*parts, 0) == left_by(*whole, 0));
  const auto times = parts->all_times();
  REQUIRE(times.size() == 4);
  if (const int me = processes->rank(); me < 4)
    CHECK(times[static_cast<std::size_t>(me)].size() == parts->what(me).instructions.size());
  CHECK(times[3].back().end > 0);
}

TEST_CASE("what is not finite in one process is found by all, and changes nothing") {
  const model_of_processes model;
  using namespace pt::policy;
  auto t = model.train([](pt::plan_base& plan) { data_parallel_of{2}(plan), one_f_one_b(2, 2)(plan); },
                       pt::mpi_cpu{.world = *processes, .devices = 4, .threads = 1});
  const batch_of_words b(model.graph(), 1);
  t->step(b.feeds());
  std::vector<double> weights = numbers(t->parameter("output.weight"));
  weights[3] = std::numeric_limits<double>::quiet_NaN();
  t->set_parameter("output.weight", pt::feed("output.weight", weights));
  const std::string before = bytes_of(t->parameter("embedding.weight"));
  CHECK_THROWS_WITH_AS(t->step(b.feeds()),
                       doctest::Contains("the first number that is not finite came from rank 1, stored output.weight"),
                       pt::error);
  CHECK(bytes_of(t->parameter("embedding.weight")) == before);
  CHECK(t->steps() == 1);
}

TEST_CASE("a checkpoint of processes goes on in other processes and on threads, and a bad one is refused by all") {
  const model_of_processes model;
  using namespace pt::policy;
  namespace fs = std::filesystem;
  const fs::path file = pt::broadcast(
      *processes, (fs::temp_directory_path() / ("partita_mpi_" + std::to_string(getpid()) + ".safetensors")).string());
  auto over = [&](auto const& policy, int devices) {
    return model.train(policy, pt::mpi_cpu{.world = *processes, .devices = devices, .threads = 1}, {.seed = 5});
  };
  auto written = over(
      [](pt::plan_base& plan) {
        data_parallel_of{2}(plan), tensor_parallel_of{2}(plan), zero_of{3, 2}(plan);
      },
      4);
  const batch_of_words first(model.graph(), 1), next(model.graph(), 2);
  written->step(first.feeds());
  pt::detail::save_checkpoint(*written, file, {{"words", "read\0once"}});
  const auto pipelined = [](pt::plan_base& plan) { data_parallel_of{3}(plan), one_f_one_b(2, 2)(plan); };
  auto going_on = over(pipelined, 6);
  CHECK(pt::detail::load_checkpoint(*going_on, file, false) == pt::checkpoint_notes{{"words", "read\0once"}});
  CHECK(going_on->steps() == 1);
  for (std::string const& name : written->state_names()) CHECK(bytes_of(going_on->state(name)) == bytes_of(written->state(name)));
  const std::vector<std::string> left = left_by(*going_on, going_on->step(next.feeds()));
  CHECK(same_everywhere(left));
  if (processes->rank() == 0) {
    auto threads = model.train(pipelined, pt::cpu{.devices = 6, .threads = 1}, {});
    pt::detail::load_checkpoint(*threads, file, false);
    CHECK(left == left_by(*threads, threads->step(next.feeds())));
    fs::resize_file(file, fs::file_size(file) - 1);
  }
  pt::barrier(*processes);
  CHECK_THROWS_WITH_AS(pt::detail::load_checkpoint(*going_on, file, false), doctest::Contains("the file is truncated"),
                       pt::error);
  CHECK_THROWS_WITH_AS(pt::detail::save_checkpoint(*going_on, file / "below", {}), doctest::Contains("Not a directory"),
                       pt::error);
  CHECK(left_by(*going_on, 0) != std::vector<std::string>{});  // and nobody waits for the others
  pt::barrier(*processes);
  if (processes->rank() == 0) fs::remove(file);
}
