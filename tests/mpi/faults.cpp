// Processes that fail in the middle of a training. Each case is started by mpirun, and ends_with looks at how it ends.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

#include <partita/policy/data_parallel.hpp>
#include <partita/policy/tensor_parallel.hpp>
#include <partita/train/interrupt.hpp>

#include "model.hpp"

namespace partita::testing {

namespace {
constexpr auto two_by_two = [](plan_base& plan) { policy::data_parallel_of{2}(plan), policy::tensor_parallel_of{2}(plan); };
constexpr auto four_by_one = [](plan_base& plan) { policy::data_parallel_of{4}(plan); };

// Steps without end, until `at_step(step, batch)` does something about it.
template <class F> void train_on(mpi& world, model_of_processes const& model, F at_step) {
  auto t = model.train(two_by_two, mpi_cpu{.world = world, .threads = 1});
  for (unsigned step = 0;; ++step) {
    batch_of_words b(model.graph(), step);
    if (!at_step(step, b)) break;
    t->step(b.feeds());
  }
}
}  // namespace

int run_fault(mpi& world, std::string const& name) {
  const model_of_processes model;
  const bool last = world.rank() == world.size() - 1;
  if (name == "killed") {
    train_on(world, model, [&](unsigned step, batch_of_words&) { return step < 3 || !last || raise(SIGKILL) == 0; });
  } else if (name == "stopped") {
    train_on(world, model, [&](unsigned step, batch_of_words&) { return step < 3 || !last || raise(SIGSTOP) == 0; });
  } else if (name == "stopped anywhere") {
    train_on(world, model, [&](unsigned step, batch_of_words&) {
      if (step == 3 && last)
        std::thread([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          raise(SIGSTOP);
        }).detach();
      return true;
    });
  } else if (name == "late") {  // which is no fault, however long it takes
    train_on(world, model, [&](unsigned step, batch_of_words&) {
      if (step == 3 && last) std::this_thread::sleep_for(std::chrono::seconds(12));
      return step < 6;
    });
    if (world.rank() == 0) std::puts("all have waited");
  } else if (name == "throws") {
    train_on(world, model, [&](unsigned step, batch_of_words&) {
      if (step == 3 && last) throw std::runtime_error("out of paper");
      return true;
    });
  } else if (name == "throws in an op") {  // of the ranks that have the second half of the batch
    train_on(world, model, [&](unsigned step, batch_of_words& b) {
      if (step == 3) b.tokens.back() = 1000;
      return true;
    });
  } else if (name == "uncaught") {
    train_on(world, model, [&](unsigned step, batch_of_words&) {
      if (step == 3 && last) std::thread([] { throw std::runtime_error("out of paper"); }).join();
      return true;
    });
  } else if (name == "another plan") {
    if (last) (void)model.train(four_by_one, mpi_cpu{.world = world});
    else (void)model.train(two_by_two, mpi_cpu{.world = world});
  } else if (name == "another seed") {
    (void)model.train(two_by_two, mpi_cpu{.world = world}, {.seed = last ? 2u : 1u});
  } else if (name == "wrong number") {
    (void)model.train(two_by_two, mpi_cpu{.world = world});
  } else if (name == "another call") {
    auto t = model.train(two_by_two, mpi_cpu{.world = world});
    if (last) (void)t->memory();
    else (void)t->parameter("output.weight");
  } else if (name == "heard") {  // by who makes no call of MPI, as a process whose GPU waits for another's
    std::promise<std::string> heard;
    world.on_abort([&](std::string const& reason) { heard.set_value(reason); });
    barrier(world);
    if (last) {
      world.abort("out of paper");
      std::this_thread::sleep_for(std::chrono::seconds(5));  // the end of a process is the end of all
      return 1;
    }
    throw error("heard: " + heard.get_future().get());
  } else if (name == "ends before") {
    auto t = model.train(two_by_two, mpi_cpu{.world = world});
    if (!last) t->step(batch_of_words(model.graph(), 1).feeds());
  } else if (name == "interrupted") {
    const interrupt stop;
    unsigned steps = 0;
    train_on(world, model, [&](unsigned step, batch_of_words&) {
      if (step == 3 && last) raise(SIGTERM);
      steps = step;
      return !any(world, stop.requested());
    });
    for (unsigned each : gather(world, steps))
      if (each != 3) throw error("a process stopped after another step");
    if (world.rank() == 0) std::puts("all stopped after 3 steps");
  } else throw error("no fault is named " + name);
  return 0;
}

}  // namespace partita::testing
