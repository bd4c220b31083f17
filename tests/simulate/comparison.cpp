// The words for the difference between two steps.
#include <doctest/doctest.h>

#include <cstddef>

#include <partita/simulate/comparison.hpp>

using namespace partita;

namespace {
constexpr std::size_t mebibyte = 1 << 20;

simulation step(double compute, double exposed, double bubble, std::size_t bytes = 4096 * mebibyte) {
  simulation s;
  s.parts = {compute, exposed, exposed, bubble};
  s.seconds = compute + exposed + bubble;
  s.classes.resize(1);
  s.classes[0].memory.state_bytes = bytes;
  s.class_of = {0};
  return s;
}
}  // namespace

TEST_CASE("each part in which two steps differ is said, of the first beside the second") {
  CHECK(compared(step(5, 1, 2), step(7.25, 1, 1.5)) == "computes 2.25 s less, waits 0.5 s more");
  CHECK(compared(step(7.25, 1, 1.5), step(5, 1, 2)) == "computes 2.25 s more, waits 0.5 s less");
  CHECK(compared(step(5, 3, 2), step(5, 1, 2)) == "sends, with nothing to compute, 2 s more");
}

TEST_CASE("what is less than a thousandth of the step, or of the memory, is left out") {
  CHECK(compared(step(5, 1, 2), step(5, 1, 2)) == "takes as long");
  CHECK(compared(step(5.007, 1, 2), step(5, 1, 2)) == "takes as long");
  CHECK(compared(step(5.009, 1, 2), step(5, 1, 2)) == "computes 0.009 s more");
  CHECK(compared(step(5, 1, 2, 4099 * mebibyte), step(5, 1, 2)) == "takes as long");
}

TEST_CASE("memory is of the fullest device") {
  CHECK(compared(step(5, 1, 2, 1024 * mebibyte), step(5, 1, 2)) == "takes as long; holds 3 GiB less");
  simulation two = step(4, 1, 2, 1024 * mebibyte);
  two.classes.push_back(two.classes[0]);
  two.classes[1].memory.state_bytes = 4096 * mebibyte;
  two.classes[1].memory.arena_bytes = 512 * mebibyte;
  CHECK(compared(two, step(5, 1, 2)) == "computes 1 s less; holds 0.5 GiB more");
}
