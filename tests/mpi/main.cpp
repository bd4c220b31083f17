// Tests that run in every process that mpirun starts. The first one reports; another does when it has found a failure.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string_view>

#include <partita/mpi.hpp>

#include "../comm/ranks.hpp"
#include "model.hpp"

int main(int argc, char** argv) try {
  const bool fault = argc > 2 && std::string_view(argv[1]) == "--fault";
  const std::string_view which = fault ? argv[2] : "";
  const bool asks = which.starts_with("stopped") || which == "late";
  partita::mpi world(argc, argv, {.timeout_seconds = asks ? 5.0 : 300.0});
  if (fault) return partita::testing::run_fault(world, argv[2]);
  partita_test::processes = &world;
  doctest::Context tests(argc, argv);
  std::ostringstream said;
  if (world.rank() != 0) tests.setCout(&said);
  const int failed = tests.run();
  if (failed != 0 && world.rank() != 0) std::cout << "process " << world.rank() << ":\n" << said.str() << std::flush;
  return failed;
} catch (std::exception const& e) {
  std::fprintf(stderr, "tests: %s\n", e.what());
  return 1;
}
