// Tests that want a GPU: on a machine without one they say so, and are skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <exception>

#include <partita/device/cuda/checked.hpp>
#include <partita/device/cuda/runtime.hpp>

int main(int argc, char** argv) try {
  if (partita::on_cuda::count_devices<partita::on_cuda::runtime>() > 0) return doctest::Context(argc, argv).run();
  std::puts("no GPU here, no kernel was run");
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
