// Whatever fails, everybody stops, and the message says what failed first.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <partita/train/thread_devices.hpp>

#include "hand_made.hpp"

namespace pt = partita;
using namespace partita_test;
using pt::lane;
using kind = pt::instruction_kind;

namespace {

void copy_first(pt::on_cpu::launch_arguments const& a) {
  for (std::size_t i = 0; i < a.extents[0]; ++i)
    static_cast<float*>(a.outputs[0])[i] = a.input_count > 0 ? static_cast<float const*>(a.inputs[0])[i] : 1.f;
}
void run_out(pt::on_cpu::launch_arguments const&) { throw std::runtime_error("out of paper"); }
void fail_at_step_2(pt::on_cpu::launch_arguments const& a) {
  if (a.step->step == 2) throw pt::error("step 2 does not work");
  copy_first(a);
}
void sleep_long(pt::on_cpu::launch_arguments const& a) {
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  copy_first(a);
}
void divide(pt::on_cpu::launch_arguments const& a) {
  for (std::size_t i = 0; i < a.extents[0]; ++i)
    static_cast<float*>(a.outputs[0])[i] = 1.f / static_cast<float const*>(a.inputs[0])[i];
}
std::size_t wanted_workspace(pt::op_info const&, std::size_t const*, std::size_t workers) { return 100 * workers; }

struct failing_graph : hand_made_graph {
  int good = op("block.0.norm", &copy_first, pt::f32, pt::pass::forward, "layer_norm");
  int bad = op("block.0.fc1", &run_out, pt::f32, pt::pass::backward, "linear");
  int late = op("block.0.fc2", &fail_at_step_2, pt::f32, pt::pass::forward, "linear");
  int slow = op("block.1.fc1", &sleep_long, pt::f32, pt::pass::update, "adamw");
  int inverse = op("inverse", &divide, pt::f32, pt::pass::forward, "divide");
};

std::string words_of_failure(pt::on_cpu::thread_devices& devices, std::int64_t step = 0) {
  pt::step_context context;
  context.step = step;
  try {
    devices.run(0, context);
  } catch (pt::error const& e) { return e.what(); }
  return "no failure";
}

}  // namespace

TEST_CASE("an op that throws on one rank stops all of them, with its name, pass and rank") {
  failing_graph graph;
  for (int ranks : {1, 2, 5})
    for (int lanes : {1, 2}) {
      pt::list<int> everybody;
      for (int r = 0; r < ranks; ++r) everybody.push_back(r);
      pt::list<pt::program> programs;
      const int failing = ranks - 1;
      for (int r = 0; r < ranks; ++r) {
        program_maker m(r, {everybody});
        const int a = m.buffer(100, pt::f32, graph.good), b = m.buffer(100, pt::f32, graph.bad),
                  c = m.buffer(100, pt::f32, graph.slow);
        m.compute(graph.good, {}, a);
        m.all_reduce(0, a);
        m.compute(r == failing ? graph.bad : graph.good, {a}, b);
        m.all_reduce(0, b);
        m.compute(graph.good, {b}, c);
        pt::plan_memory(m.made);
        programs.push_back(m.made);
      }
      pt::on_cpu::thread_devices devices({.devices = ranks, .threads = 1, .lanes = lanes}, graph.data, graph.launchers,
                                         graph.keys, {programs});
      const std::string message = "rank " + std::to_string(failing) + ", op block.0.fc1 (linear, backward): out of paper";
      CHECK(words_of_failure(devices) == message);
      CHECK(words_of_failure(devices) == "the devices run no more, because a step failed: " + message);
    }
}

TEST_CASE("the lanes of one rank stop each other") {
  failing_graph graph;
  auto everybody = pt::list<pt::list<int>>{{0, 1}};
  SUBCASE("communication waits for computation that fails, computation for communication that cannot come") {
    for (int round = 0; round < 30; ++round) {
      pt::list<pt::program> programs;
      for (int r = 0; r < 2; ++r) {
        program_maker m(r, everybody);
        const int a = m.buffer(8, pt::f32, graph.good), b = m.buffer(8, pt::f32, graph.late), c = m.buffer(8, pt::f32);
        m.compute(graph.slow, {}, a);
        m.compute(graph.late, {a}, b);
        m.all_reduce(0, b);
        m.compute(graph.good, {b}, c);
        m.all_reduce(0, c);
        m.compute(graph.good, {c}, a);
        pt::plan_memory(m.made);
        programs.push_back(m.made);
      }
      pt::on_cpu::thread_devices devices({.devices = 2, .threads = 1, .lanes = 2}, graph.data, graph.launchers, graph.keys,
                                         {programs});
      if (round > 2) {  // straight into the failure, as a race of both ranks
        const std::string words = words_of_failure(devices, 2);
        const bool either = words == "rank 0, op block.0.fc2 (linear, forward): step 2 does not work" ||
                            words == "rank 1, op block.0.fc2 (linear, forward): step 2 does not work";
        CHECK_MESSAGE(either, words);
        if (round > 5) continue;
      } else {
        CHECK(words_of_failure(devices, 0) == "no failure");
        CHECK(words_of_failure(devices, 1) == "no failure");
        CHECK(words_of_failure(devices, 2).find("block.0.fc2 (linear, forward): step 2 does not work") != std::string::npos);
      }
    }
  }
  SUBCASE("ranks whose programs do not fit") {
    pt::list<pt::program> programs;
    for (int r = 0; r < 2; ++r) {
      program_maker m(r, everybody);
      const int a = m.buffer(r == 0 ? 8 : 9, pt::f32, graph.good), b = m.buffer(8, pt::f32);
      m.compute(graph.good, {}, a);
      m.all_reduce(0, a);
      m.compute(graph.good, {a}, b);
      pt::plan_memory(m.made);
      programs.push_back(m.made);
    }
    for (int lanes : {1, 2}) {
      pt::on_cpu::thread_devices devices({.devices = 2, .threads = 1, .lanes = lanes}, graph.data, graph.launchers, graph.keys,
                                         {programs});
      const std::string words = words_of_failure(devices);
      CHECK_MESSAGE(words.find("all_reduce of block.0.norm (layer_norm, forward): group 0 of ranks {0, 1}") != std::string::npos,
                    words);
      CHECK(words.find("rank 1 calls all_reduce of 9 f32") != std::string::npos);
    }
  }
}

TEST_CASE("devices end cleanly without a step, and after failures in their making") {
  failing_graph graph;
  auto make = [&](int ranks, std::size_t scratch, int threads) {
    pt::list<pt::program> programs;
    for (int r = 0; r < ranks; ++r) {
      program_maker m(r, {{0, 1}});
      const int a = m.buffer(8, pt::f32, graph.good), s = m.buffer(scratch / 4, pt::f32);
      m.compute(graph.good, {}, a);
      m.made.computes[0].scratch = {s, 0};
      if (ranks > 1) m.all_reduce(0, a);
      pt::plan_memory(m.made);
      programs.push_back(m.made);
    }
    pt::on_cpu::thread_devices devices({.devices = ranks, .threads = threads, .lanes = 2}, graph.data, graph.launchers,
                                       graph.keys, {programs});
  };
  make(2, 0, 1);
  graph.launchers[0].workspace = &wanted_workspace;
  make(2, 200, 2);
  CHECK_THROWS_WITH_AS(make(2, 100, 2),
                       "rank 0, op block.0.norm (layer_norm, forward): needs 200 bytes of scratch for 2 workers, but "
                       "the program has 100",
                       pt::error);
  graph.launchers[0].run = nullptr;
  CHECK_THROWS_WITH_AS(make(2, 100, 1), "rank 0, op block.0.norm (layer_norm, forward): has no kernel on the CPU", pt::error);
  CHECK_THROWS_AS(pt::on_cpu::thread_devices({.devices = 2}, graph.data, graph.launchers, graph.keys, {{pt::program{}}}),
                  pt::error);

  program_maker m(0, {{0}});
  const int a = m.buffer(8, pt::f32, graph.inverse);
  m.fill(a, 1);
  m.all_reduce(0, a);
  m.made.instructions[1].where = lane::compute;
  pt::plan_memory(m.made);
  CHECK_THROWS_WITH_AS(pt::on_cpu::thread_devices({}, graph.data, graph.launchers, graph.keys, {{m.made}}),
                       "rank 0, all_reduce of inverse (divide, forward): communicates in the compute lane; one thread "
                       "calls for a rank at a time",
                       pt::error);
}

TEST_CASE("the first number that is not finite is found where it arose") {
  failing_graph graph;
  const int x = graph.op("x", nullptr, pt::f32, pt::pass::forward, "input", pt::source_kind::input);
  pt::list<pt::program> programs;
  for (int r = 0; r < 2; ++r) {
    program_maker m(r, {{0, 1}});
    const int in = m.buffer(8, pt::f32, x), a = m.buffer(8, pt::f32, graph.good), b = m.buffer(8, pt::f32, graph.inverse),
              c = m.buffer(8, pt::f32, graph.good), d = m.buffer(8, pt::f32, graph.inverse);
    m.at(in).from_start = true;
    m.made.inputs.push_back(m.seen(in, x));
    m.compute(graph.good, {in}, a);
    m.compute(r == 1 ? graph.inverse : graph.good, {a}, b);
    m.all_reduce(0, b);
    m.compute(graph.good, {b}, c);
    m.compute(graph.inverse, {c}, d);
    m.all_reduce(0, d);
    pt::plan_memory(m.made);
    programs.push_back(m.made);
  }
  pt::on_cpu::thread_devices devices({.devices = 2, .threads = 1, .lanes = 2}, graph.data, graph.launchers, graph.keys,
                                     {programs});
  auto with = [&](float value, int rank) {
    std::vector<float> ones(8, 1.f);
    for (int r = 0; r < 2; ++r) {
      if (rank < 0 || r == rank) ones[3] = value;  // negative: on both
      pt::outside const& o = devices.what(0, r).inputs[0];
      pt::on_cpu::copy_in(o, pt::f32, ones.data(), devices.address(r, 0, o.at));
      ones[3] = 1.f;
    }
    return devices.first_non_finite(0, {}).where;
  };
  CHECK(with(1.f, 0) == "");
  CHECK(with(0.f, 1) == "rank 1, op inverse (divide, forward)");
  CHECK(with(-0.5f, 1).find("op inverse (divide, forward)") == std::string::npos);
  CHECK(with(std::numeric_limits<float>::infinity(), 0) == "rank 0, input x");
  CHECK(with(std::numeric_limits<float>::quiet_NaN(), 1) == "rank 1, input x");
  for (int again = 0; again < 20; ++again) CHECK(with(std::numeric_limits<float>::infinity(), -1) == "rank 0, input x");
  CHECK(with(std::numeric_limits<float>::max(), 0) == "");
  devices.run(0, {});
}
